"""udplbd2's own data plane in software (`udplbd mock`), where its program and its sources are named.

Its control plane programs it as it does a card. It is made for tests: by its source one UDP socket for each instance,
one packet at a time, under one lock. Like the relay it stands between two sockets of the loopback.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from typing import Any

from ejfat.base.errors import EjfatError
from ejfat.control.feedback import Gains
from ejfat.control.members import ReceiverCounters
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.events.uri import EjfatUri
from ejfat.live.feedback import Reporter, call, channel_to
from opavnic_bench.base.turns import PeerError
from opavnic_bench.ejfat.relay import LOOPBACK

_PROGRAM, _SOURCE = "OPAVNIC_UDPLBD2_BIN", "OPAVNIC_UDPLBD2_SRC"
"""As for tests/interop."""
_OPERATOR = EjfatUri.parse("ejfat://udplbd2changeme@127.0.0.1:19523/")
"""By the stock configuration."""
DATA_PORT = 19522
"""To which the stock configuration maps the first instance, on the loopback."""
_PATIENCE_S = 30.0
_LOOK_S = 0.1


def why_no_mock() -> str:
    """Return why the mock cannot be measured; empty if it can be."""
    for variable, path in ((_PROGRAM, ""), (_SOURCE, "etc/example-config.yml")):
        named = os.environ.get(variable)
        if not named:
            return f"{variable} names nothing (tests/interop/README.md)"
        if not (Path(named) / path).is_file():
            return f"{variable}: there is no file {Path(named) / path}"
    return ""


@contextmanager
def mock(worker_port: int) -> Iterator[int]:
    """Run the mock with a worker at a port of the loopback that has every slot; yield the port for data.

    Raises:  PeerError: it did not come so far.
    """
    with TemporaryDirectory(prefix="udplbd-") as directory:
        config = Path(directory) / "config.yml"
        config.write_text(_configuration(directory))
        command = [os.environ[_PROGRAM], "-c", str(config), "--log-level", "error", "mock"]
        with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
            try:
                with _worker(worker_port):
                    yield DATA_PORT
            finally:
                process.kill()


def _configuration(directory: str) -> str:
    """Return the stock configuration with its files in a directory, workers on the loopback allowed, and no log."""
    stock = (Path(os.environ[_SOURCE]) / "etc/example-config.yml").read_text()
    stock = stock.replace('"/tmp/', f'"{directory}/').replace("level: debug", "level: error")
    return re.sub(r"allow_loopback: false", "allow_loopback: true", stock)


@contextmanager
def _worker(port: int) -> Iterator[None]:
    """Keep a worker registered that reports from a thread, so that it stays ready while its packets are counted."""
    loop = asyncio.new_event_loop()
    failed: list[Exception] = []
    known, done = threading.Event(), asyncio.Event()

    async def run() -> None:
        try:
            await _serve(port, known.set, done)
        except Exception as error:  # told in the thread that measures
            failed.append(error)
        finally:
            known.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    try:
        known.wait()
        if failed:
            raise PeerError(f"udplbd's mock: {failed[0]}") from failed[0]
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


async def _serve(port: int, tell_ready: Callable[[], object], done: asyncio.Event) -> None:
    """Reserve, register and report until `done`; call `tell_ready` once the worker has every slot."""
    async with channel_to(_OPERATOR) as channel:
        stub = pb_grpc.LoadBalancerStub(channel)
        request = pb.ReserveLoadBalancerRequest(name="bench", senderAddresses=[LOOPBACK], strategy="dynamic")
        reply: Any = await _patiently(lambda: call(stub.ReserveLoadBalancer, request, _OPERATOR.token))
        uri = replace(_OPERATOR, token=reply.token, lb_id=reply.lbId)
        what = pb.RegisterRequest(
            name="bench", weight=1.0, ipAddress=LOOPBACK, udpPort=port, minFactor=0.5, maxFactor=2.0
        )
        reporter = Reporter(uri, what, Gains())
        await reporter.register()
        reports = asyncio.create_task(reporter.report(lambda: (0.0, ReceiverCounters())))
        try:
            question = pb.LoadBalancerStatusRequest(lbId=uri.lb_id)

            async def has_all() -> None:
                status: Any = await call(stub.LoadBalancerStatus, question, uri.token)
                if sum(worker.slotsAssigned for worker in status.workers) < status.slotResolution:
                    raise EjfatError("the worker does not get every slot")

            await _patiently(has_all)
            tell_ready()
            await done.wait()
        finally:
            reports.cancel()
            await asyncio.gather(reports, return_exceptions=True)
            await reporter.close()


async def _patiently(attempt: Callable[[], Any]) -> Any:
    """Try until it goes well. Raises: EjfatError: it never did, for the last reason."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    while True:
        try:
            return await attempt()
        except EjfatError:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(_LOOK_S)
