"""Where the program `opavnic` begins. What it needs is imported here, where Ctrl-C ends it without a word."""

from __future__ import annotations

import signal
import sys


def start() -> None:
    """Run the program and end with its exit code."""
    # shells start background jobs of scripts that way
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else a traceback of half an import
    from opavnic import signals
    from opavnic.cli.main import main

    signals.sigint_was_ignored = ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
