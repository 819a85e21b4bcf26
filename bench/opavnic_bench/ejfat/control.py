"""The control plane with a state file, asked over gRPC: what a change costs when there are many workers already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import INSTANCES, InstanceAddresses, PlaneConfig
from ejfat.events.uri import EjfatUri
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.feedback import call, channel_to
from opavnic_bench.base.turns import ratio

_TOKEN = "operator"  # noqa: S105 - of a control plane that ends with the measurement
CHANGES = 1000
_GROUP = 100
_MOST_WORKERS = 900
"""With the hundred that warms up as many as the data plane's table of members has room for, about."""
_PERIOD_S = 3600.0
"""No epoch is made meanwhile: that is the work of a period, whatever the number of changes in it."""
_ARP = b"\x08\x06"


def bench_control(changes: int = CHANGES) -> list[dict[str, Any]]:
    """Measure so many reservations and registrations, with all state on disk.

    Returns: a row for each kind of change: seconds for each hundred, by the clock and of the processor, and the
        last hundred divided by the first (of the processor: other programs do not count).
    """
    with TemporaryDirectory(prefix="ejfat-") as directory:
        return asyncio.run(_measure(Path(directory), changes))


async def _measure(directory: Path, changes: int) -> list[dict[str, Any]]:
    instances = tuple(InstanceAddresses(ip_address(f"10.0.0.{number + 1}")) for number in range(INSTANCES))
    control = f"unix:{directory}/cp.sock"
    plane = PlaneConfig(mac=0x020000000001, instances=instances)
    config = AppConfig(plane, control, _TOKEN, state=directory / "state.db", period_s=_PERIOD_S)
    app = LbApp(config, lambda frame: _answer(app, frame))
    await app.start()
    try:
        uri = EjfatUri(host="localhost", port=1024, token=_TOKEN)
        async with channel_to(uri, control) as channel:
            stub = pb_grpc.LoadBalancerStub(channel)

            async def reserve(number: int, *, free: bool) -> Any:
                request = pb.ReserveLoadBalancerRequest(name=f"run{number}", senderAddresses=["10.0.0.99"])
                reply = await call(stub.ReserveLoadBalancer, request, _TOKEN)
                if free:
                    await call(stub.FreeLoadBalancer, pb.FreeLoadBalancerRequest(lbId=reply.lbId), _TOKEN)
                return reply

            async def register(number: int) -> None:
                owner = owners[number % len(owners)]
                worker = ip_address("10.2.0.0") + number
                request = pb.RegisterRequest(
                    lbId=owner.lbId, name=f"w{number}", weight=1, ipAddress=str(worker), udpPort=10000
                )
                await call(stub.Register, request, owner.token)

            reservations = await _hundreds(changes, lambda number: reserve(number, free=True))
            owners = [await reserve(number, free=False) for number in range(INSTANCES)]
            registrations = await _hundreds(min(changes, _MOST_WORKERS), register)
    finally:
        await app.stop()
    return [_row("reserve and free", reservations), _row("register a worker", registrations)]


def _row(what: str, seconds: list[tuple[float, float]]) -> dict[str, Any]:
    processor = [one for _, one in seconds]
    return {
        "what": what,
        "seconds_per_100": [round(one, 4) for one, _ in seconds],
        "processor_per_100": [round(one, 4) for one in processor],
        "last_to_first": None if len(seconds) < 2 else ratio(processor[-1], processor[0]),
    }


async def _hundreds(changes: int, change: Callable[[int], Awaitable[Any]]) -> list[tuple[float, float]]:
    """Make changes one after the other; return the seconds of each hundred, by the clock and of the processor."""
    seconds = []
    for first in range(-_GROUP, changes, _GROUP):  # the first hundred warms up, and counts in no row
        started, busy = time.perf_counter(), time.process_time()
        for number in range(first, min(first + _GROUP, changes)):
            await change(number)
        seconds.append((time.perf_counter() - started, time.process_time() - busy))
    return seconds[1:]


def _answer(app: LbApp, frame: bytes) -> None:
    """Answer ARP requests for every worker."""
    if frame[12:14] == _ARP:
        mac = b"\x02\x00" + frame[38:42]
        reply = frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + frame[22:32]
        asyncio.get_running_loop().call_soon(app.receive, reply)
