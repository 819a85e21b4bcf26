"""DLC: configuration as YAML, as lnetctl reads and prints it.

    net:                              o2ibs:                          net_status:
        - net type: o2ib0                 - nid: 10.1.1.2@o2ib0           - net: o2ib0
          local NI(s):                      ips:
            - interfaces:                     - ip: 10.1.1.2
                  0: ib0                      - ip: 10.1.1.4
Several `local NI(s)`, each with one interface, are a network with Multi-Rail. What else an export of the real tool has
is read and not applied; `DlcDocument.ignored` names it. Routes are refused.
A document is read completely before any of it is applied, so that a truncated file changes nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from lnet.errors import CommandError, NidError
from lnet.networks import Bonding, NetworkGroup
from lnet.nid import Net, Nid
from lnet.targets import KibTarget
from opavnic.lab.yaml_source import YamlError, YamlSource
from vema.em.problems import KeyPath, path_text

MAX_TEXT: Final = 1 << 20
"""Maximum number of characters in a configuration."""
_IGNORED: Final = frozenset(
    {"peer", "global", "numa", "discovery", "routing", "buffers", "statistics", "max_interfaces", "udsp"}
)
"""Sections of the real tool that are not applied."""
_IGNORED_NI: Final = frozenset(
    {
        "statistics", "sent_stats", "received_stats", "dropped_stats", "health stats", "tunables", "lnd tunables",
        "tcp bonding", "dev cpt", "CPT",
    }
)  # fmt: skip
"""The same in a `local NI(s)`. Of these only tunables could be applied, and are worth a word."""
_TUNABLES: Final = frozenset({"tunables", "lnd tunables"})


@dataclass(slots=True)
class DlcDocument:
    """The content of one document."""

    nets: list[NetworkGroup] = field(default_factory=list)
    o2ibs: list[KibTarget] = field(default_factory=list)
    net_status: list[Net | None] = field(default_factory=list)
    """Networks to show; None: all."""
    ignored: set[str] = field(default_factory=set)
    """Keys with settings that are not applied."""


class Quoted(str):
    """Text that is always printed in double quotes, as lnetctl prints `descr`."""

    __slots__ = ()


def parse_dlc(text: str) -> DlcDocument:
    """Read a DLC document.

    Raises:  CommandError: EINVAL, with the line and the path of the first error; EFBIG: too long.
    """
    if len(text) > MAX_TEXT:
        raise CommandError(errno.EFBIG, f"more than {MAX_TEXT} characters, too many for a configuration")
    try:
        source = YamlSource(text, "configuration")
    except YamlError as error:
        raise CommandError(errno.EINVAL, f"line {error.line}: {error.reason}") from None
    reader = _Reader(source)
    for problem in source.problems:
        raise reader.wrong(problem.path, problem.message)
    known = {"net", "o2ibs", "net_status"}
    top = reader.mapping(source.data, (), known, set(), _IGNORED | {"route"})
    if top.get("route"):
        raise reader.wrong(("route",), "routes are not built here: all hosts of a lab are on one fabric")
    document = DlcDocument(ignored=set(_IGNORED & top.keys()))
    for item, path in reader.sequence(top.get("net"), ("net",)):
        if isinstance(item, dict) and item.get("net type") == "lo":
            continue  # every node has it
        document.nets.append(_read_net(reader, item, path, document.ignored))
    for item, path in reader.sequence(top.get("o2ibs"), ("o2ibs",)):
        document.o2ibs.append(_read_target(reader, item, path))
    for item, path in reader.sequence(top.get("net_status"), ("net_status",)):
        entry = reader.mapping(item, path, {"net"}, {"net"})
        document.net_status.append(reader.value(entry, "net", path, Net.parse))
    reader.unique([group.net for group in document.nets], "net", "net type")
    reader.unique([target.tg_nid for target in document.o2ibs], "o2ibs", "nid")
    return document


class _Reader:
    """Reads plain data and turns each error into a CommandError with its line and path."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source

    def wrong(self, path: KeyPath, reason: str) -> CommandError:
        where = f"{path_text(path)}: " if path else ""
        return CommandError(errno.EINVAL, f"line {self._source.line(path)}: {where}{reason}")

    def mapping(
        self,
        data: Any,
        path: KeyPath,
        known: set[str],
        needed: set[str],
        ignored: frozenset[str] = frozenset(),
    ) -> dict[str, Any]:
        if not isinstance(data, dict):
            shown = "nothing" if data is None else type(data).__name__
            raise self.wrong(path, f"expected keys ({', '.join(sorted(known))}), not {shown}")
        for key in data:
            if key not in known and key not in ignored:
                raise self.wrong((*path, str(key)), f"unknown key (known: {', '.join(sorted(known))})")
        for key in sorted(needed):
            if data.get(key) is None:
                raise self.wrong(path, f'key "{key}" is missing')
        return data

    def sequence(self, data: Any, path: KeyPath) -> list[tuple[Any, KeyPath]]:
        if data is None:
            return []
        if not isinstance(data, list):
            raise self.wrong(path, f"expected a list, not {type(data).__name__}")
        return [(item, (*path, index)) for index, item in enumerate(data)]

    def value(self, entry: dict[str, Any], key: str, path: KeyPath, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(str(entry[key]))
        except NidError as error:
            raise self.wrong((*path, key), str(error)) from None

    def unique(self, values: list[Any], section: str, key: str) -> None:
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self.wrong((section, index, key), f"{value} appears twice")


def _read_net(reader: _Reader, data: Any, path: KeyPath, ignored: set[str]) -> NetworkGroup:
    entry = reader.mapping(data, path, {"net type", "local NI(s)"}, {"net type", "local NI(s)"})
    net = reader.value(entry, "net type", path, Net.parse)
    nis = reader.sequence(entry["local NI(s)"], (*path, "local NI(s)"))
    if not nis:
        raise reader.wrong((*path, "local NI(s)"), f"{net} has no interface")
    groups = [_read_ni(reader, item, ni_path, ignored) for item, ni_path in nis]
    if len(groups) > 1 and any(len(names) != 1 for names in groups):
        text = f"{net} has either one NI with all interfaces, or one NI for each interface"
        raise reader.wrong((*path, "local NI(s)"), text)
    bonding = Bonding.MULTI_RAIL if len(groups) > 1 else Bonding.O2IBS
    try:
        return NetworkGroup(net, tuple(name for names in groups for name in names), bonding)
    except NidError as error:
        raise reader.wrong((*path, "local NI(s)"), str(error)) from None


def _read_ni(reader: _Reader, data: Any, path: KeyPath, ignored: set[str]) -> list[str]:
    ni = reader.mapping(data, path, {"nid", "status", "interfaces"}, {"interfaces"}, _IGNORED_NI)
    ignored |= _TUNABLES & ni.keys()
    names = ni["interfaces"]
    if not isinstance(names, dict | list):
        raise reader.wrong((*path, "interfaces"), "expected 0: NAME, 1: NAME, ...")
    return list(map(str, names.values() if isinstance(names, dict) else names))


def _read_target(reader: _Reader, data: Any, path: KeyPath) -> KibTarget:
    entry = reader.mapping(data, path, {"nid", "ips"}, {"nid", "ips"})
    nid = reader.value(entry, "nid", path, Nid.parse)
    ips = []
    for item, ip_path in reader.sequence(entry["ips"], (*path, "ips")):
        ips.append(str(reader.mapping(item, ip_path, {"ip"}, {"ip"})["ip"]))
    try:
        return KibTarget.of(str(nid), ips)
    except NidError as error:
        raise reader.wrong((*path, "ips"), str(error)) from None


def format_yaml(data: dict[str, Any]) -> str:
    """Return YAML indented as by lnetctl: four columns for top-level lists and keys, two for nested lists."""
    return "".join(f"{line}\n" for line in _mapping_lines(data, 0, top=True))


def error_yaml(verb: str, noun: str, error: CommandError) -> str:
    """Return an error as lnetctl prints it: a list under the verb, with errno and descr."""
    return format_yaml({verb: [{noun: {"errno": error.errno, "descr": Quoted(error.descr)}}]})


def _mapping_lines(data: dict[Any, Any], indent: int, *, top: bool = False) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        head = " " * indent + f"{_scalar(key)}:"
        if isinstance(value, dict) and value:
            lines += [head, *_mapping_lines(value, indent + 4)]
        elif isinstance(value, list) and value:
            lines.append(head)
            for item in value:
                at = indent + (4 if top else 2)
                inner = _mapping_lines(item, at + 2)
                lines += [" " * at + "- " + inner[0][at + 2 :], *inner[1:]]
        else:
            lines.append(f"{head} {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, Quoted):
        return _quoted(value)
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    text = str(value)
    if isinstance(value, str):
        try:
            plain = bool(text) and yaml.safe_load(f"a: {text}\n") == {"a": text} and "\n" not in text
        except yaml.YAMLError:
            plain = False
        return text if plain else _quoted(text)
    return text


def _quoted(text: str) -> str:
    return yaml.safe_dump(str(text), default_style='"', width=float("inf")).rstrip("\n")
