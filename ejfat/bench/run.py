"""The measurements of `opavnic bench ejfat`."""

from __future__ import annotations

import asyncio
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import cycle
from typing import Any

from ejfat.bench.relay import LOOPBACK
from ejfat.control import programming
from ejfat.control.calendar import spread
from ejfat.control.epochs import EpochManager
from ejfat.control.programming import Rewrite, Target
from ejfat.demo.lab import NodeLab
from ejfat.live.memory_host import MemoryUdpHost
from ejfat.live.node import LbNode
from ejfat.pipeline import Pipeline
from ejfat.schema import Op
from ejfat.segmentation import Segmenter
from opavnic.lab.model import LabModel

DEFAULT_SECONDS = 2.0
PAYLOADS = (100, 1400)
"""Bytes of an event in a packet: a small one, and one that fills an MTU of 1500."""
_EVENTS = 2048
_BATCH = 64
_SRC = ip_address("10.8.0.2")
_LB = ip_address("10.8.0.1")
_WORKER = ip_address("10.8.0.3")
_LB_MAC = 0x020000000001


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement."""

    what: str
    where: str
    version: int | None
    payload: int
    packets_per_second: float
    gbit_per_second: float
    """Of Ethernet frames (UDP payloads for the relay), as they come in."""
    lost: int = 0


def bench_ejfat(seconds: float = DEFAULT_SECONDS) -> dict[str, Any]:
    """Measure pipeline, lab and relay, one after the other, each for `seconds`.

    Returns: plain data; `figures` holds a row for each measurement. The native pipeline is listed as missing where
    there is none.
    """
    figures = [pipeline_figure(version, payload, seconds) for version in (1, 2, 3) for payload in PAYLOADS]
    figures += [asyncio.run(_lab_figure(payload, seconds)) for payload in PAYLOADS]
    figures += [relay_figure(payload, seconds) for payload in PAYLOADS]
    rows = [{name: getattr(figure, name) for name in Figure.__slots__} for figure in figures]
    return {"seconds": seconds, "figures": rows, "native": "not built: the pipeline is Python"}


def make_pipeline(members: int = 4, *, worker: Rewrite | None = None, mac: int = _LB_MAC) -> Pipeline:
    """Return a pipeline that serves all versions with `members` members, or with one given worker."""
    pipeline = Pipeline()
    target = Target(0, with_v1=True)
    rewrites = (
        [worker]
        if worker
        else [Rewrite(n, 0x020000000100 + n, ip_address(f"10.8.1.{n + 1}"), 10000) for n in range(members)]
    )
    updates = programming.own_addresses(target, mac, [_LB])
    updates.append(programming.sender(target, _SRC, Op.PUT))
    for rewrite in rewrites:
        updates += programming.member(target, rewrite, Op.PUT)
    updates += EpochManager(target).begin(spread({r.member_id: 512 // len(rewrites) for r in rewrites}))
    pipeline.tables.apply(updates)
    return pipeline


def make_frames(version: int, payload: int, mac: int = _LB_MAC) -> list[bytes]:
    """Return a frame for each of some thousand ticks."""
    segmenter = Segmenter(version=version, mtu=9000)
    return [
        segmenter.frames(bytes(payload), tick=tick, data_id=1, event=tick, src=_SRC, dst=_LB, dst_mac=mac)[0]
        for tick in range(1_000_000, 1_000_000 + _EVENTS)
    ]


def pipeline_figure(version: int, payload: int, seconds: float) -> Figure:
    """Measure the pipeline alone."""
    pipeline = make_pipeline()
    frames = make_frames(version, payload)
    process = pipeline.process
    done, elapsed = _repeat(lambda: [process(frame) for frame in frames], seconds)
    packets = done * len(frames)
    lost = packets - pipeline.counters.tx_packets
    return _figure("pipeline", "python", version, payload, packets, len(frames[0]), elapsed, lost)


def _repeat(work: Callable[[], object], seconds: float) -> tuple[int, float]:
    done, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        work()
        done += 1
    return done, elapsed


async def _lab_figure(payload: int, seconds: float) -> Figure:
    """Measure source, load balancer and worker on a virtual switch: three VNICs, a fabric, ICRCs and all."""
    hosts = ["lb", "source", "worker"]
    model = LabModel.model_validate(
        {
            "name": "ejfat-bench",
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 8, "name": "daq", "mtu": 9000, "subnet": "10.8.0.0/24", "members": hosts}],
        }
    )
    async with NodeLab(model, nodes=frozenset(), netdev="memory") as lab:
        lb, source = lab.node_netdev("lb"), lab.node_netdev("source")
        sink = MemoryUdpHost(lab.node_netdev("worker"), _WORKER)  # type: ignore[arg-type]
        got = 0

        def count(_payload: bytes, _port: int) -> None:
            nonlocal got
            got += 1

        sink.on_udp = count
        mac = int.from_bytes(lb.address, "big")
        worker = Rewrite(0, int.from_bytes(sink.netdev.address, "big"), _WORKER, 10000)
        node = LbNode(
            make_pipeline(worker=worker, mac=mac),
            lb.transmit,
            mac=lambda: bytes(lb.address),
            addresses=[_LB],
            now=time.time,
            on_sync=lambda *_: None,
        )
        lb.on_receive = node.receive
        frames = cycle(
            frame[:6] + bytes(source.address) + frame[12:] for frame in make_frames(2, payload, mac)
        )
        sent, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            for _ in range(_BATCH):
                source.transmit(next(frames))
            sent += _BATCH
            await asyncio.sleep(0)
        size = 14 + 28 + Segmenter(version=2).headers + payload
        return _figure("live in a lab", "python", 2, payload, got, size, elapsed, sent - got)


def relay_figure(payload: int, seconds: float) -> Figure:
    """Measure a UDP relay in Python between two sockets of the loopback, sender and receiver here."""
    data = next(iter(Segmenter(version=2, mtu=9000).payloads(bytes(payload), tick=1, data_id=1, event=1)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink, _relay(_bind(sink)) as port:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
            selectors.DefaultSelector() as selector,
        ):
            source.connect((LOOPBACK, port))
            selector.register(sink, selectors.EVENT_READ)
            sent = got = 0
            started = time.perf_counter()
            while (elapsed := time.perf_counter() - started) < seconds:
                for _ in range(_BATCH):  # a window: what is under way fits the sockets' buffers
                    source.send(data)
                sent += _BATCH
                while got < sent and selector.select(0.05):
                    got += _drain(sink)
        return _figure("UDP relay", "python", None, payload, got, len(data), elapsed, sent - got)


def _bind(sink: socket.socket) -> int:
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sink.bind((LOOPBACK, 0))
    sink.setblocking(False)
    return int(sink.getsockname()[1])


def _drain(sink: socket.socket) -> int:
    got = 0
    while True:
        try:
            sink.recv(65535)
        except BlockingIOError:
            return got
        got += 1


class _relay:  # noqa: N801 - used as a context manager
    """The relay as a process, for as long as the context lasts."""

    def __init__(self, target_port: int) -> None:
        command = [sys.executable, "-m", "ejfat.bench.relay", "0", str(target_port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        return int(self._process.stdout.readline().split()[1])

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _figure(
    what: str,
    where: str,
    version: int | None,
    payload: int,
    packets: int,
    size: int,
    elapsed: float,
    lost: int,
) -> Figure:
    rate = packets / elapsed
    return Figure(what, where, version, payload, round(rate), round(rate * size * 8 / 1e9, 4), lost)


def rows_for_table(result: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a result's figures as a table shows them."""
    for row in result["figures"]:
        version = "" if row["version"] is None else f"v{row['version']}"
        yield (
            row["what"],
            row["where"],
            version,
            row["payload"],
            f"{row['packets_per_second']:,}",
            f"{row['gbit_per_second']:.3f}",
            row["lost"],
        )
