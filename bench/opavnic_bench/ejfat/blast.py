"""A sender for the benchmark, run as a program on a host: sends single-packet events faster than they can be handled.

It registers a worker with a control plane, waits until that has the whole calendar, and says `ready`. For every line
on stdin, a number of seconds and packets per second (0: as many as it can), it sends for as long and prints how many
packets that were. Many packets are given to the kernel in one call (UDP_SEGMENT), which leaves the processors to what
is measured.

`python -m opavnic_bench.ejfat.blast CONFIG`, CONFIG as JSON: target, payload, uri, control, worker (text or number).
Without a uri it sends at once, to who needs no worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from typing import Any

from ejfat.base.errors import EjfatError
from ejfat.control.feedback import Gains
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.events.event import Segmenter
from ejfat.events.uri import EjfatUri
from ejfat.live.feedback import Reporter, call, channel_to
from ejfat.wire.headers import LB_PORT

WORKER_PORT = 10000
_UDP_SEGMENT = 103
_MOST_SEGMENTS = 64
_LARGEST = 65507
_TRIES = 5
_SENDS = 32
"""Calls between two readings of the clock."""


async def register(config: dict[str, Any]) -> None:
    """Register the worker and wait until it owns every slot. It keeps them, as no other worker registers.

    Raises:  EjfatError: refused, or the control plane is not reachable.
    """
    uri = EjfatUri.parse(config["uri"])
    request = pb.RegisterRequest(
        name="worker",
        weight=1.0,
        ipAddress=config["worker"],
        udpPort=WORKER_PORT,
        minFactor=0.5,
        maxFactor=2.0,
    )
    for left in reversed(range(_TRIES)):
        try:
            await Reporter(uri, request, Gains(), control=config["control"]).register()
            break
        except (
            EjfatError
        ):  # the load balancer still works on the last measurement: its question went unanswered
            if not left:
                raise
    async with channel_to(uri, config["control"]) as channel:
        question = pb.LoadBalancerStatusRequest(lbId=uri.lb_id)
        while True:
            status = await call(pb_grpc.LoadBalancerStub(channel).LoadBalancerStatus, question, uri.token)
            if sum(worker.slotsAssigned for worker in status.workers) == status.slotResolution:
                return
            await asyncio.sleep(0.05)


def sends(payload: int) -> tuple[list[bytes], int, int]:
    """Return the data of each call to the kernel, the size of a packet, and the number of packets in a call."""
    segmenter = Segmenter(version=2, mtu=9000)

    def packet(tick: int) -> bytes:
        return next(iter(segmenter.payloads(bytes(payload), tick=tick, data_id=1, event=tick)))

    size = len(packet(1))
    count = min(_MOST_SEGMENTS, _LARGEST // size)
    ticks = iter(range(1_000_000, 1_000_000 + 512 * count))
    return [b"".join(packet(next(ticks)) for _ in range(count)) for _ in range(512)], size, count


def blast(
    sock: socket.socket, calls: list[bytes], seconds: float, calls_per_second: float
) -> tuple[int, float]:
    """Send for `seconds`; return the number of calls that the kernel accepted, and the time."""
    done, position, started = 0, 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        if calls_per_second and (early := done / calls_per_second - elapsed) > 0:
            time.sleep(early)
            continue
        if calls_per_second:
            with contextlib.suppress(OSError):
                sock.send(calls[position])
                done += 1
            position = (position + 1) % len(calls)
            continue
        for data in calls[position : position + _SENDS]:
            with contextlib.suppress(OSError):  # the interface's queue is full: that packet is lost
                sock.send(data)
                done += 1
        position = (position + _SENDS) % len(calls)
    return done, elapsed


def main(config: dict[str, Any]) -> None:
    """Register, then send once for each line on stdin."""
    if "uri" in config:
        asyncio.run(register(config))
    calls, size, count = sends(config["payload"])
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
    ):
        # without a socket, the kernel would check and answer each packet, in the time of who forwards it
        with contextlib.suppress(OSError, KeyError):  # the worker is another host; there is none
            sink.bind((config["worker"], WORKER_PORT))
        sock.connect((config["target"], LB_PORT))
        try:
            sock.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, size)
        except OSError:  # an old kernel
            calls, count = [data[:size] for data in calls], 1
        print("ready", flush=True)  # noqa: T201 - tells the bench that it may begin
        for line in sys.stdin:
            wanted_s, rate = map(float, line.split())
            done, elapsed = blast(sock, calls, wanted_s, rate / count)
            print(json.dumps({"packets": done * count, "seconds": elapsed}), flush=True)  # noqa: T201 - to the bench


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
