"""Topology files in the format of ibnetdiscover, which ibsim reads too.

A block per node: `vendid=`, `devid=`, `switchguid=`/`caguid=` lines, a line `Switch 36 "S-00117501..." # "name"`
or `Ca 1 "H-..." # "name"`, then one line per cabled port. Every cable appears twice, once at each end.

Source: the ibnetdiscover(8) manual page, "TOPOLOGY FILE FORMAT".
Differs: an HFI with more than two ports, and a router, are taken as far as an HFI goes: two ports. Our export notes
exact rate and latency behind the `#`, where other readers see a comment; a test pins that they come back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.base.errors import TopologyError
from hfi_sim.base.instants import to_ns, to_seconds
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.fabric.topology.model import MAX_HFI_PORTS, Cable, End, Node, NodeKind, Topology

LANE_BPS: Final = {
    "SDR": 2.5e9,
    "DDR": 5e9,
    "QDR": 10e9,
    "FDR10": 10e9,
    "FDR": 14e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
}
"""Bits per second of one lane."""

_LINE_SHOWN: Final = 80
_NODE: Final = re.compile(r'(Switch|Ca|Hca|Rt)\s+([0-9]{1,9})\s+"([^"]+)"\s*(?:#\s*(.*))?$')
_PORT: Final = re.compile(
    r'\[([0-9]{1,9})\](?:\(([0-9a-fA-F]+)\))?\s*"([^"]+)"\s*\[([0-9]{1,9})\](?:\(([0-9a-fA-F]+)\))?\s*(?:#\s*(.*))?$'
)
_VALUE: Final = re.compile(
    r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=(?:0x)?([0-9a-fA-F]{1,16})(?:\(\w+\))?$"
)
_WIDTH: Final = re.compile(r"\b([0-9]{1,9})x([A-Z]+\d*)\b")
_OWN_RATE: Final = re.compile(r"\brate=(\S+) latency=(\S+)")
_HOST: Final = re.compile(r"([\w.-]+) (?:hfi|hca|HCA|mlx|mthca|qib|mlx4|mlx5)[\w-]*")
"""What drivers call their nodes: the host and its device, `node1 hfi1_0`, `node1 HCA-1`."""
_DESCRIPTION: Final = re.compile(r'"([^"]*)"')


@dataclass(slots=True)
class _IbnetPort:
    line: int
    far: str
    far_port: int
    link: LinkConfig


@dataclass(slots=True)
class _Block:
    """One node of the file."""

    line: int
    kind: NodeKind
    ports: int
    ident: str
    guid: int | None
    description: str
    cabled: dict[int, _IbnetPort] = field(default_factory=dict)


def loads(text: str, source: str = "<text>") -> Topology:
    """Read a topology file.

    Args:    source: the file's name, for messages.
    Raises:  TopologyError: `source:line: what is wrong`; a file that ends early is named as such.
    """
    blocks = _read_blocks(text, source)
    _check_end(text, source)
    if not blocks:
        raise TopologyError(
            f"{source}:1: no node stands in the file; it ends early or is not a topology file"
        )
    names = _names(blocks)
    hosts = _hosts(blocks)
    last_line = len(text.splitlines())
    topology = Topology(source)
    for ident, block in blocks.items():
        place = f"{source}:{block.line}"
        if block.kind is NodeKind.SWITCH:
            topology.switch(names[ident], ports=block.ports, guid=block.guid, place=place)
        else:
            host = hosts.get(ident, "")
            topology.hfi(names[ident], ports=block.ports, guid=block.guid, host=host, place=place)
    _check_names(blocks, source, last_line)
    for ident, block in blocks.items():
        for number, port in block.cabled.items():
            _check_far_end(blocks, block, number, port, source, last_line)
            if (ident, number) <= (port.far, port.far_port):
                topology.cable(
                    (names[ident], number),
                    (names[port.far], port.far_port),
                    port.link,
                    place=f"{source}:{port.line}",
                )
    topology.check()
    return topology


def _read_blocks(text: str, source: str) -> dict[str, _Block]:
    blocks: dict[str, _Block] = {}
    block: _Block | None = None
    values: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        place = f"{source}:{number}"
        if match := _VALUE.match(line):
            values[match[1]] = int(match[2], 16)
        elif match := _NODE.match(line):
            block = _node(match, values, number, place)
            if block.ident in blocks:
                first = blocks[block.ident].line
                raise TopologyError(f'{place}: node "{block.ident}" appears twice, first in line {first}')
            blocks[block.ident] = block
            values = {}
        elif match := _PORT.match(line):
            if block is None:
                raise TopologyError(f"{place}: a port line before any Switch or Ca line")
            _add_port(block, match, number, place)
        else:
            raise TopologyError(f"{place}: {_why_unreadable(raw, text, number)}")
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
        f"{source}:{len(lines)}: the file ends early, in the middle of a line: {_shown(lines[-1])} has no line end"
    )


def _why_unreadable(raw: str, text: str, number: int) -> str:
    if number == len(text.splitlines()):
        return f"the file ends early, in the middle of a line: {_shown(raw)}"
    return (
        f"cannot read {_shown(raw)}; expected a line such as "
        '`Switch 36 "S-0011750101000000"` or `[1] "H-0011750101000010"[1]`'
    )


def _shown(raw: str) -> str:
    line = raw.strip()
    return repr(line if len(line) <= _LINE_SHOWN else line[: _LINE_SHOWN - 3] + "...")


def _node(match: re.Match[str], values: dict[str, int], number: int, place: str) -> _Block:
    word, ports, ident, comment = match.groups()
    kind = NodeKind.SWITCH if word == "Switch" else NodeKind.HFI
    guid = values.get({"Switch": "switchguid", "Rt": "rtguid"}.get(word, "caguid"))
    count = int(ports)
    if kind is NodeKind.HFI and count > MAX_HFI_PORTS:
        raise TopologyError(f'{place}: "{ident}" has {count} ports; an HFI has 1 to {MAX_HFI_PORTS}')
    described = _DESCRIPTION.search(comment or "")
    return _Block(number, kind, count, ident, guid, described[1].strip() if described else "")


def _add_port(block: _Block, match: re.Match[str], number: int, place: str) -> None:
    port = int(match[1])
    if port in block.cabled:
        raise TopologyError(
            f'{place}: port {port} of "{block.ident}" is already cabled in line {block.cabled[port].line}'
        )
    block.cabled[port] = _IbnetPort(number, match[3], int(match[4]), _link(match[6] or "", place))


def _link(comment: str, place: str) -> LinkConfig:
    if own := _OWN_RATE.search(comment):
        try:
            return LinkConfig(float(own[1]), to_ns(float(own[2])))
        except ValueError:
            raise TopologyError(f"{place}: {own[0]!r} is not rate=BPS latency=SECONDS") from None
    if (width := _WIDTH.search(comment)) and width[2] in LANE_BPS:
        return LinkConfig(int(width[1]) * LANE_BPS[width[2]])
    return PLAIN_LINK


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


def _hosts(blocks: dict[str, _Block]) -> dict[str, str]:
    """Return the hosts that descriptions of HFIs name, by the id of the HFI."""
    return {
        ident: match[1]
        for ident, block in blocks.items()
        if block.kind is NodeKind.HFI and (match := _HOST.fullmatch(block.description))
    }


def _names(blocks: dict[str, _Block]) -> dict[str, str]:
    """Call a node by its description, or by the host in it, if that is one word and unique; else by its id.

    The HFIs of a host are called h1, h1.2, h1.3, ..., in the order of the file, as everywhere.
    """
    hosts = _hosts(blocks)
    met: Counter[str] = Counter()
    wanted: dict[str, str] = {}
    for ident, block in blocks.items():
        wanted[ident] = block.description
        if (host := hosts.get(ident)) is not None:
            met[host] += 1
            wanted[ident] = host if met[host] == 1 else f"{host}.{met[host]}"
    # an id that is also the name of its own node is not taken twice
    seen = Counter(name for ident in blocks for name in {ident, wanted[ident]})
    return {
        ident: name if re.fullmatch(r"[\w.-]+", name) and seen[name] == 1 else ident
        for ident, name in wanted.items()
    }


# --- export ------------------------------------------------------------------------------------------------


def dumps(topology: Topology) -> str:
    """Return `topology` as a topology file; reading it again gives the same nodes, cables, rates and GUIDs.

    Raises:  TopologyError: the topology has problems.
    """
    topology.check()
    idents = {name: _ident(node) for name, node in topology.nodes.items()}
    cabled: dict[str, list[tuple[int, End, Cable]]] = {name: [] for name in topology.nodes}
    for cable in topology.cables:
        cabled[cable.a[0]].append((cable.a[1], cable.b, cable))
        cabled[cable.b[0]].append((cable.b[1], cable.a, cable))
    lines = ["#", f"# Topology file: {topology.name}", "#"]
    for node in topology.nodes.values():
        lines += ["", *_node_lines(node, idents[node.name])]
        for number, (far, far_port), cable in sorted(cabled[node.name], key=lambda entry: entry[0]):
            link = cable.link
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
    for name in ("SDR", "DDR", "QDR", "EDR", "HDR", "NDR"):
        if rate_bps == 4 * LANE_BPS[name]:
            return f" 4x{name}"
    return ""
