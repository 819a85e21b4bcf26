"""`opavnic man` and `opavnic completion`: made from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_text, say
from opavnic.cli.program.tree import CommandPage, pages

_LEADING = re.compile(r"^([.'])", re.MULTILINE)


def man(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them; it is made.")],
) -> None:
    """Write the manual pages, one for each command: opavnic.1, opavnic-status.1, ...

    man(1) finds them in ~/.local/share/man/man1 and in share/man/man1 of a virtual environment whose bin is on PATH.

    \b
    Example:
      opavnic man ~/.local/share/man/man1
      man opavnic-status
    """
    from importlib.metadata import version

    number = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for page in pages():
            (directory / f"{_name(page.words)}.1").write_text(manual_page(page, version("opavnic")))
            number += 1
    except FileExistsError:
        fail(f"{directory} is not a directory", EXIT_USAGE)
    except OSError as error:
        fail(f"{error.filename or directory}: {error.strerror}", EXIT_FAILED)
    say(f"{number} manual pages written to {directory}")


def manual_page(page: CommandPage, version: str) -> str:
    """Return a page in the man(7) macros."""
    return "\n".join(_lines(page, version)) + "\n"


def _name(words: str) -> str:
    return words.replace(" ", "-")


def _lines(page: CommandPage, version: str) -> Iterator[str]:
    name = _name(page.words)
    yield f'.TH {_escape(name).upper()} 1 "" "opavnic {version}" "opavnic"'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(page.summary)}"
    yield ".SH SYNOPSIS"
    yield f".B {_escape(page.words)}"
    yield _escape(page.usage)
    yield ".SH DESCRIPTION"
    for paragraph in page.paragraphs:
        if paragraph.verbatim:
            yield from (".PP", ".nf", ".RS", _escape(paragraph.text), ".RE", ".fi")
        else:
            yield from (".PP", _escape(paragraph.text))
    for title, records in (("ARGUMENTS", page.arguments), ("OPTIONS", page.options)):
        if records:
            yield f".SH {title}"
            for spelling, text in records:
                yield from (".TP", f".B {_escape(spelling)}", _escape(" ".join(text.split())))
    yield ".SH EXIT STATUS"
    yield "0: success; 1: what was asked for failed; 2: wrong usage or input; 130: interrupted."
    others = page.commands or (page.words.rpartition(" ")[0] or "man",)
    yield ".SH SEE ALSO"
    yield ", ".join(f"{_escape(_name(words))}(1)" for words in others)


def _escape(text: str) -> str:
    """Return text that roff prints as it stands: a line that begins with a dot is no request, a hyphen is a minus."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return _LEADING.sub(r"\\&\1", escaped)


PROGRAM = "opavnic"
VARIABLE = "_OPAVNIC_COMPLETE"


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")]) -> None:
    """Print a script that completes commands, options, and the names of running labs, hosts and links.

    bash: ~/.local/share/bash-completion/completions/opavnic; zsh: _opavnic in a directory of $fpath; fish:
    ~/.config/fish/completions/opavnic.fish.

    \b
    Example:
      source <(opavnic completion bash)
      opavnic completion fish > ~/.config/fish/completions/opavnic.fish
    """
    import typer.completion as completion_scripts

    script: str = completion_scripts.get_completion_script(  # type: ignore[attr-defined]
        prog_name=PROGRAM, complete_var=VARIABLE, shell=shell
    )
    print_text(script.rstrip("\n") + "\n")
