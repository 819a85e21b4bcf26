"""Guests that are virtual machines: a TAP of the lab's on this machine leads to the VNIC."""

from __future__ import annotations

from opavnic.lab.hosts.guests.guest import GuestKind


class VirtualMachine(GuestKind):
    """A virtual machine. It has no network namespace that could be found: the VNIC is on the machine itself."""

    key = "tap"

    def no_programs(self, host: str) -> str:
        """Return what people do instead."""
        return f"host {host} is a virtual machine: programs are started inside it"
