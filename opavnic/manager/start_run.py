"""Start the manager from a command line: the event loop, the log, the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Final

from hfi_sim.base.text import visible
from opavnic.manager.run_options import ManagerOptions

_JOURNAL: Final = {logging.DEBUG: "<7>", logging.INFO: "<6>", logging.WARNING: "<4>", logging.ERROR: "<3>"}
"""How the journal of systemd learns the importance of a line."""


def start(options: ManagerOptions, *, verbose: bool = False) -> int:
    """Run the manager until a signal ends it; return the exit code. Raises HfiSimError: it cannot start."""
    _log_to_stderr(verbose)
    from opavnic.manager.run import ManagerProgram  # with the log in place

    async def work() -> None:
        await ManagerProgram(options).run()

    asyncio.run(work())
    return 0


class _Lines(logging.Formatter):
    """One line for each record, without control characters: with the time, or with the importance for the journal."""

    def __init__(self, journal: bool) -> None:
        super().__init__("%(message)s" if journal else "%(asctime)s %(levelname)-7s %(message)s")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        mark = _JOURNAL.get(record.levelno, "<6>") if self._journal else ""
        lines = super().format(record).rstrip("\n").split("\n")
        return "\n".join(mark + visible(line) for line in lines)


def _log_to_stderr(verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("JOURNAL_STREAM" in os.environ))
    for name in ("hfi_sim", "vema", "opavnic"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.propagate = False
