"""Every benchmark can draw its figures, from fields that its rows have."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import entry_points
from xml.etree import ElementTree

import pytest
import typer

from opavnic_bench.ejfat.figures import Figure
from opavnic_bench.elements.em import EmFigures
from opavnic_bench.elements.fabric import RoutingFigure
from opavnic_bench.lnet.bench import BenchRun
from opavnic_bench.lnet.bonding import CpuRun, FaultRun, ShapeRun
from opavnic_bench.plots.plot import SOURCES, draw, panels

BENCHES = [entry.name for entry in entry_points(group="opavnic.bench")]
ROWS = {
    ("em", "runs"): EmFigures, ("ejfat", "figures"): Figure, ("fabric", "routing"): RoutingFigure,
    ("lnet", "runs"): BenchRun, ("lnet", "shapes"): ShapeRun, ("lnet", "faults"): FaultRun, ("lnet", "cpu"): CpuRun,
}  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("bench", BENCHES)
def test_every_benchmark_has_the_option_and_panels(bench: str) -> None:
    app = typer.Typer()
    app.command()(next(entry for entry in entry_points(group="opavnic.bench") if entry.name == bench).load())
    assert "plot_file" in {option.name for option in typer.main.get_command(app).params}
    for source in SOURCES[bench]:
        row = {name: 2.5 for name, _ in source.measures} | dict.fromkeys(source.label, "x")
        row |= {source.peers[0]: "x"} if source.peers else {}
        document = ElementTree.fromstring(draw(panels(bench, {source.rows: [row, row]})))  # noqa: S314 - our own
        bars = [rect for rect in document.iter(f"{SVG}rect") if rect.get("x")]
        assert len(bars) == 2 * len(source.measures)


@pytest.mark.parametrize(("bench", "rows"), ROWS)
def test_fields_that_are_drawn_are_those_of_the_rows(bench: str, rows: str) -> None:
    known = {item.name for item in fields(ROWS[bench, rows])}
    for source in SOURCES[bench]:
        if source.rows == rows:
            assert {*source.label, *(name for name, _ in source.measures)} <= known
