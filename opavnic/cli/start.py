"""Where the program `opavnic` begins. What it needs is imported here, where Ctrl-C ends it without a word."""

from __future__ import annotations

import signal
import sys


def start() -> None:
    """Run the program and end with its exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # a program that `exec` starts is to ignore it then as well
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # else a traceback of half an import
    from opavnic.cli.main import main

    signal.signal(signal.SIGINT, before)
    sys.exit(main())
