"""The measurements of `opavnic bench ejfat`, in turns, in one run."""

from __future__ import annotations

import contextlib
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from ejfat.events.event import Segmenter
from ejfat.pipeline.native import Backend, NativePipeline, make_pipeline
from hfi_sim.base import precise_loop
from opavnic_bench.base.turns import PeerError, Progress, repeat, silent, take_turns
from opavnic_bench.ejfat.control import CHANGES, bench_control
from opavnic_bench.ejfat.figures import MOCK, PIPELINE, RELAY, LbCase, LbSample, figure, ratios
from opavnic_bench.ejfat.frames import make_frames, make_tables
from opavnic_bench.ejfat.labs import memory_lab, tap_labs
from opavnic_bench.ejfat.mock import mock, why_no_mock
from opavnic_bench.ejfat.relay import LOOPBACK

PAYLOADS = (100, 1400)
"""Bytes of an event in a packet: a small one, and one that fills an MTU of 1500."""
_BATCH = 64
_NATIVE_TIMES = 16
_FIRST_TRIES, _FIRST_WAIT_S = 100, 0.1


def bench_ejfat(
    rounds: int,
    seconds: float,
    *,
    no_taps: str = "",
    private: bool = False,
    changes: int = CHANGES,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure pipelines, labs, the program and a relay: medians of `rounds`, each of `seconds`.

    Args:    no_taps: why what needs TAPs is left out; empty: it is not. private: see `Lab`. changes: of the control
        plane's state.
    Returns: plain data; `figures` holds a row for each measurement, `ratios` compares them, `control` has what changes
        of the control plane cost, `skipped` says what is missing and why.
    """
    choice = make_pipeline("auto")
    kinds: list[Backend] = ["python"] if choice.reason else ["python", "native"]
    skipped = {"native": choice.reason} if choice.reason else {}
    if no_taps:
        skipped["TAPs"] = no_taps
    stations: dict[str, Callable[[], dict[LbCase, LbSample]]] = {}
    for by in kinds:
        stations[f"the pipeline, {by}"] = partial(pipelines, by, seconds)
    for by in kinds:
        stations[f"labs in memory, {by}"] = partial(memory_labs, by, seconds)
        if not no_taps:
            stations[f"labs on TAPs, {by}"] = partial(on_taps, by, seconds, private)
    stations["the relay"] = partial(relays, seconds)
    no_mock = why_no_mock()
    if no_mock:
        skipped["udplbd2's mock"] = no_mock
    else:
        stations["udplbd2's mock"] = partial(mocks, seconds)
    run = take_turns([*stations], lambda name: stations[name](), rounds, progress=progress)
    figures = [
        # a case may be missing from a round in which no rate without loss was found
        figure(case, [sample[case] for sample in samples if case in sample])
        for samples in run.samples.values()
        for case in dict.fromkeys(case for sample in samples for case in sample)
    ]
    return {
        "rounds": rounds,
        "seconds": seconds,
        "figures": [asdict(one) for one in figures],
        "ratios": ratios(figures),
        "control": bench_control(changes),
        "skipped": skipped | run.skipped,
    }


def pipelines(by: Backend, seconds: float) -> dict[LbCase, LbSample]:
    """Measure a pipeline alone, with every version of the header."""
    return {
        LbCase(PIPELINE, by, version, payload): _pipeline(by, version, payload, seconds)
        for version in (1, 2, 3)
        for payload in PAYLOADS
    }


def _pipeline(by: Backend, version: int, payload: int, seconds: float) -> LbSample:
    """Measure on frames in memory: the native pipeline takes them into a buffer first, as from a read."""
    pipeline = make_pipeline(by, make_tables())
    frames = make_frames(version, payload)

    def step() -> int:
        if isinstance(pipeline, NativePipeline):
            pipeline.core.repeat(frames, _NATIVE_TIMES)
            return _NATIVE_TIMES * len(frames)
        for frame in frames:
            pipeline.process(frame)
        return len(frames)

    packets, elapsed = repeat(step, seconds)
    return LbSample(packets / elapsed, packets - pipeline.counters.tx_packets, len(frames[0]))


def memory_labs(by: Backend, seconds: float) -> dict[LbCase, LbSample]:
    """Measure the load balancer in a lab in memory."""
    return {
        case: sample
        for payload in PAYLOADS
        for case, sample in precise_loop.run(memory_lab(by, payload, seconds)).items()
    }


def on_taps(by: Backend, seconds: float, private: bool) -> dict[LbCase, LbSample]:
    """Measure the load balancer in a lab on TAPs, and as a program on a TAP."""
    return precise_loop.run(tap_labs(by, PAYLOADS, seconds, private=private))


def relays(seconds: float) -> dict[LbCase, LbSample]:
    """Measure a UDP relay in Python between two sockets of the loopback."""
    return {
        LbCase(RELAY, "python", None, payload): _through(_relay, payload, seconds) for payload in PAYLOADS
    }


def mocks(seconds: float) -> dict[LbCase, LbSample]:
    """Measure udplbd2's software data plane between two sockets of the loopback."""
    return {LbCase(MOCK, "udplbd2", 2, payload): _through(mock, payload, seconds) for payload in PAYLOADS}


def _through(between: Callable[[int], AbstractContextManager[int]], payload: int, seconds: float) -> LbSample:
    """Measure a program that forwards datagrams. Args: between: starts it, to a port; returns the port to send to."""
    data = next(iter(Segmenter(version=2, mtu=9000).payloads(bytes(payload), tick=1, data_id=1, event=1)))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        between(_bind(sink)) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
        selectors.DefaultSelector() as selector,
    ):
        source.connect((LOOPBACK, port))
        selector.register(sink, selectors.EVENT_READ)
        _until_it_forwards(source, sink, data, selector)
        sent = got = 0

        def step() -> int:
            nonlocal sent, got
            before = got
            for _ in range(_BATCH):  # a window: what is in flight fits in the sockets' buffers
                source.send(data)
            sent += _BATCH
            while got < sent and selector.select(1.0):
                got += _drain(sink)
            return got - before

        arrived, elapsed = repeat(step, seconds)
        return LbSample(arrived / elapsed, sent - got, len(data))


def _until_it_forwards(
    source: socket.socket, sink: socket.socket, data: bytes, selector: selectors.BaseSelector
) -> None:
    """Send until a datagram arrives, then take what else is on its way."""
    for _ in range(_FIRST_TRIES):
        with contextlib.suppress(ConnectionRefusedError):  # it does not listen yet
            source.send(data)
        if selector.select(_FIRST_WAIT_S):
            break
    else:
        raise PeerError("nothing comes through")
    while selector.select(_FIRST_WAIT_S):
        _drain(sink)


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
    """Run the relay as a process and yield its port; kill it at the end."""
    command = [sys.executable, "-m", "opavnic_bench.ejfat.relay", "0", str(target_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()
