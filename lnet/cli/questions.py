"""`lnetctl ping`, `discover`, `import` and `export`: what takes time, or a file."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any, Final

import typer

from hfi_sim.base.quantities import parse_time
from lnet.cli.command import Host, ask, on_host, print_answer, run_command
from lnet.settings.dlc import MAX_TEXT
from opavnic.base.files import read_stream, text_of
from opavnic.cli.base.common import AsJson, LabOption, quantity
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail

_MORE_S: Final = 60.0
"""Seconds for an answer of the lab beyond the timeouts of the questions."""
_DISCOVERY_S: Final = 600.0
_EXEC_S: Final = 3600.0

Nids = Annotated[list[str], typer.Argument(help="The NIDs to ask: A B or A,B.", metavar="NID...")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tool."""
    on_host(app, "manage", "ping", prints=True, is_word=True)(ping)
    on_host(app, "manage", "discover", prints=True, is_word=True)(discover)
    app.command("import")(import_command)
    app.command("export")(export_command)


def ping(
    nids: Nids,
    timeout: Annotated[
        Any,
        typer.Option(
            "--timeout",
            parser=quantity(partial(parse_time, above_zero=True)),
            metavar="TIME",
            help="Maximum time to wait for each: 500ms, 5s; a number alone is in seconds.",
        ),
    ] = "5s",
    source: Annotated[str | None, typer.Option("--source", help="The NID to ask from.")] = None,
) -> dict[str, Any]:
    """Ask nodes for their NIDs. If one does not answer, the others are asked nevertheless, and the exit code says so.

    \b
    Example:
      opavnic lnetctl ping 10.1.1.5@o2ib0 --host a
    """
    words = ",".join(nids).replace(",", " ").split()
    patience_s = timeout * len(words) + _MORE_S
    return {"nids": words, "timeout_s": timeout, "source": source, "patience_s": patience_s}


def discover(
    nids: Nids,
    force: Annotated[bool, typer.Option("--force", help="Ask a peer that is known, too.")] = False,
    most: Annotated[
        str | None, typer.Option("--max", "-m", metavar="NUMBER", help="Show at most so many NIDs of each.")
    ] = None,
) -> dict[str, Any]:
    """Discover the interfaces of peers, and tell them those of the host.

    \b
    Example:
      opavnic lnetctl discover 10.1.1.5@o2ib0 --host a
    """
    words = ",".join(nids).replace(",", " ").split()
    patience_s = _DISCOVERY_S * len(words)
    return {"nids": words, "force": "1" if force else None, "most": most, "patience_s": patience_s}


def import_command(
    file: Annotated[
        typer.FileBinaryRead | None, typer.Argument(help="A YAML file; without it, stdin.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add what the file has; the default.")] = False,
    remove: Annotated[bool, typer.Option("--del", help="Remove what the file has.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show what the file names.")] = False,
    execute: Annotated[bool, typer.Option("--exec", help="Do its pings and discoveries.")] = False,
    skip: Annotated[
        bool,
        typer.Option(
            "--skip-unsupported",
            help="Leave out networks of other kinds, their peers, and routes; name them.",
        ),
    ] = False,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Import a configuration from YAML, completely or, if anything is wrong, not at all.

    Exports of the real tool are read, too; what is not applied is named.

    \b
    Example:
      opavnic lnetctl import --host a < o2ibs.yaml
    """
    asked = [
        name
        for name, given in (("--add", add), ("--del", remove), ("--show", show), ("--exec", execute))
        if given
    ]
    if len(asked) > 1:
        fail(f"import: {' and '.join(asked)} exclude each other", EXIT_USAGE)
    command, verb = {
        "--del": ("remove_yaml", "del"),
        "--show": ("show_yaml", "show"),
        "--exec": ("exec_yaml", "manage"),
    }.get(asked[0] if asked else "", ("import_yaml", "add"))
    if skip and command not in ("import_yaml", "remove_yaml"):
        fail(f"import {asked[0]}: --skip-unsupported goes with --add and --del", EXIT_USAGE)
    more = {"skip": "1"} if skip else {}
    stream = sys.stdin.buffer if file is None else file
    text = text_of(read_stream(stream, "import", MAX_TEXT, "configuration"), "import")
    run_command(
        host,
        lab,
        command,
        verb,
        "import",
        name="import",
        patience_s=_EXEC_S,
        text=text,
        as_json=as_json,
        **more,
    )


def export_command(
    file: Annotated[str | None, typer.Argument(help="File to write; without it, stdout.")] = None,
    backup: Annotated[bool, typer.Option("--backup", help="Only what a later import needs.")] = False,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the configuration in the format that `import` reads.

    \b
    Example:
      opavnic lnetctl export --host a --backup > a.yaml
    """
    answer = ask(host, lab, "export_yaml", "show", "export", name="export", backup="1" if backup else None)
    if file is not None and not answer["exit"]:
        try:
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(answer["output"])
        except OSError as error:
            fail(f"export: {file}: {error.strerror}", EXIT_FAILED)
        return
    print_answer(answer, as_json)
