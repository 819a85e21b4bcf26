"""The drawing of a manager's events: where each stands, what it says, and that it is XML whatever events say."""

from __future__ import annotations

from xml.etree import ElementTree

from opavnic.observe.drawings import LISTED_MAX, events_drawing
from opavnic.state.em import EmEvent

SVG = "{http://www.w3.org/2000/svg}"


def event(time: float, kind: str, text: str = "", port: str = "h1:1") -> EmEvent:
    return EmEvent(number=1, time=time, kind=kind, port=port, vport_num=1, vesw_id=2, text=text)


def draw(events: list[EmEvent], title: str) -> ElementTree.Element:
    return ElementTree.fromstring(events_drawing(events).document(title).encode())  # noqa: S314 - our own


def texts(drawn: ElementTree.Element) -> list[str]:
    return [found.text or "" for found in drawn.iter(f"{SVG}text")]


def test_events_stand_by_time_in_the_row_of_their_kind() -> None:
    events = [event(100.0, "link-up"), event(101.0, "link-down"), event(102.0, "link-up")]
    drawn = draw(events, "lab x")
    assert drawn.findtext(f"{SVG}title") == "lab x"
    first, second, third = drawn.iter(f"{SVG}circle")
    at = [float(dot.attrib["cx"]) for dot in (first, second, third)]
    assert at[1] - at[0] == at[2] - at[1] > 100
    assert first.attrib["cy"] == third.attrib["cy"] != second.attrib["cy"]
    assert first.attrib["fill"] != second.attrib["fill"]
    assert second.findtext(f"{SVG}title") == "00:01:41.000  link-down h1:1 vport 1"
    assert texts(drawn)[:2] == ["link-up", "link-down"]
    assert texts(drawn)[-1] == "00:01:42.000  link-up h1:1 vport 1"


def test_events_of_one_moment_stand_at_one_place() -> None:
    drawn = draw([event(5.0, "link-up"), event(5.0, "link-up")], "x")
    assert len({dot.attrib["cx"] for dot in drawn.iter(f"{SVG}circle")}) == 1


def test_no_event_is_said() -> None:
    assert texts(draw([], "x")) == ["no events"]


def test_only_the_last_of_many_events_are_listed() -> None:
    events = [event(float(number), "link-up", f"number {number}") for number in range(LISTED_MAX + 5)]
    drawn = draw(events, "x")
    listed = [text for text in texts(drawn) if "number" in text]
    assert len(listed) == LISTED_MAX
    assert listed[0].endswith("number 5")
    assert len(list(drawn.iter(f"{SVG}circle"))) == LISTED_MAX + 5


def test_what_events_say_is_text_only() -> None:
    said = "</text><script>alert(1)</script>\x1b[31m\x00"
    drawn = draw([event(1.0, "link-up", said)], "<x>")
    assert not list(drawn.iter(f"{SVG}script"))
    assert "</text><script>alert(1)</script>" in texts(drawn)[-1]
    assert "\x1b" not in texts(drawn)[-1]
