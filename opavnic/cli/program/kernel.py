"""`opavnic kernel`: user-mode Linux with opa_vnic, built for this user."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import print_json, print_table, say
from opavnic.kernel.build import build as build_kernel
from opavnic.kernel.cache import built_kernels, recipe, to_json

app = command_group("Linux's own opa_vnic: build user-mode Linux with it.")


@app.command(epilog="Example: opavnic kernel build --source ~/src/linux")
def build(
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="DIR",
            help="Kernel tree, or archive of one; default: that of the package linux-source.",
        ),
    ] = None,
) -> None:
    """Build user-mode Linux with opa_vnic, and a port of the fabric for it, into the user's cache.

    The tree is only read. Nothing needs root; a build takes minutes and 2 GB until it ends, of which 10 MB stay.
    """
    begun = time.monotonic()
    directory = build_kernel(source, say)
    size = sum(path.stat().st_size for path in directory.iterdir())
    say(f"built {directory} in {time.monotonic() - begun:.0f} s, {size / 1e6:.1f} MB")


@app.command(name="list", epilog="Example: opavnic kernel list")
def list_kernels(as_json: AsJson = False) -> None:
    """List the kernels that are built."""
    kernels = built_kernels()
    if as_json:
        print_json([to_json(kernel) | {"usable": kernel.recipe == recipe()} for kernel in kernels])
        return
    rows = [
        [
            kernel.version,
            "yes" if kernel.recipe == recipe() else "no: build it anew",
            kernel.directory,
            kernel.source,
        ]
        for kernel in kernels
    ]
    print_table(["version", "usable", "directory", "source"], rows)
