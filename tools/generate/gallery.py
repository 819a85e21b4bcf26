"""The gallery of labs: docs/reference/gallery.md, and a drawing of each lab file of examples/ in docs/pictures/labs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hfi_sim.fabric.topology.draw import drawing
from opavnic.cli.labs.init import examples, what
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from tools.generate.sections import note

_PICTURES: Final = "docs/pictures/labs"
_HEAD: Final = f"""<!-- {note("examples/*.yaml")} -->
# Gallery of labs

Each lab file of `examples/`, with its fabric as it is cabled and the commands to try it. Green boxes are hosts,
or HFIs of a host that has several; blue ones are switches; `em` is the node of the Ethernet Manager and the subnet
manager. `opavnic init NAME` writes a copy of a file, and `opavnic topo` draws the fabric of a running lab.
"""


def pages(_: Path) -> Iterator[tuple[str, str]]:
    """Yield the drawings and the page that shows them."""
    shown = [_HEAD]
    for name, text in examples().items():
        if not re.search(r"^name:", text, re.M):
            continue  # a file of the Ethernet Manager
        lab = parse_lab(text, f"examples/{name}.yaml")
        drawn = drawing(lab.topology).document(f"The fabric of {name}")
        yield f"{_PICTURES}/{name}.svg", f"<!-- {note(f'examples/{name}.yaml')} -->\n{drawn}"
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
    yield f"![The fabric of {name}](../pictures/labs/{name}.svg)\n"
