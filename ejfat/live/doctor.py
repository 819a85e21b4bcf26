"""An end-to-end check of a reservation: its own worker and sender on this host, and events through the load balancer.

It registers as a worker with every port, asks for the whole calendar, sends events of several packets, and says what it
found at each step: addresses, senders, next hop, ports, loss, split events.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import EjfatError
from ejfat.control.feedback import Gains
from ejfat.control.members import STALE_S
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.events.event import Event, Segmenter
from ejfat.events.uri import EjfatUri, Endpoint
from ejfat.live.feedback import Reporter, call, channel_to, check_version
from ejfat.live.issues import troubles
from ejfat.live.sockets import ReceivePlan, ReceiverThreads, SendPlan, send_events

_LOOK_S = 0.2
"""Seconds between two looks at the status."""
_FIRST_TICK = 1_000_000
_RATE_HZ = 200.0
_PROBES = 64
"""Events in a row that must arrive before the tables that are shown are taken to be in effect. Until their first tick,
which is ahead, events go to the workers before."""
_PROBE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorPlan:
    """What is checked, and how."""

    uri: EjfatUri
    address: IpAddress
    """Of this host, towards the load balancer."""
    port: int = 10000
    port_bits: int = 2
    events: int = 200
    size: int = 20_000
    """Bytes of an event: several packets."""
    version: int = 2
    control: str = ""
    ca: Path | None = None
    patience_s: float = 30.0
    """How long to wait for slots, and for the last event."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    check: str
    ok: bool
    text: str


Note = Callable[[str, bool, str], bool]
"""Adds a finding, and returns whether it is good."""


async def examine(plan: DoctorPlan, show: Callable[[Finding], None] = lambda finding: None) -> list[Finding]:
    """Check a reservation from this host; later checks are left out if an earlier one makes them pointless.

    Args:    show: called with each finding as it comes.
    """
    findings: list[Finding] = []

    def note(check: str, ok: bool, text: str) -> bool:
        findings.append(Finding(check, ok, text))
        show(findings[-1])
        return ok

    try:
        async with contextlib.AsyncExitStack() as stack:
            await _examine(plan, note, stack)
    except EjfatError as error:
        note("end", False, str(error))
    return findings


async def _examine(plan: DoctorPlan, note: Note, stack: contextlib.AsyncExitStack) -> None:
    uri, began = plan.uri, asyncio.get_running_loop().time()
    channel = await stack.enter_async_context(channel_to(uri, plan.control, plan.ca))
    stub = pb_grpc.LoadBalancerStub(channel)
    version = await check_version(stub, uri.token)
    note("control plane", True, f"answers: {version.build}, {version.compatTag}")
    question = pb.LoadBalancerStatusRequest(lbId=uri.lb_id)
    status: Any = await call(stub.LoadBalancerStatus, question, uri.token)
    senders = ", ".join(status.senderAddresses) or "none"
    if not note("senders", str(plan.address) in status.senderAddresses, f"{plan.address} among {senders}"):
        return
    data = uri.data_for(plan.address.version)
    if data is None:
        note("addresses", False, f"the URI has no data address of IPv{plan.address.version}")
        return
    note("addresses", True, f"data to {data}, sync to {_sync(plan) or 'nowhere'}")
    silent = [worker.name for worker in status.workers if _is_silent(worker, status)]
    others = [worker.name for worker in status.workers if not _is_silent(worker, status)]
    text = f"present: {', '.join(others) or 'none but this one'}"
    if not note("workers", not others, f"{text}; silent: {', '.join(silent)}" if silent else text):
        return
    receiver = ReceiverThreads(
        ReceivePlan(listen=Endpoint(plan.address, plan.port), port_bits=plan.port_bits, timeout_s=2.0)
    )
    receiver.start()
    stack.callback(receiver.close)
    reporter = Reporter(uri, _worker(plan), Gains(), control=plan.control, ca=plan.ca)
    stack.push_async_callback(reporter.close)
    note("next hop", True, f"session {await reporter.register()}: this host answers the load balancer")
    reporting = asyncio.create_task(reporter.report(receiver.measure))
    stack.callback(reporting.cancel)
    slots = await _wait_for_slots(plan, stub, question)
    if note("tables", slots == status.slotResolution, f"{slots} of {status.slotResolution} slots"):
        waited = await _until_in_effect(plan, data, receiver)
        if waited is None:
            note("in effect", False, f"not within {_PROBE_S:g} s: events do not all arrive")
        else:
            note("in effect", True, f"after {waited:.1f} s of events that were not counted")
        await _send_and_count(plan, data, receiver, note)
    after: Any = await call(stub.LoadBalancerStatus, question, uri.token)
    elapsed = asyncio.get_running_loop().time() - began
    note("health", *health_of(after, elapsed))


def health_of(status: pb.LoadBalancerStatusReply, elapsed_s: float) -> tuple[bool, str]:
    """Return whether nothing is wrong with the reservation and this worker, and a text.

    Args:    elapsed_s: since the check began; what was seen last before that is past.
    """
    all_of_them = troubles(status, "doctor")
    past = [str(one) for one in all_of_them if one.began_before(elapsed_s)]
    issues = [str(one) for one in all_of_them if not one.began_before(elapsed_s)]
    text = "; ".join(issues) or "no issues"
    return not issues, f"{text}; before this check: {'; '.join(past)}" if past else text


def _is_silent(worker: Any, status: Any) -> bool:
    """Return whether a worker has not reported for so long that it gets no slots: it was stopped, perhaps."""
    return bool(status.timestamp.ToNanoseconds() - worker.lastUpdated.ToNanoseconds() >= STALE_S * 1e9)


def _worker(plan: DoctorPlan) -> pb.RegisterRequest:
    return pb.RegisterRequest(
        name="doctor",
        weight=1.0,
        ipAddress=str(plan.address),
        udpPort=plan.port,
        portRange=pb.PortRange.Name(plan.port_bits),
    )


def _sync(plan: DoctorPlan) -> Endpoint | None:
    """Return where sync messages go; nowhere if that takes an address of this host that may not be a sender's."""
    sync = plan.uri.sync_for(plan.address.version)
    return sync if sync is not None and sync.ip.version == plan.address.version else None


async def _wait_for_slots(plan: DoctorPlan, stub: Any, question: pb.LoadBalancerStatusRequest) -> int:
    """Return the slots that this worker has, once that is all of them or patience ends."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + plan.patience_s
    while True:
        status = await call(stub.LoadBalancerStatus, question, plan.uri.token)
        slots = sum(int(worker.slotsAssigned) for worker in status.workers if worker.name == "doctor")
        if slots == status.slotResolution or loop.time() > deadline:
            return slots
        await asyncio.sleep(_LOOK_S)


def _sending(plan: DoctorPlan, data: Endpoint, first_tick: int) -> SendPlan:
    """Return how events are sent.

    Args:    first_tick: where no sync messages are sent; the ticks of others are microseconds.
    """
    return SendPlan(
        target=data,
        segmenter=Segmenter(version=plan.version, mtu=1500, ip_version=data.ip.version),
        rate_hz=_RATE_HZ,
        first_tick=None if plan.uri.sync else first_tick,
        sync=_sync(plan),
    )


async def _until_in_effect(plan: DoctorPlan, data: Endpoint, receiver: ReceiverThreads) -> float | None:
    """Send small events until they arrive, one after the other; return the seconds that took, None: they did not."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    tick = _FIRST_TICK - round(2 * _PROBE_S * _RATE_HZ)
    while loop.time() - started < _PROBE_S:
        before = receiver.counters().packets
        what = _sending(plan, data, tick)
        tick += _PROBES
        sent = await send_events(what, iter([b"probe"] * _PROBES), lambda: 0)
        for _ in range(10):
            await asyncio.sleep(_LOOK_S / 10)
            arrived = receiver.counters().packets - before
            if arrived == sent.packets:
                await _forget(receiver)
                return loop.time() - started
    await _forget(receiver)
    return None


async def _forget(receiver: ReceiverThreads) -> None:
    """Take the events out of the queue that have arrived so far."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            async for _ in receiver.results():
                pass


async def _send_and_count(plan: DoctorPlan, data: Endpoint, receiver: ReceiverThreads, note: Note) -> None:
    """Send events with every entropy and count what arrives: whole events, packets, ports."""
    entropies = random.Random(plan.events)
    what = _sending(plan, data, _FIRST_TICK)
    payload = random.Random(0).randbytes(plan.size)
    before, missed_before = receiver.counters(), receiver.missed()
    consumed = asyncio.create_task(_collect(receiver, plan.events))
    sent = await send_events(what, iter([payload] * plan.events), lambda: entropies.getrandbits(16))
    try:
        whole = await asyncio.wait_for(consumed, plan.patience_s)
    except TimeoutError:
        whole = receiver.counters().events_complete - before.events_complete
    packets = receiver.counters().packets - before.packets
    arrived, missed = f"{packets} of {sent.packets} packets arrived", receiver.missed() - missed_before
    if missed:
        arrived += f"; this host's own sockets had no room for {missed}"
    note("loss", packets == sent.packets, arrived)
    note("events", whole == sent.events, f"{whole} of {sent.events} events arrived whole")
    ports = receiver.ports_used()
    wanted = 1 << plan.port_bits
    note("ports", len(ports) == wanted, f"{len(ports)} of {wanted} ports got events")


async def _collect(receiver: ReceiverThreads, count: int) -> int:
    whole = 0
    async for what in receiver.results():
        whole += isinstance(what, Event)
        if whole == count:
            break
    return whole
