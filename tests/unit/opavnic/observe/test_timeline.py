"""What the timeline says of events, changes and rates."""

from __future__ import annotations

import json
import re

from opavnic.observe.timeline import (
    KEPT,
    Mark,
    Rate,
    marks_of_changes,
    marks_of_events,
    timeline_data,
    timeline_html,
)
from opavnic.state.em import EmEvent
from opavnic.state.fabric import ChangeStatus


def event(kind: str, port: str = "h1:1", vport: int | None = None, text: str = "") -> EmEvent:
    return EmEvent(number=1, time=1.0, kind=kind, port=port, vport_num=vport, vesw_id=None, text=text)


def change(kind: str, name: str, state: str, text: str = "") -> ChangeStatus:
    return ChangeStatus(number=1, time=2.0, kind=kind, name=name, state=state, text=text)


def test_events_say_the_states_of_ports_and_vnics_and_else_what_happened() -> None:
    events = [
        event("port-left"),
        event("link-down", vport=2),
        event("table-differs", vport=1, text="\u202ex"),
    ]
    assert [mark.row()[1:] for mark in marks_of_events(events)] == [
        ["port", "h1:1", "left", 1, ""],
        ["VNIC", "h1:1 vport 2", "link down", 1, ""],
        ["EM", "table-differs", "", 0, r"h1:1 \u202ex"],
    ]


def test_fault_that_holds_the_manager_down_shows_on_the_manager_too() -> None:
    changes = [change("link", "h1:1--sw0:1", "down"), change("fault", "3", "active", "crash on em")]
    assert [mark.row()[1:] for mark in marks_of_changes(changes, "em")] == [
        ["link", "h1:1--sw0:1", "down", 1, ""],
        ["fault", "3", "active", 0, "crash on em"],
        ["EM", "manager", "down", 1, ""],
    ]


def test_no_name_ends_the_data_of_a_page_and_the_newest_marks_are_kept() -> None:
    marks = [Mark(float(at), "link", f"</script><b>{at}", "up", False, "") for at in range(KEPT + 5)]
    data = timeline_data(marks, {"MADs": Rate("MADs/s", [(1.0, 2.0)])}, 9.0)
    (part,) = timeline_html(data)
    inside = re.search(r'<script type="application/json">(.*?)</script>', part, flags=re.S)
    assert inside is not None
    assert json.loads(inside[1]) == json.loads(json.dumps(data))
    assert len(data["marks"]) == KEPT
    assert data["marks"][0][0] == 5.0
