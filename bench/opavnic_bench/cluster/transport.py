"""`opavnic bench transport`: trains of packets between two processes on the loopback by Zenoh.

Ways: `transport` is what a fabric over several machines uses, windows and acknowledgements included; `wheel` the bare
wheel beneath it, and `crate` the same trains by Zenoh's Rust crate (bench/zenoh-rs, built apart). The last two put as
fast as they can and let Zenoh block them. Every receiver takes the packets of a train apart.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opavnic.cluster.protocol.membership import MachineRole
from opavnic.cluster.protocol.messages import Body, Packets, StreamId, Train, build_train, parse
from opavnic.cluster.protocol.transport import NodeName
from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan, config, to_json5
from opavnic.cluster.zenoh.own_addresses import with_port
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic_bench.base.turns import BenchError, PeerError, Progress, silent, take_turns

if TYPE_CHECKING:
    import zenoh

BATCHES: Final = (1, 4, 16, 64)
SIZES: Final = (128, 1500, 9000)
_ENDS: Final = StreamId(1, 0, 1, 2, 1)
_READY: Final = "ready"
_LINK: Final = "link"
_START_S: Final = 20.0
_BITS: Final = 8
COLUMNS: Final = ("way", "size", "shm", "batch", "packets_per_second", "gbps", "rtt_us_p50")


@dataclass(frozen=True, slots=True)
class TransportCase:
    """One way, packets of one size."""

    way: str
    size: int
    shm: bool
    program: tuple[str, ...]
    """What is started with `receive ADDRESS` or `send ADDRESS SIZE SECONDS shm|tcp BATCH...`."""

    @property
    def label(self) -> str:
        """Its name in progress and errors."""
        return f"{self.way}, {self.size} bytes{', shared memory' if self.shm else ''}"


def cases(sizes: Sequence[int], crate: Path | None) -> list[TransportCase]:
    """Return what is measured."""
    programs: dict[str, tuple[str, ...]] = {
        way: (sys.executable, "-m", "opavnic_bench.cluster.transport", way) for way in ("transport", "wheel")
    }
    if crate is not None:
        programs["crate"] = (str(crate),)
    return [
        TransportCase(way, size, shm, program)
        for size in sizes
        for shm in (False, True)
        for way, program in programs.items()
    ]


def bench_transport(
    seconds: float,
    *,
    sizes: Sequence[int] = SIZES,
    batches: Sequence[int] = BATCHES,
    crate: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure every case for `seconds` per batch size. Raises BenchError if a program cannot be started."""
    try:
        import zenoh  # noqa: F401 - whether it is there
    except ImportError:
        raise BenchError("this benchmark needs Zenoh: pip install 'opavnic[cluster]'") from None
    if crate is not None and not crate.is_file():
        raise BenchError(f"{crate}: build it with `cargo build --release` in bench/zenoh-rs")
    run = take_turns(
        cases(sizes, crate),
        lambda case: _measure(case, seconds, batches),
        label=lambda case: case.label,
        progress=progress,
    )
    return {
        "seconds": seconds,
        "runs": list(itertools.chain.from_iterable(run.single())),
        "skipped": run.skipped,
    }


def _measure(case: TransportCase, seconds: float, batches: Sequence[int]) -> list[dict[str, Any]]:
    address = str(with_port(Address.parse("tcp/127.0.0.1:0", is_listen=True)))
    with subprocess.Popen(
        [*case.program, "receive", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as receiver:
        try:
            assert receiver.stdout is not None  # noqa: S101 - a pipe
            if receiver.stdout.readline().strip() != _READY:
                raise PeerError(f"{case.label}: the receiver did not start")
            arguments = [str(case.size), str(seconds), "shm" if case.shm else "tcp", *map(str, batches)]
            done = subprocess.run(
                [*case.program, "send", address, *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=_START_S + 2 * (seconds + 1) * len(batches),
            )
        except subprocess.TimeoutExpired:
            raise PeerError(f"{case.label}: did not end") from None
        finally:
            receiver.kill()
    if done.returncode != 0:
        raise PeerError(f"{case.label}: {done.stderr.strip()[-300:]}")
    return [_row(case, json.loads(line)) for line in done.stdout.splitlines()]


def _row(case: TransportCase, measured: dict[str, Any]) -> dict[str, Any]:
    named = {key: value for key, value in asdict(case).items() if key != "program"}
    gbps = round(measured["packets_per_second"] * case.size * _BITS / 1e9, 3)
    return {**named, **measured, "gbps": gbps}


def _figures(batch: int, packets: int, took_s: float, trips: list[float]) -> str:
    return json.dumps(
        {
            "batch": batch,
            "packets_per_second": round(packets / took_s),
            "rtt_us_p50": round(statistics.median(trips) * 1e6, 1),
        }
    )


def _session(plan: SessionPlan) -> zenoh.Session:
    import zenoh

    return zenoh.open(zenoh.Config.from_json5(to_json5(config(plan, None))))


def _publisher(session: zenoh.Session, key: str, *, express: bool) -> zenoh.Publisher:
    import zenoh

    return session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK, express=express)


def _wheel_receives(plan: SessionPlan) -> None:
    import zenoh

    session, counted, done = _session(plan), [0], threading.Event()
    pong = _publisher(session, "b/pong", express=True)

    def on_data(sample: zenoh.Sample) -> None:
        train = parse(sample.payload.to_bytes())
        counted[0] += len(train.body.packets) if isinstance(train, Train) else 0

    def on_ping(sample: zenoh.Sample) -> None:
        payload = sample.payload.to_bytes()
        parse(payload)
        pong.put(payload)

    def on_end(sample: zenoh.Sample) -> None:
        if not sample.payload:
            done.set()
            return
        session.put("b/count", struct.pack(">Q", counted[0]))
        counted[0] = 0

    calls = (("b/data", on_data), ("b/ping", on_ping), ("b/end", on_end))
    held = [
        session.declare_subscriber(key, zenoh.handlers.Callback(call, indirect=False)) for key, call in calls
    ]
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    done.wait()
    del held


def _wheel_sends(plan: SessionPlan, size: int, seconds: float, batches: Sequence[int]) -> None:
    import zenoh

    session = _session(plan)
    told: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    hear: Any = zenoh.handlers.Callback(lambda sample: told.put(sample.payload.to_bytes()), indirect=False)
    held = [session.declare_subscriber(key, hear) for key in ("b/count", "b/pong")]
    data, ping = _publisher(session, "b/data", express=False), _publisher(session, "b/ping", express=True)
    end = _publisher(session, "b/end", express=False)
    while not (data.matching_status and ping.matching_status and end.matching_status):
        time.sleep(0.01)
    for batch in batches:
        packets, first, begin = [bytes(size)] * batch, 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            data.put(build_train(_ENDS, first, packets))
            first += batch
        end.put(b"?")
        (arrived,) = struct.unpack(">Q", told.get())
        took, trips, begin = time.perf_counter() - begin, [], time.perf_counter()
        while time.perf_counter() - begin < seconds / 2:
            sent = time.perf_counter()
            ping.put(build_train(_ENDS, 0, packets))
            told.get()
            trips.append(time.perf_counter() - sent)
        sys.stdout.write(_figures(batch, arrived, took, trips) + "\n")
    end.put(b"")
    del held
    session.close()


async def _transport_receives(plan: SessionPlan) -> None:
    node = ZenohTransport(plan, MachineRole.COORDINATOR, fabric=1)
    counted, gone, pongs = [0], asyncio.Event(), Packets()

    def send_pongs(link: str, direction: int) -> None:
        while node.send_train(link, direction, 0, pongs.take):
            pass

    def on_train(link: str, direction: int, body: Body) -> None:
        packets = body.packets
        counted[0] += len(packets)
        if packets[0][:1] == b"p":  # a ping: all of its train goes back
            for packet in packets:
                pongs.append(packet)
            send_pongs(link, 1 - direction)

    async def serve(asker: NodeName, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        taken, counted[0] = counted[0], 0
        return {"packets": taken}

    node.on_train, node.on_room, node.serve = on_train, send_pongs, serve
    node.on_node = lambda name, state: (
        gone.set() if state.presence.value == "gone" else node.bind(_LINK, 1, name)
    )
    await node.start()
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    await gone.wait()
    await node.stop()


async def _transport_sends(plan: SessionPlan, size: int, seconds: float, batches: Sequence[int]) -> None:
    node, peer = ZenohTransport(plan, MachineRole.MEMBER), NodeName("receiver")
    room, back, returned = asyncio.Event(), asyncio.Event(), [0]

    def on_train(link: str, direction: int, body: Body) -> None:
        returned[0] += body.count
        back.set()

    node.on_train, node.on_room = on_train, lambda link, direction: room.set()
    await node.start()
    node.bind(_LINK, 0, peer)

    async def send(packets: list[bytes]) -> None:
        waiting = Packets(packets)
        while waiting:
            room.clear()
            if not node.send_train(_LINK, 0, 0, waiting.take):
                await room.wait()

    async def trip(packets: list[bytes]) -> float:
        returned[0], begin = 0, time.perf_counter()
        await send(packets)
        while returned[0] < len(packets):
            back.clear()
            await back.wait()
        return time.perf_counter() - begin

    await trip([b"p" * size])
    for batch in batches:
        await node.ask(peer, "count", {})
        packets, begin = [bytes(size)] * batch, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            await send(packets)
        while (await _acknowledged(node))["under_way"]:
            pass
        arrived = (await node.ask(peer, "count", {}))["packets"]
        took, trips, begin = time.perf_counter() - begin, [], time.perf_counter()
        while time.perf_counter() - begin < seconds / 2:
            trips.append(await trip([b"p" * size] * batch))
        sys.stdout.write(_figures(batch, arrived, took, trips) + "\n")
    await node.stop()


async def _acknowledged(node: ZenohTransport) -> dict[str, int]:
    await asyncio.sleep(0.001)
    return {"under_way": node.links()[_LINK].under_way}


def main() -> None:
    """Be one end of a measurement: WAY receive ADDRESS | WAY send ADDRESS SIZE SECONDS shm|tcp BATCH..."""
    way, role, text, *rest = sys.argv[1:]
    address = Address.parse(text)
    if role == "receive":
        plan = SessionPlan(NodeName("receiver"), (address,), shared_memory=True)
        asyncio.run(_transport_receives(plan)) if way == "transport" else _wheel_receives(plan)
        return
    listen = Address.parse("tcp/127.0.0.1:0", is_listen=True)
    plan = SessionPlan(NodeName("sender"), (with_port(listen),), (address,), shared_memory=rest[2] == "shm")
    size, seconds, batches = int(rest[0]), float(rest[1]), [int(batch) for batch in rest[3:]]
    if way == "transport":
        asyncio.run(_transport_sends(plan, size, seconds, batches))
    else:
        _wheel_sends(replace(plan, listen=()), size, seconds, batches)


if __name__ == "__main__":
    main()
