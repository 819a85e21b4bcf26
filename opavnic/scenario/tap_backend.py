"""Real netdevs for a scenario: a network namespace for each host, with TAPs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hfi_sim.netdev.tap import TapNetdev
from hfi_sim.netdev.tap_factory import TapFactory
from opavnic.lab.ownership.identity import NamespaceId
from opavnic.lab.ownership.namespaces import NETNS_DIR, create_namespace, remove_namespace
from opavnic.scenario.link_layer import TapLink

_PREFIX_LENGTH = 20


class TapBackend:
    """Namespaces `opavnic-test-PID-HOST`, and `opavnic-test-PID-HOST-NAME` for moved VNICs, removed by `close`."""

    def __init__(self) -> None:
        self._namespaces: dict[str, tuple[Path, NamespaceId]] = {}
        self._factories: dict[str, TapFactory] = {}
        self._links: list[TapLink] = []

    def open(self, hosts: list[str]) -> None:
        """Create the namespace of each host.

        Raises:  LabError: not permitted.
        """
        NETNS_DIR.mkdir(parents=True, exist_ok=True)
        for host in hosts:
            path = self._namespace(host, "")
            self._factories[host] = TapFactory(path, asyncio.get_running_loop(), "opavnic test")

    def _namespace(self, host: str, name: str) -> Path:
        """Return a namespace of a host, and create it the first time; "": the one that its VNICs are made in."""
        key = f"{host}-{name}" if name else host
        if key not in self._namespaces:
            path = NETNS_DIR / f"opavnic-test-{os.getpid()}-{key}"
            self._namespaces[key] = (path, create_namespace(path, lambda _: None))
        return self._namespaces[key][0]

    def make(
        self, host: str, name: str, ip: str, deliver: Callable[[bytes], None]
    ) -> tuple[TapNetdev, TapLink]:
        """Create a TAP on a host; it gets its address and goes up after the current callback."""
        factory = self._factories[host]
        netdev = factory(name)
        loop = asyncio.get_running_loop()
        link = TapLink(netdev, partial(self._namespace, host), deliver, loop)
        self._links.append(link)

        def set_up() -> None:
            address = ipaddress.ip_interface(f"{ip}/{_PREFIX_LENGTH}")
            factory.watcher.links.add_ip(netdev.ifindex, address)
            factory.watcher.links.set_up(netdev.ifindex, True)

        loop.call_soon(set_up)
        return netdev, link

    def close(self) -> None:
        """Remove everything, even if some of it fails."""
        with contextlib.ExitStack() as stack:  # runs the callbacks in reverse order
            for path, identity in self._namespaces.values():
                stack.callback(remove_namespace, path, identity)
            for factory in self._factories.values():
                stack.callback(factory.close)
            for link in self._links:
                stack.callback(link.close)

    def leftovers(self) -> list[str]:
        """Return the namespaces that still exist after `close`."""
        return [path.name for path, _ in self._namespaces.values() if path.exists()]
