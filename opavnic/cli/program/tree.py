"""The tree of commands as data, for manual pages and documents: words, usage, help, arguments, options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import typer

PROGRAM: Final = "opavnic"
_AS_IT_STANDS: Final = "\b"
"""A line that says that the paragraph after it is not to be filled."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A part of a help text."""

    text: str
    verbatim: bool = False
    """Whether its lines stay as they are, as those of an example do."""


@dataclass(frozen=True, slots=True)
class CommandPage:
    """What the help of a command says."""

    words: str
    """The words that call it: `opavnic em show`."""
    usage: str
    """What follows them: `[OPTIONS] TOPIC`."""
    summary: str
    """Its first sentence, without the full stop."""
    paragraphs: tuple[Paragraph, ...]
    arguments: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    """The spellings of each and what it does."""
    commands: tuple[str, ...]
    """The words of the commands of a group."""


def pages() -> Iterator[CommandPage]:
    """Yield the program itself, then every group and command, in the order of the helps."""
    from opavnic.cli.main import app

    root = typer.main.get_command(app)
    yield from _pages(root, root.make_context(PROGRAM, [], resilient_parsing=True))


def _pages(command: Any, context: Any) -> Iterator[CommandPage]:
    children = [
        (name, command.get_command(context, name))
        for name in (command.list_commands(context) if hasattr(command, "list_commands") else ())
    ]
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for param in command.get_params(context):
        if not getattr(param, "hidden", False):
            records[param.param_type_name].append((_spelling(param), _meaning(param)))
    paragraphs = tuple(_paragraphs(command.help or "")) + tuple(_paragraphs(command.epilog or ""))
    yield CommandPage(
        words=context.command_path,
        usage=_usage(command, bool(children)),
        summary=command.get_short_help_str(1 << 10).rstrip("."),
        paragraphs=paragraphs,
        arguments=tuple(records["argument"]),
        options=tuple(records["option"]),
        commands=tuple(f"{context.command_path} {name}" for name, _ in children),
    )
    for name, child in children:
        yield from _pages(child, child.make_context(name, [], parent=context, resilient_parsing=True))


def _usage(command: Any, is_group: bool) -> str:
    words = ["[OPTIONS]"]
    for param in command.params:
        if param.param_type_name == "argument":
            name = _spelling(param) + ("..." if param.nargs == -1 and not param.metavar else "")
            words.append(name if param.required or name.startswith("[") else f"[{name}]")
    return " ".join([*words, "COMMAND ..."] if is_group else words)


def _spelling(param: Any) -> str:
    """Return how a parameter is written: `-i, --interval TIME`."""
    # not what typer makes of it: that differs from version to version
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    value = param.metavar or max(param.opts, key=len).lstrip("-").upper()
    # the short one first: typer keeps the names of --help in a set, whose order changes from run to run
    names = ", ".join([*sorted(param.opts, key=len), *param.secondary_opts])
    return names if param.is_flag else f"{names} {value}"


def _meaning(param: Any) -> str:
    """Return the help of a parameter, with the variable that stands for it and its default."""
    notes = []
    if isinstance(param.envvar, str):
        notes.append(f"variable: {param.envvar}")
    default = param.default
    if getattr(param, "show_default", False) and isinstance(default, str | int | float) and default:
        notes.append(f"default: {getattr(default, 'value', default)}")
    return " ".join((param.help or "").split()) + (f" [{'; '.join(notes)}]" if notes else "")


def _paragraphs(text: str) -> Iterator[Paragraph]:
    for part in inspect.cleandoc(text).split("\n\n"):
        first, _, rest = part.partition("\n")
        if first.strip() == _AS_IT_STANDS:
            head, _, lines = rest.partition("\n")
            yield Paragraph(head)
            if lines:
                yield Paragraph(inspect.cleandoc(lines), verbatim=True)
        elif part.startswith("Example: "):
            yield Paragraph("Example:")
            yield Paragraph(part.removeprefix("Example: "), verbatim=True)
        elif part:
            yield Paragraph(" ".join(part.split()))
