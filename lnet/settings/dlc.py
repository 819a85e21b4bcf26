"""DLC: configuration as YAML, as lnetctl reads it.

    net:                              o2ibs:                          net_status:
        - net type: o2ib0                 - nid: 10.1.1.2@o2ib0           - net: o2ib0
          local NI(s):                      ips:
            - interfaces:                     - ip: 10.1.1.2
                  0: ib0                      - ip: 10.1.1.4
              tunables:               peer:                           global:
                  peer_credits: 32        - primary nid: 10.1.1.5@o2ib    retry_count: 2
                                            Multi-Rail: True
                                            peer ni:
                                              - nid: 10.1.1.5@o2ib
Several `local NI(s)`, each with one interface, are a network with Multi-Rail. The exports of the real tool are read, in
the layout of 2.15 and in that of 2.16 and later; `DlcDocument.ignored` names what in them asks for something that is
not here. Routes are refused. A document is read completely before any of it is applied, so that a truncated file
changes nothing.
Source: the public tables of sections (lookup_config_tbl and its neighbours), yaml_extract_tunables(), global_params.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any, Final

from lnet.base.errors import CommandError, NidError
from lnet.base.nid import Net, Nid, is_other_net, parse_nids
from lnet.settings.config import FIXED, LND_NAMES, NAMES
from lnet.settings.networks import Bonding, NetworkGroup
from lnet.settings.settings import ALIASES, ORDER
from lnet.settings.targets import KibTarget
from lnet.settings.yaml_text import DlcReader
from opavnic.lab.file.yaml_source import YamlError, YamlSource
from vema.em.desired.problems import KeyPath

MAX_TEXT: Final = 1 << 20
"""Maximum number of characters in a configuration."""
KNOWN: Final = ("net", "peer", "global", "numa", "o2ibs", "net_status", "ping", "discover")
"""Sections that are applied, shown or executed."""
_LEAVE_OUT: Final = "`lnetctl import --skip-unsupported` leaves it out"
_IGNORED: Final = frozenset({"routing", "buffers", "statistics", "udsp"})
"""Sections of the real tool for what is not built; they are named if they ask for anything."""
_STATE_NI: Final = frozenset(
    {
        "nid", "status", "statistics", "sent_stats", "received_stats", "dropped_stats", "health stats",
        "tcp bonding", "dev cpt", "udsp info",
    }
)  # fmt: skip
"""What an export says of the state of an NI: nothing that could be applied."""
_STATE_PEER_NI: Final = frozenset(
    {
        "state", "max_ni_tx_credits", "available_tx_credits", "min_tx_credits", "tx_q_num_of_buf",
        "available_rtr_credits", "min_rtr_credits", "refcount", "statistics", "sent_stats", "received_stats",
        "dropped_stats", "health stats", "udsp info",
    }
)  # fmt: skip


PING_S: Final = 5.0
"""How long a ping waits where nothing else is said."""


@dataclass(frozen=True, slots=True)
class PeerEntry:
    """One peer of a document."""

    primary: Nid
    nids: tuple[Nid, ...]
    """Its other NIDs, too; the primary one may be among them."""
    multi_rail: bool = True


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """A ping or a discovery to execute."""

    nid: str
    timeout_s: float = PING_S
    source: str | None = None
    force: bool = False


@dataclass(slots=True)
class DlcDocument:
    """The content of one document."""

    nets: list[NetworkGroup] = field(default_factory=list)
    whole_nets: list[Net] = field(default_factory=list)
    """Networks without NIs: to be shown, or removed with all their interfaces."""
    peers: list[PeerEntry] = field(default_factory=list)
    settings: dict[str, int] = field(default_factory=dict)
    """The section `global`, with the range of `numa`."""
    o2ibs: list[KibTarget] = field(default_factory=list)
    net_status: list[Net | None] = field(default_factory=list)
    """Networks to show; None: all."""
    pings: list[DiscoveryRequest] = field(default_factory=list)
    discoveries: list[DiscoveryRequest] = field(default_factory=list)
    sections: tuple[str, ...] = ()
    """The names of its sections, in order."""
    ignored: set[str] = field(default_factory=set)
    """Keys with settings that are not applied."""


def parse_dlc(text: str, *, add: bool = True, skip: bool = False) -> DlcDocument:
    """Read a DLC document; one without any section asks for nothing.

    Args:    add: whether networks are to be added, which needs interfaces. skip: leave out, and name in `ignored`, what
        is not built here: networks of other kinds and the peers on them, ip2nets, routes, unknown sections.
    Raises:  CommandError: EINVAL, with the line and the path of the first error; EFBIG: too long.
    """
    if len(text) > MAX_TEXT:
        raise CommandError(errno.EFBIG, f"more than {MAX_TEXT} characters, too many for a configuration")
    try:
        source = YamlSource(text, "configuration")
    except YamlError as error:
        raise CommandError(errno.EINVAL, f"line {error.line}: {error.reason}") from None
    reader = DlcReader(source)
    for problem in source.problems:
        raise reader.wrong(problem.path, problem.message)
    given = {} if source.data is None else source.data
    unknown = (
        frozenset(map(str, given)) - {*KNOWN, *_IGNORED, "route"} if skip and isinstance(given, dict) else ()
    )
    top = reader.mapping(given, (), set(KNOWN), set(), _IGNORED.union({"route"}, unknown))
    if top.get("route") and not skip:
        text = f"routes are not built here: all hosts of a lab are on one fabric; {_LEAVE_OUT}"
        raise reader.wrong(("route",), text)
    document = DlcDocument(
        sections=tuple(map(str, top)),
        ignored={key for key in _IGNORED.union({"route"}, unknown) & top.keys() if top[key]},
    )
    for item, path in reader.sequence(top.get("net"), ("net",)):
        if isinstance(item, dict) and str(item.get("net type")).rstrip("0") == "lo":
            continue  # every node has it
        if skip and (what := _other_net(item)):
            document.ignored.add(what)
            continue
        _read_net(reader, item, path, document, add=add)
    for item, path in reader.sequence(top.get("peer"), ("peer",)):
        if skip and (what := _other_peer(item)):
            document.ignored.add(what)
            continue
        document.peers.append(_read_peer(reader, item, path, document if skip else None))
    _read_settings(reader, top, document)
    for item, path in reader.sequence(top.get("o2ibs"), ("o2ibs",)):
        document.o2ibs.append(_read_target(reader, item, path))
    for item, path in reader.sequence(top.get("net_status"), ("net_status",)):
        entry = reader.mapping(item, path, {"net"}, {"net"})
        document.net_status.append(reader.value(entry, "net", path, Net.parse))
    for section, questions in (("ping", document.pings), ("discover", document.discoveries)):
        questions += [
            _read_question(reader, item, path) for item, path in reader.sequence(top.get(section), (section,))
        ]
    reader.unique([group.net for group in document.nets], "net", "net type")
    reader.unique([target.tg_nid for target in document.o2ibs], "o2ibs", "nid")
    return document


def _read_net(reader: DlcReader, data: Any, path: KeyPath, document: DlcDocument, *, add: bool) -> None:
    if isinstance(data, dict) and "ip2net" in data:
        text = f"ip2nets is not built here; name the interfaces of each host; {_LEAVE_OUT}"
        raise reader.wrong((*path, "ip2net"), text)
    needed = {"net type", "local NI(s)"} if add else {"net type"}
    entry = reader.mapping(data, path, {"net type", "local NI(s)"}, needed, frozenset({"detail", "seq_no"}))
    net = reader.value(entry, "net type", path, _net)
    where = (*path, "local NI(s)")
    nis = reader.sequence(entry.get("local NI(s)"), where)
    if not nis and add:
        raise reader.wrong(where, f"{net} has no interface")
    if not nis:
        document.whole_nets.append(net)
        return
    groups = [_read_ni(reader, item, ni_path) for item, ni_path in nis]
    if len(groups) > 1 and any(len(names) != 1 for names, _, _ in groups):
        text = f"{net} has either one NI with all interfaces, or one NI for each interface"
        raise reader.wrong(where, text)
    bonding = Bonding.MULTI_RAIL if len(groups) > 1 else Bonding.O2IBS
    names = tuple(name for names, _, _ in groups for name in names)
    given = tuple(groups[0][1].items())
    document.ignored |= {key for item, _ in nis for key in _not_here(item)}
    try:
        group = NetworkGroup.of(net, names, bonding=bonding, tunables=given, cpts=groups[0][2])
        document.nets.append(group)
    except NidError as error:
        raise reader.wrong(where, str(error)) from None


def _net(text: str) -> Net:
    try:
        return Net.parse(text)
    except NidError as error:
        raise NidError(f"{error}; {_LEAVE_OUT}" if is_other_net(text) else str(error)) from None


def _other_net(data: Any) -> str:
    """Return what an entry of `net` is that is not built here; empty: it is."""
    if not isinstance(data, dict):
        return ""
    if "ip2net" in data:
        return f"ip2net {data['ip2net']}"
    text = str(data.get("net type"))
    return f"net {text}" if is_other_net(text) else ""


def _other_peer(data: Any) -> str:
    """Return the name of a peer whose primary NID is on a network of another kind; empty: it is not."""
    primary = str(data.get("primary nid")) if isinstance(data, dict) else ""
    return f"peer {primary}" if is_other_net(primary.rpartition("@")[2]) else ""


def _read_ni(
    reader: DlcReader, data: Any, path: KeyPath
) -> tuple[list[str], dict[str, int], tuple[int, ...] | None]:
    known = {"interfaces", "tunables", "lnd tunables", "CPT"}
    ni = reader.mapping(data, path, known, {"interfaces"}, _STATE_NI)
    names = ni["interfaces"]
    if not isinstance(names, dict | list):
        raise reader.wrong((*path, "interfaces"), "expected 0: NAME, 1: NAME, ...")
    where = (*path, "tunables")
    # until 2.14, and by some vendors, those of the LND stand among the others, or within them
    tunables = reader.mapping(
        ni.get("tunables") or {}, where, {*NAMES, "CPT"}, set(), LND_NAMES | {"lnd tunables"}
    )
    for name in LND_NAMES & tunables.keys():
        reader.number(tunables, name, where)
    given: dict[str, int] = {name: reader.number(tunables, name, where) for name in NAMES if name in tunables}
    for place, section in (
        ((*path, "lnd tunables"), ni.get("lnd tunables")),
        ((*where, "lnd tunables"), tunables.get("lnd tunables")),
    ):
        lnd = reader.mapping(section or {}, place, set(LND_NAMES), set())
        for name in lnd:
            reader.number(lnd, name, place)
    cpts = reader.cpts(ni, path)
    return list(map(str, names.values() if isinstance(names, dict) else names)), given, cpts


def _not_here(ni: Any) -> set[str]:
    """Return the tunables of an NI whose value is not the one that they have here."""
    common = ni.get("tunables") or {}
    lnd = common | (common.get("lnd tunables") or {}) | (ni.get("lnd tunables") or {})
    return {name for name, value in FIXED.items() if name in lnd and int(lnd[name]) != value}


def _read_peer(reader: DlcReader, data: Any, path: KeyPath, skipping: DlcDocument | None) -> PeerEntry:
    """Read a peer. Args: skipping: where NIDs of other kinds are named that are left out; None: they are errors."""
    known = {"primary nid", "Multi-Rail", "peer ni"}
    entry = reader.mapping(data, path, known, {"primary nid"}, frozenset({"peer state", "seq_no", "nid"}))
    primary = reader.value(entry, "primary nid", path, Nid.parse)
    nids = []
    for item, ni_path in reader.sequence(entry.get("peer ni"), (*path, "peer ni")):
        ni = reader.mapping(item, ni_path, {"nid"}, {"nid"}, _STATE_PEER_NI)
        if skipping is not None and is_other_net(str(ni["nid"]).rpartition("@")[2]):
            skipping.ignored.add(f"nid {ni['nid']}")
            continue
        nids += reader.value(ni, "nid", ni_path, parse_nids)
    return PeerEntry(primary, tuple(nids), reader.flag(entry, "Multi-Rail", path, default=True))


def _read_settings(reader: DlcReader, top: dict[str, Any], document: DlcDocument) -> None:
    names = {*ORDER, *ALIASES}
    section = reader.mapping(top.get("global") or {}, ("global",), names, set(), frozenset({"seq_no"}))
    for name in section:
        if name != "seq_no":
            value = reader.number(section, name, ("global",))
            if name != "lnd_timeout":  # follows from others
                document.settings[ALIASES.get(name, name)] = value
    numa = reader.mapping(top.get("numa") or {}, ("numa",), {"range"}, set(), frozenset({"seq_no"}))
    if "range" in numa:
        document.settings["numa_range"] = reader.number(numa, "range", ("numa",))


def _read_target(reader: DlcReader, data: Any, path: KeyPath) -> KibTarget:
    entry = reader.mapping(data, path, {"nid", "ips"}, {"nid", "ips"})
    nid = reader.value(entry, "nid", path, Nid.parse)
    ips = []
    for item, ip_path in reader.sequence(entry["ips"], (*path, "ips")):
        ips.append(str(reader.mapping(item, ip_path, {"ip"}, {"ip"})["ip"]))
    try:
        return KibTarget.of(str(nid), ips)
    except NidError as error:
        raise reader.wrong((*path, "ips"), str(error)) from None


def _read_question(reader: DlcReader, data: Any, path: KeyPath) -> DiscoveryRequest:
    known = {"primary nid", "timeout", "source_nid", "force"}
    state = frozenset({"seq_no", "Multi-Rail", "peer ni", "errno", "descr"})
    entry = reader.mapping(data, path, known, {"primary nid"}, state)
    source = entry.get("source_nid")
    timeout_s = reader.number(entry, "timeout", path) / 1000 if "timeout" in entry else PING_S
    force = reader.flag(entry, "force", path, default=False)
    return DiscoveryRequest(
        str(entry["primary nid"]), timeout_s, None if source is None else str(source), force
    )
