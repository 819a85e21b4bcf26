"""One fault that is shorter than the timeout of the messages it meets, and what must not be seen of it afterwards."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hfi_sim.base.clock import ManualClock
from lnet.host.rig import LnetRig, RigHost
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from scenarios.lnet_faults import get_handler, payload

A = ["10.1.1.2", "10.1.1.3"]
B = ["10.1.1.5", "10.1.1.6"]
TARGETS = f"10.1.1.2@o2ib {' '.join(A)}\n10.1.1.5@o2ib {' '.join(B)}\n"
RATE_BPS = 10e9
TIMEOUT_S = LndConfig().timeout_s
PROMPT_S = 0.01
"""A message over a route that works takes much less."""
RECONNECTED_S = 0.1 + PROMPT_S
"""Where every connection was lost, a message waits for the first attempt to connect one anew."""

PORTS = ["a-ib0", "a-ib1", "b-ib0", "b-ib1"]
PLACES = [
    *(f"link-down on {port}" for port in PORTS),
    *(f"hfi-removal on {port}" for port in PORTS),
    *(f"loss on {port}{way}" for port in PORTS for way in ("", " direction=rx", " direction=tx")),
    "switch-reboot on sw0",
    "loss on *",
]
"""Each HFI of both ends, each link (down as its ends see it, or silently deaf), the switch, and everything."""
DURATIONS_S = [0.005, 0.2, 3.0, 44.0]
"""All of them 6 s below the default timeout: that long a route may take to be found and connected anew."""
HANDSHAKE_S = 5e-6
"""CONNREQ, CONNACK, and what a small message takes after them, with some to spare."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a sends to b, all of it at once."""

    kind: TxKind
    count: int
    size: int

    def __str__(self) -> str:
        return f"{self.count} {self.kind.value} of {self.size} bytes"

    @property
    def lasts_s(self) -> float:
        """How long it takes where nothing goes wrong."""
        return _lasts_s(self)


KINDS = [
    Traffic(kind, count, size)
    for kind in TxKind
    for count in (1, 16)
    for size in (100, 4096, 64 << 10, 1 << 20)
]
"""Both kinds, one and more than there are credits, IMMEDIATE and RDMA, one packet and many."""


class TwoByTwo:
    """Two hosts with two HFIs each and the default configuration, and how long each message of a took."""

    def __init__(self, timeout_s: float = TIMEOUT_S, bonding: Bonding = Bonding.O2IBS) -> None:
        self.clock = ManualClock()
        config = LndConfig(timeout_s=timeout_s)
        self.rig = LnetRig(self.clock, rate_bps=RATE_BPS, config=config, bonding=bonding)
        self.faults = self.rig.world.faults
        self.a = self.rig.add_host("a", A, targets=TARGETS)
        self.b = self.rig.add_host("b", B, targets=TARGETS, get_handler=get_handler)
        self.began: dict[int, float] = {}
        self.took: dict[int, float] = {}
        keep = self.a.node.on_report

        def on_report(report: object) -> None:
            keep(report)
            if isinstance(report, SendDone | SendFailed):
                self.took[report.msg_id] = self.clock.time() - self.began[report.msg_id]

        self.a.node.on_report = on_report

    def start(self, kind: TxKind, number: int, size: int) -> int:
        """Send one message from a to b."""
        node = self.a.node
        if kind is TxKind.PUT:
            msg_id = node.put(self.b.nid, payload(number, size))
        else:
            msg_id = node.get(self.b.nid, size, match_bits=number)
        self.began[msg_id] = self.clock.time()
        return msg_id

    def send(self, traffic: Traffic) -> list[int]:
        """Send all of it; message n of the answer bears the number n."""
        return [self.start(traffic.kind, number, traffic.size) for number in range(traffic.count)]

    def check_routes_and_credits(self) -> None:
        """Messages are done at once, over each route, and no credit of any connection is gone."""
        routes = set(self.a.node.lnd.messages.peers[self.b.nid].routes)
        assert len(routes) == len(A)
        first = [self.start(TxKind.PUT, 1 << 20, 8) for _ in routes]
        self.clock.advance(1)  # a connection may have been lost at the far end while nothing was sent over it
        assert all(self.took[msg_id] < RECONNECTED_S for msg_id in first)
        most: dict[int, int] = {}
        for _ in range(5):  # the peer returns credits when it owes half of them, so within four messages
            before = len(self.a.done)
            started = [self.start(TxKind.PUT, 1 << 20, 8) for _ in routes]
            self.clock.advance(PROMPT_S)
            assert {done.route for done in self.a.done[before:]} == routes
            assert all(self.took[msg_id] < PROMPT_S for msg_id in started)
            for peer in self.a.node.lnd.conns:
                if peer.route is not None:
                    most[peer.key] = max(most.get(peer.key, 0), peer.credits)
        assert list(most.values()) == [self.a.node.lnd.config.peer_credits] * len(routes)


@cache
def _lasts_s(traffic: Traffic) -> float:
    scene = TwoByTwo()
    scene.send(traffic)
    scene.clock.advance(1)
    assert len(scene.took) == traffic.count
    return max(scene.took.values())


@dataclass(frozen=True, slots=True)
class ShortFault:
    """One place, one start and one duration of a fault."""

    place: str
    at_s: float
    for_s: float

    def __str__(self) -> str:
        return f"{self.place} after={self.at_s:.9f}s for={self.for_s}s"


def hold_the_law(traffic: Traffic, faults: Sequence[ShortFault], timeout_s: float = TIMEOUT_S) -> None:
    """Send under faults: every message is done, once, with the right bytes; routes and credits are as before.

    Raises:  AssertionError: what the faults left behind.
    """
    scene = TwoByTwo(timeout_s)
    for fault in faults:
        scene.faults.add(str(fault))
    ids = scene.send(traffic)
    over_s = max((fault.at_s + fault.for_s for fault in faults), default=0.0)
    scene.clock.advance(over_s + timeout_s)
    where = f"{traffic} under {', '.join(map(str, faults))}"
    assert not scene.a.failed, where
    check_ends(scene.a, scene.b, traffic, ids)
    scene.check_routes_and_credits()
    assert scene.rig.world.fabric.balance() == {}, where


def check_ends(a: RigHost, b: RigHost, traffic: Traffic, ids: list[int]) -> None:
    """One report for each message, and each PUT delivered once."""
    ends = Counter(report.msg_id for report in a.reports if isinstance(report, SendDone | SendFailed))
    assert ends == dict.fromkeys(ids, 1)
    expected = {number: payload(number, traffic.size) for number in range(traffic.count)}
    if traffic.kind is TxKind.GET:
        assert {ids.index(done.msg_id): done.data for done in a.done} == expected
    else:
        assert Counter(received.data for received in b.received) == Counter(expected.values())


def starts_s(traffic: Traffic, steps: int) -> Iterator[float]:
    """Yield times from before the first packet to after the last, fine where connections are made."""
    yield from (HANDSHAKE_S * step / steps for step in range(steps))
    yield from (traffic.lasts_s * step / steps for step in range(1, steps + 1))


def sweep(traffic: Traffic, steps: int) -> Iterator[ShortFault]:
    """Yield a fault at every place and every start; the durations take turns."""
    durations = itertools.cycle(DURATIONS_S)
    for place, at_s in itertools.product(PLACES, starts_s(traffic, steps)):
        yield ShortFault(place, at_s, next(durations))


def sample(traffic: Traffic, count: int) -> list[ShortFault]:
    """Return some of the sweep, the same ones every time."""
    rng = random.Random(f"{traffic}")
    return rng.sample(list(sweep(traffic, 10)), count)
