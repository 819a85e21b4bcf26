"""The shell of the native datapath: gives it TAPs and snapshots, takes its counters and what it cannot carry.

datapath = NativeDatapath(fabric, vnic_ports, loop, on_failure=...)
datapath.refresh()
...
datapath.close()

Everything but frames stays in Python: MADs, netlink, carrier, state. A packet that enters a link which Python
carries (it has a latency, a rate that matters, an observer) goes on from there through the Python datapath.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hfi_sim.fabric import Fabric
from hfi_sim.netdev.base import Netdev
from opavnic.adapter import Adapter
from opavnic.datapath.counter_merge import add_counts, add_vnic
from opavnic.datapath.handover import carry_on
from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic.datapath.snapshot import (
    Elements,
    fingerprint,
    slow_reason,
    take_fabric,
    take_vport,
)
from opavnic.errors import DatapathUnavailableError
from opavnic.vnic_port import VnicPort

log = logging.getLogger("opavnic.datapath")

POLL_S: Final = 0.1
"""How often the snapshots are compared with the fabric, for changes that are not announced: partitions, rates, ..."""

_TUNSETOFFLOAD: Final = 0x400454D0
_CSUM: Final = 0x01
_TSO4_TSO6_ECN: Final = 0x02 | 0x04 | 0x08
_USO4_USO6: Final = 0x20 | 0x40
OFFLOADS: Final = (_CSUM | _TSO4_TSO6_ECN | _USO4_USO6, _CSUM | _TSO4_TSO6_ECN)
"""What the host may leave to us, the best first; kernels before 6.2 know no segmentation of UDP."""


class NativeDatapath:
    """One engine for all TAP VNICs of a fabric, and for nodes whose programs have a native half."""

    def __init__(
        self,
        fabric: Fabric,
        vnic_ports: Mapping[str, VnicPort],
        loop: asyncio.AbstractEventLoop,
        *,
        on_failure: Callable[[str], None],
        icrc: bool = True,
    ) -> None:
        """Start the engine; it has no VNICs until `refresh`.

        Args:    vnic_ports: by host; may grow. on_failure: told once, when the engine's thread has died.
                 icrc: compute and check ICRCs on the links inside the process.
        Raises:  DatapathUnavailableError: it is not built.
        """
        native = load_native()
        if native is None:
            raise DatapathUnavailableError(NOT_BUILT)
        self._fabric = fabric
        self._vnic_ports = vnic_ports
        self._loop = loop
        self._on_failure = on_failure
        self._index: dict[Adapter, int] = {}
        self._elements = Elements()
        self._marks: list[object] | None = None
        self._given: dict[Adapter, tuple[object, ...]] = {}
        self._refreshing = False
        self._closed = False
        self._engine = native.Engine(icrc=icrc)
        self._engine.start()
        loop.add_reader(self._engine.notice_fd, self._noticed)
        fabric.before_counting.append(self.sync)
        self._unsubscribe = fabric.on_change(lambda _notice: self.changed())
        self._timer = loop.call_later(POLL_S, self._poll)

    # --- keeping up ----------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Refresh as soon as the caller has finished what it is changing."""
        if not self._refreshing and not self._closed:
            self._refreshing = True
            self._loop.call_soon(self.refresh)

    def refresh(self) -> None:
        """Bring the snapshots up to date, and take over TAPs that are new."""
        self._refreshing = False
        if self._closed:
            return
        adopted = self._adopt()
        vnic_ports = list(self._vnic_ports.values())
        marks = fingerprint(self._fabric, vnic_ports)
        if not adopted and marks == self._marks:
            return
        self._marks = marks
        snapshot = take_fabric(self._fabric, vnic_ports, self._index)
        before = self._elements
        counts = self._engine.set_fabric(snapshot.ports, snapshot.switches, snapshot.links)
        self._elements = snapshot.elements
        self._add(counts, before)
        ports = snapshot.port_index
        for vnics in vnic_ports:
            for adapter in vnics.adapters.values():
                if adapter in self._index:
                    self._give(adapter, ports[vnics.port.name])

    def _give(self, adapter: Adapter, port: int) -> None:
        state = (adapter.forwarding, adapter.netdev.mtu, adapter.is_passing, port)
        if self._given.get(adapter) != state:
            self._given[adapter] = state
            self._engine.set_vport(self._index[adapter], take_vport(adapter), port)

    def _adopt(self) -> bool:
        """Take over the netdevs of new adapters, let go of those that are gone; return whether any was."""
        present = {a: a.netdev for vnics in self._vnic_ports.values() for a in vnics.adapters.values()}
        changed = False
        for adapter in list(self._index):
            if not _can_be_carried(present.get(adapter)):
                self._release(adapter)
                changed = True
        for adapter, netdev in present.items():
            if adapter not in self._index and _can_be_carried(netdev):
                self._take_over(adapter, netdev)
                changed = True
        return changed

    def _take_over(self, adapter: Adapter, netdev: Netdev) -> None:
        if netdev.can_hand_over:
            fd = netdev.hand_over(lambda: self._follow(adapter, netdev))
            datagrams = bool(_set_offloads(fd) & _USO4_USO6)
            self._index[adapter] = self._engine.add_vport(fd, datagrams=datagrams)
            self._follow(adapter, netdev)
        elif netdev.native_app is not None:
            self._index[adapter] = self._engine.add_vport()
            netdev.native_app.attach(self._engine, self._index[adapter])
        adapter.offload = self
        log.info("[%s] carried by the native datapath", netdev.name)

    def _follow(self, adapter: Adapter, netdev: Netdev) -> None:
        """Obey the device: read its frames or leave them in the host's queue, merge packets or not."""
        index = self._index.get(adapter)
        if index is not None and not self._closed:
            self._engine.set_device(index, reading=not netdev.queue_stopped, merging=netdev.merges)

    def _release(self, adapter: Adapter) -> None:
        add_vnic(adapter, self._engine.remove_vport(self._index.pop(adapter)))
        self._given.pop(adapter, None)
        adapter.offload = None

    def _poll(self) -> None:
        self.refresh()
        self._timer = self._loop.call_later(POLL_S, self._poll)

    # --- what the engine has for us ------------------------------------------------------------------------

    def sync(self) -> None:
        """Add what the engine counted to the counters of the fabric and of the VNICs."""
        if not self._closed:
            self._add(self._engine.collect(), self._elements)

    def sync_vnic(self, adapter: Adapter) -> None:
        """Add what the engine counted for one VNIC: an EM reads them all, one by one."""
        if not self._closed:
            add_vnic(adapter, self._engine.collect_vport(self._index[adapter]))

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Let no frame pass, so that counters of several places can be compared; hosts' frames wait meanwhile."""
        self._engine.pause()
        try:
            self.sync()
            yield
        finally:
            self._engine.resume()

    def _add(self, counts: object, elements: Elements) -> None:
        vports = {index: adapter for adapter, index in self._index.items()}
        add_counts(counts, elements, vports)  # type: ignore[arg-type]

    def _noticed(self) -> None:
        engine = self._engine
        carry_on(self._fabric, self._elements, engine.take_packets())
        for index, number in engine.take_lost():
            for adapter, known in self._index.items():
                if known == index:
                    log.error("[%s] TAP lost: %s", adapter.netdev.name, errno.errorcode.get(number, number))
                    adapter.netdev.resume()  # its own reader finds the same, and ends the device
        if engine.failure is not None:
            self._loop.remove_reader(engine.notice_fd)
            self._on_failure(engine.failure)

    # --- which links run where -----------------------------------------------------------------------------

    def slow_links(self) -> dict[str, str]:
        """Return the links whose packets Python carries, with the reason."""
        vnics = {id(vnics.port): vnics for vnics in self._vnic_ports.values()}
        reasons = {
            link.name: slow_reason(self._fabric, link, vnics, self._index) for link in self._fabric.links
        }
        return {name: reason for name, reason in reasons.items() if reason}

    # --- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the engine and let go of every TAP. Harmless when done twice."""
        if self._closed:
            return
        with contextlib.ExitStack() as stack:  # the last one first, each whatever another does
            stack.callback(delattr, self, "_engine")  # its descriptors are closed with it
            stack.callback(setattr, self, "_closed", True)
            for adapter in list(self._index):
                stack.callback(self._release, adapter)
            stack.callback(self._fabric.before_counting.remove, self.sync)
            stack.callback(self.sync)
            stack.callback(self._engine.stop)
            stack.callback(self._loop.remove_reader, self._engine.notice_fd)
            stack.callback(self._unsubscribe)
            stack.callback(self._timer.cancel)


def _can_be_carried(netdev: Netdev | None) -> bool:
    return netdev is not None and (netdev.can_hand_over or netdev.native_app is not None)


def _set_offloads(fd: int) -> int:
    """Let the host leave checksums and segmentation to us, as far as its kernel can; return what it took.

    A kernel that cuts datagrams for us also takes merged ones from us; an older one refuses these.
    """
    for offloads in OFFLOADS:
        try:
            fcntl.ioctl(fd, _TUNSETOFFLOAD, offloads)
        except OSError as error:
            if error.errno != errno.EINVAL:
                log.warning("no offloads: %s", error.strerror)
                return 0
        else:
            return offloads
    return 0
