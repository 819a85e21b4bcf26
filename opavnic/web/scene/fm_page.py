"""The page about a real fabric manager: its view of the fabric beside ours. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from opavnic.web.scene.part_page import Answers, NoteSection, PartPage, Section, TableSection
from opavnic.web.scene.scene import Scene

EVERY_S: Final = 3.0
"""A fabric manager answers each look with five tables."""
_PATH: Final = "/fm"


def _asks(seen: Scene) -> Sequence[str]:
    return [_PATH] if seen.subnet_manager == "external" else []


def sections(answers: Answers) -> Iterator[Section]:
    """Yield what the page shows."""
    said = answers.now[_PATH]
    host = f" on {said['host']}" if said.get("host") else ""
    yield NoteSection("Fabric manager", f"{said['state']}{host}")
    for table, error in said["errors"].items():
        yield NoteSection(table, error, wrong=True)
    differences = said["differences"]
    agrees = "its view is ours" if not said["errors"] else "what it has said so far is so"
    text = f"{differences} of its rows differ from ours" if differences else agrees
    yield NoteSection("Comparison", text, wrong=bool(differences))
    rows = [
        {"what": f"{kind} {_name(row)}", "differs": row["differs"]}
        for kind, key in _KINDS.items()
        for row in said[key]
        if row["differs"]
    ]
    yield TableSection("Differences", {"what": "what", "differs": "what differs"}, rows, marked="differs")
    yield TableSection(
        "Subnet managers",
        {"port": "port", "state": "state", "priority": "priority", "lid": "LID", "for_s": "seconds"},
        [row | {"lid": _lid(row["lid"])} for row in said["managers"]],
        "none has answered",
    )
    yield _links(said["links"])
    yield _nodes(said["nodes"])
    yield TableSection(
        "Ports",
        {"name": "port", "state": "state", "fm_state": "the fabric manager says", "differs": "differs"},
        said["ports"],
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
            _shown(row) | {"vesws": ", ".join(row["vesws"]), "qos": "yes" if row["qos"] else "no"}
            for row in said["virtual_fabrics"]
        ],
        marked="differs",
    )


_KINDS: Final = {
    "subnet manager": "managers",
    "node": "nodes",
    "port": "ports",
    "link": "links",
    "virtual fabric": "virtual_fabrics",
}


def _links(rows: Sequence[Mapping[str, Any]]) -> TableSection:
    columns = {"name": "link", "state": "is", "fm_state": "the fabric manager has it", "differs": "differs"}
    return TableSection("Links", columns, rows, marked="differs")


def _nodes(rows: Sequence[Mapping[str, Any]]) -> TableSection:
    columns = {
        "guid": "GUID", "name": "name", "kind": "kind", "lid": "LID", "fm_name": "the fabric manager's name",
        "fm_lid": "its LID", "differs": "differs",
    }  # fmt: skip
    return TableSection(
        "Nodes",
        columns,
        [_shown(row) | {"lid": _lid(row["lid"]), "fm_lid": _lid(row["fm_lid"])} for row in rows],
        marked="differs",
    )


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("name") or row.get("fm_name") or row.get("port") or row.get("pkey"))


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: "" if value is None else value for key, value in row.items()}


def _lid(lid: int | None) -> str:
    return "" if lid is None else f"{lid:#x}"


PAGE: Final = PartPage("fm", "Fabric manager", asks=_asks, sections=sections, every_s=EVERY_S)
