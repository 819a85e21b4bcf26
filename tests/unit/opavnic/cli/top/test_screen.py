"""The live view of `opavnic top` without a terminal: keys, states, lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_states import host_state, lab_state, link_state, vnic_state

from opavnic.base.state import StateModel, counters_of
from opavnic.cli.top import grid as top_grid
from opavnic.cli.top import keys as top_keys
from opavnic.cli.top.draw import draw, room_of
from opavnic.cli.top.grid import Grid
from opavnic.cli.top.state import (
    FAULTS,
    LINKS,
    VNICS,
    Action,
    ClearFaults,
    RemoveFault,
    SetFault,
    State,
    pressed,
    start,
)
from opavnic.observe.flows import Flow
from opavnic.observe.rates import DropRate, Paces, Rates, is_on
from opavnic.state.fabric import DirectionStatus, FaultsSet, FaultStatus, LanesState, LaneStatus
from opavnic.state.lab import LinkStatus, VnicStatus


def measured(vnics: int, links: int = 3, drops: int = 1, state: str = "up") -> Rates:
    """Rates where h1 does least, and the last host most."""

    def paces(model: type[StateModel], number: int) -> Paces:
        first = (number, 12000 * number, number / 2, 6000 * number)
        return dict.fromkeys(counters_of(model), 0.0) | dict(zip(counters_of(model), first, strict=False))

    hosts = [host_state(f"h{n}", vnic_state(state=state)) for n in range(1, vnics + 1)]
    cables = [link_state(f"h{n}:1->sw0:{n}", datapath="python") for n in range(1, links + 1)]
    return Rates(
        lab_state(hosts=hosts, links=cables, datapath="python"),
        1.0,
        3.0,
        tuple((host, host.vnics[0], paces(VnicStatus, n)) for n, host in enumerate(hosts, 1)),
        tuple((link, paces(LinkStatus, n)) for n, link in enumerate(cables, 1)),
        tuple(DropRate(f"h{n}:1->sw0:{n}", "link_fault", n, 7) for n in range(1, drops + 1)),
    )


NO_FAULTS = FaultsSet(seed=1, faults=[])
ONE_FAULT = FaultsSet(
    seed=1,
    faults=[
        FaultStatus(number=3, fault="loss on h1 10%", kind="loss", on="h1", state="active", seen=5, hits=1)
    ],
)


class Person:
    """Presses keys, and sees lines."""

    def __init__(self, found: Rates, faults: FaultsSet = NO_FAULTS, size: tuple[int, int] = (80, 24)) -> None:
        self.state: State = start(False)
        self.found = found
        self.size = size
        self.faults = faults
        self.actions: list[Action] = []

    @property
    def grids(self) -> list[Grid]:
        found = self.found
        return [
            top_grid.vnics(found), top_grid.links(found), top_grid.drops(found), top_grid.faults(self.faults)
        ]  # fmt: skip

    @property
    def shown(self) -> Grid:
        look = self.state.look
        return self.grids[self.state.table].arranged(look.filter, look.sort.column, look.sort.descending)

    def press(self, *keys: str) -> Person:
        for key in keys:
            self.state, actions = pressed(self.state, key, self.shown, room_of(self.size[1]))
            self.actions += actions
        return self

    @property
    def lines(self) -> list[str]:
        self.state, text = draw(self.state, self.found, self.grids, self.shown, *self.size)
        return text.plain.split("\n")

    @property
    def rows(self) -> list[str]:
        return [line.split()[0] for line in self.lines[3:-1] if line.strip()]


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("\x1b[5~\x1b[6~", ["page up", "page down"]),
        ("\x1b", ["escape"]),
        ("\x1b[1;5C", []),
        ("/h1\r", ["/", "h", "1", "enter"]),
        ("\x7f\x08\t\x1b[Z", ["backspace", "backspace", "tab", "back tab"]),
        ("\x01é", ["é"]),
    ],
)
def test_bytes_of_a_terminal_become_keys(sent: str, found: list[str]) -> None:
    assert top_keys.keys(sent) == found


@pytest.mark.parametrize(
    ("sent", "begun"), [("\x1b", True), ("\x1b[", True), ("\x1b[5", True), ("\x1b[A", False)]
)
def test_sequence_that_ssh_cut_is_waited_for(sent: str, begun: bool) -> None:
    assert top_keys.is_begun(sent) is begun


def test_any_column_sorts_numbers_from_the_largest_and_names_as_people_count() -> None:
    person = Person(measured(11))
    assert person.rows[:3] == ["h1", "h2", "h3"]
    assert person.press(*">>>>").rows[:3] == ["h11", "h10", "h9"]
    assert "tx pkt/s▼" in person.lines[2]
    assert person.press("r").rows[:3] == ["h1", "h2", "h3"]
    assert person.press(*"<<<<", "r").rows[:2] == ["h11", "h10"]
    for column in range(len(person.grids[VNICS].columns)):
        person.press(">")
        assert len(person.rows) == 11, column


def test_filter_is_used_as_it_is_written_and_ended_by_escape() -> None:
    person = Person(measured(11)).press("/", *"H11")
    assert person.rows == ["h11"]
    assert person.lines[-1].startswith("show only rows with: H11_")
    assert person.press("backspace").rows == ["h1", "h10", "h11"]
    assert person.press("enter").rows == ["h1", "h10", "h11"]
    assert "with: H1" in person.lines[1]
    assert len(person.press("escape").rows) == 11


def test_scrolling_shows_every_row_and_the_chosen_one_stays_chosen_when_the_order_changes() -> None:
    person = Person(measured(50))
    assert person.rows == [f"h{number}" for number in range(1, 21)]
    assert person.press("page down", "page down").rows[-1] == "h41"
    assert person.lines[-1].endswith("41/50")
    assert person.press("end").rows[-1] == "h50"
    assert person.press("home", "down").lines[-1].endswith("2/50")
    assert person.press("r").lines[-1].endswith("49/50"), "h2 is still chosen"


def test_faults_are_set_on_what_is_chosen_and_removed() -> None:
    person = Person(measured(3), ONE_FAULT).press("down", "f", *["backspace"] * 3, *"20%", "enter")
    assert person.actions == [SetFault("loss on h2 20%")]
    person.press("2", "down", "x", "d")
    assert person.actions[1:] == [SetFault("link-down on h2:1--sw0:2"), ClearFaults("h2:1--sw0:2")]
    person.press("4", "d")
    assert person.state.table == FAULTS
    assert person.actions[3:] == [RemoveFault(3)]
    person.press("f", "escape")
    assert len(person.actions) == 4


def test_enter_opens_what_is_chosen_and_escape_leads_back() -> None:
    person = Person(measured(3)).press("2", "down", "enter")
    assert (person.state.table, person.state.opened) == (LINKS, "h2:1--sw0:2")
    assert person.press("escape").state.opened == ""
    assert person.press("3", "enter").state.opened == ""


def test_lanes_and_flows_show_what_has_grown() -> None:
    def answer(packets: int, wait_ns: int, size: int | None) -> LanesState:
        lane = LaneStatus(
            vl=0, packets=packets, bytes=100 * packets, wait_ns=wait_ns, discards=0, overflows=0, fecn=0, becn=0,
            credits=size, waiting=size, occupied=size,
        )  # fmt: skip
        way = DirectionStatus(name="h1:1->sw0:2", up=True, rate_bps=1e9, queue_bytes=0, vls=[lane])
        return LanesState(directions=[way])

    lanes = top_grid.lanes(answer(30, 10**9, 4096), answer(10, 0, 4096), 2.0).rows[0]
    assert [cell.text for cell in lanes.cells] == ["h1:1->sw0:2", "0", "10", "8k", "50%", "0", "0"] + [
        "4.1k"
    ] * 3
    assert top_grid.lanes(answer(30, 0, None), None, 1.0).rows[0].cells[-1].text == "-"
    flow = Flow("TCP", "10.0.0.1:5", "10.0.0.2:80")
    grid = top_grid.flows({flow: (30, 3000)}, {flow: (10, 1000)}, 2.0)
    texts = [cell.text for cell in grid.rows[0].cells]
    assert texts == ["10.0.0.1:5", "10.0.0.2:80", "TCP", "10", "8k", "30"]


@given(st.integers(0, 40), st.integers(5, 50), st.integers(20, 200), st.text("123/?f><rx\x1b", max_size=6))
def test_screen_is_never_higher_nor_wider_than_the_terminal(
    count: int, height: int, width: int, keys: str
) -> None:
    person = Person(measured(count, count, count, "not configured by the EM"), ONE_FAULT, (width, height))
    person.press(*top_keys.keys(keys))
    assert len(person.lines) == height
    assert all(len(line) <= width for line in person.lines)


def test_long_state_is_cut_before_any_number() -> None:
    (line,) = Person(measured(1, state="lost: somebody has removed the interface")).lines[3:4]
    assert line.split()[-5:] == ["1", "12k", "0.5", "6k", "0"]
    assert "lost:" in line


def test_name_with_control_characters_does_not_reach_the_terminal() -> None:
    assert r"\x1b[31m" in "".join(Person(measured(1, state="\x1b[31m"), size=(200, 24)).lines)


@pytest.mark.parametrize(
    ("fault", "place", "found"),
    [
        ("h1", "h1", True),
        ("h1:1", "h1", True),
        ("h11", "h1", False),
        ("h1--sw0", "h1:1--sw0:2", True),
        ("sw0:2->h1:1", "h1:1--sw0:2", True),
        ("h1:1--sw0:3", "h1:1--sw0:2", False),
        ("*", "h1:1--sw0:2", False),
    ],
)
def test_fault_is_on_a_place_however_it_was_written(fault: str, place: str, found: bool) -> None:
    assert is_on(fault, place) is found
