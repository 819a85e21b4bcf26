"""How the results of `opavnic bench datapath` and `links` are printed: tables of figures, of ratios and of proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opavnic.cli.base.output import pick, print_table
from opavnic_bench.commands.shared import print_skipped

if TYPE_CHECKING:
    from opavnic_bench.datapath.bench import BenchResult
    from opavnic_bench.links.bench import LinksResult


def print_datapath(result: BenchResult) -> None:
    """Print each variant, and its ratios to the others."""
    from opavnic_bench.datapath.bench import COLUMNS, RATIOS

    title = f"medians of {result.run.rounds} rounds, {result.run.took_s:.0f} s"
    print_table(COLUMNS, [pick(row, *COLUMNS) for row in result.rows()], title=title)
    columns = ("native_to", "mtu", "icrc", *RATIOS)
    if ratios := result.ratios():
        title = "native, as it is by default, relative to"
        print_table(columns, [pick(row, *columns) for row in ratios], title=title)
    if beside := result.ratios_to_beside():
        columns = ("variant", "mtu", "icrc", *RATIOS)
        title = "relative to the installation beside; above 1, ours is better"
        print_table(columns, [pick(row, *columns) for row in beside], title=title)
    print_skipped(result.run.skipped)


def print_links(result: LinksResult) -> None:
    """Print each case, with the proof that it is what it says."""
    from opavnic_bench.links.bench import COLUMNS

    title = f"medians of {result.run.rounds} rounds, {result.run.took_s:.0f} s"
    rows = [[*pick(row, *COLUMNS), _proof(row["proof"])] for row in result.rows()]
    print_table((*COLUMNS.values(), "proof"), rows, title=title)
    print_skipped(result.run.skipped)


def _proof(proof: dict[str, Any] | None) -> str:
    if proof is None:
        return ""
    said = ", ".join(f"{name} {value}" for name, value in proof.items() if name != "ok")
    return said if proof["ok"] else f"NOT SHOWN: {said}"
