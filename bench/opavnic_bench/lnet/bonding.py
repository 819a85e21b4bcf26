"""Channel bonding and Multi-Rail on one fabric: unequal links, the same faults, and many peers. On virtual time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.node.node import LnetNode
from lnet.node.selftest import Selftest, SelftestResult
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding

LINK_BPS: Final = 10e9
"""Rate of every link; only ratios matter."""
MESSAGE_BYTES: Final = 1 << 20
MESSAGES_PER_HFI: Final = 8

WAYS: Final = {
    "o2ibs": (Bonding.O2IBS, False),
    "o2ibs weighted": (Bonding.O2IBS, True),
    "multi-rail": (Bonding.MULTI_RAIL, False),
}
"""How a network uses several HFIs: its bonding, and whether messages are distributed by speed."""

SHAPES: Final[dict[str, tuple[int, int, tuple[str, ...]]]] = {
    "3 to 3 HFIs": (3, 3, ()),
    "2 to 3 HFIs": (2, 3, ()),
    "3 to 2 HFIs": (3, 2, ()),
    "one link of three with 1G": (3, 3, ("rate on a-ib2 rate=1G",)),
    "20% loss on one link of three": (3, 3, ("loss on a-ib2 20%",)),
    "1 ms delay on one link of three": (3, 3, ("delay on a-ib2 delay=1ms",)),
}
"""HFIs of both hosts, and what is wrong with their links."""

FAULTS: Final = {
    "link of a near HFI down for 1 s": "link-down on a-ib0 after=1s for=1s",
    "link of a far HFI down for 1 s": "link-down on b-ib0 after=1s for=1s",
    "far HFI deaf for 3 s": "loss on b-ib0 after=1s for=3s",
    "far HFI deaf for good": "loss on b-ib0 after=1s",
    "switch reboots within 1 s": "switch-reboot on sw0 after=1s for=1s",
    "20% loss at a far HFI": "loss on b-ib0 20% after=1s",
}
LOADS: Final = {"one every 5 ms": (1, 0.005), "32 every 100 ms": (32, 0.1)}
"""Messages sent at once, and how often; 32 are more than there are credits."""
TRAFFIC_S: Final = 12.0
LATE_S: Final = 0.01
"""A message over a route that works takes much less."""
SETTLED_S: Final = 10.0
"""From here on nothing that began at 1 s should delay anybody."""
PATIENCE_S: Final = 420.0


@dataclass(frozen=True, slots=True)
class ShapeRun:
    """Throughput of 1 MiB messages over one shape."""

    shape: str
    bonding: str
    gbps: float
    failed: int


@dataclass(frozen=True, slots=True)
class FaultRun:
    """Messages for 12 s under one fault, PUTs of 1000 bytes and GETs of 64 KiB in turn."""

    fault: str
    load: str
    bonding: str
    messages: int
    failed: int
    in_doubt: int
    """Of the failed ones: the peer may have them."""
    late: int
    """Messages that took more than 10 ms."""
    late_at_last: int
    """Those of them that began 9 s or more after the fault."""
    worst_s: float
    """The longest time until a message was done or had failed."""


@dataclass(frozen=True, slots=True)
class CpuRun:
    """CPU time of small PUTs to many peers in turn."""

    peers: int
    us_per_message: float
    """Of both ends and the fabric."""


class Bed:
    """Two hosts, a and b, on one switch."""

    def __init__(self, way: str, here: int, there: int, faults: Sequence[str] = ()) -> None:
        bonding, weighted = WAYS[way]
        self.clock = ManualClock()
        config = LndConfig(weighted=weighted)
        self.rig = LnetRig(self.clock, rate_bps=LINK_BPS, config=config, bonding=bonding)
        ends = {
            name: [f"10.1.{net}.{2 + index}" for index in range(count)]
            for net, (name, count) in enumerate({"a": here, "b": there}.items(), 1)
        }
        targets = "".join(f"{addrs[0]}@o2ib0 {' '.join(addrs)}\n" for addrs in ends.values())
        for name, addrs in ends.items():
            self.rig.add_host(
                name, addrs, targets=targets, get_handler=lambda nid, hdr: bytes(hdr.sink_length)
            )
        for fault in faults:
            self.rig.world.faults.add(fault)

    @property
    def a(self) -> RigHost:
        """The host that sends."""
        return self.rig.hosts["a"]

    @property
    def to(self) -> Nid:
        """The NID of the other one."""
        return self.rig.hosts["b"].nid

    def load(self, concurrency: int, seconds: float) -> SelftestResult:
        """Keep messages in flight from a to b for `seconds` of virtual time."""
        results: list[SelftestResult] = []
        selftest = Selftest(
            self.clock,
            starter(self.a.node),
            self.to,
            size=MESSAGE_BYTES,
            concurrency=concurrency,
            seconds=seconds,
            on_end=results.append,
        )
        reports = self.a.reports
        self.a.node.on_report = lambda report: None if selftest.on_report(report) else reports.append(report)
        self.rig.hosts["b"].node.on_report = lambda report: None
        selftest.begin()
        while not results:
            self.clock.advance(1e-3)
        return results[0]


def starter(node: LnetNode) -> Any:
    """Return the function with which a Selftest starts messages on `node`."""

    def start(kind: TxKind, nid: Nid, size: int) -> int:
        if kind is TxKind.PUT:
            return node.put(nid, bytes(size))
        return node.get(nid, size)

    return start


def run_shape(shape: str, way: str, seconds: float) -> ShapeRun:
    """Measure the throughput over one shape."""
    here, there, faults = SHAPES[shape]
    bed = Bed(way, here, there, faults)
    result = bed.load(MESSAGES_PER_HFI * min(here, there), seconds)
    return ShapeRun(shape, way, round(result.gbps, 2), result.failed)


def run_fault(name: str, load: str, way: str, traffic_s: float = TRAFFIC_S) -> FaultRun:
    """Send under one fault for `traffic_s`, and wait for every message to end."""
    bed = Bed(way, 2, 2, [FAULTS[name]])
    clock, node = bed.clock, bed.a.node
    began: dict[int, float] = {}
    took: dict[int, float] = {}

    def on_report(report: object) -> None:
        if isinstance(report, SendDone | SendFailed):
            took[report.msg_id] = clock.time() - began[report.msg_id]
        if isinstance(report, SendFailed):
            bed.a.reports.append(report)

    node.on_report = on_report
    at_once, every_s = LOADS[load]
    rounds = round(traffic_s / every_s)
    for turn in range(rounds):
        for number in range(at_once):
            get = (turn + number) % 2
            msg_id = node.get(bed.to, 64 << 10) if get else node.put(bed.to, bytes(1000))
            began[msg_id] = clock.time()
        clock.advance(every_s)
    clock.advance(PATIENCE_S)
    late = [msg_id for msg_id, seconds in took.items() if seconds > LATE_S]
    failed = bed.a.failed
    return FaultRun(
        name,
        load,
        way,
        len(began),
        len(failed),
        sum(failure.in_doubt for failure in failed),
        len(late),
        sum(began[msg_id] >= SETTLED_S for msg_id in late),
        round(max(took.values()), 3),
    )


def run_cpu(peers: int, messages: int = 1500) -> CpuRun:
    """Measure the CPU time of a message where a node has connections to `peers` others."""
    clock = ManualClock()
    rig = LnetRig(clock)
    a = rig.add_host("a", ["10.1.0.2"])
    nids = [rig.add_host(f"p{index}", [f"10.1.1.{2 + index}"]).nid for index in range(peers)]
    for nid in nids:
        a.node.put(nid, bytes(100))
    clock.advance(1)
    began = time.process_time()
    for number in range(messages):
        a.node.put(nids[number % peers], bytes(100))
        clock.advance(1e-4)
    clock.advance(0.01)
    return CpuRun(peers, round((time.process_time() - began) / messages * 1e6, 1))
