"""`opavnic install-dissectors` and `opavnic scapy-layers`: what lets Wireshark and scapy read 16B packets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from opavnic.base.errors import OpavnicError
from opavnic.cli.base.output import fail, say, write_file
from opavnic.observe.dissectors import (
    install,
    personal_directory,
    scapy_file,
    script_directories,
)


def install_dissectors(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Plugin directory; default: that of your Wireshark."),
    ] = None,
) -> None:
    """Install the dissectors of all installed packages for Wireshark and tshark.

    Captures of 16B packets (link type USER0) then show every field under the name that `opavnic decode` uses.

    Example: opavnic install-dissectors
    """
    install_scripts(script_directories(), directory)


def scapy_layers(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Python file to write, such as opa.py.")],
) -> None:
    """Write the scapy layers of 16B packets and MADs as one file that needs nothing but scapy.

    The file has the form of scapy's contributed layers. Captures of link type USER0 then open as 16B packets.

    Example: opavnic scapy-layers opa.py
    """
    write_file(file, scapy_file())
    say(f"written {file}")


def install_scripts(directories: Iterable[Path], to: Path | None) -> None:
    """Copy Lua scripts and print their new paths; on failure print the reason and exit with 1.

    Args:    to: None means the plugin directory of the user's Wireshark.
    """
    try:
        installed = install(directories, personal_directory() if to is None else to)
    except OpavnicError as error:
        fail(f"install-dissectors: {error}")
    for path in installed:
        say(f"installed {path}")
