"""Nodes with real sessions on the loopback: packets, questions, who is there, who is refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opavnic.cluster.errors import ClusterError, ClusterInputError, JoinRefusedError, PeerRequestError
from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.protocol.zenoh_config import Address
from opavnic.cluster.zenoh.credentials import make_authority
from opavnic.cluster.zenoh.transport import JOIN, ZenohTransport
from unit.opavnic.cluster.nodes import GETS_IN_S, coordinator, free_port, member, plan

C, M1 = NodeName("c"), NodeName("m1")


@pytest.mark.parametrize("is_secure", [False, True], ids=["tcp", "tls"])
async def test_node_connects_to_another_and_both_talk(is_secure: bool, tmp_path: Path) -> None:
    make_authority(tmp_path / "ca", ["c", "m1"], coordinators=["c"])
    folders = {name: tmp_path / "ca" / name if is_secure else None for name in ("c", "m1")}
    port = free_port()
    async with coordinator(port, folders["c"]) as (c, saw), member("m1", port, folders["m1"]) as (m1, _):
        await saw.until(lambda: saw.saw("m1"))
        for near, far in ((m1, c), (c, m1)):
            accepted = asyncio.get_running_loop().create_future()
            expected = far.expect(near.name, accepted.set_result)
            ends = await near.connect(far.name, expected), await accepted
            assert [end.peer for end in ends] == [far.name, near.name]
            (one_reader, one), (other_reader, other) = await asyncio.gather(*(end.streams() for end in ends))
            one.write(b"from here")
            other.write(b"from there")
            assert await other_reader.readexactly(9) == b"from here"
            assert await one_reader.readexactly(10) == b"from there"
            one.transport.abort()
            with contextlib.suppress(OSError):
                assert await other_reader.read(1) == b""
            other.close()
            with contextlib.suppress(OSError):  # a ticket is for one connection
                again = await near.connect(far.name, expected)
                assert await asyncio.get_running_loop().sock_recv(again.socket, 1) == b""
                again.close()


_MOST = 1 << 14
"""Bytes that one end of a cable keeps."""


class Cable:
    """Carries the connections to a port of the loopback, until it is cut: then nobody takes what is sent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._carriers: set[asyncio.Task[None]] = set()
        self._ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        """Both parts of each: a reader that nobody holds ends its connection."""

    async def __aenter__(self) -> Cable:
        listening = _small_socket()
        listening.bind(("127.0.0.1", 0))
        self.port = int(listening.getsockname()[1])
        self._server = await asyncio.start_server(self._connected, sock=listening, limit=_MOST)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        await asyncio.gather(*self._carriers, return_exceptions=True)
        for _, end in self._ends:
            end.transport.abort()

    def cut(self) -> None:
        self._server.close()
        for carrier in self._carriers:
            carrier.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = _small_socket()
        await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", self._port))
        far_reader, far_writer = await asyncio.open_connection(sock=far, limit=_MOST)
        self._ends += [(reader, writer), (far_reader, far_writer)]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._carriers.add(asyncio.create_task(_carry(source, sink)))


def _small_socket() -> socket.socket:
    """Return a socket that takes little before it is read; its segments are small, so its other end keeps little."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _MOST)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
    one.setblocking(False)
    return one


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_MOST):
        sink.write(data)
        await sink.drain()
    sink.close()


async def test_node_that_is_cut_off_with_more_on_its_way_than_the_kernel_takes_is_gone_all_the_same(
    tmp_path: Path,
) -> None:
    make_authority(tmp_path / "ca", ["m1"], coordinators=["c"])
    port = free_port()
    async with coordinator(port, tmp_path / "ca" / "c", lease_s=3.0) as (c, saw), Cable(port) as cable:
        async with member("m1", cable.port, tmp_path / "ca" / "m1", lease_s=3.0):
            await saw.until(lambda: saw.saw("m1"))
            cable.cut()
            asked = asyncio.gather(
                *(c.request(M1, "status", {"more": "y" * 900_000}) for _ in range(3)), return_exceptions=True
            )
            await saw.until(lambda: saw.saw("m1", is_there=False))
            await asked
        assert not c.nodes


async def test_question_is_answered_with_the_name_of_who_asked() -> None:
    port = free_port()
    async with coordinator(port) as (c, saw), member("m1", port) as (m1, _):
        await saw.until(lambda: saw.saw("m1"))

        async def serve(sender: NodeName, body: dict[str, object]) -> dict[str, object]:
            return {"sender": sender, **body}

        async def fail(_sender: NodeName, _body: dict[str, object]) -> dict[str, object]:
            raise ClusterError("host h9: there is none")

        c.verbs |= {"status": serve, "fail": fail}
        assert await m1.request(C, "status", {"x": [1]}) == {"sender": "m1", "x": [1]}
        with pytest.raises(PeerRequestError, match=r"^node c: fail: host h9: there is none$"):
            await m1.request(C, "fail", {})
        with pytest.raises(PeerRequestError, match=r"^node m9: status: no reply$"):
            await m1.request(NodeName("m9"), "status", {})
        with pytest.raises(PeerRequestError, match="a request of"):
            await m1.request(C, "status", {"x": "y" * (1 << 20)})


async def test_second_node_of_a_name_is_refused_on_its_own_side() -> None:
    port = free_port()
    async with coordinator(port), member("m1", port):
        with pytest.raises(JoinRefusedError, match="the fabric has a node of this name already"):
            async with member("m1", port, lease_s=0.5):
                pass


async def test_node_with_another_lab_file_is_refused_on_its_own_side_at_once() -> None:
    port, replies = free_port(), []
    async with coordinator(port, digest="aa" * 8) as (c, _):
        serve = c.verbs[JOIN]

        async def count(sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
            replies.append(await serve(sender, body))
            return replies[-1]  # type: ignore[no-any-return]

        c.verbs[JOIN] = count
        with pytest.raises(JoinRefusedError, match="brings another lab file"):
            async with member("m1", port, digest="bb" * 8):
                pass
    assert len(replies) == 1, (
        "it stays refused: asking again, as for a name that is taken, would change nothing"
    )


@pytest.mark.parametrize("is_secure", [False, True], ids=["tcp", "tls"])
async def test_members_hear_of_each_other_from_the_coordinator_and_talk(
    is_secure: bool, tmp_path: Path
) -> None:
    make_authority(tmp_path / "ca", ["m1", "m2"], coordinators=["c"])
    folders = {name: tmp_path / "ca" / name if is_secure else None for name in ("c", "m1", "m2")}
    port = free_port()
    async with AsyncExitStack() as last:
        _, saw = await last.enter_async_context(coordinator(port, folders["c"]))
        m1, m1_saw = await last.enter_async_context(member("m1", port, folders["m1"]))
        async with member("m2", port, folders["m2"]) as (m2, m2_saw):
            await m1_saw.until(lambda: m1_saw.saw("m2"))
            await m2_saw.until(lambda: m2_saw.saw("m1"))
            assert m1.nodes == {"c": NodeState(m1.nodes[C].epoch, True), "m2": NodeState(m2.epoch)}

            async def serve(sender: NodeName, _body: dict[str, object]) -> dict[str, object]:
                return {"sender": sender}

            m2.verbs["status"] = serve
            assert await m1.request(NodeName("m2"), "status", {}) == {"sender": "m1"}
        await m1_saw.until(lambda: m1_saw.saw("m2", is_there=False))
        await saw.until(lambda: saw.saw("m2", is_there=False))


async def test_members_keep_each_other_while_the_coordinator_is_away_and_join_it_again() -> None:
    port = free_port()
    async with AsyncExitStack() as members:
        async with coordinator(port) as (first, _):
            m1, m1_saw = await members.enter_async_context(member("m1", port))
            m2, m2_saw = await members.enter_async_context(member("m2", port))
            await m1_saw.until(lambda: m1_saw.saw("m2"))
            await m2_saw.until(lambda: m2_saw.saw("m1"))

            async def serve(_sender: NodeName, _body: dict[str, object]) -> dict[str, object]:
                return {}

            m1.verbs["status"] = m2.verbs["status"] = serve
        for saw in (m1_saw, m2_saw):
            await saw.until(lambda: saw.saw("c", is_there=False))  # noqa: B023
        answers: dict[str, dict[str, object]] = {}
        asking: list[asyncio.Task[None]] = []

        async def ask(second: ZenohTransport, name: NodeName) -> None:
            answers[name] = await second.request(name, "status", {})

        async with coordinator(port) as (second, saw):
            saw.on_join = lambda name: asking.append(asyncio.create_task(ask(second, name)))
            await saw.until(lambda: second.nodes.keys() == {"m1", "m2"})
            await asyncio.gather(*asking)
            for saw in (m1_saw, m2_saw):
                await saw.until(lambda: ("c", NodeState(second.epoch, True)) in saw.nodes)  # noqa: B023
            assert set(answers) == {"m1", "m2"}, "who has joined knows whom it answers"
            assert first.epoch != second.epoch
            assert second.nodes == {"m1": NodeState(m1.epoch), "m2": NodeState(m2.epoch)}
            assert not m1_saw.saw("m2", is_there=False)
            assert not m2_saw.saw("m1", is_there=False)


async def test_coordinator_that_is_not_there_is_one_line() -> None:
    port = free_port()
    with pytest.raises(
        ClusterError, match=rf"no coordinator answers at tcp/127.0.0.1:{port} \(Connection refused\)"
    ):
        async with member("m1", port, join_timeout_s=0.3):
            pass


async def test_port_that_is_taken_is_one_line() -> None:
    port = free_port()
    async with coordinator(port):
        with pytest.raises(ClusterInputError, match=rf"^node c: cannot listen on tcp/127.0.0.1:{port}: "):
            async with coordinator(port):
                pass


async def test_listening_where_it_cannot_is_a_line_about_that_and_not_about_the_coordinator() -> None:
    port = free_port()
    for listen in ("tcp/192.0.2.77:0", f"tcp/127.0.0.1:{port}"):
        async with coordinator(port):
            wanted = replace(plan("m1", port, joins=True), listen=(Address.parse(listen, is_listen=True),))
            one = ZenohTransport(replace(wanted, is_insecure=True))
            with pytest.raises(ClusterInputError, match=rf"cannot listen on {listen}: "):
                await one.start()


@pytest.mark.parametrize("is_secure", [False, True], ids=["tcp", "tls"])
async def test_node_that_is_started_before_its_coordinator_gets_in(is_secure: bool, tmp_path: Path) -> None:
    """The order in which machines boot is nobody's."""
    make_authority(tmp_path / "ca", ["c", "m1"], coordinators=["c"])
    folders = {name: tmp_path / "ca" / name if is_secure else None for name in ("c", "m1")}
    port = free_port()
    tried = asyncio.Event()
    stranger = await asyncio.start_server(
        lambda _, writer: (writer.close(), tried.set())[0], "127.0.0.1", port
    )
    one = ZenohTransport(plan("m1", port, joins=True, folder=folders["m1"], join_timeout_s=GETS_IN_S))
    joining = asyncio.create_task(one.start())
    await tried.wait()
    stranger.close()
    await stranger.wait_closed()
    async with coordinator(port, folders["c"]) as (_, saw):
        await joining
        await saw.until(lambda: saw.saw("m1"))
        await one.stop()
