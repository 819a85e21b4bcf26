"""`opavnic web`: a running lab in a browser."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Annotated

import typer

from opavnic.base.signals import interruptible
from opavnic.cli.base.common import LabOption
from opavnic.cli.base.output import print_line, say

DEFAULT_PORT = 8311


def web(
    lab: LabOption = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="TCP port on 127.0.0.1; 0: any that is free.")
    ] = DEFAULT_PORT,
) -> None:
    """Show a running lab in a browser, until Ctrl-C: its fabric, VNICs, events, faults and captures.

    Prints the URL to open. It holds a token, and only this machine can reach it: from another one, forward the port
    with ssh -L 8311:127.0.0.1:8311. The lab pays nothing while no page is open.

    \b
    Example:
      opavnic web
      opavnic web --lab two-hosts --port 0
    """
    from opavnic.lab.ownership.runtime import running_lab

    directory, journal = running_lab(lab)
    from opavnic.web.pages.watch import Watch
    from opavnic.web.scene.fm_page import PAGE as FM_PAGE
    from opavnic.web.scene.part_page import installed_pages
    from opavnic.web.server import application, listening, serve

    with suppress(KeyboardInterrupt), interruptible(), listening("127.0.0.1", port) as sock:
        token = secrets.token_urlsafe(24)
        watch = Watch(directory.control_socket, part_pages=[FM_PAGE, *installed_pages()])
        app = application(watch, journal.lab)
        print_line(f"http://127.0.0.1:{sock.getsockname()[1]}/?token={token}", flush=True)
        say("end with Ctrl-C")
        serve(app, sock, token)
