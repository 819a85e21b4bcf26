"""All kinds of guests."""

from __future__ import annotations

from typing import Final

from opavnic.lab.hosts.guests.container import Container
from opavnic.lab.hosts.guests.guest import GuestKind
from opavnic.lab.hosts.guests.kernel import KernelGuest
from opavnic.lab.hosts.guests.netns import Netns
from opavnic.lab.hosts.guests.process import Process
from opavnic.lab.hosts.guests.virtual_machine import VirtualMachine

KINDS: Final[dict[str, GuestKind]] = {
    kind.key: kind for kind in (Netns(), Process(), Container(), VirtualMachine(), KernelGuest())
}
"""Kinds of guests by their key in lab files, which is their kind in the journal too."""
