"""Entry point of the program `opavnic`. Its imports run here, where Ctrl-C ends it without a traceback."""

from __future__ import annotations

import gc
import signal
import sys


def start() -> None:
    """Run the program and end with its exit code."""
    # shells start the background jobs of scripts with SIGINT ignored
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # otherwise Ctrl-C prints a traceback out of an import
    gc.disable()  # imports make no garbage: looking for it among all that they make is a tenth of a short command
    if sys.argv[1:2] == ["exec"]:
        from opavnic.cli.enter_at_once import enter_at_once

        enter_at_once(sys.argv[1:], ignored)
    if sys.argv[1:3] == ["em", "run"]:
        from opavnic.cli.manage_at_once import manage_at_once

        manage_at_once(sys.argv[1:])
    from opavnic.base import signals
    from opavnic.cli.main import main

    gc.freeze()
    gc.enable()
    signals.sigint_was_ignored = ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
