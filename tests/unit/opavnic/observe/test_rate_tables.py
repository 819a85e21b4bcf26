"""Tables of rates: numbers people can read, and many rows as few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_states import lab_state, link_state

from opavnic.observe import rate_tables
from opavnic.observe.rate_tables import Cell, Flow, RateTable, Row, human
from opavnic.observe.rates import Meter
from opavnic.state.fabric import DirectionStatus, LanesState, LaneStatus

ROWS = st.lists(
    st.builds(
        lambda number, home: Row(f"h{number}", (Cell(f"h{number}", ""), Cell(number, human(number))), home),
        st.integers(0, 1000),
        st.sampled_from(["", "leaf0", "leaf1", "leaf2"]),
    )
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (7, "7"),
        (9.996, "10"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1k"),
        (1234, "1.23k"),
        (999_600, "1M"),
        (12_345_678, "12.3M"),
        (100e9, "100G"),
        (5e12, "5T"),
        (12_345e15, "12345P"),
    ],
)
def test_number_has_three_digits_and_its_unit(number: float, text: str) -> None:
    assert human(number) == text


@given(ROWS, st.sets(st.sampled_from(["leaf0", "leaf1"])))
def test_folding_loses_no_traffic_and_leaves_at_most_a_row_for_each_switch(
    rows: list[Row], apart: set[str]
) -> None:
    table = RateTable("VNICs", ("host", "pkt/s"), tuple(rows))
    folded = table.folded(apart)
    assert sum(row.cells[1].value for row in folded.rows) == sum(row.cells[1].value for row in rows)  # type: ignore[misc]
    left = [row.home for row in folded.rows if row.home and row.home not in apart]
    together = [row.key for row in folded.rows if row not in rows]
    assert len(set(left)) == len(left), "a switch with one host"
    assert len(set(together)) == len(together)
    assert not set(left) & set(together)


def test_most_telling_rows_are_those_not_up_and_the_busiest_in_their_order() -> None:
    def row(number: int) -> Row:
        state = Cell("down", "down", True) if number == 3 else Cell("up", "up")
        return Row(f"h{number}", (Cell(f"h{number}", ""), state), load=(float(number),))

    table = RateTable("VNICs", ("host", "state"), tuple(map(row, range(1, 201))))
    assert [row.key for row in table.most_telling(64).rows] == ["h3", *(f"h{n}" for n in range(138, 201))]
    assert table.most_telling(200) == table


def test_lab_that_was_started_anew_has_done_nothing_yet() -> None:
    meter = Meter()
    meter.take(lab_state(links=[link_state("a:1->b:1", packets_forth=100)]))
    anew = lab_state(pid=2, uptime_s=9.0, links=[link_state("a:1->b:1", packets_forth=300)])
    assert meter.take(anew).links[0][1]["packets_forth"] == 0
    later = lab_state(pid=2, uptime_s=11.0, links=[link_state("a:1->b:1", packets_forth=302)])
    assert meter.take(later).links[0][1]["packets_forth"] == 1


def test_lanes_and_flows_show_what_has_grown() -> None:
    def answer(packets: int, wait_ns: int, size: int | None) -> LanesState:
        lane = LaneStatus(
            vl=0, packets=packets, bytes=100 * packets, wait_ns=wait_ns, discards=0, overflows=0, fecn=0, becn=0,
            credits=size, waiting=size, occupied=size,
        )  # fmt: skip
        way = DirectionStatus(name="h1:1->sw0:2", up=True, rate_bps=1e9, queue_bytes=0, vls=[lane])
        return LanesState(directions=[way])

    lanes = rate_tables.lanes(answer(30, 10**9, 4096), answer(10, 0, 4096), 2.0).rows[0]
    texts = [cell.text for cell in lanes.cells]
    assert texts == ["h1:1->sw0:2", "0", "10", "8k", "50%", "0", "0", "4.1k", "4.1k", "4.1k"]
    assert rate_tables.lanes(answer(30, 0, None), None, 1.0).rows[0].cells[-1].text == "-"
    flow = Flow("TCP", "10.0.0.1:5", "10.0.0.2:80")
    table = rate_tables.flows({flow: (30, 3000)}, {flow: (10, 1000)}, 2.0)
    assert [cell.text for cell in table.rows[0].cells] == [
        "10.0.0.1:5",
        "10.0.0.2:80",
        "TCP",
        "10",
        "8k",
        "30",
    ]
