"""`opavnic ejfat send` and `recv`: a sender and a receiver on a real network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import Iterator
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ejfat.base.addresses import IpAddress, parse_ip
from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.cli.admin import Ca, Control
from ejfat.events.event import MAX_EVENT
from ejfat.events.reassembly import MAX_EVENT as TAKEN_BY_DEFAULT
from ejfat.tables.schema import SLOTS
from hfi_sim.base.quantities import parse_size, size_text
from opavnic.base.signals import call_on_ending_signals
from opavnic.cli.base.common import AsJson, quantity, time_option
from opavnic.cli.base.output import EXIT_FAILED, print_json, say

if TYPE_CHECKING:
    from ejfat.control.feedback import Gains
    from ejfat.control.pb import loadbalancer_pb2 as pb
    from ejfat.events.event import Event, LostEvent
    from ejfat.events.uri import EjfatUri, Endpoint
    from ejfat.live.issues import IssueWatch
    from ejfat.live.sockets import ReceiverThreads, Sent

_DIGITS = 18
"""Maximum number of digits of a slot number."""
Uri = Annotated[
    str, typer.Option("--uri", envvar="EJFAT_URI", help="ejfat://TOKEN@HOST:PORT/lb/ID?sync=...&data=...")
]


_DEFAULT_MAX = size_text(TAKEN_BY_DEFAULT)


def _event_bytes(value: object) -> int:
    size = quantity(parse_size)(value)
    if not size:
        raise typer.BadParameter("an event cannot have 0 bytes; give a size such as 9000, 100K or 2M")
    if size > MAX_EVENT:
        raise typer.BadParameter(
            f"events of {value} bytes are too long; the reassembly header allows {MAX_EVENT}"
        )
    return size


def send(
    files: Annotated[list[Path] | None, typer.Argument(help="Files to send; default, and -: stdin.")] = None,
    to: Annotated[str, typer.Option("--to", help="IP[:PORT] of the load balancer, instead of a URI.")] = "",
    uri: Uri = "",
    event_size: Annotated[
        Any, typer.Option(parser=_event_bytes, metavar="SIZE", help="Size of an event: 9000, 100K, 2M.")
    ] = "1M",
    max_event: Annotated[
        Any,
        typer.Option(
            parser=_event_bytes,
            metavar="SIZE",
            help="Longest event that the receivers accept (their --max-event).",
        ),
    ] = _DEFAULT_MAX,
    rate: Annotated[float, typer.Option(min=0, help="Events per second; 0: as fast as possible.")] = 0.0,
    gbit: Annotated[float, typer.Option("--gbit", min=0, help="Gbit/s of events; 0: no limit.")] = 0.0,
    sockets: Annotated[int, typer.Option(min=1, max=256, help="Source ports; events take turns.")] = 1,
    port_of_tick: Annotated[
        bool,
        typer.Option("--port-of-tick", help="Source port of an event: the low 16 bits of its tick."),
    ] = False,
    version: Annotated[int, typer.Option(min=1, max=3, help="Version of the load balancer header.")] = 2,
    mtu: Annotated[int, typer.Option(min=64, max=65535, help="Size of an IP packet in bytes.")] = 1500,
    data_id: Annotated[
        int, typer.Option(min=0, max=0xFFFF, help="Distinguishes the sources of an event.")
    ] = 0,
    entropy: Annotated[
        int, typer.Option(min=-1, max=0xFFFF, help="Selects the port; -1: a different one for each event.")
    ] = -1,
    first_tick: Annotated[
        int,
        typer.Option(min=-1, max=(1 << 64) - 1, help="First tick; -1: microseconds of the clock."),
    ] = -1,
    seed: Annotated[int | None, typer.Option(help="Seed of the entropy.")] = None,
    ipv4: Annotated[bool, typer.Option("-4", "--ipv4", help="Data over IPv4.")] = False,
    ipv6: Annotated[
        bool, typer.Option("-6", "--ipv6", help="Data over IPv6; default: as the URI's first data address.")
    ] = False,
    sync_family: Annotated[
        Literal["4", "6", ""],
        typer.Option(help="IP version of sync messages; default: that of the data, if the URI has it."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Cut files or stdin into events and send them to a load balancer."""
    from ejfat.events.event import Segmenter
    from ejfat.events.uri import EjfatUri
    from ejfat.live.sockets import SendPlan, send_events
    from ejfat.wire.headers import LB_PORT

    if ipv4 and ipv6:
        raise BadRequestError("-4 and -6: data goes over one of them")
    if port_of_tick and sockets > 1:
        raise BadRequestError("--port-of-tick and --sockets: the tick gives the port of each event")
    target, sync = _target(to, uri, LB_PORT, 4 * ipv4 + 6 * ipv6, int(sync_family or 0))
    _check_taken(event_size, max_event)
    try:
        segmenter = Segmenter(version=version, mtu=mtu, ip_version=target.ip.version)
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    plan = SendPlan(
        target=target,
        segmenter=segmenter,
        rate_hz=rate,
        data_id=data_id,
        entropy=None if entropy < 0 else entropy,
        first_tick=None if first_tick < 0 else first_tick,
        sync=sync,
        source_id=data_id,
        sockets=sockets,
        port_of_tick=port_of_tick,
        gbit_per_s=gbit,
    )
    rng = random.Random(seed)
    events = _events(files or [], event_size)
    watch = None if to else _watch(EjfatUri.parse(uri), "", None, settles=True)

    async def work() -> Sent:
        async with watch.running() if watch else contextlib.nullcontext():
            return await send_events(plan, events, lambda: rng.getrandbits(16))

    sent = asyncio.run(work())
    figures = {
        "events": sent.events,
        "packets": sent.packets,
        "bytes": sent.bytes,
        "seconds": round(sent.seconds, 3),
        "Gbit/s": round(sent.bytes * 8 / sent.seconds / 1e9, 3) if sent.seconds else 0.0,
    }
    if as_json:
        print_json(figures | {"last_tick": sent.last_tick, "issues": _issues(watch)})
    else:
        say(", ".join(f"{value} {name}" for name, value in figures.items()))


def _watch(uri: EjfatUri, control: str, ca: Path | None, *, settles: bool) -> IssueWatch | None:
    """Return what follows the issues of a reservation; None if the URI does not allow to ask for them."""
    from ejfat.live.issues import IssueWatch

    return IssueWatch(uri, say, control, ca, settles) if uri.token and uri.lb_id else None


def _issues(watch: IssueWatch | None) -> list[str]:
    return [str(trouble) for trouble in watch.found.values()] if watch is not None else []


def _check_taken(size: int, limit: int) -> None:
    """Raise BadRequestError if receivers would not accept events of this size."""
    if size > limit:
        text = size_text(size)
        raise BadRequestError(
            f"--event-size {text}: receivers accept events of at most {limit} bytes; "
            f"start them with `recv --max-event {text}` and send with `send --max-event {text}`"
        )


def _target(
    to: str, uri: str, default_port: int, family: int, sync_family: int
) -> tuple[Endpoint, Endpoint | None]:
    """Return where data and sync messages go.

    Args:    family, sync_family: IP version, 4 or 6; 0: any.
    """
    from ejfat.events.uri import EjfatUri, parse_endpoint

    if to:
        target = parse_endpoint(to, to, default_port=default_port)
        if family not in (0, target.ip.version):
            raise BadRequestError(f"-{family}: {to} is an IPv{target.ip.version} address")
        return target, None
    if not uri:
        raise BadRequestError("give --to IP[:PORT], or --uri (or EJFAT_URI) with a data address")
    parsed = EjfatUri.parse(uri)
    if not parsed.data:
        raise BadRequestError(f"{uri!r} has no data address (data=IP)")
    data = parsed.data_for(family) if family else parsed.data[0]
    if data is None:
        raise BadRequestError(f"-{family}: {uri!r} has no IPv{family} data address")
    sync = parsed.sync_for(sync_family or data.ip.version)
    if sync_family and (sync is None or sync.ip.version != sync_family):
        raise BadRequestError(f"--sync-family {sync_family}: {uri!r} has no IPv{sync_family} sync address")
    return data, sync


def _events(files: list[Path], size: int) -> Iterator[bytes]:
    from ejfat.live.sockets import cut_stream

    for path in files or [Path("-")]:
        if str(path) == "-":
            yield from cut_stream(sys.stdin.buffer, size)
            continue
        try:
            with path.open("rb") as stream:
                yield from cut_stream(stream, size)
        except OSError as error:
            raise BadRequestError(f"{path}: {error.strerror}") from None


def recv(
    listen: Annotated[str, typer.Option(help="IP:PORT of the first port.")] = "0.0.0.0:10000",
    port_bits: Annotated[int, typer.Option(min=0, max=14, help="Listen on 2**N ports, starting there.")] = 0,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Number of threads that share the ports.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory for events as files; - for stdout.")
    ] = None,
    uri: Uri = "",
    control: Control = "",
    ca: Ca = None,
    name: Annotated[str, typer.Option(help="Name to register under.")] = "worker",
    address: Annotated[
        str,
        typer.Option(help="Address of this worker as seen by the load balancer; default: that of --listen."),
    ] = "",
    weight: Annotated[float, typer.Option(min=0, help="Weight relative to the other workers.")] = 1.0,
    min_factor: Annotated[
        float, typer.Option(min=0, help="Minimum share, as a multiple of an even share.")
    ] = 0.5,
    max_factor: Annotated[float, typer.Option(min=0, help="Maximum share, likewise; 0: no limit.")] = 2.0,
    slots: Annotated[
        str,
        typer.Option(
            help="Slots to request by number: 0-127,256, or +64 for 64 anywhere (strategies static and explicit)."
        ),
    ] = "",
    kp: Annotated[float, typer.Option(help="Proportional gain of the fill level controller.")] = 0.0,
    timeout: Annotated[
        Any,
        time_option(low="1ms", high="1h", help="Time until an incomplete event counts as lost: 500ms, 2s."),
    ] = "500ms",
    max_event: Annotated[
        Any,
        typer.Option(
            parser=_event_bytes,
            metavar="SIZE",
            help="Longest event accepted: 100k, 2M; longer events are lost.",
        ),
    ] = _DEFAULT_MAX,
    old_headers: Annotated[
        bool, typer.Option("--old-headers", help="Expect the 8-byte header of version 1.")
    ] = False,
    count: Annotated[
        int, typer.Option("-c", "--count", min=0, help="End after this many events; 0: no limit.")
    ] = 0,
    duration: Annotated[Any, time_option(low="0s", help="End after this time: 30s, 5m; 0: no limit.")] = "0",
    as_json: AsJson = False,
) -> None:
    """Reassemble events as they arrive; with a URI, register with the control plane and report to it."""
    from ejfat.control.feedback import Gains
    from ejfat.control.members import check_name
    from ejfat.control.pb import loadbalancer_pb2 as pb
    from ejfat.events.uri import EjfatUri, parse_endpoint
    from ejfat.live.sockets import ReceivePlan, ReceiverThreads

    endpoint = parse_endpoint(listen, listen, default_port=None)
    if out is not None and str(out) != "-":
        _make_directory(out)
    plan = ReceivePlan(
        listen=endpoint,
        port_bits=port_bits,
        threads=threads,
        timeout_s=timeout,
        old_headers=old_headers,
        max_event=max_event,
    )
    request = None
    if uri:
        check_name("worker", name)
        request = pb.RegisterRequest(
            name=name,
            weight=weight,
            ipAddress=str(_worker_address(address, endpoint)),
            udpPort=endpoint.port,
            portRange=pb.PortRange.Name(port_bits),
            minFactor=min_factor,
            maxFactor=max_factor,
            slotDemands=[pb.SlotRange(index=index, length=length) for index, length in parse_slots(slots)],
        )
    receiver = ReceiverThreads(plan)
    parsed = EjfatUri.parse(uri) if uri else None
    gains = Gains(proportional=kp)
    lost = asyncio.run(_receive(receiver, out, count, duration, parsed, control, ca, request, gains, as_json))
    if lost:
        raise typer.Exit(EXIT_FAILED)


def _worker_address(text: str, listen: Endpoint) -> IpAddress:
    """Return the address of this worker as seen by the load balancer.

    Raises:  BadRequestError: not the address of a single host.
    """
    address = parse_ip(text) if text else listen.ip
    if address.is_unspecified or address.is_multicast:
        raise BadRequestError(f"{address} is not the address of a single worker: give --address")
    return address


def parse_slots(text: str) -> list[tuple[int, int]]:
    """Read slots such as `0-127,256,+64`; return the first slot (-1: anywhere) and the length of each range.

    Raises:  BadRequestError: the text is not a list of slots.
    """
    ranges = []
    for part in text.split(",") if text else []:
        first, dash, last = part.strip().partition("-")
        count = _slot(first[1:]) if first.startswith("+") and not dash else None
        begin, end = _slot(first), _slot(last if dash else first)
        if count is not None:
            ranges.append((-1, count))
        elif begin is not None and end is not None and begin <= end < SLOTS:
            ranges.append((begin, end - begin + 1))
        else:
            raise BadRequestError(
                f"{part!r} is not a range of slots such as 0-127, 256, or +64; the last slot is {SLOTS - 1}"
            )
    return ranges


def _slot(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _DIGITS and int(text) <= SLOTS else None


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequestError(f"{path}: {error.strerror}") from None


async def _receive(
    receiver: ReceiverThreads,
    out: Path | None,
    count: int,
    duration: float,
    uri: EjfatUri | None,
    control: str,
    ca: Path | None,
    request: pb.RegisterRequest | None,
    gains: Gains,
    as_json: bool,
) -> int:
    """Receive until the end is requested or a limit is reached; return how many events and datagrams were lost."""
    from ejfat.live.feedback import Reporter

    receiver.start()
    say("receiving")
    reporter = watch = None
    tasks: list[asyncio.Task[None]] = []
    try:
        if uri is not None and request is not None:
            reporter = Reporter(uri, request, gains, control=control, ca=ca)
            say(f"session {await reporter.register()}")
            tasks.append(asyncio.create_task(reporter.report(receiver.measure)))
            watch = _watch(uri, control, ca, settles=False)
        consumer = asyncio.create_task(_consume(receiver, out, count))
        tasks.append(consumer)
        call_on_ending_signals(consumer.cancel)
        async with watch.running() if watch else contextlib.nullcontext():
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(consumer, duration or None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        counters, missed, (incomplete, untaken) = receiver.counters(), receiver.missed(), receiver.left()
        try:
            receiver.close()
        finally:
            if reporter is not None:
                await reporter.close()
    overflowed = receiver.enqueue_errors
    if as_json:
        from dataclasses import asdict

        more = {"enqueue_errors": overflowed, "missed": missed, "incomplete": incomplete, "untaken": untaken}
        print(json.dumps(asdict(counters) | more | {"issues": _issues(watch)}))
    else:
        texts = {
            "missed: the sockets had no room for them": missed,
            "events thrown away: the queue was full": overflowed,
            "events incomplete at the end": incomplete,
            "complete events not handed over at the end": untaken,
        }
        say(
            ", ".join((counters.summary(), *(f"{number} {text}" for text, number in texts.items() if number)))
        )
    return counters.events_lost + overflowed + missed


def _write(out: Path, event: Event) -> None:
    if str(out) == "-":
        sys.stdout.buffer.write(event.data)
        sys.stdout.buffer.flush()
        return
    name = f"event-{event.key.event}-{event.key.data_id}"
    for number in count_from(
        1
    ):  # of another sender, or after numbers began again: an event never replaces another
        with contextlib.suppress(FileExistsError):
            with (out / (f"{name}.{number}.bin" if number > 1 else f"{name}.bin")).open("xb") as file:
                file.write(event.data)
            return


def _why(lost: LostEvent) -> str:
    return lost.reason if lost.limit is None else f"{lost.reason} (--max-event)"


async def _consume(receiver: ReceiverThreads, out: Path | None, count: int) -> None:
    from ejfat.events.event import LostEvent

    done = 0
    async for what in receiver.results():
        if isinstance(what, LostEvent):
            of = f" of {what.source[0]} port {what.source[1]}" if isinstance(what.source, tuple) else ""
            say(f"lost event {what.key.event} data id {what.key.data_id}{of}: {_why(what)}")
            continue
        if out is not None:
            try:
                await asyncio.to_thread(_write, out, what)
            except OSError as error:
                raise EjfatError(f"{out}: {error.strerror}") from None
        done += 1
        if done == count:
            return
