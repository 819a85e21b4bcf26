"""Hosts that are a kernel of their own, user-mode Linux: an agent in it starts programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opavnic.base import signals
from opavnic.lab.file.errors import ProgramError
from opavnic.lab.hosts.guests.guest import GuestKind
from opavnic.lab.ownership.runtime import KERNEL, LabDir, runtime_root

if TYPE_CHECKING:
    from opavnic.lab.ownership.journal_entries import GuestEntry


class KernelGuest(GuestKind):
    """A kernel that the lab has started, in a network namespace of the lab."""

    key = KERNEL

    def command(self, entry: GuestEntry, command: list[str]) -> list[str]:
        """Return the command itself: no other tool of the system reaches a kernel's programs."""
        return ["opavnic", "exec", entry.host, "--", *command]

    def become(self, entry: GuestEntry, lab: str, command: list[str]) -> None:
        """Run a program in the kernel with the streams of this process, and exit with its status."""
        from opavnic.kernel.client import KernelProgramError, run_there  # late: other hosts need none of it

        path = LabDir(runtime_root() / lab).kernel_socket
        try:
            status = run_there(path, entry.host, command, ignore_sigint=signals.sigint_was_ignored)
        except KernelProgramError as error:
            raise ProgramError(str(error), error.status) from error
        raise SystemExit(status)
