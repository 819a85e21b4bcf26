"""Topology files in the format of ibnetdiscover, which ibsim reads too.

A block per node: `vendid=`, `devid=`, `switchguid=`/`caguid=` lines, a line `Switch 36 "S-00117501..." # "name"`
or `Ca 1 "H-..." # "name"`, then one line per cabled port. Every cable appears twice, once at each end.

Source: the ibnetdiscover(8) manual page, "TOPOLOGY FILE FORMAT".
Differs: an adapter or router with more than two ports becomes several HFIs of a host, two ports each. Our export notes
exact rate and latency behind the `#`, where other readers see a comment; a test pins that they come back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hfi_sim.base.clock import to_ns, to_seconds
from hfi_sim.base.errors import TopologyError
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.engine.link.two_way import TwoWay
from hfi_sim.fabric.topology.foreign_names import (
    host_in,
    name_nodes,
    shown,
    unnamed,
    why_unreadable,
    without_rates,
    without_shared,
)
from hfi_sim.fabric.topology.model import MAX_HFI_PORTS, End, Node, NodeKind, Topology

LANE_BPS: Final = {
    "SDR": 2.5e9,
    "DDR": 5e9,
    "QDR": 10e9,
    "FDR10": 10e9,
    "FDR": 14e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
    "XDR": 200e9,
}
"""Bits per second of one lane."""

_DUMP: Final = "# Topology file: generated on"
"""How the output of ibnetdiscover begins."""
_NODE: Final = re.compile(r'(Switch|Ca|Hca|Rt|Router)\s+([0-9]{1,9})\s+"([^"]+)"\s*(?:#\s*(.*))?$')
_PORT: Final = re.compile(
    r'\[([0-9]{1,9})\](?:\[ext [0-9]+\])?\s*(?:\(([0-9a-fA-F]+)\))?\s*"([^"]+)"(?:\s*\[([0-9]{1,9})\])?'
    r"(?:\[ext [0-9]+\])?\s*(?:\(([0-9a-fA-F]+)\))?"
    r"((?:\s+(?:lid [0-9]+(?:\[[0-9]+\])?|lmc [0-9]+|[swe]\s*=\s*[0-9]+))*)\s*(?:#\s*(.*))?$"
)
"""The last group but one: LIDs and what ibsim takes, speed and width. There a far port that is not said is port 1."""
_VALUE: Final = re.compile(
    r"(vendid|devid|sysimgguid|switchguid|caguid|hcaguid|rtguid|nodeguid|portguid)s?[=+](?:0x)?([0-9a-fA-F]{1,16})(?:\(\w+\))?"
    r"\s*(?:#.*)?$"
)
"""Behind the `#`: what `ibnetdiscover -g` says of the chassis, its name and slot, and of the chip. `+`: ibsim counts on
from its last GUID."""
_DEFAULTS: Final = re.compile(r"(width|speed|extspeed)\s*=\s*([0-9]+)$")
"""What ibsim takes for all ports that follow."""
_IBSIM_COMMAND: Final = re.compile(r"(?:do\s|pdebug\b|module\b)")
"""What else ibsim takes at the beginning of a line, and a topology has no place for."""
_WIDTH: Final = re.compile(r"(?:^|\s)([0-9]{1,2})x(\S+)")
_UNKNOWN: Final = re.compile(r"(?:^|\s)(?:\?\?|[0-9]{1,2}x\?)\S*")
"""How ibnetdiscover writes a width, or a speed, that it does not know."""
_IBSIM_OPTION: Final = re.compile(r"([swe])\s*=\s*([0-9]+)")
_IBSIM_LANES: Final = {8: 12, 4: 8, 2: 4, 16: 2, 1: 1}
"""Lanes of each bit of a width, the best first."""
_IBSIM_SPEEDS: Final = {4: 10e9, 2: 5e9, 1: 2.5e9}
"""Bits per second of each bit of a speed, the best first; no bit: the best."""
_IBSIM_EXTENDED: Final = {8: 100e9, 4: 50e9, 2: 25e9, 1: 14e9}
"""The same of an extended speed, which goes before; no bit: there is none."""
_HEADING: Final = re.compile(
    r"(?:(?:Non-)?Chassis(?: Nodes| [0-9]+(?: \(guid 0x[0-9a-fA-F]+\))?)|Hostname: .*)$"
)
"""What groups nodes: `ibnetdiscover -g`, and the example of its manual page."""
_SAID: Final = re.compile(r"(?:ibwarn|ibdebug): |(?:\./)?src/\w+\.c:[0-9]+; ")
"""What programs of this family write to stderr, which `> file 2>&1` leaves in the file."""
_OWN_RATE: Final = re.compile(r"\brate=(\S+) latency=(\S+)")
_PLAIN_DESCRIPTION: Final = re.compile(r"(.*?)(?: (?:enhanced|base) port | lid | lmc )")
"""ibsim takes them without quotes, too."""
_OWN_LID: Final = re.compile(r"lid ([0-9]+) lmc ")
"""How the remark at a port of an adapter begins: with its own LID; that of the far end follows its description."""
_PORT0_LID: Final = re.compile(r"port 0 lid ([0-9]+)")
_DESCRIPTION: Final = re.compile(r'"(.*)"')
"""To the last quote: what nodes say of themselves may have some."""


_Number = TypeVar("_Number", int, float)


@dataclass(slots=True)
class _IbnetPort:
    line: int
    far: str
    far_port: int
    link: LinkConfig
    """How it sends: each end of a cable has its own."""
    lid: int = 0
    """Of the port itself, of an adapter; 0: it is not said."""
    has_rate: bool = True
    """Whether the file knows it."""


@dataclass(slots=True)
class _Block:
    """One node of the file."""

    line: int
    kind: NodeKind
    ports: int
    ident: str
    guid: int | None
    description: str
    lid: int = 0
    """Of port 0, of a switch; 0: it is not said."""
    whole: str = ""
    """The node of which this is a part: one with more than two ports becomes several HFIs of a host."""
    cabled: dict[int, _IbnetPort] = field(default_factory=dict)

    @property
    def is_hfi(self) -> bool:
        return self.kind is NodeKind.HFI


def loads(text: str, source: str = "<text>") -> Topology:
    """Read a topology file.

    Args:    source: the file's name, for messages.
    Raises:  TopologyError: `source:line: what is wrong`; a file that ends early is named as such.
    """
    read = _read_blocks(text, source)
    said = {ident: block.description for ident, block in read.items() if block.is_hfi}
    for ident, description in without_shared(said).items():
        read[ident].description = description
    blocks = _in_hfis(read)
    _check_end(text, source)
    if not blocks:
        raise TopologyError(
            f"{source}:1: no node stands in the file; it ends early or is not a topology file"
        )
    names = name_nodes((ident, block.description, block.is_hfi) for ident, block in blocks.items())
    last_line = len(text.splitlines())
    topology = Topology(source)
    for ident, block in blocks.items():
        place = f"{source}:{block.line}"
        if block.kind is NodeKind.SWITCH:
            topology.switch(
                names[ident],
                ports=block.ports,
                guid=block.guid,
                place=place,
                lid=block.lid,
                description=block.description,
            )
        else:
            host = host_in(block.description) or block.whole
            cabled = block.cabled
            topology.hfi(
                names[ident],
                ports=block.ports,
                guid=block.guid,
                host=names.get(host, host),
                place=place,
                lids=[cabled[at].lid if at in cabled else 0 for at in range(1, block.ports + 1)],
            )
    topology.left_out += unnamed(said, names)
    _check_names(blocks, source, last_line)
    unknown = 0
    for ident, block in blocks.items():
        for number, port in block.cabled.items():
            _check_far_end(blocks, block, number, port, source, last_line)
            if (ident, number) <= (port.far, port.far_port):
                back = blocks[port.far].cabled[port.far_port]
                unknown += not (port.has_rate or back.has_rate)
                topology.cable(
                    (names[ident], number),
                    (names[port.far], port.far_port),
                    _ways(port, back),
                    place=f"{source}:{port.line}",
                )
    topology.left_out += without_rates(unknown)
    topology.check()
    return topology


def _ways(port: _IbnetPort, back: _IbnetPort) -> TwoWay:
    """Return the options of a cable; where only one of its lines knows the rate, that is both."""
    if not (port.has_rate and back.has_rate):
        return TwoWay.of(port.link if port.has_rate else back.link)
    return TwoWay(up=port.link, down=back.link)


def _in_hfis(blocks: dict[str, _Block]) -> dict[str, _Block]:
    """Make HFIs of adapters and routers with more than two ports: of each two ports one, all of one host."""
    wide = {
        ident: block
        for ident, block in blocks.items()
        if block.kind is NodeKind.HFI and block.ports > MAX_HFI_PORTS
    }
    if not wide:
        return blocks

    def part(ident: str, port: int) -> tuple[str, int]:
        if ident not in wide:
            return ident, port
        index, number = divmod(port - 1, MAX_HFI_PORTS)
        return (f"{ident}.{index + 1}" if index else ident), number + 1

    parts: dict[str, _Block] = {}
    for ident, block in blocks.items():
        for number, port in sorted(block.cabled.items()) if ident in wide else ():
            name, own = part(ident, number)
            if name not in parts:
                guid = block.guid if name == ident else None
                parts[name] = replace(block, ports=MAX_HFI_PORTS, guid=guid, whole=ident, cabled={})
                if name != ident and not host_in(block.description):
                    parts[name].description = ""
            parts[name].ident = name
            parts[name].cabled[own] = port
        if ident not in wide:
            parts[ident] = block
    for block in parts.values():
        for port in block.cabled.values():
            port.far, port.far_port = part(port.far, port.far_port)
    return parts


def _read_blocks(text: str, source: str) -> dict[str, _Block]:
    blocks: dict[str, _Block] = {}
    block: _Block | None = None
    values: dict[str, int] = {}
    defaults: dict[str, int] = {}
    lines = text.splitlines()
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if line.startswith(_DUMP) and blocks:
            raise TopologyError(f"{source}:{number}: another dump begins here; give a file of one")
        if not line or line.startswith("#") or _HEADING.match(line) or _SAID.match(line):
            continue
        place = f"{source}:{number}"
        if match := _VALUE.match(line):
            values |= {} if "+" in match[0] else {match[1]: int(match[2], 16)}
        elif match := _DEFAULTS.match(line):
            defaults[{"width": "w", "speed": "s", "extspeed": "e"}[match[1]]] = int(match[2])
        elif _IBSIM_COMMAND.match(line):
            continue
        elif match := _NODE.match(line):
            block = _node(match, values, number)
            if block.ident in blocks:
                first = blocks[block.ident].line
                raise TopologyError(f'{place}: node "{block.ident}" appears twice, first in line {first}')
            blocks[block.ident] = block
            values = {}
        elif match := _PORT.match(line):
            if block is None:
                raise TopologyError(f"{place}: a port line before any Switch or Ca line")
            if number == len(lines):
                _check_end(text, source)
            _add_port(block, match, number, place, defaults)
        else:
            raise TopologyError(
                f"{place}: {why_unreadable(raw, text, number, of_nodes=bool(blocks or values))}"
            )
    if values:
        raise TopologyError(f"{place}: the file ends early: GUID lines, and no node line after them")
    if block is not None and not block.cabled:
        raise TopologyError(f'{place}: the file ends early: node "{block.ident}" has no port line')
    return blocks


def _check_end(text: str, source: str) -> None:
    """Refuse a file whose last line has no end: what is left of that line may read as a whole one."""
    lines = text.splitlines()
    if (
        text.endswith(("\n", "\r"))
        or not lines
        or not lines[-1].strip()
        or lines[-1].lstrip().startswith("#")
    ):
        return
    raise TopologyError(
        f"{source}:{len(lines)}: the file ends early, in the middle of a line: {shown(lines[-1])} has no line end"
    )


def _node(match: re.Match[str], values: dict[str, int], number: int) -> _Block:
    word, ports, ident, comment = match.groups()
    kind = NodeKind.SWITCH if word == "Switch" else NodeKind.HFI
    of_word = {"Switch": "switchguid", "Rt": "rtguid", "Router": "rtguid"}.get(word, "caguid")
    guid = next((values[key] for key in (of_word, "hcaguid", "nodeguid") if key in values), None)
    count = int(ports)
    described = _DESCRIPTION.search(comment or "") or _PLAIN_DESCRIPTION.match(comment or "")
    lid = _PORT0_LID.search(comment or "") if kind is NodeKind.SWITCH else None
    said = described[1].strip() if described else ""
    return _Block(number, kind, count, ident, guid, said, int(lid[1]) if lid else 0)


def _add_port(
    block: _Block, match: re.Match[str], number: int, place: str, defaults: Mapping[str, int]
) -> None:
    port = int(match[1])
    if port in block.cabled:
        raise TopologyError(
            f'{place}: port {port} of "{block.ident}" is already cabled in line {block.cabled[port].line}'
        )
    own = _OWN_LID.match(match[7] or "") if block.is_hfi else None
    link = _link(match[6], match[7] or "", place, defaults)
    block.cabled[port] = _IbnetPort(
        number, match[3], int(match[4] or 1), link or PLAIN_LINK, int(own[1]) if own else 0, link is not None
    )


def _link(options: str, comment: str, place: str, defaults: Mapping[str, int]) -> LinkConfig | None:
    """Return the link of a port line; None: it does not say the rate."""
    if own := _OWN_RATE.search(comment):
        try:
            return LinkConfig(float(own[1]), to_ns(float(own[2])))
        except ValueError:
            raise TopologyError(f"{place}: {own[0]!r} is not rate=BPS latency=SECONDS") from None
    said = {**defaults, **{key: int(value) for key, value in _IBSIM_OPTION.findall(options)}}
    remark = _DESCRIPTION.sub("", comment)
    if unknown := _UNKNOWN.search(remark):
        raise TopologyError(f"{place}: speed {unknown[0].strip()} is not known; known: {', '.join(LANE_BPS)}")
    if width := _WIDTH.search(remark):
        if width[2] not in LANE_BPS:
            raise TopologyError(
                f"{place}: speed {width[0].strip()} is not known; known: {', '.join(LANE_BPS)}"
            )
        return LinkConfig(int(width[1]) * LANE_BPS[width[2]])
    if not said:
        return None
    lanes, speed, extended = said.get("w", 2), said.get("s", 1), said.get("e", 0)
    if not 1 <= lanes <= 31 or not 0 <= speed <= 7 or not 0 <= extended <= 15:
        raise TopologyError(
            f"{place}: {options.strip()!r}: bits of widths are w=1 to w=31, of speeds s=0 to s=7, of extended speeds "
            "e=0 to e=15"
        )
    lane_bps = _best(_IBSIM_EXTENDED, extended) if extended else _best(_IBSIM_SPEEDS, speed or 4)
    return LinkConfig(_best(_IBSIM_LANES, lanes) * lane_bps)


def _best(of_bits: Mapping[int, _Number], bits: int) -> _Number:
    return next(value for bit, value in of_bits.items() if bits & bit)


def _check_names(blocks: dict[str, _Block], source: str, last_line: int) -> None:
    for block in blocks.values():
        for port in block.cabled.values():
            if port.far not in blocks:
                raise TopologyError(
                    f"{source}:{port.line}: {unknown_name('node', port.far, blocks)}; "
                    f"if its block is missing, the file ends early, at line {last_line}"
                )


def _check_far_end(
    blocks: dict[str, _Block], block: _Block, number: int, port: _IbnetPort, source: str, last_line: int
) -> None:
    """Hold a port line to the line at the other end of its cable."""
    place = f"{source}:{port.line}"
    far = blocks[port.far]
    back = far.cabled.get(port.far_port)
    if back is None:
        raise TopologyError(
            f'{place}: "{port.far}" (line {far.line}) has no line for its port [{port.far_port}], where this cable '
            f"ends; the file ends early, at line {last_line}, or that line is missing"
        )
    if (back.far, back.far_port) != (block.ident, number):
        raise TopologyError(
            f'{place}: the cable to "{port.far}"[{port.far_port}] does not come back: line {back.line} says '
            f'"{back.far}"[{back.far_port}]'
        )


# --- export ------------------------------------------------------------------------------------------------


def dumps(topology: Topology) -> str:
    """Return `topology` as a topology file; reading it again gives the same nodes, cables, rates and GUIDs.

    Raises:  TopologyError: the topology has problems.
    """
    topology.check()
    idents = {name: _ident(node) for name, node in topology.nodes.items()}
    cabled: dict[str, list[tuple[int, End, LinkConfig]]] = {name: [] for name in topology.nodes}
    for cable in topology.cables:
        cabled[cable.a[0]].append((cable.a[1], cable.b, cable.link.up))
        cabled[cable.b[0]].append((cable.b[1], cable.a, cable.link.down))
    lines = ["#", f"# Topology file: {topology.name}", "#"]
    for node in topology.nodes.values():
        lines += ["", *_node_lines(node, idents[node.name])]
        for number, (far, far_port), link in sorted(cabled[node.name], key=lambda entry: entry[0]):
            own = f"rate={link.rate_bps!r} latency={to_seconds(link.latency_ns)!r}"
            comment = f'# "{far}"{_width_text(link.rate_bps)} {own}'
            lines.append(f'[{number}]\t"{idents[far]}"[{far_port}]\t\t{comment}')
    return "\n".join(lines) + "\n"


def _node_lines(node: Node, ident: str) -> Iterator[str]:
    is_switch = node.kind is NodeKind.SWITCH
    if node.guid is not None:
        yield f"{'switchguid' if is_switch else 'caguid'}={node.guid:#x}"
    yield f'{"Switch" if is_switch else "Ca"}\t{node.ports} "{ident}"\t\t# "{node.name}"'


def _ident(node: Node) -> str:
    if node.guid is None:
        return node.name
    return f"{'S' if node.kind is NodeKind.SWITCH else 'H'}-{node.guid:016x}"


def _width_text(rate_bps: float) -> str:
    for name in ("SDR", "DDR", "QDR", "EDR", "HDR", "NDR", "XDR"):
        if rate_bps == 4 * LANE_BPS[name]:
            return f" 4x{name}"
    return ""
