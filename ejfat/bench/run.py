"""The measurements of `opavnic bench ejfat`, one after the other, in one run."""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ejfat.bench.figures import PIPELINE, RELAY, Figure, as_plain, figure, ratios
from ejfat.bench.frames import make_frames, make_tables
from ejfat.bench.labs import memory_lab, tap_labs
from ejfat.bench.relay import LOOPBACK
from ejfat.pipeline.native import Backend, NativePipeline, make_pipeline
from ejfat.segmentation import Segmenter
from hfi_sim import precise_loop

DEFAULT_SECONDS = 0.5
DEFAULT_ROUNDS = 3
PAYLOADS = (100, 1400)
"""Bytes of an event in a packet: a small one, and one that fills an MTU of 1500."""
_BATCH = 64
_NATIVE_TIMES = 16


def bench_ejfat(
    rounds: int = DEFAULT_ROUNDS,
    seconds: float = DEFAULT_SECONDS,
    *,
    no_taps: str = "",
    private: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Measure pipelines, labs, the program and a relay: medians of `rounds`, each of `seconds`.

    Args:    no_taps: why what needs TAPs is left out; empty: it is not. private: see `Lab`.
    Returns: plain data; `figures` holds a row for each measurement, `ratios` compares them, `skipped` says what is
        missing and why.
    """
    choice = make_pipeline("auto")
    kinds: list[Backend] = ["python"] if choice.reason else ["python", "native"]
    skipped = {"native": choice.reason} if choice.reason else {}
    if no_taps:
        skipped["TAPs"] = no_taps
    figures: list[Figure] = []
    for by in kinds:
        progress(f"the pipeline, {by}")
        figures += [
            pipeline_figure(by, version, payload, rounds, seconds)
            for version in (1, 2, 3)
            for payload in PAYLOADS
        ]
    for by in kinds:
        progress(f"labs, {by}")
        figures += [precise_loop.run(memory_lab(by, payload, rounds, seconds)) for payload in PAYLOADS]
        if not no_taps:
            figures += precise_loop.run(tap_labs(by, PAYLOADS, rounds, seconds, private=private))
    progress("the relay")
    figures += [relay_figure(payload, rounds, seconds) for payload in PAYLOADS]
    return {
        "rounds": rounds,
        "seconds": seconds,
        "figures": as_plain(figures),
        "ratios": ratios(figures),
        "skipped": skipped,
    }


def pipeline_figure(by: Backend, version: int, payload: int, rounds: int, seconds: float) -> Figure:
    """Measure a pipeline alone, on frames in memory: the native one takes them into a buffer first, as from a read."""
    pipeline = make_pipeline(by, make_tables()).pipeline
    frames = make_frames(version, payload)
    rates, packets = [], 0
    for _ in range(rounds):
        before, started = packets, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            if isinstance(pipeline, NativePipeline):
                pipeline.core.repeat(frames, _NATIVE_TIMES)
                packets += _NATIVE_TIMES * len(frames)
            else:
                for frame in frames:
                    pipeline.process(frame)
                packets += len(frames)
        rates.append((packets - before) / elapsed)
    lost = packets - pipeline.counters.tx_packets
    return figure(PIPELINE, by, payload, rates, version=version, size=len(frames[0]), lost=lost)


def relay_figure(payload: int, rounds: int, seconds: float) -> Figure:
    """Measure a UDP relay in Python between two sockets of the loopback, sender and receiver here."""
    data = next(iter(Segmenter(version=2, mtu=9000).payloads(bytes(payload), tick=1, data_id=1, event=1)))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        _relay(_bind(sink)) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
        selectors.DefaultSelector() as selector,
    ):
        source.connect((LOOPBACK, port))
        selector.register(sink, selectors.EVENT_READ)
        sent = got = 0
        rates = []
        for _ in range(rounds):
            before, started = got, time.perf_counter()
            while (elapsed := time.perf_counter() - started) < seconds:
                for _ in range(_BATCH):  # a window: what is under way fits the sockets' buffers
                    source.send(data)
                sent += _BATCH
                while got < sent and selector.select(1.0):
                    got += _drain(sink)
            rates.append((got - before) / elapsed)
    return figure(RELAY, "python", payload, rates, version=None, size=len(data), lost=sent - got)


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


@contextmanager
def _relay(target_port: int) -> Iterator[int]:
    """Run the relay as a process, for as long as the context lasts; its port."""
    command = [sys.executable, "-m", "ejfat.bench.relay", "0", str(target_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()
