"""`opavnic kernel`: user-mode Linux with Omni-Path's drivers, built for this user."""

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
from opavnic.kernel.drivers import OURS

app = command_group("Linux's own Omni-Path drivers: build user-mode Linux with them.")


@app.command(epilog="Example: opavnic kernel build --source ~/src/linux --name patched")
def build(
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="DIR",
            help="Kernel tree, or archive of one; default: that of the package linux-source.",
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="What to call it; default: after its version."),
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="More settings of the kernel, as CONFIG_KASAN=y; they go before ours.",
        ),
    ] = None,
    symbols: Annotated[
        bool,
        typer.Option("--symbols", help="Keep vmlinux and modules with what a debugger needs, too: 100 MB."),
    ] = False,
) -> None:
    """Build user-mode Linux with Omni-Path's drivers, and a port of the fabric for it, into the user's cache.

    The tree is only read. Nothing needs root; a build takes minutes and 2 GB until it ends, of which 8 MB stay.
    Kernels of different names are kept side by side; hosts of labs choose one with kernel: {name: NAME}.
    """
    begun = time.monotonic()
    directory = build_kernel(say, source=source, name=name, config=config, symbols=symbols)
    (kernel,) = (kernel for kernel in built_kernels() if kernel.directory == directory)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    say(f"Linux's own, unmodified: {', '.join(kernel.drivers)}")
    say(
        f"ours around them, in opavnic/kernel/source: {', '.join(f'{what} ({why})' for what, why in OURS.items())}"
    )
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
            kernel.name,
            kernel.version,
            "yes" if kernel.recipe == recipe() else "no: build it anew",
            " ".join(kernel.drivers),
            kernel.directory,
            kernel.source,
        ]
        for kernel in kernels
    ]
    print_table(["name", "version", "usable", "drivers", "directory", "source"], rows)
