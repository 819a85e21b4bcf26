"""What the native datapath spends on a packet when it has many VNICs: real TAPs, all in one network namespace.

Every TAP is a VNIC on an HFI of its own, all HFIs on one switch. A step sends the same number of frames from each
of a few TAPs to VNICs all over the fabric, while the thread rests, then lets it carry them; the processor
time of the thread over the packets carried is the figure. The steps go around, so that every VNIC has its turn.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.types import Lid, PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tun import close_descriptors, open_tap
from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic.engine.threaded import carrier_engine, native_carrier
from opavnic.lab.hosts.descriptors import raise_limit
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic_bench.base.sites import bench_namespaces, run, until
from opavnic_bench.base.turns import BenchError, Progress, silent, take_turns

if TYPE_CHECKING:
    from opavnic import _native

LARGEST: Final = 1024
"""Creating more TAPs than this takes too long."""
_SENDERS: Final = 32
"""TAPs that send in one step, or all if there are fewer."""
_STEP: Final = 1024
"""Frames of a step; a TAP's queue takes 1000."""
_STEPS: Final = 32
"""Steps of a sample."""
_SAMPLES: Final = 5
_WAIT_S: Final = 30
_VESW: Final = 2
_PKEY: Final = 0x8002
_ETHERTYPE: Final = 0x88B5
"""For local experiments (IEEE 802): the hosts discard these frames."""


@dataclass(frozen=True, slots=True)
class VportCost:
    """The figure for one number of VNICs."""

    vports: int
    ns_per_packet: float
    """Processor time of the thread, median of the samples."""
    packets: int

    def as_row(self) -> dict[str, Any]:
        """Return plain data."""
        return {"vports": self.vports, "ns_per_packet": round(self.ns_per_packet), "packets": self.packets}


def bench_vports(counts: Sequence[int], progress: Progress = silent) -> dict[str, Any]:
    """Measure one number of VNICs after the other.

    Args:    counts: each from 2 to `LARGEST`.
    Raises:  BenchError: no native datapath, or packets were lost. OSError, NetdevError: no right to make namespaces
                 or TAPs.
    """
    if load_native() is None:
        raise BenchError(NOT_BUILT)
    raise_limit()  # two descriptors for each TAP
    run = take_turns(
        counts,
        lambda count: _measure(native_carrier(), count),
        label=lambda count: f"{count} vports",
        progress=progress,
    )
    if run.skipped:
        raise BenchError("; ".join(run.skipped.values()))
    return {"results": [cost.as_row() for cost in run.single()]}


def _measure(carrier: _native.Carrier, count: int) -> VportCost:
    with ExitStack() as stack:
        (namespace,) = stack.enter_context(bench_namespaces("vports"))
        path = NETNS_DIR / namespace
        fds = run_in_namespace(path, lambda: _make_taps(count))
        stack.callback(close_descriptors, fds)
        _set_up(namespace, count)
        sender = run_in_namespace(path, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        stack.enter_context(sender)
        stack.callback(carrier.stop)
        _start(carrier, fds)
        bed = _VportBed(carrier, sender, fds)
        bed.sample()  # buffers grow, caches fill
        samples = [bed.sample() for _ in range(_SAMPLES)]
        return VportCost(count, median(samples), bed.carried)


def _make_taps(count: int) -> list[int]:
    # no IPv6 addresses, whose own traffic would be measured as well
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    return [open_tap(f"tap{index}", vnet_hdr=True) for index in range(count)]


def _set_up(namespace: str, count: int) -> None:
    lines = "".join(f"link set dev tap{index} up\n" for index in range(count))
    run("ip", "-n", namespace, "-batch", "-", text=lines)


def _start(carrier: _native.Carrier, fds: Sequence[int]) -> None:
    indexes = range(len(fds))
    fabric = Fabric(engine=carrier_engine(carrier))
    switch = fabric.add_switch("sw0", ports=len(fds))
    numbers = []
    for index in indexes:
        port = fabric.add_hfi(f"h{index}").ports[1]
        fabric.connect(port, switch.ports[index + 1])
        port.set_lid(Lid(_lid(index)))
        port.set_pkeys([_PKEY])
        port.set_state(PortState.ACTIVE)
        switch.ports[index + 1].state = PortState.ACTIVE
        numbers.append(port.number)
    switch.program({_lid(index): index + 1 for index in indexes}, {})
    macs = [(_mac(index), _lid(index)) for index in indexes]
    for index, (fd, number) in enumerate(zip(fds, numbers, strict=True)):
        vport = carrier.add_vport(fd)
        carrier.set_vport(vport, _config(index, macs), number)
        carrier.set_device(vport, reading=True, merge_udp=False, merge_tcp=True)
        carrier.set_demux(number, 0xFFF, {_VESW: vport}, vport)
    carrier.start()


def _lid(index: int) -> int:
    return index + 1


def _mac(index: int) -> bytes:
    return b"\x02\0\0\0" + index.to_bytes(2, "big")


def _config(index: int, macs: Sequence[tuple[bytes, int]]) -> _native.VportConfig:
    return {
        "vesw_id": _VESW,
        "pkey": _PKEY,
        "slid": _lid(index),
        "rc": 0,
        "u_mcast_dlid": 0,
        "hash_shift": 0,
        "flow_dlids": [0] * 32,
        "sc_uc": [0] * 8,
        "sc_mc": [0] * 8,
        "non_vlan_sc_uc": 0,
        "non_vlan_sc_mc": 0,
        "macs": macs,
        "sources": None,
        "quiet": None,
        "mtu": 1500,
        "oper_up": True,
    }


_wait = partial(until, pause_s=0.001, limit_s=_WAIT_S)


class _VportBed:
    """Sends, waits, and reads the clock of the thread."""

    def __init__(self, carrier: _native.Carrier, sender: socket.socket, fds: Sequence[int]) -> None:
        self.carried = 0
        self._carrier = carrier
        self._sender = sender
        self._fds = fds
        self._next = 0
        # the newest thread is the carrier's
        self._thread = max(int(thread) for thread in os.listdir("/proc/self/task"))

    def sample(self) -> float:
        """Return the processor time per packet, in ns."""
        packets = busy = 0
        for _ in range(_STEPS):
            self._carrier.pause()
            sent, fds = self._send()
            packets += sent
            before = self._busy_ns()
            self._carrier.resume()
            _wait(partial(_are_empty, fds), "frames stay in the queues")
            busy += self._busy_ns() - before
        delivered = 0

        def complete() -> bool:
            nonlocal delivered
            vports = self._carrier.collect(0)
            delivered += sum(vnic["rx"]["packets"] for vnic in vports.values())
            return delivered >= packets

        _wait(complete, "packets were lost")
        self.carried += packets
        return busy / packets

    def _send(self) -> tuple[int, Sequence[int]]:
        """Return how many frames were sent, and the TAPs that sent them."""
        count = len(self._fds)
        senders = [(self._next + step) % count for step in range(min(_SENDERS, count))]
        frames = _STEP // len(senders)
        for source in senders:
            for number in range(frames):
                # every other VNIC, near and far
                target = (source + 1 + number * 97 % (count - 1)) % count
                frame = _mac(target) + _mac(source) + _ETHERTYPE.to_bytes(2, "big") + bytes(50)
                self._sender.sendto(frame, (f"tap{source}", _ETHERTYPE))
        self._next = (self._next + len(senders)) % count
        return len(senders) * frames, [self._fds[source] for source in senders]

    def _busy_ns(self) -> int:
        return int(Path(f"/proc/self/task/{self._thread}/schedstat").read_text().split()[0])


def _are_empty(fds: Sequence[int]) -> bool:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return not poller.poll(0)
