"""The raw MAD socket: programs outside talk to agents on the fabric."""

from __future__ import annotations

import contextlib
import json
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hfi_sim.base.types import MacAddr
from hfi_sim.fabric.topology.generators import single_switch
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import Mad, MadClass, MadHeader, Method
from loop_thread import LoopThread
from opavnic.cli.manage.mad import app as mad_app
from opavnic.cli.program.conformance import app
from opavnic.conformance.target import MAX_FRESH, run_vema_target
from opavnic.management.mad_client import MadClient, MadSocketError
from opavnic.management.mad_frames import MadMessage, MessageReader, Outcome
from opavnic.management.mad_socket import MAX_PROGRAMS, MAX_UNREAD, MAX_WAITING, MadSocketServer
from opavnic.world.world import World
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.traps import notice_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import EMA_OUI, VportNum
from vema.em.core.messages import build_request, read_response

VECTORS = Path(__file__).parents[3] / "vectors"


class SmallLab(LoopThread):
    """An EM port with its socket and one host, on an event loop of their own: the tests are the programs outside."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.many: Sequence[int] = ()
        """LIDs to claim instead of the host's own."""

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        async with World(single_switch(["h1"]), clock=self.loop, timer_resolution_s=1.0) as world:
            self.em, self.host = world.em_port, world.hosts["h1"].port
            world.subnet_manager.sweep()
            self.vnics = world.add_vnic_port("h1", netdevs=memory_netdev, driver_quirks=True)
            self.server = MadSocketServer(self.em.mad, agents=lambda: self.many or [self.host.lid])
            self.em.mad.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], self.server.trap)
            await self.server.start(self.path)
            yield
            await self.server.close()
            await self.server.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SmallLab]:
    with SmallLab(tmp_path / "mad.sock") as lab:
        yield lab


@pytest.fixture
def client(lab: SmallLab) -> Iterator[MadClient]:
    with MadClient(lab.path, timeout_s=20) as client:
        yield client


def test_socket_is_the_owners_alone(lab: SmallLab) -> None:
    assert stat.S_IMODE(lab.path.stat().st_mode) == 0o600


def test_program_finds_the_agents_and_configures_a_vport(lab: SmallLab, client: MadClient) -> None:
    (lid,) = client.agents()
    request = build_request(
        Method.SET, AttrId.VESW_PORT_INFO, VeswPortInfo(vesw_id=5).build(), attr_mod=3, tid=0xABC
    )
    response = client.request(lid, request.build())
    assert response is not None
    assert Mad.parse(response).header.tid == 0xABC
    assert VeswPortInfo.parse(read_response(request, Mad.parse(response))).vesw_id == 5
    assert VportNum(3) in lab.vnics.adapters


def test_two_programs_may_use_the_same_transaction_id(lab: SmallLab, client: MadClient) -> None:
    request = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=1).build()
    with MadClient(lab.path) as other:
        for program in (client, other, client):
            assert program.request(lab.host.lid, request) is not None


@pytest.mark.parametrize("message", [
    MadMessage(1 << 24, bytes(2048)), MadMessage(0, bytes(2048)), MadMessage(2, bytes(23)),
    MadMessage(2, bytes(2048), sl=32), MadMessage(2, bytes(2048), pkey=0x8055),
])  # fmt: skip
def test_what_cannot_be_sent_is_refused_and_the_connection_lives(
    lab: SmallLab, client: MadClient, message: MadMessage
) -> None:
    with pytest.raises(
        MadSocketError, match=f"{len(message.mad)} bytes for LID .* was not sent: it needs 24 to 2048"
    ):
        client.request(message.lid, message.mad, sl=message.sl, pkey=message.pkey)
    assert client.agents() == (lab.host.lid,)


def test_stream_that_is_none_is_hung_up_on(lab: SmallLab) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.settimeout(60)
        stranger.connect(str(lab.path))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""
    with MadClient(lab.path) as client:
        assert client.agents()


def test_program_that_goes_away_with_open_requests_harms_nobody(lab: SmallLab) -> None:
    request = build_request(Method.GET, AttrId.CLASS_PORT_INFO).build()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hasty:
        hasty.connect(str(lab.path))
        hasty.sendall(MadMessage(lab.host.lid, request).build() * 300 + b"\0\0")
    with MadClient(lab.path) as client:
        assert client.request(lab.host.lid, request) is not None


def unanswered_flood(lab: SmallLab, rude: socket.socket, client: MadClient, requests: int) -> int:
    """Send up to so many requests and read nothing; return how many the lab took, when it takes no more.

    An exchange of `client` is a turn of the lab's loop: where fifty bring nothing forward, nothing will.
    """
    request = build_request(Method.GET, AttrId.CLASS_PORT_INFO).build()
    waiting = memoryview(MadMessage(lab.host.lid, request).build() * requests)
    rude.setblocking(False)
    idle = 0
    while waiting and idle < 50:
        try:
            waiting = waiting[rude.send(waiting) :]
            idle = 0
        except BlockingIOError:
            idle += 1
        assert client.request(lab.host.lid, request) is not None
    return requests - -(-len(waiting) // len(MadMessage(0, request).build()))


def test_program_that_never_reads_is_not_served_without_bound_and_harms_nobody(
    lab: SmallLab, client: MadClient
) -> None:
    size = len(MadMessage(0, bytes(2048)).build())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as rude:
        rude.connect(str(lab.path))
        taken = unanswered_flood(lab, rude, client, 8000)
        buffers = 4 * rude.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // size
        assert taken < MAX_UNREAD // size + 2 * MAX_WAITING + buffers < 8000
        # it gets every answer once it reads, and is served again
        rude.setblocking(True)
        rude.settimeout(20)
        reader = MessageReader()
        answers = 0
        while answers < taken:
            answers += sum(message.outcome == Outcome.OK for message in reader.feed(rude.recv(65536)))
        assert answers == taken
    assert client.agents() == (lab.host.lid,)


def test_program_beyond_the_limit_is_hung_up_on_and_the_others_go_on(lab: SmallLab) -> None:
    with contextlib.ExitStack() as stack:
        there = [stack.enter_context(MadClient(lab.path)) for _ in range(MAX_PROGRAMS)]
        assert there[-1].agents() == (lab.host.lid,)  # all are in
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late:
            late.settimeout(30)
            late.connect(str(lab.path))
            assert late.recv(1) == b""
        assert there[0].agents() == (lab.host.lid,)


def test_lab_ends_while_a_program_leaves_its_answers_unread(lab: SmallLab) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as rude, MadClient(lab.path) as client:
        rude.connect(str(lab.path))
        unanswered_flood(lab, rude, client, 8000)
        lab.end()
        assert not lab.is_alive()


def test_more_agents_than_one_answer_holds_are_all_found(lab: SmallLab) -> None:
    lab.many = range(1, 1201)
    with MadClient(lab.path) as client:
        assert client.agents() == tuple(range(1, 1201))


def test_traps_reach_every_program(lab: SmallLab, client: MadClient) -> None:
    sink = build_request(
        Method.SET, AttrId.CLASS_PORT_INFO, ClassPortInfo(trap_lid=lab.em.lid).build()
    ).build()
    client.request(lab.host.lid, sink)
    client.request(
        lab.host.lid, build_request(Method.SET, AttrId.VESW_PORT_INFO, bytes(280), attr_mod=1).build()
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.settimeout(60)
        listener.connect(str(lab.path))
        listener.sendall(MadMessage(0, b"").build())
        reader = MessageReader()
        messages: list[MadMessage] = []
        while not messages:
            messages += reader.feed(listener.recv(65536))
        netdev = netdev_of(lab.vnics.adapters[VportNum(1)])
        lab.call(lambda: netdev.set_mac(MacAddr(b"\x02\0\0\0\0\1")))
        while len(messages) < 2:
            messages += reader.feed(listener.recv(65536))
    assert (messages[1].lid, messages[1].outcome) == (lab.host.lid, Outcome.OK)
    assert notice_of(messages[1].mad).opcode == 1
    assert client.agents()  # the trap that this program was sent meanwhile is passed over


@pytest.mark.parametrize("method", [Method.TRAP, Method.GET_RESP])
def test_mad_that_has_no_response_is_sent_and_not_waited_for(lab: SmallLab, method: Method) -> None:
    mad = build_request(method, AttrId.CLASS_PORT_INFO).build().hex()
    outcome = CliRunner().invoke(mad_app, ["raw", mad, "--lid", str(lab.host.lid), "--target", str(lab.path)])
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert f"sent; a MAD of method {method:#04x} has no response" in outcome.stderr


def test_refusal_of_a_mad_that_has_no_response_is_told(lab: SmallLab, client: MadClient) -> None:
    with pytest.raises(MadSocketError, match="was not sent"):
        client.send(1 << 24, build_request(Method.TRAP, AttrId.NOTICE).build())
    assert client.agents() == (lab.host.lid,)


def test_nobody_listening_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MadSocketError, match="cannot connect"):
        MadClient(tmp_path / "nothing")
    outcome = CliRunner().invoke(
        app, ["vema", "--target", str(tmp_path / "nothing"), str(VECTORS / "vema-1.jsonl.gz")]
    )
    assert outcome.exit_code == 2
    assert outcome.stderr.count("\n") == 1


def test_conformance_drives_the_agent_of_a_lab(lab: SmallLab) -> None:
    vectors = str(VECTORS / "vema-1.jsonl.gz")
    outcome = CliRunner().invoke(app, ["vema", "--target", str(lab.path), "--json", vectors, vectors])
    assert outcome.exit_code == 0, outcome.output
    for result in json.loads(outcome.stdout):
        assert (result["ok"], result["passed"]) == (True, 300)
        assert 0 < result["skipped_steps"] < 5000
        assert result["requests_without_active"] > 0
    assert len(lab.vnics.adapters) <= 2 * MAX_FRESH
    assert all(adapter.port_info.vesw_id == 0 for adapter in lab.vnics.adapters.values())


class MeddledClient(MadClient):
    """Another manager writes its trap sink before every n-th Get of ClassPortInfo."""

    every = 1
    _gets = 0

    def request(self, lid: int, mad: bytes, *, sl: int = 0, pkey: int = 0) -> bytes | None:
        header = MadHeader.parse(mad)
        if (header.method, header.attr_id) == (Method.GET, AttrId.CLASS_PORT_INFO):
            self._gets += 1
            if not self._gets % self.every:
                sink = ClassPortInfo(trap_lid=1).build()
                super().request(lid, build_request(Method.SET, AttrId.CLASS_PORT_INFO, sink).build())
        return super().request(lid, mad, sl=sl, pkey=pkey)


@pytest.mark.parametrize(("every", "ok"), [(25, True), (1, False)])
def test_conformance_repeats_a_session_that_another_manager_came_between(
    lab: SmallLab, every: int, ok: bool
) -> None:
    with MeddledClient(lab.path, timeout_s=20) as client:
        client.every = every
        result = run_vema_target(VECTORS / "vema-1.jsonl.gz", client.request, lab.host.lid)
    assert result.ok is ok, [line for difference in result.differences for line in difference.lines()]
