"""What `opavnic top` prints where it has no screen: numbers people can read."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from lab_states import host_state, lab_state, link_state, vnic_state
from rich.console import Console

from opavnic.base.state import StateModel, counters_of
from opavnic.cli.top.view import TopView, human
from opavnic.observe.rates import DropRate, Paces, Rates, pace_headings
from opavnic.state.lab import LinkStatus, VnicStatus


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


def measured(vnics: int, links: int, drops: int, state: str = "up") -> Rates:
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
        tuple(DropRate(f"h{n}:1->sw0:{n}", "link_fault", drops - n + 1, 7) for n in range(1, drops + 1)),
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
    others = " 0" * (len(counters_of(VnicStatus)) - 4)
    assert [" ".join(line.split()) for line in lines[2:]] == [
        f"host vesw interface state {' '.join(pace_headings(VnicStatus))}",
        f"h1 blue blue up 1 12k 0.5 6k{others}",
        f"h2 blue blue up 2 24k 1 12k{others}",
        "",
        "link state datapath -> pkt/s -> bit/s <- pkt/s <- bit/s drops/s",
        "h1:1->sw0:1 up python 1 12k 0.5 6k 0",
        "",
        "what was dropped reason drops/s so far",
        "h1:1->sw0:1 link_fault 1 7",
    ]


def test_name_with_control_characters_does_not_reach_the_terminal() -> None:
    rates = measured(1, 0, 0, state="\x1b[31m[bold]")
    assert r"\x1b[31m[bold]" in printed(TopView(rates), width=140)[3]


def test_long_table_lists_what_is_not_up_and_what_is_busiest_and_counts_the_rest() -> None:
    rates = measured(200, 0, 0)
    down = (rates.vnics[2][0], rates.vnics[2][1].model_copy(update={"state": "down"}), rates.vnics[2][2])
    rates = replace(rates, vnics=(*rates.vnics[:2], down, *rates.vnics[3:]))
    lines = printed(TopView(rates), width=200)
    assert [line.split()[0] for line in lines[3:-1]] == ["h3", *(f"h{n}" for n in range(138, 201))]
    assert lines[-1] == "and 136 more VNICs, less busy; see: opavnic top --all"
    assert len(printed(TopView(rates, whole=True), width=200)) == 3 + 200
