"""A command group that installed packages join: `opavnic bench NAME`, `opavnic conformance NAME`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, ClassVar

import typer

from opavnic.cli.base.forms import with_forms
from opavnic.cli.base.group import CommandGroup


class JoinedGroup(CommandGroup):
    """The commands of a module, plus those of the entry point group that a subclass names.

    An entry point maps a name to a command function, which is imported when it is called.
    """

    joined_by: ClassVar[str]
    """The entry point group."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of all commands."""
        return [
            *super().list_commands(ctx),
            *sorted(point.name for point in entry_points(group=self.joined_by)),
        ]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command, or None."""
        command = super().get_command(ctx, cmd_name)
        for point in entry_points(group=self.joined_by) if command is None else ():
            if point.name == cmd_name:
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                single.command(cmd_name)(with_forms(point.load()))
                command = typer.main.get_command(single)
        return command
