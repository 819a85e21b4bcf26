"""What the control plane tells about itself: addresses that clients can use, counters from 0, what is wrong."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any

import grpc
import pytest

from ejfat.control.members import ReceiverCounters, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.events.uri import EjfatUri
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.control_address import ControlAddress, peer_address
from ejfat.wire.headers import LB_PORT, SyncHeader
from opavnic_bench.ejfat.frames import udp_packet

LB, SENDER, STRANGER = ip_address("10.0.0.1"), ip_address("10.0.0.2"), ip_address("10.0.0.66")
LB_MAC = bytes.fromhex("020000000001")
START = 1_700_000_000.0


class Station:
    """A load balancer on a manual clock."""

    def __init__(self, listen: str = "127.0.0.1:0", ipv6: str = "") -> None:
        self.now = START
        addresses = InstanceAddresses(LB, ip_address(ipv6) if ipv6 else None)
        plane = PlaneConfig(int.from_bytes(LB_MAC, "big"), (addresses,))
        config = AppConfig(plane, listen, "admin", period_s=3600, pipeline="python")
        self.app = LbApp(config, lambda frame: None, now=lambda: self.now)

    def receive(self, payload: bytes, port: int = LB_PORT, source: object = SENDER) -> None:
        packet = udp_packet(payload, src=ip_address(str(source)), dst=LB, src_port=1, dst_port=port)
        self.app.receive(LB_MAC + b"\x02\0\0\0\0\2" + packet)

    def send(self, ticks: range) -> None:
        for tick in ticks:
            self.receive(b"LB\x02\x01\0\0\0\0" + tick.to_bytes(8, "big") + b"data")

    def worker(self, name: str = "w") -> Any:
        reservation = next(iter(self.app.plane.reservations.values()))
        one = Worker(name, ip_address("10.0.1.1"), 5000, mac=3)
        return self.app.plane.register(reservation, one, self.now)

    def go(self, seconds: float) -> None:
        self.now += seconds
        self.app.advance()

    def values(self, path: str) -> list[float]:
        from ejfat.control.history import Selector

        ((_, series),) = self.app.plane.history.select(Selector.parse(path), 0.0)
        return [value for _, value in series]


@asynccontextmanager
async def serving(station: Station) -> AsyncIterator[Any]:
    await station.app.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{station.app.control.port}") as channel:
            yield pb_grpc.LoadBalancerStub(channel)
    finally:
        await station.app.stop()


def token(text: str = "admin") -> Any:
    return (("authorization", f"Bearer {text}"),)


async def test_reply_has_a_uri_that_a_client_can_use_although_the_server_listens_on_all_addresses() -> None:
    station = Station("0.0.0.0:0", "fd00::1")
    async with serving(station) as stub:
        reply = await stub.ReserveLoadBalancer(
            pb.ReserveLoadBalancerRequest(name="run", senderAddresses=["10.0.0.2"]), metadata=token()
        )
        uri = EjfatUri.parse(reply.ejfatUri)
        assert (uri.host, uri.port, uri.token) == ("127.0.0.1", station.app.control.port, reply.token)
        assert [str(one.ip) for one in uri.data] == ["10.0.0.1", "fd00::1"]
        assert [str(one) for one in uri.sync] == ["[fd00::1]:19531", "10.0.0.1:19531"]
        assert (reply.syncIpv4Address, reply.syncIpv6Address) == ("10.0.0.1", "fd00::1")
        wanted = pb.TokenPermission(
            resourceType=pb.TokenPermission.ResourceType.RESERVATION,
            resourceId=reply.lbId,
            permission="REGISTER",
        )
        made = await stub.CreateToken(
            pb.CreateTokenRequest(name="w", permissions=[wanted]), metadata=token(reply.token)
        )
        assert EjfatUri.parse(made.ejfatUri).lb_id == reply.lbId
        told = await stub.Version(pb.VersionRequest())
        assert told.build == version("opavnic")


async def test_overview_leaves_no_address_empty_and_status_names_sessions() -> None:
    station = Station()
    async with serving(station) as stub:
        station.app.reserve("run", [SENDER])
        session = station.worker()
        (row,) = (await stub.Overview(pb.OverviewRequest(), metadata=token())).loadBalancers
        told = row.reservation
        addresses = [
            told.syncIpv4Address, told.dataIpv4Address, told.syncIpv6Address, told.dataIpv6Address
        ]  # fmt: skip
        assert [str(ip_address(text)) for text in addresses] == ["10.0.0.1", "10.0.0.1", "::", "::"]
        assert [worker.sessionId for worker in row.status.workers] == [session.session_id]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:4321", "10.0.0.7"),
        ("ipv6:%5Bfd00::7%5D:4321", "fd00::7"),
        ("ipv6:[fe80::1%25eth0]:4321", "fe80::1"),
        ("unix:", "None"),
        ("unix:/run/x", "None"),
        ("ipv4:nonsense", "None"),
    ],
)
def test_peer_of_grpc_is_read(peer: str, address: str) -> None:
    assert str(peer_address(peer)) == address


def test_host_that_was_given_is_kept() -> None:
    assert ControlAddress("cp.example.org:18008", 18008).host_for(ip_address("127.0.0.1")) == "cp.example.org"
    assert ControlAddress("[fd00::9]:18008", 18008).host_for(None) == "fd00::9"
    assert ControlAddress("[::]:18008", 18008).host_for(ip_address("127.0.0.1")) == "127.0.0.1"


def test_counters_of_a_new_reservation_and_worker_begin_at_0_and_no_rate_is_made_up() -> None:
    station = Station()
    station.app.program()
    station.app.reserve("one", [SENDER])
    station.worker()
    station.go(1)
    station.send(range(10**15, 10**15 + 50))
    station.go(1)
    station.go(1)
    assert station.values("/lb/1/rx_packets") == [0, 50, 50]
    assert station.values("/lb/1/session/1/mbr_tx_pkts") == [0, 50, 50]
    assert max(station.values("/lb/1/avg_event_rate_hz")) < 1e6
    station.app.plane.free(station.app.plane.get("1"))
    station.app.reserve("two", [SENDER])
    station.worker()
    station.go(1)
    station.send(range(10**15, 10**15 + 7))
    station.go(1)
    assert station.values("/lb/2/rx_packets") == [0, 7]
    assert station.values("/lb/2/session/1/mbr_tx_pkts") == [0, 7]


async def test_worker_that_gets_packets_and_reports_none_is_an_issue_and_so_are_refused_syncs() -> None:
    station = Station()
    async with serving(station) as stub:
        uri = station.app.reserve("run", [SENDER])
        session = station.worker()

        async def issues() -> tuple[set[str], set[str]]:
            request = pb.LoadBalancerStatusRequest(lbId=uri.lb_id)
            reply = await stub.LoadBalancerStatus(request, metadata=token())
            (worker,) = reply.workers
            return {one.type for one in reply.healthIssues}, {one.type for one in worker.healthIssues}

        def step(received: int) -> None:
            session.report(
                station.now,
                fill=0,
                control=0,
                ready=True,
                counters=ReceiverCounters(packets_received=received),
            )
            station.send(range(10**6 + int(station.now - START), 10**6 + int(station.now - START) + 1))
            station.go(1)

        for count in range(6):
            step(count)
        assert await issues() == (set(), set())
        sync = SyncHeader(source_id=1, event=2**64 - 1, rate_hz=1, unix_ns=0).build()
        station.receive(sync, 19531, STRANGER)
        for _ in range(35):
            step(6)
        assert await issues() == ({"sync_refused"}, {"receiver_packet_stall"})
        station.go(3)
        assert await issues() == (
            {"sync_refused", "no_receiver_ready"},
            {"receiver_packet_stall", "receiver_silent"},
        )


def test_control_loop_goes_on_after_any_exception(caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    async def run() -> int:
        station, turns = Station(), 0
        station.app.config = AppConfig(
            station.app.config.plane, "127.0.0.1:0", "admin", period_s=0.001, pipeline="python"
        )
        done = asyncio.Event()

        def broken() -> None:
            nonlocal turns
            turns += 1
            if turns == 3:
                done.set()
            raise KeyError("a bug")

        station.app.advance = broken  # type: ignore[method-assign]
        async with serving(station):
            await asyncio.wait_for(done.wait(), 60)
        return turns

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(run()) >= 3
    assert "the control loop failed" in caplog.text
