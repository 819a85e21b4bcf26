"""The shell of native VNICs: gives a carrier its TAPs and the configuration of VNICs, and takes their counters.

datapath = NativeDatapath(fabric, vnic_ports, carrier, loop, on_failure=...)
datapath.refresh()
...
datapath.close()

Everything but frames stays in Python: MADs, netlink, the state of VNICs. Packets of Python's programs and frames of
native VNICs meet in the fabric's engine, which the threads of the carrier drive.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hfi_sim.base.types import MacAddr
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.netdev.base import Merging, Netdev
from hfi_sim.netdev.tun import leave_offloads
from opavnic.datapath.snapshot import DemuxSnapshot, add_vnic, take_demux, take_vport
from opavnic.datapath.steering import Steering, Time
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.encap import Forwarding
from opavnic.vnic.vnic_port import VnicPort

if TYPE_CHECKING:
    from opavnic import _native

log = logging.getLogger("opavnic.datapath")

POLL_S: Final = 0.1
"""How often the VNICs of some ports are compared with what the carrier knows, for changes that nothing announces."""
POLLED: Final = 64
"""Ports that are looked at each time: a poll costs the same in a lab of any size."""

HEARD_S: Final = 0.02
"""The shortest time between two looks at the sources of frames: their number is up to the hosts."""
_DRAIN_S: Final = 1e-3
"""In this time a host takes in all that waits for it at other processors, by far."""


class _Given(NamedTuple):
    """What the configuration of a vport was made from."""

    forwarding: Forwarding
    quiet: frozenset[MacAddr] | None
    mtu: int
    passing: bool
    vnics: VnicPort


class NativeDatapath:
    """All VNICs of a fabric on TAPs, and those of nodes whose programs have a native half."""

    def __init__(
        self,
        fabric: Fabric,
        vnic_ports: Mapping[str, VnicPort],
        carrier: _native.Carrier,
        loop: asyncio.AbstractEventLoop,
        *,
        on_failure: Callable[[str], None],
        merge_udp: bool = False,
    ) -> None:
        """Start the threads; they carry no VNICs until `refresh`.

        Args:    fabric: driven by the carrier. vnic_ports: by host; may grow. on_failure: told once, when a thread
                 has died. merge_udp: merge datagrams that hosts receive, until a host switches that off.
        """
        self._fabric = fabric
        self._vnic_ports = vnic_ports
        self._carrier = carrier
        self._loop = loop
        self._on_failure = on_failure
        self._merge_udp = merge_udp
        self._index: dict[Adapter, int] = {}
        self._given: dict[Adapter, _Given] = {}
        self._takes_datagrams: set[Adapter] = set()
        """Those whose devices take merged datagrams (Linux 6.2)."""
        self._demuxes: dict[int, DemuxSnapshot] = {}
        """What the carrier was given, by number of the HFI port."""
        self._carried: dict[VnicPort, list[Adapter]] = {}
        """The VNICs of each port that are carried."""
        self._due: set[VnicPort] = set()
        """The ports of VNICs that have changed."""
        self._unpolled: deque[VnicPort] = deque()
        """Ports that the next polls look at."""
        self._listens_at = 0.0
        self._listens: asyncio.TimerHandle | None = None
        self._closed = False
        carrier.start()
        self._steering = Steering(lambda: carrier.mixes, self._drained)
        loop.add_reader(carrier.notice_fd, self._noticed)
        fabric.before_counting.append(self.sync)
        self._timer = loop.call_later(POLL_S, self._poll)

    # --- keeping up ----------------------------------------------------------------------------------------

    def changed(self, adapter: Adapter) -> None:
        """Look at the port of a VNIC as soon as the caller has finished what it is changing."""
        given = self._given.get(adapter)
        if given is None or self._closed:
            return
        if not self._due:
            self._loop.call_soon(self._look_at_due)
        self._due.add(given.vnics)

    def _look_at_due(self) -> None:
        due, self._due = self._due, set()
        for vnics in due:
            self._look_at(vnics)

    def will_pass(self, adapter: Adapter) -> None:
        """Give the vport of one VNIC its configuration now: what its host sends first must not come before it."""
        given = self._given.get(adapter)
        if given is not None and not self._closed:
            self._give(adapter, given.vnics, passing=True)

    def let_go(self, adapter: Adapter) -> None:
        """Let go of the device of one VNIC that is gone; the rest of its port is looked at soon."""
        self.changed(adapter)
        self._release(adapter)

    def refresh(self) -> None:
        """Take over TAPs that are new, let go of those that are gone, and pass on what has changed, at all ports."""
        for vnics in self._all_ports():
            self._look_at(vnics)

    def _all_ports(self) -> list[VnicPort]:
        """Return all ports, and those that are gone with VNICs that are still carried."""
        return list(dict.fromkeys((*self._vnic_ports.values(), *self._carried)))

    def _look_at(self, vnics: VnicPort) -> None:
        """The same at one port."""
        if self._closed:
            return
        self._adopt(vnics)
        port = vnics.port.number
        for adapter in vnics.adapters.values():
            if adapter in self._index:
                self._give(adapter, vnics, passing=adapter.is_passing)
        demux = take_demux(vnics.demux, self._index)
        if self._demuxes.get(port) != demux:
            self._demuxes[port] = demux
            if not vnics.is_open:  # it may be gone for good
                del self._demuxes[port]
            self._carrier.set_demux(port, *demux)
            vnics.port.update_flow_control()  # the carrier is silent about it while all VNICs are native

    def _give(self, adapter: Adapter, vnics: VnicPort, *, passing: bool) -> None:
        given = _Given(adapter.forwarding, adapter.quiet, adapter.netdev.mtu, passing, vnics)
        if self._given.get(adapter) != given:
            self._given[adapter] = given
            snapshot = take_vport(adapter, passing=passing)
            self._carrier.set_vport(self._index[adapter], snapshot, vnics.port.number)

    def _adopt(self, vnics: VnicPort) -> None:
        """Take over the netdevs of new adapters of a port, let go of those that have become unfit."""
        for adapter in list(self._carried.get(vnics, ())):
            if not _can_be_carried(adapter.netdev):
                self._release(adapter)
        for adapter in vnics.adapters.values():  # in their order
            if adapter not in self._index and _can_be_carried(adapter.netdev):
                self._take_over(adapter, vnics)

    def _take_over(self, adapter: Adapter, vnics: VnicPort) -> None:
        netdev = adapter.netdev
        if netdev.can_hand_over:
            fd = netdev.hand_over(lambda: self._follow(adapter, netdev))
            if _leave_offloads(netdev.name, fd):
                self._takes_datagrams.add(adapter)
            if self._merge_udp:
                netdev.merge_datagrams()
            self._index[adapter] = self._carrier.add_vport(fd)
            self._give(adapter, vnics, passing=adapter.is_passing)  # before the first frame is read
            netdev.wake_queue()  # the carrier itself follows the link's flow control
            self._follow(adapter, netdev)
        elif netdev.native_app is not None:
            self._index[adapter] = self._carrier.add_vport()
            self._give(adapter, vnics, passing=adapter.is_passing)
            netdev.native_app.attach(self._carrier, self._index[adapter])
        self._carried.setdefault(vnics, []).append(adapter)
        adapter.offload = self
        log.info("[%s] carried by the native datapath", netdev.name)

    def _follow(self, adapter: Adapter, netdev: Netdev) -> None:
        """Obey the device: read its frames or leave them in the host's queue, merge packets or not, take long ones."""
        index = self._index.get(adapter)
        if index is not None and not self._closed:
            given = self._given.get(adapter)
            if given is not None and given.mtu != netdev.mtu:
                self._give(adapter, given.vnics, passing=given.passing)
            merges = self.merges(adapter)
            reading = not netdev.queue_stopped
            self._carrier.set_device(index, reading=reading, merge_tcp=merges.tcp, merge_udp=merges.udp)

    def merges(self, adapter: Adapter) -> Merging:
        """Return of which protocols the host of one VNIC gets received packets merged."""
        if adapter.netdev.native_app is not None:
            return Merging(tcp=False)
        tcp, udp = adapter.netdev.merges
        return Merging(tcp, udp=udp and adapter in self._takes_datagrams)

    def _release(self, adapter: Adapter) -> None:
        index = self._index.pop(adapter)
        add_vnic(adapter, self._carrier.remove_vport(self._fabric.driver.now, index))
        vnics = self._given.pop(adapter).vnics
        self._takes_datagrams.discard(adapter)
        self._demuxes.pop(vnics.port.number, None)  # the carrier has forgotten the vport there as well
        self._carried[vnics].remove(adapter)
        if not self._carried[vnics]:
            del self._carried[vnics]
        adapter.offload = None

    def _poll(self) -> None:
        self._timer = self._loop.call_later(POLL_S, self._poll)
        if not self._unpolled:
            self._unpolled.extend(self._all_ports())
        for _ in range(min(POLLED, len(self._unpolled))):
            self._look_at(self._unpolled.popleft())
        self._steering.look(self._times(), {index: adapter.netdev for adapter, index in self._index.items()})

    def _times(self) -> list[Time]:
        try:
            clocks = self._carrier.clocks
            return [Time(time.clock_gettime_ns(clock), time.monotonic_ns()) for clock in clocks]
        except OSError:  # a thread has died, and the lab ends
            return []

    @contextlib.contextmanager
    def _drained(self) -> Iterator[None]:
        """Hand nothing over to hosts, and let them take in what they have."""
        with self._paused():
            time.sleep(_DRAIN_S)
            yield

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        self._carrier.pause()
        try:
            yield
        finally:
            self._carrier.resume()

    # --- what the carrier has for us -----------------------------------------------------------------------

    def sync(self) -> None:
        """Add what the carrier counted to the counters of the VNICs."""
        if not self._closed:
            counts = self._carrier.collect(self._fabric.driver.now)
            for adapter, index in self._index.items():
                add_vnic(adapter, counts[index])

    def sync_vnic(self, adapter: Adapter) -> None:
        """Add what the carrier counted for one VNIC: an EM reads them all, one by one."""
        if not self._closed:
            now = self._fabric.driver.now
            add_vnic(adapter, self._carrier.collect_vport(now, self._index[adapter]))

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Let no frame pass, so that counters of several places can be compared; hosts' frames wait meanwhile."""
        with self._paused():
            self.sync()
            yield

    @property
    def loads(self) -> Sequence[tuple[int, int]]:
        """How many VNICs and links each worker carries."""
        return self._carrier.loads

    @property
    def missed(self) -> int:
        """Observed packets that were dropped because Python was behind."""
        return self._carrier.missed

    @property
    def steered(self) -> int:
        """VNICs whose hosts receive on all processors."""
        return self._steering.count

    def _noticed(self) -> None:
        carrier = self._carrier
        self._fabric.driver.run()
        for index, number in carrier.take_lost():
            for adapter, known in self._index.items():
                if known == index:
                    log.error("[%s] TAP lost: %s", adapter.netdev.name, errno.errorcode.get(number, number))
                    adapter.netdev.resume()  # its own reader finds the same, and ends the device
        if carrier.failure is not None:
            self._loop.remove_reader(carrier.notice_fd)
            self._on_failure(carrier.failure)

        if self._listens is None:
            self._listens = self._loop.call_at(self._listens_at, self._listen)

    def _listen(self) -> None:
        """Tell VNICs the sources of frames that they do not know yet."""
        self._listens = None
        if self._closed:
            return
        heard = self._carrier.take_heard()
        if not heard:
            return
        self._listens_at = self._loop.time() + HEARD_S
        adapters = {index: adapter for adapter, index in self._index.items()}
        for index, source in heard:
            if index in adapters:
                adapters[index].heard(MacAddr(source))

    # --- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the threads and let go of every TAP. Harmless when done twice."""
        if self._closed:
            return
        with contextlib.ExitStack() as stack:  # the last one first; a failure of one does not stop the others
            stack.callback(setattr, self, "_closed", True)
            for adapter in list(self._index):
                stack.callback(self._release, adapter)
            stack.callback(self._fabric.before_counting.remove, self.sync)
            stack.callback(self.sync)
            stack.callback(self._carrier.stop)
            stack.callback(self._loop.remove_reader, self._carrier.notice_fd)
            stack.callback(self._timer.cancel)


def _can_be_carried(netdev: Netdev) -> bool:
    return netdev.can_hand_over or netdev.native_app is not None


def _leave_offloads(name: str, fd: int) -> bool:
    """Let the host leave checksums and segmentation to the carrier; return whether it takes merged datagrams."""
    try:
        return leave_offloads(fd)
    except OSError as error:
        log.warning("[%s] no offloads: %s", name, error.strerror)
        return False
