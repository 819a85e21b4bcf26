"""What systemd is told of a service, as sd_notify(3) does: that it is ready, alive, reloading, stopping.

Source: systemd's sd_notify(3); only the protocol, as documented there.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """Tells the service manager, if there is one; it never fails what it reports."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_s: float | None = None
        """Seconds after which silence counts as a hang; None: there is no watchdog."""
        text, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        if text.isdecimal() and int(text) and pid in ("", str(os.getpid())):
            self.watchdog_s = int(text) / 1e6

    def ready(self, status: str) -> None:
        """Say that the service works, after its start or a reload."""
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self, status: str) -> None:
        """Say that it does not hang."""
        self._send(f"WATCHDOG=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that it reads its configuration again; `ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that it ends."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(text.replace("\n\n", "\n").encode(), address)
