"""Groups of commands, `opavnic em ...`: whole lines in their help, and the nearest name for one that is wrong.

`JoinedGroup` takes in the commands of an entry point group.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from hfi_sim.base.entry_points import entry_points_of
from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError
from opavnic.cli.base.forms import with_forms

ELSEWHERE: Final = {
    "attach": "shell",
    "bash": "shell",
    "clean": "prune",
    "cleanup": "prune",
    "create": "up",
    "delete": "down",
    "deploy": "up",
    "destroy": "down",
    "dump": "capture",
    "export": "save",
    "graph": "topo",
    "info": "status",
    "inspect": "status",
    "lab-schema": "schema lab",
    "links": "status",
    "list": "ps",
    "ls": "ps",
    "netem": "fault",
    "new": "init",
    "nodes": "status",
    "pingall": "check",
    "redeploy": "up",
    "rm": "down",
    "run": "exec",
    "sh": "shell",
    "show": "status",
    "start": "up",
    "stop": "down",
    "tc": "fault",
    "tcpdump": "capture",
    "test": "check",
}
"""Names of commands in containerlab, mininet, podman, iproute2 or an earlier version: the name here."""
RENAMED: Final = {
    ("em apply", "--diff"): "-n, --dry-run",
    ("install-dissectors", "--to"): "--dir",
    ("top", "-d"): "-i, --interval",
    ("top", "--delay"): "-i, --interval",
    ("top", "-n"): "-c, --count",
    ("top", "-s"): "--sort",
}
"""Options of an earlier version, by command: what they are called now."""
_NEAR: Final = 0.6
"""How alike two names are that one may be a slip for the other; 1: the same."""


def near(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` is a slip for, or an empty string."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=_NEAR)
    return close[0] if close else ""


class UnknownCommandError(OpavnicError, InputError):
    """There is no command of that name."""

    def __init__(self, name: str, known: Iterable[str], group: str) -> None:
        """Args:  group: the words before the name: `opavnic`, `opavnic em`."""
        super().__init__(f"No such command '{name}'")
        names = set(known)
        meant = ""
        is_root = " " not in group
        if is_root and ELSEWHERE.get(name, "").split(" ")[0] in names:
            meant = ELSEWHERE[name]
        meant = meant or near(name, names)
        self.hint = f"did you mean: {group} {meant}" if meant else f"see: {group} --help"


_WHOLE: Final = 1 << 10
"""Characters that the help of a command may have in the list of its group: it is wrapped, never cut."""


class CommandGroup(TyperGroup):
    """A group of commands."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the names of the commands, each with the first sentence of its help."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(_WHOLE)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command.

        Raises:  UnknownCommandError: no command has that name; it names the nearest one.
        """
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            raise UnknownCommandError(name, self.list_commands(ctx), ctx.command_path)
        return super().resolve_command(ctx, args)


def command_group(help: str, *, cls: type[CommandGroup] = CommandGroup) -> typer.Typer:  # noqa: A002 - typer's name
    """Return an empty group of commands."""
    return typer.Typer(cls=cls, help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


class OptionalValueCommand(TyperCommand):
    """A command with an option whose value may be left out: `-w`, `-w 5s`."""

    names: ClassVar[tuple[str, ...]] = ()
    default: ClassVar[str] = ""

    @classmethod
    def of(cls, default: str, *names: str) -> type[OptionalValueCommand]:
        """Return the class of a command whose option of these names has a default value, a quantity."""
        return type("OptionalValueCommand", (cls,), {"names": names, "default": default})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the value where it is left out, and parse."""
        words = []
        for word, following in zip(args, [*args[1:], ""], strict=False):
            words.append(word)
            if word in self.names and not following[:1].isdigit():
                words.append(self.default)
        parsed: list[str] = super().parse_args(ctx, words)
        return parsed


class LateHelpCommand(TyperCommand):
    """A command whose help is made when it is shown, from declarations that not every command is to import."""

    make_help: ClassVar[Callable[[], str]]

    @classmethod
    def of(cls, make_help: Callable[[], str]) -> type[LateHelpCommand]:
        """Return the class of a command with this help."""
        return type("LateHelpCommand", (cls,), {"make_help": staticmethod(make_help)})

    @property
    def help(self) -> str:
        """The text."""
        return type(self).make_help()

    @help.setter  # noqa: A003 - as typer calls it
    def help(self, _text: str | None) -> None:
        """Ignore the docstring of the function, which typer sets."""


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
            *sorted(point.name for point in entry_points_of(self.joined_by)),
        ]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command, or None."""
        command = super().get_command(ctx, cmd_name)
        for point in entry_points_of(self.joined_by) if command is None else ():
            if point.name == cmd_name:
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                single.command(cmd_name)(with_forms(point.load()))
                command = typer.main.get_command(single)
        return command
