"""`opavnic init`: a lab file to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.errors import near
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_table, say

DEFAULT: Final = "two-hosts"
_SUFFIX: Final = ".yaml"


def example_names(incomplete: str) -> list[str]:
    """Complete the name of an example."""
    return [name for name in examples() if name.startswith(incomplete)]


def init(
    name: Annotated[
        str | None,
        typer.Argument(help=f"The example to start from; default: {DEFAULT}.", autocompletion=example_names),
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; default: NAME.yaml here.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the examples instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an example, a lab file or an EM file, to edit. An existing file is not overwritten.

    \b
    Example:
      opavnic init
      opavnic init --list
      opavnic init two-switches lab.yaml
    """
    known = examples()
    if list_:
        if name is not None:
            fail(f"init: --list lists all examples and takes no name ({name})", EXIT_USAGE)
        if as_json:
            print_json([{"name": one, "what": what(text)} for one, text in known.items()])
        else:
            print_table(("name", "what it shows"), [(one, what(text)) for one, text in known.items()])
        return
    name = DEFAULT if name is None else name
    if name not in known:
        meant = near(name, known)
        hint = f"did you mean: opavnic init {meant}" if meant else "see: opavnic init --list"
        fail(f'init: no example "{name}"', EXIT_USAGE, hint=hint)
    file = Path(f"{name}{_SUFFIX}") if file is None else file
    for beside, text in _companions(name).items():
        write_new(file.with_name(beside), text, force=force)
    write_new(file, known[name], force=force)
    if as_json:
        print_json({"name": name, "file": str(file)})
    else:
        say(f"{file} written; next: {_next(file, known[name])}")


def examples() -> dict[str, str]:
    """Return the text of every example by its name."""
    here = files("opavnic") / "examples"
    found = sorted(path.name for path in here.iterdir() if path.name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): (here / name).read_text(encoding="utf-8") for name in found}


def _companions(name: str) -> dict[str, str]:
    """Return the files that an example refers to, by name: NAME.conf beside NAME.yaml."""
    here = files("opavnic") / "examples"
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in here.iterdir()
        if path.name.startswith(f"{name}.") and not path.name.endswith(_SUFFIX)
    }


def what(text: str) -> str:
    """Return the first sentence of the comment that a file begins with, as far as it is on the first line."""
    first = text.partition("\n")[0].partition(". ")[0]
    return first.lstrip("# ").rstrip(".:") if first.startswith("#") else ""


def _next(file: Path, text: str) -> str:
    is_lab = any(line.startswith("name:") for line in text.splitlines())
    return f"opavnic up {file} -d" if is_lab else f"opavnic em apply {file} --dry-run"


def write_new(file: Path, text: str, *, force: bool) -> None:
    """Write a file that must not exist yet, unless `force` is set; end the program where it cannot be."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        fail(f"{file} exists and is left as it is", EXIT_USAGE, hint="give another name, or --force")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", EXIT_FAILED)
