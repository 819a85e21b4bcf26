"""Clocks that step, and programs and machines that stand still: which workers and events each case loses.

`make test-long` prints the matrix. The sender's own events go by a clock that does not step; those of other senders may
follow the clock of their machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest

from ejfat.control.health import issues_of
from ejfat.control.members import Session, SessionState, Worker
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.wire.headers import LB_PORT, SyncHeader
from opavnic_bench.ejfat.frames import udp_packet

LB, SENDER = ip_address("10.0.0.1"), ip_address("10.0.0.2")
LB_MAC = bytes.fromhex("020000000001")
START = 1_700_000_000.0
RATE_HZ = 20
SOCKET_PACKETS = 2000
"""Packets that the kernel keeps for a program that does not read."""
SECONDS = [10, 20, 65, 120, 600, 3600]
CLOCKS = ["balancer", "sender", "sender, ticks by its clock"]
STOPPED = ["balancer", "balancer, evaluates first", "control plane", "sender", "worker"]


@dataclass(slots=True)
class Receiver:
    """A worker, which opens a session again when its own has ended."""

    name: str
    session: Session
    numbers: set[int] = field(default_factory=set)
    """Numbers of all its sessions."""
    unread: int = 0
    stopped: bool = False


class Site:
    """A balancer, a sender and four workers that report once a second; any of them can stand still."""

    def __init__(self) -> None:
        self.now, self.turns = START, 0
        self.steps = dict.fromkeys(CLOCKS, 0)
        self.stopped = ""
        self.queue: list[tuple[bytes, int]] = []
        self.out: list[bytes] = []
        plane = PlaneConfig(int.from_bytes(LB_MAC, "big"), (InstanceAddresses(LB),))
        self.app = LbApp(
            AppConfig(plane, pipeline="python"),
            self.out.append,
            now=lambda: self.now,
            unix=lambda: self.now + self.steps["balancer"],
        )
        self.app.program()
        self.reservation = self.app.plane.reserve("run", senders=[SENDER], now=self.now)
        self.balancer = self.reservation.balancer
        self.workers = [self.join(f"w{number}") for number in range(4)]
        self.sent = self.lost = self.lost_standing = self.waiting = 0
        self.issues: set[str] = set()
        self.app.advance()

    def join(self, name: str) -> Receiver:
        number = self.balancer.next_session
        worker = Worker(name, ip_address("10.0.1.0") + number, 5000, mac=number)
        session = self.app.plane.register(self.reservation, worker, self.now)
        return Receiver(name, session, {session.session_id})

    def tick(self) -> int:
        return round((self.now + self.steps["sender, ticks by its clock"]) * 1e6)

    def receive(self, payload: bytes, port: int) -> list[bytes]:
        packet = udp_packet(payload, src=SENDER, dst=LB, src_port=1, dst_port=port)
        self.out.clear()
        self.app.receive(LB_MAC + b"\x02\0\0\0\0\2" + packet)
        return [frame[:6] for frame in self.out]

    def keep(self, payload: bytes, port: int, packets: int = 1) -> bool:
        """Let the kernel keep packets for the balancer, if it has room for them."""
        has_room = len(self.queue) + packets <= SOCKET_PACKETS
        self.queue += [(payload, port)] * (packets if has_room else 0)
        return has_room

    def event(self, tick: int) -> None:
        """Send an event of two packets."""
        self.sent += 1
        payload = b"LB\x02\x01\0\0\0\0" + tick.to_bytes(8, "big") + b"data"
        if self.stopped == "balancer":
            self.lost_standing += not self.keep(payload, LB_PORT, 2)
        else:
            self.arrive(payload)

    def arrive(self, payload: bytes) -> None:
        """Pass an event on; it is lost if not both packets arrive at one worker that will read them."""
        hops = {hop for _ in range(2) for hop in self.receive(payload, LB_PORT) or [b""]}
        number = int.from_bytes(hops.pop(), "big") if len(hops) == 1 else 0
        (worker, *_) = [*(one for one in self.workers if number in one.numbers), None]
        if worker is not None and worker.stopped:
            worker.unread += 2
        self.lost += worker is None or worker.unread > SOCKET_PACKETS

    def send(self) -> None:
        """Send what is due; what was due while the sender stood still follows at once, with the ticks of now."""
        if self.stopped == "sender":
            self.waiting += 1
            return
        if self.turns % RATE_HZ == 5:
            unix = self.now + self.steps["sender"] + self.steps["sender, ticks by its clock"]
            sync = SyncHeader(source_id=1, event=self.tick(), rate_hz=1_000_000, unix_ns=round(unix * 1e9))
            if self.stopped == "balancer":
                self.keep(sync.build(), 19531)
            else:
                self.receive(sync.build(), 19531)
        for behind in range(self.waiting, -1, -1):
            self.event(self.tick() - behind)
        self.waiting = 0

    def report(self, worker: Receiver) -> None:
        if worker.session.state is SessionState.GONE:
            worker.session = self.join(worker.name).session
            worker.numbers.add(worker.session.session_id)
        session = worker.session
        session.report(self.now, fill=0, control=0, ready=True, counters=session.counters)

    def go(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds * RATE_HZ)):
            self.turns += 1
            self.now = START + self.turns / RATE_HZ
            self.send()
            if self.stopped == "balancer":
                continue
            for place, worker in enumerate(self.workers):
                if self.turns % RATE_HZ == place and not worker.stopped:
                    self.report(worker)
            if self.turns % RATE_HZ == RATE_HZ - 1 and self.stopped != "control plane":
                self.evaluate()

    def stop(self, who: str, seconds: int, *, turn_first: bool = False) -> None:
        """Let a program stand still. The balancer's first evaluation is before or after it has read what was kept."""
        self.stopped = who
        self.workers[0].stopped = who == "worker"
        self.go(seconds)
        self.stopped, self.workers[0].stopped = "", False
        if turn_first:
            self.evaluate()
        kept, self.queue = self.queue, []
        while kept:
            payload, port = kept.pop(0)
            if port == LB_PORT:
                del kept[0]  # the event's other packet
                self.arrive(payload)
            else:
                self.receive(payload, port)

    def evaluate(self) -> None:
        self.app._excuse_pause()
        self.app.advance()
        self.issues |= {issue.kind for issue in issues_of(self.balancer, self.now)}

    def without_slots(self) -> int:
        slots = self.balancer.slots()
        return sum(not slots.get(worker.session.session_id) for worker in self.workers)


def replace_one(site: Site) -> None:
    """Let a worker leave and another one come; those who are there then must get all events."""
    site.balancer.deregister(site.workers[3].session.session_id)
    leaving = site.workers[3]
    site.workers[3] = site.join("w4")
    site.workers[3].numbers |= leaving.numbers  # it reads until no epoch leads to it
    site.go(10)
    site.workers[3].numbers -= leaving.numbers


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Collects the lines of the matrix, and prints them after the last case."""
    lines: list[str] = []
    yield lines
    if len(lines) == 1:
        return
    head = f"{'what':50} {'events':>7} {'lost':>5} {'on the wire':>12} {'workers out':>12}  warnings"
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", head, *lines, sep="\n")


def row(site: Site, what: str) -> str:
    warned = ", ".join(sorted(site.issues)) or "-"
    return (
        f"{what:50} {site.sent:7} {site.lost:5} {site.lost_standing:12} {site.without_slots():12}  {warned}"
    )


@pytest.mark.long
@pytest.mark.parametrize("seconds", [sign * one for sign in (1, -1) for one in SECONDS])
@pytest.mark.parametrize("clock", CLOCKS)
def test_step_of_a_clock_loses_no_worker_and_no_event(clock: str, seconds: int, rows: list[str]) -> None:
    site = Site()
    site.go(10)
    site.steps[clock] += seconds
    site.go(3)
    replace_one(site)
    site.go(30)
    rows.append(row(site, f"clock of {clock}: {seconds:+d} s"))
    assert (site.lost, site.without_slots()) == (0, 0)
    assert clock != "balancer" or not site.issues


def _case(who: str, seconds: int) -> object:
    """Return the parameters of a case: one is for every run, the rest long."""
    return pytest.param(who, seconds, marks=[] if (who, seconds) == (STOPPED[1], 65) else pytest.mark.long)


@pytest.mark.parametrize(("who", "seconds"), [_case(who, seconds) for who in STOPPED for seconds in SECONDS])
def test_pause_loses_no_worker_and_only_what_is_on_the_wire(who: str, seconds: int, rows: list[str]) -> None:
    site = Site()
    site.go(10)
    kind, _, turn_first = who.partition(", ")
    site.stop(kind, seconds, turn_first=bool(turn_first))
    site.go(3)
    replace_one(site)
    site.go(30)
    rows.append(row(site, f"{who} stands still for {seconds} s"))
    assert (site.lost, site.without_slots(), site.issues) == (0, 0, set())
    kept = 2 * RATE_HZ + 1
    dropped = seconds * RATE_HZ - SOCKET_PACKETS * RATE_HZ // kept
    assert site.lost_standing <= (max(0, dropped) if kind == "balancer" else 0)
