"""`opavnic install-dissectors`: the Wireshark dissectors of all installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.output import fail, say
from opavnic.observe.dissectors import DissectorError, install, personal_directory, script_directories


def install_dissectors(
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Plugin directory; without it that of your Wireshark."),
    ] = None,
) -> None:
    """Put the Wireshark dissectors of all installed packages where Wireshark and tshark find them.

    Captures of 16B packets (link type USER0) then open with every field named, as `opavnic decode` names it.

    Example: opavnic install-dissectors
    """
    install_scripts(script_directories(), to)


def install_scripts(directories: Iterable[Path], to: Path | None) -> None:
    """Copy Lua scripts and say where they are now; where that cannot be, say why and end with 1.

    Args:    to: None is the plugin directory of the user's Wireshark.
    """
    try:
        installed = install(directories, personal_directory() if to is None else to)
    except DissectorError as error:
        fail(f"install-dissectors: {error}")
    for path in installed:
        say(f"installed {path}")
