"""`opavnic bench`: measure, on this machine, now.

The benchmarks are a distribution of their own, opavnic-bench, so that who installs opavnic does not carry them. It and
any other package joins by the entry point group "opavnic.bench": name -> a function that is a command.
"""

from __future__ import annotations

import typer

from opavnic.cli.output import fail
from opavnic.cli.plugin_group import JoinedGroup

NOT_INSTALLED = (
    "bench: no benchmarks are installed; install opavnic-bench (in a checkout: pip install -e bench)"
)


class BenchGroup(JoinedGroup):
    """The benchmarks of installed packages."""

    joined_by = "opavnic.bench"

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the command line, or say what to install."""
        if "--help" not in args and not self.list_commands(ctx):
            fail(NOT_INSTALLED)
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=BenchGroup,
    help="Measure, on this machine, now. The benchmarks are a distribution of their own, opavnic-bench.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def bench() -> None:
    """Measure, on this machine, now."""
