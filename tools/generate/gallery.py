"""The gallery of labs: docs/reference/gallery.md, and a drawing of each lab file of examples/ in docs/pictures/labs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hfi_sim.base.drawing import BROWN, DIM, GREEN, Canvas
from hfi_sim.fabric.topology.draw import BOX, drawing, in_layers, layers
from hfi_sim.fabric.topology.model import NodeKind
from opavnic.cli.labs.init import examples, what
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from tools.generate.sections import note

_PICTURES: Final = "docs/pictures/labs"
_HEAD: Final = f"""<!-- {note("examples/*.yaml")} -->
# Gallery of labs

Each lab file of `examples/`, with the commands to try it and its fabric as it is cabled. Green boxes are hosts,
or HFIs of a host that has several; blue ones are switches; `em` is the node of the Ethernet Manager and the subnet
manager. Of a lab with several virtual switches, a drawing shows the members of each: brown boxes are virtual
switches, and one with two members is a line with its name; the cables are left out where they only lead to one switch.
`opavnic init NAME` writes a copy of a file, and `opavnic topo` draws the fabric of a running lab.
"""


def pages(_: Path) -> Iterator[tuple[str, str]]:
    """Yield the drawings and the page that shows them."""
    shown = [_HEAD]
    for name, text in examples().items():
        if not re.search(r"^name:", text, re.M):
            continue  # a file of the Ethernet Manager
        lab = parse_lab(text, f"examples/{name}.yaml")
        for file, (_said, drawn) in _drawings(name, lab).items():
            yield f"{_PICTURES}/{file}.svg", f"<!-- {note(f'examples/{name}.yaml')} -->\n{drawn}"
        shown.append("".join(_entry(name, text, lab)))
    yield "docs/reference/gallery.md", "\n".join(shown)


def _entry(name: str, text: str, lab: LabModel) -> Iterator[str]:
    yield f"## {name}\n\n{what(text)}.\n\n"
    if lab.vesws:
        members = {
            vesw.name: ", ".join(dict.fromkeys(port.host for port in lab.members_of(vesw)))
            for vesw in lab.vesws
        }
        yield f"Virtual switches: {'; '.join(f'`{name}`: {hosts}' for name, hosts in members.items())}.\n\n"
    blocks = re.findall(r"(?:^#   .*\n)+", text, re.M)  # indented in the comment at the head of the file
    tried = next(
        (block for block in blocks if "opavnic up " in block), f"#   opavnic up examples/{name}.yaml -d\n"
    )
    lines = [re.sub(r"^(?=\w+ )", "$ ", line) for line in re.findall("^#   (.*)$", tried, re.M)]
    yield "\n".join(["```console", *lines, "```", "", ""])
    yield "\n".join(
        f"![{said}](../pictures/labs/{file}.svg)\n" for file, (said, _) in _drawings(name, lab).items()
    )


def _drawings(name: str, lab: LabModel) -> dict[str, tuple[str, str]]:
    """Return what each drawing of a lab shows, and the drawing, by the name of its file."""
    cabling, vesws = f"The fabric of {name}", f"The virtual switches of {name}"
    several = len(lab.vesws) > 1
    found = {}
    if not several or sum(1 for _ in lab.topology.of_kind(NodeKind.SWITCH)) > 1:
        found[name] = cabling, drawing(lab.topology).document(cabling)
    if several:
        found[f"{name}-vesws"] = vesws, vesws_drawing(lab).document(vesws)
    return found


def vesws_drawing(lab: LabModel) -> Canvas:
    """Return the hosts of a lab and its virtual switches; one with two members is a line between these."""
    members = {
        vesw.name: list(dict.fromkeys(port.host for port in lab.members_of(vesw))) for vesw in lab.vesws
    }
    boxes, lines, found = next(filter(None, (_layered(members, *how) for how in _HOW)))
    places = in_layers(found)
    drawn = Canvas(places.width, places.height, "sans-serif")
    for (a, b), said in lines.items():
        (ax, ay), (bx, by) = places.at[a], places.at[b]
        drawn.line((ax, ay), (bx, by), "#888")
        at = ax + (bx - ax) * _TEXT_AT, ay + (by - ay) * _TEXT_AT
        drawn.text(at, said, DIM, font_size=10, text_anchor="middle", lifted=True)
    for name, at in places.at.items():
        drawn.node(at, BOX, name.removeprefix(_VESW), BROWN if name in boxes else GREEN)
    return drawn


_TEXT_AT: Final = 0.35
"""Where the name of a line stands on it: beyond the middle, where lines cross."""
_VESW: Final = "vesw "
"""Before the name of a virtual switch: a host may be called alike."""
_HOW: Final = ((True, True), (False, True), (False, False))


def _layered(
    members: Mapping[str, list[str]], pairs_are_lines: bool, members_of_one_below: bool
) -> tuple[set[str], dict[tuple[str, str], str], list[list[str]]] | None:
    """Return the boxes of virtual switches, the lines with their names, and the layers; None: they have none."""
    boxes, lines = set[str](), dict[tuple[str, str], str]()
    for name, hosts in members.items():
        if pairs_are_lines and len(hosts) == 2:
            pair = hosts[0], hosts[1]
            lines[pair] = ", ".join(filter(None, (lines.get(pair), name)))
        else:
            boxes.add(_VESW + name)
            lines |= {(host, _VESW + name): "" for host in hosts}
    near: dict[str, list[str]] = {}
    for a, b in lines:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    below = [
        name for name in near if name not in boxes and not (members_of_one_below and len(near[name]) > 1)
    ]
    found = layers(below, near) if below else None
    return None if found is None else (boxes, lines, found)
