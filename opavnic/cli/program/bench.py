"""`opavnic bench`: run benchmarks on this machine.

The benchmarks are a separate distribution, opavnic-bench, so that installing opavnic does not pull them in. It and any
other package add commands through the entry point group "opavnic.bench": name -> command function.
"""

from __future__ import annotations

import typer

from opavnic.cli.base.group import JoinedGroup, command_group
from opavnic.cli.base.output import fail

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


app = command_group(
    "Run benchmarks on this machine. They come with a separate distribution, opavnic-bench.", cls=BenchGroup
)


@app.callback()
def bench() -> None:
    """Run benchmarks on this machine."""
