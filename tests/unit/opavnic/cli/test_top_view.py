"""What `opavnic top` prints: numbers people can read, and no more lines than the terminal has."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from opavnic.cli.top_view import TopView, human, share
from opavnic.observe.rates import DropRate, Link, Order, Pace, Rates, Traffic, Vnic, in_order


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


@given(st.integers(0, 100), st.lists(st.integers(0, 100), max_size=4))
def test_lines_are_shared_without_waste_and_nobody_gets_more_than_others_lack(
    room: int, wanted: list[int]
) -> None:
    given_lines = share(room, wanted)
    assert sum(given_lines) == min(room, sum(wanted))
    assert all(got <= want for got, want in zip(given_lines, wanted, strict=True))
    short = [got for got, want in zip(given_lines, wanted, strict=True) if got < want]
    assert not short or max(given_lines) <= min(short) + 1


def pace(packets: int, drops: int = 0) -> Pace:
    return Pace(packets, 12000 * packets, packets / 2, 6000 * packets, drops)


def measured(vnics: int, links: int, drops: int, state: str = "up") -> Rates:
    """Rates where h1 does least, and the last host most."""
    return Rates(
        lab="x",
        datapath="python",
        em="builtin",
        seconds=1.0,
        mads=3.0,
        vnics=tuple((Vnic(f"h{n}", "blue", "blue", state, Traffic()), pace(n)) for n in range(1, vnics + 1)),
        links=tuple(
            (Link(f"h{n}:1->sw0:{n}", "up", "python", Traffic()), pace(n)) for n in range(1, links + 1)
        ),
        drops=tuple(
            DropRate(f"h{n}:1->sw0:{n}", "link_fault", drops - n + 1, 7) for n in range(1, drops + 1)
        ),
    )


def printed(view: TopView, width: int = 100, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height, color_system=None, force_terminal=False)
    console.print(view)
    out = console.file
    assert isinstance(out, StringIO)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_tables_name_every_vnic_link_and_drop_counter_that_grew() -> None:
    lines = printed(TopView(measured(2, 1, 1)))
    assert lines[0] == "lab x: datapath python, EM builtin, 3 MADs/s, 1 s"
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "host vesw interface state tx pkt/s tx bit/s rx pkt/s rx bit/s drops/s",
        "h1 blue blue up 1 12k 0.5 6k 0",
        "h2 blue blue up 2 24k 1 12k 0",
        "",
        "link state datapath -> pkt/s -> bit/s <- pkt/s <- bit/s drops/s",
        "h1:1->sw0:1 up python 1 12k 0.5 6k 0",
        "",
        "what was dropped reason drops/s so far",
        "h1:1->sw0:1 link_fault 1 7",
    ]


def test_rows_that_do_not_fit_are_the_least_busy_and_counted() -> None:
    rates = measured(30, 2, 0)
    named = printed(TopView(rates, fit=True), height=14)
    assert [line.split()[0] for line in named if line.startswith("h")] == [
        "host",
        "h25",
        "h26",
        "h27",
        "h28",
        "h29",
        "h30",
        "h1:1->sw0:1",
        "h2:1->sw0:2",
    ]
    assert "... and 24 more, less busy" in named
    loaded = printed(TopView(in_order(rates, Order.LOAD), fit=True), height=14)
    assert [line.split()[0] for line in loaded if line.startswith("h")][1:4] == ["h30", "h29", "h28"]
    assert len(printed(TopView(rates), height=14)) == 1 + 2 + 30 + 2 + 2, "no terminal, no limit"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 50), st.integers(20, 200))
def test_picture_is_never_higher_than_the_terminal(
    vnics: int, links: int, drops: int, height: int, width: int
) -> None:
    rates = measured(vnics, links, drops, state="not configured by the EM")
    lines = printed(TopView(rates, fit=True, hint="q: end"), width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)


def test_long_state_is_cut_before_any_number() -> None:
    lines = printed(
        TopView(measured(1, 0, 0, state="lost: somebody removed the interface"), fit=True), width=70
    )
    assert lines[3].split()[-5:] == ["1", "12k", "0.5", "6k", "0"]
    assert lines[3].startswith("h1 ")
    assert "lost:" in lines[3]


def test_name_with_control_characters_does_not_reach_the_terminal() -> None:
    rates = measured(1, 0, 0, state="\x1b[31m[bold]")
    assert r"\x1b[31m[bold]" in printed(TopView(rates), width=140)[3]
