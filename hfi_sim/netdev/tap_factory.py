"""The TAPs of one host, made on demand in its network namespace and taken away together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hfi_sim.netdev.tap import TapNetdev
from hfi_sim.netdev.tun import close_descriptors
from hfi_sim.netdev.watch import POLL_S, NamespaceWatcher


class TapFactory:
    """Makes the TAPs of one host by name; the host's NetdevFactory chooses the names."""

    def __init__(
        self,
        namespace: Path | None,
        loop: asyncio.AbstractEventLoop,
        alias: str = "",
        *,
        vnet_hdr: bool = False,
        poll_s: float = POLL_S,
    ) -> None:
        """Begin to watch the namespace.

        Args:  alias: marks every interface made here. vnet_hdr: see TapNetdev. poll_s: see NamespaceWatcher.
        """
        self.watcher = NamespaceWatcher(namespace, loop, poll_s=poll_s)
        self._loop = loop
        self._alias = alias
        self._vnet_hdr = vnet_hdr
        self._devices: list[TapNetdev] = []

    def __call__(self, name: str) -> TapNetdev:
        """Return a new TAP of that name. Raises NetdevError where it cannot be made."""
        device = TapNetdev(
            name, watcher=self.watcher, loop=self._loop, alias=self._alias, vnet_hdr=self._vnet_hdr
        )
        self._devices = [*(known for known in self._devices if known.fileno() >= 0), device]
        return device

    def release(self) -> list[int]:
        """Let go of all interfaces made here and return their descriptors, for `close_descriptors`."""
        fds = [fd for device in self._devices if (fd := device.release()) >= 0]
        self._devices.clear()
        return fds

    def close(self) -> None:
        """Take all interfaces made here away and stop watching."""
        close_descriptors(self.release())
        self.watcher.close()
