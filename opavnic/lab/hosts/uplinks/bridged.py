"""A VNIC as a port of a bridge: added whenever the VNIC is made anew, and told which addresses the bridge learns.

The VNIC reports addresses behind the bridge as further unicast addresses of its own (`bridge fdb add MAC dev VNIC self`
does the same by hand). As with any address, the agent counts the change and sends a trap, and the EM reads the list and
writes the MAC tables of the other members. Otherwise members, like the driver, would take a MAC address with the local
bit, as containers, veths and virtual machines have it, for one that contains a LID.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.bridging import BridgeClient, FdbEntry, fdb_entry
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tap import TapNetdev

log = logging.getLogger("opavnic.lab.hosts.uplinks")

_PORT_OCTET: Final = 0xFE
"""First octet of the address of a VNIC in a bridge: the highest unicast one. A bridge without an address of its own
takes
the lowest of its ports, and must not change it because of the VNIC."""


def disable_ipv6(interface: str) -> None:
    """Let an interface have no IPv6: a port of a bridge has no addresses, not even link-local ones."""
    with contextlib.suppress(OSError):
        Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1", encoding="ascii")


class BridgedVnic:
    """One bridge, and the VNIC that is one of its ports."""

    def __init__(
        self,
        way: str,
        bridge: nl.LinkState,
        held: Path | None,
        loop: asyncio.AbstractEventLoop,
        *,
        learnt: Callable[[str, MacAddr], None],
        forgotten: Callable[[str, MacAddr], None],
        closed: Callable[[str], None],
        reported: Callable[[str], Iterable[MacAddr]],
        learns: bool = True,
        is_reached: bool = True,
        outside: nl.LinkState | None = None,
    ) -> None:
        """Start to listen to a bridge.

        Args:    way: the name of the uplink, or of the virtual machine. held: the namespace of the bridge. learnt,
                 forgotten: told of addresses behind other ports. closed: told once that the bridge is gone. reported:
                 what the VNIC is to report. learns: listen to what the bridge learns. is_reached: the addresses of the
                 bridge and of its ports are behind it too. outside: the interface that the bridge was
                 made for; without it the uplink ends.
        Raises:  NetdevError: the namespace cannot be entered.
        """
        self.way = way
        self.bridge = bridge
        self.gone = ""
        """Why the uplink has ended; empty while it works."""
        self._loop = loop
        self._learnt, self._forgotten, self._closed, self._reported = learnt, forgotten, closed, reported
        self._learns = learns
        self._is_reached = is_reached
        self._outside = outside
        self._held = held
        self._port: TapNetdev | None = None
        self._known: dict[MacAddr, dict[int, int]] = {}
        """Addresses in the forwarding database: VLAN -> port."""
        self._links = BridgeClient(held)
        try:
            self._notices = nl.open_notifications(held)
        except BaseException:
            self._links.close()
            raise
        loop.add_reader(self._notices.fileno(), self._drain)
        self._read_all()

    def close(self) -> None:
        """Stop listening; the VNIC leaves the bridge when it goes. May be called twice."""
        if self._notices.fileno() >= 0:
            self._loop.remove_reader(self._notices.fileno())
            self._notices.close()
            self._links.close()

    def lose(self, reason: str) -> None:
        """End the uplink, as its bridge is lost: log why, forget the addresses behind it, leave its namespace."""
        self._lose(reason)
        self.close()

    # the VNIC

    def attach(self, netdev: TapNetdev) -> None:
        """Make a VNIC that has just been set up a port of the bridge.

        Raises:  NetdevError: the kernel refuses.
        """
        self._port = netdev
        if self.gone:
            return
        run_in_namespace(self._held, lambda: disable_ipv6(netdev.name))
        self._links.set_address(netdev.ifindex, MacAddr(bytes([_PORT_OCTET]) + netdev.host_address[1:]))
        self._links.set_master(netdev.ifindex, self.bridge.ifindex)
        self._read_all()
        for mac in self._reported(self.way):
            self.report(mac, True)

    def report(self, mac: MacAddr, reports: bool) -> None:
        """Add an address to those that the VNIC reports, or remove it."""
        if self._port is None:
            return
        try:
            self._links.listen_to(self._port.ifindex, mac, reports)
        except NetdevError as error:
            if error.errno != errno.ENODEV:  # it is gone; the next one is told all
                log.warning("[uplink %s] %s", self.way, error)

    # the bridge

    def _drain(self) -> None:
        nl.drain(self._notices, self._dispatch, self._read_all)

    def _dispatch(self, kind: int, data: bytes) -> None:
        if kind in (nl.RTM_NEWLINK, nl.RTM_DELLINK):
            self._heard_link(kind, data)
            return
        entry = fdb_entry(kind, data)
        if entry is not None and entry.bridge == self.bridge.ifindex and not self.gone:
            self._heard(entry)

    def _heard_link(self, kind: int, data: bytes) -> None:
        if kind != nl.RTM_DELLINK or nl.is_of_bridge(data):
            return
        if nl.ifindex_of(data) == self.bridge.ifindex:
            self._lose(f"bridge {self.bridge.name} was deleted")
        elif self._outside is not None and nl.ifindex_of(data) == self._outside.ifindex:
            self._lose(f"interface {self._outside.name} is gone")

    def _lose(self, reason: str) -> None:
        if not self.gone:
            self.gone = reason
            log.error("[uplink %s] %s", self.way, reason)
            self._known.clear()
            self._closed(self.way)

    def _read_all(self) -> None:
        if not self._learns or self.gone:
            return
        now = self._links.forwarding(self.bridge.ifindex)
        there = {entry.mac for entry in now}
        for mac in [mac for mac in self._known if mac not in there]:
            self._known[mac] = {}
            self._judge(mac)
        for entry in now:
            self._heard(entry)

    def _heard(self, entry: FdbEntry) -> None:
        if not self._learns or (entry.local and not self._is_reached):
            return
        ports = self._known.setdefault(entry.mac, {})
        before = dict(ports)
        if entry.gone:
            ports.pop(entry.vlan, None)
        else:
            ports[entry.vlan] = entry.port
        if ports != before or not ports:  # what has not changed here may have moved elsewhere meanwhile
            self._judge(entry.mac)

    def _judge(self, mac: MacAddr) -> None:
        """Report whether an address is behind a port other than the VNIC."""
        own = self._port
        ports = self._known.get(mac, {})
        is_own = own is not None and mac == own.host_address  # a bridge may have the address of its only port
        if not is_own and any(own is None or port != own.ifindex for port in ports.values()):
            self._learnt(self.way, mac)
        else:
            self._forgotten(self.way, mac)
        if not ports:
            self._known.pop(mac, None)

    def state(self) -> dict[str, Any]:
        """Return what `opavnic status` shows."""
        return {"bridge": self.bridge.name, "state": self.gone or "up"}
