"""The page about a real fabric manager: its view of the fabric beside ours. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from opavnic.state.fm import FmNode, FmRow, FmState, FmStates
from opavnic.web.scene.part_page import Answers, NoteSection, PartPage, Section, TableSection
from opavnic.web.scene.scene import Scene

EVERY_S: Final = 3.0
"""A fabric manager answers each look with five tables."""
_PATH: Final = "/fm"


def _asks(seen: Scene) -> Sequence[str]:
    return [_PATH] if seen.state.subnet_manager == "external" else []


def sections(answers: Answers) -> Iterator[Section]:
    """Yield what the page shows."""
    said = FmState.of_json(answers.now[_PATH])
    host = f" on {said.host}" if said.host else ""
    yield NoteSection("Fabric manager", f"{said.state}{host}")
    for table, error in said.errors.items():
        yield NoteSection(table, error, wrong=True)
    differences = said.differences
    agrees = "its view is ours" if not said.errors else "what it has said so far is so"
    text = f"{differences} of its rows differ from ours" if differences else agrees
    yield NoteSection("Comparison", text, wrong=bool(differences))
    rows = [
        *(_difference("subnet manager", manager.port, manager) for manager in said.managers),
        *(_difference("node", node.name or node.fm_name, node) for node in said.nodes),
        *(_difference("port", port.name, port) for port in said.ports),
        *(_difference("link", link.name, link) for link in said.links),
        *(_difference("virtual fabric", one.name or one.pkey, one) for one in said.virtual_fabrics),
    ]
    rows = [row for row in rows if row["differs"]]
    yield TableSection("Differences", {"what": "what", "differs": "what differs"}, rows, marked="differs")
    yield TableSection(
        "Subnet managers",
        {"port": "port", "state": "state", "priority": "priority", "lid": "LID", "for_s": "seconds"},
        [manager.as_json() | {"lid": _lid(manager.lid)} for manager in said.managers],
        "none has answered",
    )
    yield _links(said.links)
    yield _nodes(said.nodes)
    yield TableSection(
        "Ports",
        {"name": "port", "state": "state", "fm_state": "the fabric manager says", "differs": "differs"},
        [port.as_json() for port in said.ports],
        marked="differs",
    )
    yield TableSection(
        "Virtual fabrics",
        {
            "pkey": "P_Key",
            "name": "name",
            "sl": "SL",
            "mtu": "MTU",
            "qos": "QoS",
            "vesws": "virtual switches of the lab",
            "differs": "differs",
        },
        [
            _shown(one) | {"vesws": ", ".join(one.vesws), "qos": "yes" if one.qos else "no"}
            for one in said.virtual_fabrics
        ],
        marked="differs",
    )


def _difference(kind: str, name: str, row: FmRow) -> dict[str, str]:
    return {"what": f"{kind} {name}", "differs": row.differs}


def _links(links: Sequence[FmStates]) -> TableSection:
    columns = {"name": "link", "state": "is", "fm_state": "the fabric manager has it", "differs": "differs"}
    return TableSection("Links", columns, [link.as_json() for link in links], marked="differs")


def _nodes(nodes: Sequence[FmNode]) -> TableSection:
    columns = {
        "guid": "GUID", "name": "name", "kind": "kind", "lid": "LID", "fm_name": "the fabric manager's name",
        "fm_lid": "its LID", "differs": "differs",
    }  # fmt: skip
    return TableSection(
        "Nodes",
        columns,
        [_shown(node) | {"lid": _lid(node.lid), "fm_lid": _lid(node.fm_lid)} for node in nodes],
        marked="differs",
    )


def _shown(row: FmRow) -> dict[str, Any]:
    return {key: "" if value is None else value for key, value in row.as_json().items()}


def _lid(lid: int | None) -> str:
    return "" if lid is None else f"{lid:#x}"


PAGE: Final = PartPage("fm", "Fabric manager", asks=_asks, sections=sections, every_s=EVERY_S)
