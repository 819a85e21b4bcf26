"""Load balancers in a chain: two and three control planes over the loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest

from ejfat.control.chains import Chain
from ejfat.control.grpc.messages import total_report
from ejfat.control.members import ReceiverCounters, Session, SessionState, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.events.uri import EjfatUri
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.pipeline.native import NativePipeline, Wanted
from ejfat.wire.headers import LB_PORT
from opavnic_bench.ejfat.frames import udp_packet
from unit.ejfat.pipelines import IMPLEMENTATIONS

LONG_S = 60.0


class Balancer:
    """A load balancer with a reservation, and a client with its token; every worker answers ARP."""

    def __init__(self, *numbers: int, state: Path | None = None, pipeline: Wanted = "auto") -> None:
        addresses = tuple(InstanceAddresses(ip_address(f"10.0.0.{number}")) for number in numbers)
        plane = PlaneConfig(mac=0x020000000000 + numbers[0], instances=addresses)
        self.sent: list[bytes] = []
        config = AppConfig(plane, "127.0.0.1:0", state=state, period_s=LONG_S, pipeline=pipeline)
        self.app = LbApp(config, self.take)
        self.uri = EjfatUri(host="-", port=1024)

    def take(self, frame: bytes) -> None:
        if frame[12:14] == b"\x08\x06":
            reply = frame[6:12] + b"\x02\x09" + frame[38:42] + frame[12:20]
            reply += b"\0\2\x02\x09" + frame[38:42] + frame[38:42] + frame[22:32]
            asyncio.get_running_loop().call_soon(self.app.receive, reply)
        else:
            self.sent.append(frame)

    async def start(self) -> Balancer:
        await self.app.start()
        self.uri = self.app.reserve("run", [])
        return self

    async def call(self, rpc: str, request: Any, token: str = "") -> Any:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.uri.port}") as channel:
            metadata = (("authorization", f"Bearer {token or self.uri.token}"),)
            return await getattr(pb_grpc.LoadBalancerStub(channel), rpc)(
                request, metadata=metadata, timeout=LONG_S
            )

    async def chain_to(self, other: Balancer, **values: Any) -> str:
        wanted: dict[str, Any] = {"ejfatUri": str(other.uri), "ipFamily": pb.IPV4, "weight": 1} | values
        request = pb.ChainLoadBalancerRequest(lbId=self.uri.lb_id, **wanted)
        return str((await self.call("ChainLoadBalancer", request)).chainId)

    async def graph(self) -> Any:
        return await self.call("GetChainGraph", pb.GetChainGraphRequest(lbId=self.uri.lb_id))

    async def workers(self) -> list[Any]:
        status = await self.call("LoadBalancerStatus", pb.LoadBalancerStatusRequest(lbId=self.uri.lb_id))
        return list(status.workers)

    async def until(self, holds: Callable[[list[Any]], bool]) -> list[Any]:
        async with asyncio.timeout(LONG_S):
            while not holds(workers := await self.workers()):  # noqa: ASYNC110 - nothing announces a report
                await asyncio.sleep(0.02)
        return workers

    def let_in(self) -> list[str]:
        """Return the addresses in the source filter."""
        table = self.app.pipeline.tables.v23["ipv4_src_filter_table"]
        return [str(ip_address(entry.matches[1].value)) for entry in table]

    def session(self) -> Session:
        return next(iter(self.app.plane.reservations.values())).balancer.sessions[1]


@pytest.fixture
async def run() -> AsyncIterator[Callable[..., Any]]:
    async with contextlib.AsyncExitStack() as ends:

        async def start(*numbers: int, state: Path | None = None, pipeline: Wanted = "auto") -> Balancer:
            balancer = Balancer(*numbers, state=state, pipeline=pipeline)
            ends.push_async_callback(balancer.app.stop)
            return await balancer.start()

        yield start


async def _refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_downstream_is_a_worker_upstream_and_reports_for_its_own(run: Callable[..., Any]) -> None:
    up, down = await run(1), await run(2)
    assert await down.chain_to(up, minFactor=0.5, maxFactor=2) == "1"
    (worker,) = await up.until(lambda workers: up.session().state is SessionState.DRAINING)
    assert (worker.name, worker.ipAddress, worker.udpPort) == ("chain-1", "10.0.0.2", 16384)
    assert (worker.portRange, worker.keepLbHeader) == (pb.PORT_RANGE_16384, True)
    worker = pb.RegisterRequest(lbId=down.uri.lb_id, name="w", weight=1, ipAddress="10.0.1.1", udpPort=10000)
    await down.call("Register", worker)
    counters = ReceiverCounters(events_received=7)
    down.session().report(0.0, fill=0.5, control=0.25, ready=True, counters=counters)
    (worker,) = await up.until(lambda workers: workers[0].totalEventsRecv == 7)
    assert (worker.fillPercent, worker.controlSignal) == (0.5, 0.25)
    assert up.session().state is SessionState.READY


async def test_unchained_and_freed_balancers_deregister_upstream(run: Callable[..., Any]) -> None:
    up, down = await run(1), await run(2)
    chain = await down.chain_to(up)
    request = pb.UnchainLoadBalancerRequest(lbId=down.uri.lb_id, chainId=chain)
    await down.call("UnchainLoadBalancer", request)
    assert await up.workers() == []
    assert list((await down.graph()).edges) == []
    code, text = await _refused(down.call("UnchainLoadBalancer", request))
    assert (code, text) == (grpc.StatusCode.NOT_FOUND, "run has no chain '1'")
    assert await down.chain_to(up) == "2"
    down.app.plane.free(down.app.plane.get(down.uri.lb_id))
    down.app.advance()
    await up.until(lambda workers: not workers)


async def test_graph_shows_the_way_upstream_and_a_circle_is_refused(run: Callable[..., Any]) -> None:
    top, middle, bottom = await run(1), await run(2), await run(3)
    await middle.chain_to(top)
    await bottom.chain_to(middle)
    graph = await bottom.graph()
    assert not graph.cycleDetected
    assert [(edge.downstreamDataIpv4, edge.upstreamDataIpv4) for edge in graph.edges] == [
        ("10.0.0.3", "10.0.0.2"),
        ("10.0.0.2", "10.0.0.1"),
    ]
    code, text = await _refused(top.chain_to(bottom))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "forwarding loop" in text
    assert await bottom.workers() == []


async def test_what_cannot_be_chained_is_refused_and_says_why(run: Callable[..., Any]) -> None:
    up, down, twin = await run(1), await run(2), await run(2)
    bare = EjfatUri(host="127.0.0.1", port=up.uri.port)
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    precondition = grpc.StatusCode.FAILED_PRECONDITION
    closed = str(up.uri).replace(f":{up.uri.port}/", ":1025/")
    for values, status, word in (
        ({"ejfatUri": str(bare)}, invalid, "needs a token and a reservation"),
        ({"ejfatUri": "http://x"}, invalid, "expected ejfat or ejfats"),
        ({"ipFamily": pb.DUAL_STACK}, invalid, "expected IPV4 or IPV6"),
        ({"ipFamily": pb.IPV6}, precondition, "run has no IPv6 address"),
        ({"ejfatUri": str(twin.uri)}, precondition, "10.0.0.2 is an address of this load balancer too"),
        ({"ejfatUri": closed}, grpc.StatusCode.UNAVAILABLE, "upstream 127.0.0.1:1025"),
        ({"weight": -1}, grpc.StatusCode.UNAVAILABLE, "weight -1"),
    ):
        code, text = await _refused(down.chain_to(up, **values))
        assert code is status, text
        assert word in text
    assert await up.workers() == []


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
async def test_instances_of_one_load_balancer_are_chained_and_packets_go_through_both(
    run: Callable[..., Any], implementation: Wanted
) -> None:
    one = await run(1, 2, pipeline=implementation)
    (up,) = one.app.plane.reservations.values()
    source = ip_address("10.0.3.1")
    one.app.plane.program(up.balancer.add_senders([source]))
    up_uri = one.uri
    one.uri = one.app.reserve("downstream", [])
    register = pb.RegisterRequest(lbId=one.uri.lb_id, name="w", weight=1, ipAddress="10.0.1.1", udpPort=10000)
    await one.call("Register", register)
    request = pb.ChainLoadBalancerRequest(
        lbId=one.uri.lb_id, ejfatUri=str(up_uri), ipFamily=pb.IPV4, weight=1
    )
    await one.call("ChainLoadBalancer", request)
    assert one.let_in() == ["10.0.3.1", "10.0.0.1"]
    back = pb.ChainLoadBalancerRequest(lbId=up_uri.lb_id, ejfatUri=str(one.uri), ipFamily=pb.IPV4, weight=1)
    code, text = await _refused(one.call("ChainLoadBalancer", back, up_uri.token))
    assert (code, "forwarding loop" in text) == (grpc.StatusCode.FAILED_PRECONDITION, True)
    one.app.advance()
    data = b"LB\x02\x01\0\0\0\x07" + (5).to_bytes(8, "big") + b"data"
    packet = udp_packet(data, src=source, dst=ip_address("10.0.0.1"), src_port=1, dst_port=LB_PORT)
    frame = bytes.fromhex("020000000001") + b"\x02\0\0\0\0\x09" + packet
    one.sent.clear()
    pipeline = one.app.pipeline
    if isinstance(pipeline, NativePipeline):
        taken = pipeline.core.take(frame)
        assert taken is not None
        one.sent.append(taken)
    one.app.receive(frame)
    for out in one.sent:
        assert (out[:6], out[6:12]) == (bytes.fromhex("02090a000101"), bytes.fromhex("020000000001"))
        assert (str(ip_address(out[26:30])), str(ip_address(out[30:34]))) == ("10.0.0.2", "10.0.1.1")
        assert (out[22], int.from_bytes(out[36:38], "big"), out[42:]) == (packet[8 + 2] - 2, 10000, b"data")
    assert len(set(one.sent)) == 1
    counters = pipeline.counters
    assert counters.lbs[0].rx_packets == counters.lbs[1].rx_packets == len(one.sent)
    assert (counters.dropped, counters.balance) == (0, 0)


async def test_worker_on_an_address_of_the_load_balancer_itself_is_refused(run: Callable[..., Any]) -> None:
    one = await run(1, 2)
    for address, keep in (("10.0.0.1", True), ("10.0.0.1", False), ("10.0.0.2", False)):
        worker = pb.RegisterRequest(
            lbId=one.uri.lb_id, name="w", weight=1, ipAddress=address, udpPort=20000, keepLbHeader=keep
        )
        code, text = await _refused(one.call("Register", worker))
        assert (code, "is an address of this load balancer" in text) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            True,
        )


async def test_chain_outlives_a_restart(run: Callable[..., Any], tmp_path: Path) -> None:
    up, down = await run(1), await run(2, state=tmp_path / "state.db")
    await down.chain_to(up)
    await down.app.stop()
    assert [worker.name for worker in await up.workers()] == ["chain-1"]
    up.session().report(0.0, fill=0, control=0, ready=True, counters=ReceiverCounters())
    again = await run(2, state=tmp_path / "state.db")
    await up.until(lambda workers: up.session().state is SessionState.DRAINING)
    assert [edge.chainId for edge in (await again.graph()).edges] == ["1"]


async def test_packets_of_the_upstream_balancer_are_let_in_while_the_chain_lasts(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    up, down = await run(1), await run(2, state=tmp_path / "state.db")
    upstream = pb.AddSendersRequest(lbId=down.uri.lb_id, senderAddresses=["10.0.0.1"])
    no_sender = pb.RemoveSendersRequest(lbId=down.uri.lb_id, senderAddresses=["10.0.0.1"])
    first, second = await down.chain_to(up), await down.chain_to(up)
    assert down.let_in() == ["10.0.0.1"]
    status = await down.call("LoadBalancerStatus", pb.LoadBalancerStatusRequest(lbId=down.uri.lb_id))
    assert list(status.senderAddresses) == [], "its sync messages are not believed"
    await down.call("AddSenders", upstream)
    await down.call("RemoveSenders", no_sender)
    assert down.let_in() == ["10.0.0.1"]
    await down.call("UnchainLoadBalancer", pb.UnchainLoadBalancerRequest(lbId=down.uri.lb_id, chainId=first))
    assert down.let_in() == ["10.0.0.1"], "the other chain needs it"
    await down.app.stop()
    again = await run(2, state=tmp_path / "state.db")
    assert again.let_in() == ["10.0.0.1"]
    await again.call("AddSenders", upstream)
    unchain = pb.UnchainLoadBalancerRequest(lbId=again.uri.lb_id, chainId=second)
    await again.call("UnchainLoadBalancer", unchain)
    assert again.let_in() == ["10.0.0.1"], "a sender by itself now"
    await again.call("RemoveSenders", no_sender)
    assert again.let_in() == []


def test_chain_to_a_balancer_without_addresses_lets_nobody_in() -> None:
    assert Chain(1, "", "", "", "0.0.0.0", "").upstream == ()  # noqa: S104
    assert Chain(1, "", "", "", "nonsense", "fd07::1").upstream == (ip_address("fd07::1"),)


def test_reports_of_workers_become_one() -> None:
    assert not total_report([]).isReady
    workers = [
        Session(n, n, Worker("w", ip_address("10.0.0.9"), 1), 0, 0, 1, fill=n / 4, control=n)
        for n in (0, 1, 2)
    ]
    workers[0].state, workers[2].state = SessionState.DRAINING, SessionState.GONE
    workers[0].counters.bytes_received = workers[1].counters.bytes_received = 5
    total = total_report(workers)
    assert (total.fillPercent, total.controlSignal, total.isReady) == (0.125, 0.5, True)
    assert total.totalBytesRecv == 10


async def test_chain_whose_session_was_ended_upstream_registers_again_as_it_was(
    run: Callable[..., Any],
) -> None:
    up, down = await run(1), await run(2)
    await down.chain_to(up, minFactor=0.5, maxFactor=2, weight=3)
    await up.until(lambda workers: up.session().state is SessionState.DRAINING)
    up.session().reported_at -= 61
    up.app.advance()
    assert await up.workers() == []
    (worker,) = await up.until(lambda workers: bool(workers))
    assert (worker.name, worker.minFactor, worker.maxFactor) == ("chain-1", 0.5, 2)
    await down.call("UnchainLoadBalancer", pb.UnchainLoadBalancerRequest(lbId=down.uri.lb_id, chainId="1"))
    assert await up.until(lambda workers: not workers) == []


async def test_chain_takes_a_uri_with_sync_and_data_of_both_ip_versions(run: Callable[..., Any]) -> None:
    up, down = await run(1), await run(2)
    uri = str(up.uri).partition("?")[0]
    uri += "?sync=10.0.0.1:19531&sync=[fd00::1]:19531&data=10.0.0.1:16384-32767&data=[fd00::1]:16384-32767"
    assert await down.chain_to(up, ejfatUri=uri) == "1"
