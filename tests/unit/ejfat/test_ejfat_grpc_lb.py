"""The public service, asked by a real client over loopback."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import EjfatError
from ejfat.control.balancer import Policy
from ejfat.control.grpc.lb_service import LoadBalancerService, Surroundings
from ejfat.control.grpc.serving import Tls, start_server
from ejfat.control.health import issues_of
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import ControlPlane, InstanceAddresses, PlaneConfig
from ejfat.pipeline import Pipeline
from hfi_sim.base.errors import InputError
from unit.ejfat.due_work import advance_all

ADMIN = "admin"
CONFIG = PlaneConfig(
    mac=0x020000000001,
    instances=(
        InstanceAddresses(ip_address("10.0.0.1")),
        InstanceAddresses(ip_address("10.0.0.11"), ip_address("fd00::11")),
    ),
    policy=Policy(lead_s=0.1, quiescence_s=0.5),
)


@dataclass
class World:
    """A server with its plane, and a client that says which token it carries."""

    plane: ControlPlane
    pipeline: Pipeline
    now: float = 1_700_000_000.0
    secrets: int = 0
    saved: int = 0
    port: int = 0
    stub: Any = None
    silent: set[IpAddress] = field(default_factory=set)
    while_resolving: Callable[[], None] = lambda: None

    def new_secret(self) -> str:
        self.secrets += 1
        return f"secret-{self.secrets}"

    async def resolve(self, ip: IpAddress) -> int | None:
        self.while_resolving()
        return None if ip in self.silent else int(ip) & 0xFFFFFF

    async def call(self, rpc: str, request: Any = None, token: str | None = ADMIN, **values: Any) -> Any:
        """Return the reply to a request, or to one with these values."""
        request = request or getattr(pb, f"{rpc}Request")(**values)
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        return await getattr(self.stub, rpc)(request, metadata=metadata, timeout=60)

    async def refused(
        self, rpc: str, request: Any = None, token: str | None = ADMIN, **values: Any
    ) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(rpc, request, token, **values)
        return caught.value.code(), caught.value.details() or ""

    async def reserve(self, **values: Any) -> Any:
        values = {"name": "run", "senderAddresses": ["10.0.0.2"]} | values
        return await self.call("ReserveLoadBalancer", **values)

    async def register(self, reservation: Any, number: int, **values: Any) -> Any:
        values = {
            "name": f"w{number}",
            "weight": 1,
            "ipAddress": f"10.0.1.{number}",
            "udpPort": 10000,
        } | values
        return await self.call("Register", token=reservation.token, lbId=reservation.lbId, **values)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    pipeline = Pipeline()
    plane = ControlPlane(CONFIG, pipeline.tables.apply, lambda: pipeline.counters)
    plane.start()
    plane.admit_operator("admin", 0)
    world = World(plane, pipeline)

    async def changed() -> None:
        world.saved += 1

    surroundings = Surroundings(lambda: world.now, world.new_secret, world.resolve, changed, "test")
    service = LoadBalancerService(plane, surroundings)
    server, world.port = await start_server(
        "127.0.0.1:0", lambda s: pb_grpc.add_LoadBalancerServicer_to_server(service, s)
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{world.port}") as channel:
        world.stub = pb_grpc.LoadBalancerStub(channel)
        yield world
    await server.stop(None)


async def test_reserve_tells_a_client_all_it_needs(world: World) -> None:
    reply = await world.reserve(until={"seconds": int(world.now) + 60})
    assert (reply.lbId, reply.fpgaLbId, reply.token) == ("1", 0, "secret-1")
    assert (reply.dataIpv4Address, reply.dataMinPort, reply.dataMaxPort) == ("10.0.0.1", 16384, 32767)
    assert (reply.syncIpv4Address, reply.syncIpv6Address, reply.syncUdpPort) == ("10.0.0.1", "", 19531)
    second = await world.reserve()
    assert (second.dataIpv4Address, second.dataIpv6Address, second.syncUdpPort) == (
        "10.0.0.11",
        "fd00::11",
        19532,
    )
    assert (second.syncIpv4Address, second.syncIpv6Address) == ("10.0.0.11", "fd00::11")
    got = await world.call("GetLoadBalancer", token=second.token, lbId="2")
    assert (got.lbId, got.token) == ("2", "")
    assert world.saved == 2


async def test_reserve_when_all_are_taken_is_refused_until_one_is_freed(world: World) -> None:
    first = await world.reserve()
    await world.reserve()
    code, details = await world.refused("ReserveLoadBalancer", name="x")
    assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "all 2 load balancers are reserved")
    await world.call("FreeLoadBalancer", lbId=first.lbId)
    assert (await world.reserve()).fpgaLbId == 0


async def test_worker_registers_reports_and_is_seen_in_the_status(world: World) -> None:
    reservation = await world.reserve()
    one = await world.register(reservation, 1, minFactor=0.5, maxFactor=2, portRange=2, keepLbHeader=True)
    await world.register(reservation, 2, weight=3)
    world.now += 1
    await world.call(
        "SendState",
        token=one.token,
        sessionId=one.sessionId,
        lbId=reservation.lbId,
        fillPercent=0.25,
        isReady=True,
        totalEventsRecv=7,
    )
    advance_all(world.plane, world.now)
    status = await world.call("LoadBalancerStatus", token=reservation.token, lbId=reservation.lbId)
    assert [(w.name, w.slotsAssigned) for w in status.workers] == [("w1", 128), ("w2", 384)]
    assert (status.slotResolution, list(status.senderAddresses)) == (512, ["10.0.0.2"])
    first = status.workers[0]
    assert (first.fillPercent, first.totalEventsRecv, first.portRange, first.keepLbHeader) == (
        0.25,
        7,
        pb.PORT_RANGE_4,
        True,
    )
    assert first.lastUpdated.seconds == int(world.now)


async def test_deregister_moves_the_slots_and_ends_the_session(world: World) -> None:
    reservation = await world.reserve()
    one = await world.register(reservation, 1)
    await world.register(reservation, 2)
    advance_all(world.plane, world.now)
    await world.call("Deregister", token=one.token, lbId=reservation.lbId, sessionId=one.sessionId)
    world.now += 1
    advance_all(world.plane, world.now)
    status = await world.call("LoadBalancerStatus", lbId=reservation.lbId)
    assert [(w.name, w.slotsAssigned) for w in status.workers] == [("w2", 512)]
    code, _ = await world.refused(
        "SendState", token=one.token, lbId=reservation.lbId, sessionId=one.sessionId
    )
    assert code is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("rpc", "request_"),
    [
        ("GetLoadBalancer", pb.GetLoadBalancerRequest(lbId="9")),
        ("LoadBalancerStatus", pb.LoadBalancerStatusRequest(lbId="")),
        ("FreeLoadBalancer", pb.FreeLoadBalancerRequest(lbId="x")),
        ("Register", pb.RegisterRequest(lbId="9")),
        ("SendState", pb.SendStateRequest(lbId="9", sessionId="1")),
        ("AddSenders", pb.AddSendersRequest(lbId="9")),
    ],
)
async def test_unknown_load_balancer_is_not_found(world: World, rpc: str, request_: Any) -> None:
    code, details = await world.refused(rpc, request_)
    assert code is grpc.StatusCode.NOT_FOUND
    assert "no load balancer" in details


async def test_calls_without_a_token_or_with_a_wrong_one_are_refused(world: World) -> None:
    request = pb.ReserveLoadBalancerRequest(name="x")
    assert (await world.refused("ReserveLoadBalancer", request, None))[0] is grpc.StatusCode.UNAUTHENTICATED
    assert (await world.refused("ReserveLoadBalancer", request, "guess"))[
        0
    ] is grpc.StatusCode.PERMISSION_DENIED
    unknown = pb.GetLoadBalancerRequest(lbId="99")
    assert (await world.refused("GetLoadBalancer", unknown, "guess"))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_tokens_do_not_reach_beyond_their_scope(world: World) -> None:
    first, second = await world.reserve(), await world.reserve()
    one, two = await world.register(first, 1), await world.register(second, 1)
    assert one.sessionId == two.sessionId, "sessions are numbered per reservation"
    denied = [
        ("ReserveLoadBalancer", pb.ReserveLoadBalancerRequest(name="x"), first.token),
        ("FreeLoadBalancer", pb.FreeLoadBalancerRequest(lbId=second.lbId), first.token),
        ("AddSenders", pb.AddSendersRequest(lbId=first.lbId, senderAddresses=["10.0.0.3"]), one.token),
        ("SendState", pb.SendStateRequest(lbId=second.lbId, sessionId=two.sessionId), one.token),
        ("Deregister", pb.DeregisterRequest(lbId=second.lbId, sessionId=two.sessionId), first.token),
        ("SendState", pb.SendStateRequest(lbId=second.lbId, sessionId=two.sessionId), first.token),
    ]
    for rpc, request, token in denied:
        code, details = await world.refused(rpc, request, token)
        assert code is grpc.StatusCode.PERMISSION_DENIED, rpc
        assert "does not allow" in details
    for token in (one.token, first.token, ADMIN):  # each does what those below it do
        await world.call("SendState", token=token, lbId=first.lbId, sessionId=one.sessionId)


async def test_senders_are_added_and_removed(world: World) -> None:
    reservation = await world.reserve()
    table = world.pipeline.tables.v23["ipv4_src_filter_table"]
    sender = {"lbId": reservation.lbId, "senderAddresses": ["10.0.0.3"]}
    await world.call("AddSenders", token=reservation.token, **sender)
    assert table.lookup(0, int(ip_address("10.0.0.3"))) is not None
    await world.call("RemoveSenders", token=reservation.token, **sender)
    assert table.lookup(0, int(ip_address("10.0.0.3"))) is None
    await world.call("RemoveSenders", **sender)  # gone already: no error
    code, details = await world.refused("AddSenders", lbId=reservation.lbId, senderAddresses=["10.0.0"])
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "'10.0.0' is not an IP address")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"name": ""}, "the name of the worker has 0 characters, expected 1 to 64 printable ones"),
        ({"name": "x" * 100_000}, "the name of the worker has 100000 characters, expected 1 to 64"),
        ({"name": "two\nlines"}, r"the name 'two\nlines' of the worker has characters that cannot be shown"),
        ({"udpPort": 0}, "UDP port 0"),
        ({"weight": -1}, "weight -1.0"),
        ({"ipAddress": "nowhere"}, "is not an IP address"),
        ({"ipAddress": "224.0.0.1"}, "224.0.0.1 is not the address of a single worker"),
        ({"ipAddress": "fe80::1%eth0"}, "has a scope"),
        ({"slotDemands": [{"index": 0, "length": 1}]}, "slot demands need static or explicit"),
    ],
)
async def test_register_with_bad_values_is_refused(
    world: World, values: dict[str, Any], expected: str
) -> None:
    reservation = await world.reserve()
    base = {"lbId": reservation.lbId, "name": "w", "weight": 1, "ipAddress": "10.0.1.1", "udpPort": 10000}
    code, details = await world.refused("Register", token=reservation.token, **base | values)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert expected in details


async def test_register_of_a_worker_that_does_not_answer_has_failed(world: World) -> None:
    world.silent.add(ip_address("10.0.1.99"))
    reservation = await world.reserve()
    values = {"name": "w", "weight": 1, "ipAddress": "10.0.1.99", "udpPort": 10000}
    code, details = await world.refused("Register", lbId=reservation.lbId, **values)
    assert (code, details) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "10.0.1.99 does not answer; its MAC address is unknown",
    )


async def test_reserve_with_bad_values_is_refused(world: World) -> None:
    for values, expected in (
        ({"name": ""}, "the name of the reservation has 0 characters"),
        ({"name": "x", "until": {"seconds": 5}}, "in the past"),
        ({"name": "x", "until": {"seconds": 1 << 62}}, "expected 0 to 253402300799 s since 1970"),
        ({"name": "x", "strategy": "best"}, "strategy 'best', expected dynamic, static, explicit"),
    ):
        code, details = await world.refused("ReserveLoadBalancer", **values)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert expected in details


async def test_reservation_freed_while_its_worker_is_looked_for_gets_no_member(world: World) -> None:
    reservation = await world.reserve()
    world.while_resolving = lambda: world.plane.free(world.plane.get(reservation.lbId))
    request = pb.RegisterRequest(
        lbId=reservation.lbId, name="w", weight=1, ipAddress="10.0.1.1", udpPort=1000
    )
    code, _ = await world.refused("Register", request)
    assert code is grpc.StatusCode.NOT_FOUND
    assert len(world.pipeline.tables.v23["member_info_lookup_table"]) == 0


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 1_000_000, "\u0663", "-1"])
async def test_ids_that_nothing_can_have_are_unknown(world: World, number: str) -> None:
    reservation = await world.reserve()
    for rpc, request in (
        ("LoadBalancerStatus", pb.LoadBalancerStatusRequest(lbId=number)),
        ("SendState", pb.SendStateRequest(lbId=reservation.lbId, sessionId=number)),
    ):
        code, details = await world.refused(rpc, request)
        assert code is grpc.StatusCode.NOT_FOUND
        assert details.startswith("no load balancer" if rpc == "LoadBalancerStatus" else "no session")


async def test_reserve_of_an_ip_version_takes_an_instance_that_has_it(world: World) -> None:
    second = await world.reserve(ipFamily=pb.IPV6)
    assert (second.fpgaLbId, second.dataIpv4Address, second.dataIpv6Address) == (1, "", "fd00::11")
    code, details = await world.refused("ReserveLoadBalancer", name="x", ipFamily=pb.IPV6)
    assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "all 1 load balancers are reserved")
    assert (await world.reserve(ipFamily=pb.IPV4)).dataIpv4Address == "10.0.0.1"


async def test_slot_demands_are_given_first_and_the_rest_by_weight(world: World) -> None:
    reservation = await world.reserve(strategy="static")
    assert reservation.strategy == "static"
    one = await world.register(reservation, 1, weight=0, slotDemands=[{"index": 100, "length": 12}])
    two = await world.register(reservation, 2)
    advance_all(world.plane, world.now)

    async def slots() -> dict[str, list[tuple[int, int]]]:
        request = pb.LoadBalancerStatusRequest(lbId=reservation.lbId)
        status = await world.call("LoadBalancerStatus", request, reservation.token)
        return {w.name: [(r.index, r.length) for r in w.slots] for w in status.workers}

    assert await slots() == {"w1": [(100, 12)], "w2": [(0, 100), (112, 400)]}
    wanted = [
        pb.SessionSlotRanges(sessionId=one.sessionId, slots=[]),
        pb.SessionSlotRanges(sessionId=two.sessionId, slots=[pb.SlotRange(index=-1, length=5)]),
    ]
    request = pb.SetSlotDemandsRequest(lbId=reservation.lbId, slotConstraints=wanted)
    await world.call("SetSlotDemands", request, reservation.token)
    advance_all(world.plane, world.now)
    assert await slots() == {"w1": [], "w2": [(0, 512)]}
    request.slotConstraints.add(sessionId="77")
    code, details = await world.refused("SetSlotDemands", request, reservation.token)
    assert (code, details) == (grpc.StatusCode.NOT_FOUND, "run has no session 77")
    session_token = (await world.refused("SetSlotDemands", request, one.token))[0]
    assert session_token is grpc.StatusCode.PERMISSION_DENIED


async def test_explicit_strategy_gives_what_is_demanded_and_drops_the_rest(world: World) -> None:
    reservation = await world.reserve(strategy="explicit")
    await world.register(reservation, 1, slotDemands=[{"index": 3, "length": 2}])
    advance_all(world.plane, world.now)
    calendar = [e.args[0] for e in world.pipeline.tables.v23["load_balance_calendar_table"]]
    assert (len(calendar), calendar[2:6], set(calendar)) == (512, [0xFFFF, 0, 0, 0xFFFF], {0, 0xFFFF})
    clash = [{"index": 4, "length": 1}]
    code, details = await world.refused(
        "Register",
        token=reservation.token,
        lbId=reservation.lbId,
        name="w2",
        ipAddress="10.0.1.2",
        udpPort=1000,
        slotDemands=clash,
    )
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "w2 demands slot 4, which w1 already has")


async def test_timeseries_are_read_by_path(world: World) -> None:
    reservation = await world.reserve()
    other = await world.reserve()
    one = await world.register(reservation, 1)
    started = world.now
    for second in range(3):
        world.now = started + second
        report = pb.SendStateRequest(
            sessionId=one.sessionId, lbId=reservation.lbId, fillPercent=second / 4, isReady=True
        )
        await world.call("SendState", report, one.token)
        advance_all(world.plane, world.now)
        world.plane.sample(world.now)

    async def read(*paths: str, token: str = ADMIN, **values: Any) -> dict[str, list[tuple[int, float]]]:
        request = pb.TimeseriesRequest(seriesSelector=paths, **values)
        reply = await world.call("Timeseries", request, token)
        assert all(series.WhichOneof("timeseries") == "float_samples" for series in reply.timeseries)
        return {s.name: [(d.timestamp, d.value) for d in s.float_samples.data] for s in reply.timeseries}

    path = "/lb/1/session/1/fill_percent"
    expected = [(int((started + n) * 1000), n / 4) for n in range(3)]
    assert await read(path) == await read("/lb/1/session/1/fillPercent") == {path: expected}
    assert await read(path, since={"seconds": int(started) + 2}) == {path: expected[2:]}
    everything = await read("*")
    assert everything.keys() >= {path, "/lb/1/rx_packets", "/lb/2/epoch/boundary_event"}
    assert everything == await read("/lb/1/*", "/lb/2/*")
    assert len(await read("/lb/1/session/1/*")) == len(await read("/lb/1/session/*")) == 12
    assert (await read("*", token=other.token)).keys() == {p for p in everything if p.startswith("/lb/2/")}
    assert await read(path, token=one.token) == {path: expected}
    for bad, status, words in (
        ("/lb/1", grpc.StatusCode.INVALID_ARGUMENT, "is not a path of time series"),
        ("/lb/1/speed", grpc.StatusCode.INVALID_ARGUMENT, "no metric 'speed' (known: event_number"),
        ("/lb/9/*", grpc.StatusCode.NOT_FOUND, "no load balancer '9'"),
        ("/lb/1/session/8/*", grpc.StatusCode.NOT_FOUND, "run has no session 8"),
    ):
        code, details = await world.refused("Timeseries", seriesSelector=[bad])
        assert code is status
        assert words in details
    denied = await world.refused("Timeseries", token=other.token, seriesSelector=["/lb/1/*"])
    assert denied[0] is grpc.StatusCode.PERMISSION_DENIED
    await world.call("FreeLoadBalancer", lbId="1")
    world.plane.sample(world.now)
    assert all(name.startswith("/lb/2/") for name in await read("*"))


async def test_reservation_that_has_expired_ends_by_itself_unless_extended(world: World) -> None:
    short = await world.reserve(until={"seconds": int(world.now) + 10})
    longer = await world.reserve(until={"seconds": int(world.now) + 10})
    await world.call(
        "ExtendReservation", token=longer.token, lbId=longer.lbId, until={"seconds": int(world.now) + 100}
    )
    world.now += 20
    advance_all(world.plane, world.now)
    overview = await world.call("Overview")
    assert [row.reservation.lbId for row in overview.loadBalancers] == [longer.lbId]
    assert (await world.refused("GetLoadBalancer", token=short.token, lbId="2"))[
        0
    ] is grpc.StatusCode.PERMISSION_DENIED


async def test_overview_shows_what_the_token_may_see(world: World) -> None:
    first, _ = await world.reserve(), await world.reserve()
    assert len((await world.call("Overview")).loadBalancers) == 2
    own = await world.call("Overview", token=first.token)
    assert [row.reservation.lbId for row in own.loadBalancers] == [first.lbId]


async def test_reset_clears_what_it_is_asked_to(world: World) -> None:
    reservation = await world.reserve()
    await world.register(reservation, 1)
    advance_all(world.plane, world.now)
    reply = await world.call(
        "ResetLoadBalancer",
        token=reservation.token,
        lbId=reservation.lbId,
        senders=True,
        workers=True,
        epochs=True,
        sync=True,
    )
    assert (reply.senders, reply.workers, reply.epochs, reply.sync) == (True, True, True, True)
    status = await world.call("LoadBalancerStatus", lbId=reservation.lbId)
    assert (len(status.workers), len(status.senderAddresses)) == (0, 0)
    assert len(world.pipeline.tables.v23["epoch_assign_table"]) == 0


async def test_tokens_are_made_listed_and_revoked_with_their_children(world: World) -> None:
    reservation = await world.reserve()
    permission = pb.TokenPermission(
        resourceType=pb.TokenPermission.RESERVATION,
        resourceId=reservation.lbId,
        permission=pb.TokenPermission.REGISTER,
    )
    made = await world.call("CreateToken", token=reservation.token, name="farm", permissions=[permission])
    await world.call(
        "Register",
        token=made.token,
        lbId=reservation.lbId,
        name="w",
        weight=1,
        ipAddress="10.0.1.1",
        udpPort=1000,
    )
    children = await world.call("ListChildTokens", token=reservation.token)
    assert [child.name for child in children.tokens] == ["farm", "w"]
    shown = await world.call("ListTokenPermissions", token=made.token)
    assert list(shown.token.permissions) == [permission]
    await world.call(
        "RevokeToken", token=reservation.token, target=pb.TokenSelector(id=children.tokens[0].id)
    )
    assert (await world.refused("ListChildTokens", token=made.token))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_holder_of_a_token_that_is_no_longer_valid_is_told_why(world: World) -> None:
    reservation = await world.reserve()
    workers = [await world.register(reservation, number) for number in (1, 2)]

    async def told(token: str, session: int = 1) -> str:
        state = pb.SendStateRequest(lbId=reservation.lbId, sessionId=str(session), isReady=True)
        code, details = await world.refused("SendState", state, token)
        assert code is grpc.StatusCode.PERMISSION_DENIED
        return details

    await world.call("Deregister", lbId=reservation.lbId, sessionId="1")
    assert await told(workers[0].token) == "session 1/1 has ended, and its tokens with it"
    revoke = pb.RevokeTokenRequest(target=pb.TokenSelector(token=workers[1].token))
    await world.call("RevokeToken", revoke, reservation.token)
    assert await told(workers[1].token, 2) == "the token has been revoked"
    await world.call("FreeLoadBalancer", lbId=reservation.lbId)
    assert await told(reservation.token) == "reservation 1 has ended, and its tokens with it"
    assert await told("another") == "no such token"


async def test_token_cannot_give_more_than_it_has(world: World) -> None:
    reservation = await world.reserve()
    for values in (
        {"resourceType": pb.TokenPermission.ALL, "permission": pb.TokenPermission.READ_ONLY},
        {
            "resourceType": pb.TokenPermission.RESERVATION,
            "resourceId": "77",
            "permission": pb.TokenPermission.READ_ONLY,
        },
    ):
        request = pb.CreateTokenRequest(name="x", permissions=[pb.TokenPermission(**values)])
        code, details = await world.refused("CreateToken", request, reservation.token)
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert "cannot grant" in details
    unknown = pb.CreateTokenRequest(name="x", permissions=[pb.TokenPermission()])
    unknown.permissions[0].resourceType = 77
    code, details = await world.refused("CreateToken", unknown)
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "77 is not a valid Resource")
    foreign = pb.RevokeTokenRequest(target=pb.TokenSelector(token="admin"))
    assert (await world.refused("RevokeToken", foreign, reservation.token))[
        0
    ] is grpc.StatusCode.PERMISSION_DENIED
    own = pb.RevokeTokenRequest(target=pb.TokenSelector(token="admin"))
    assert "restart with another one" in (await world.refused("RevokeToken", own))[1]


async def test_server_on_a_port_in_use_is_refused(world: World) -> None:
    with pytest.raises(EjfatError, match="cannot listen on"):
        await start_server(f"127.0.0.1:{world.port}", lambda server: None)


async def test_server_without_its_tls_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        await start_server(
            "127.0.0.1:0", lambda server: None, Tls(tmp_path / "cert.pem", tmp_path / "key.pem")
        )


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """A certificate for localhost that nobody but its maker trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    tls = Tls(tmp_path / "cert.pem", tmp_path / "key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-out", str(tls.certificate), "-keyout", str(tls.key)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return tls


async def test_server_with_tls_is_reached_by_who_knows_its_certificate(tls: Tls) -> None:
    plane = ControlPlane(CONFIG, lambda updates: None)
    world = World(plane, Pipeline())

    async def changed() -> None: ...

    service = LoadBalancerService(
        plane, Surroundings(lambda: 0.0, world.new_secret, world.resolve, changed, "tls")
    )
    server, port = await start_server(
        "localhost:0", lambda s: pb_grpc.add_LoadBalancerServicer_to_server(service, s), tls
    )
    roots = grpc.ssl_channel_credentials(tls.certificate.read_bytes())
    async with grpc.aio.secure_channel(f"localhost:{port}", roots) as channel:
        version = await pb_grpc.LoadBalancerStub(channel).Version(pb.VersionRequest(), timeout=60)
        assert version.commit == "tls"
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await pb_grpc.LoadBalancerStub(channel).Version(pb.VersionRequest(), timeout=2)
    await server.stop(None)


def permission(kind: str, number: str, action: str) -> pb.TokenPermission:
    return pb.TokenPermission(resourceType=kind, resourceId=number, permission=action)


@pytest.mark.parametrize("action", ["RESERVE", "UPDATE"])
async def test_token_for_one_load_balancer_reserves_that_one_and_hands_on_what_it_holds(
    world: World, action: str
) -> None:
    wanted = pb.CreateTokenRequest(name="project", permissions=[permission("LOAD_BALANCER", "2", action)])
    project = (await world.call("CreateToken", wanted)).token
    ask = pb.ReserveLoadBalancerRequest(name="run")
    reservation = await world.call("ReserveLoadBalancer", ask, project)
    assert (reservation.lbId, reservation.fpgaLbId) == ("1", 1)
    code, details = await world.refused("ReserveLoadBalancer", ask, project)
    assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "all 1 load balancers are reserved")
    wanted = pb.CreateTokenRequest(name="shift", permissions=[permission("RESERVATION", "1", "REGISTER")])
    shift = (await world.call("CreateToken", wanted, project)).token
    reservation.token = shift
    await world.register(reservation, 1)
    tree = await world.call("ListChildTokens")
    assert [token.name for token in tree.tokens] == ["project", "run", "shift", "w1"]
    other = await world.reserve()
    wanted.permissions[0].resourceId = other.lbId
    assert (await world.refused("CreateToken", wanted, project))[0] is grpc.StatusCode.PERMISSION_DENIED
    read = pb.CreateTokenRequest(name="r", permissions=[permission("LOAD_BALANCER", "", "READ_ONLY")])
    reader = (await world.call("CreateToken", read)).token
    assert (await world.refused("ReserveLoadBalancer", ask, reader))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_reservation_without_an_end_is_shown_to_end_in_a_year(world: World) -> None:
    reservation = await world.reserve()
    question = pb.LoadBalancerStatusRequest(lbId=reservation.lbId)
    status = await world.call("LoadBalancerStatus", question, reservation.token)
    assert status.expiresAt.seconds - status.timestamp.seconds == 365 * 86400


async def two_families(world: World, senders: list[str]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Register a worker of each IP version; return the slots and the health issues of both."""
    await world.reserve()  # the second instance has both versions
    reservation = await world.reserve(senderAddresses=senders)
    await world.register(reservation, 1)
    await world.register(reservation, 2, ipAddress="fd00::2")
    advance_all(world.plane, world.now)
    question = pb.LoadBalancerStatusRequest(lbId=reservation.lbId)
    status = await world.call("LoadBalancerStatus", question, reservation.token)
    return (
        {one.name: one.slotsAssigned for one in status.workers},
        {one.name: [issue.message for issue in one.healthIssues] for one in status.workers},
    )


async def test_worker_that_no_sender_can_reach_gets_no_slots_and_is_shown(world: World) -> None:
    slots, issues = await two_families(world, ["10.0.0.2"])
    assert slots == {"w1": 512, "w2": 0}
    assert issues == {"w1": [], "w2": ["w2 has an IPv6 address, and no sender has one: it gets no slots"]}


async def test_workers_of_both_ip_versions_are_warned_of_where_senders_have_both(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    slots, issues = await two_families(world, ["10.0.0.2", "fd00::9"])
    assert slots == {"w1": 256, "w2": 256}
    text = "{} has an IPv{} address: events that come over IPv{} for its slots are dropped"
    assert issues == {"w1": [text.format("w1", 4, 6)], "w2": [text.format("w2", 6, 4)]}
    assert text.format("w2", 6, 4) in caplog.text
    balancer = world.plane.reservations[2].balancer
    balancer.watch.observe_misses(0, world.now)
    balancer.watch.observe_misses(7, world.now)
    (issue,) = [one for one in issues_of(balancer, world.now) if one.kind == "member_miss"]
    assert issue.message.startswith("7 packets were dropped")
