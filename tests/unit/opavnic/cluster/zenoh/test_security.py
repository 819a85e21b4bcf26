"""Who gets into a fabric with TLS, and what a member that lies can do: nothing but lie about its own ports."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.frames import PROTOCOL
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan, check, config
from opavnic.cluster.zenoh.credentials import load_credentials, make_authority
from opavnic.cluster.zenoh.sockets import PeerSocket
from unit.opavnic.cluster.nodes import (
    GETS_IN_S,
    coordinator,
    free_port,
    hostile,
    member,
    plan,
    raw_session,
)

C, M1 = NodeName("c"), NodeName("m1")


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ca")
    make_authority(directory, ["m1", "m2"], coordinators=["c"])
    return directory


async def test_members_with_certificates_of_one_ca_meet_and_ask(ca: Path) -> None:
    port = free_port()
    async with coordinator(port, ca / "c") as (c, saw), member("m1", port, ca / "m1") as (m1, _):
        await saw.until(lambda: saw.saw("m1"))

        async def serve(sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
            return {"sender": sender}

        c.verbs["status"] = m1.verbs["status"] = serve
        assert await m1.request(C, "status", {}) == {"sender": "m1"}
        assert await c.request(M1, "status", {}) == {"sender": "c"}


async def _refused(wanted: dict[str, Any]) -> bool:
    """Return whether a session with this configuration reaches nobody."""
    try:
        async with raw_session(wanted) as session:
            replies = await asyncio.to_thread(lambda: list(session.get("opavnic/m1/-/join", timeout=1.0)))
            return not replies and not session.info.peers_zid()
    except Exception as error:
        return type(error).__name__ == "ZError"


async def test_client_without_a_certificate_gets_in_nowhere(ca: Path) -> None:
    port = free_port()
    async with coordinator(port, ca / "c") as (_, saw):
        wanted = hostile(plan("m1", port, joins=True, folder=ca / "m1", join_timeout_s=1.0))
        tls = wanted["transport"]["link"]["tls"]
        for key in list(tls):
            if key != "root_ca_certificate" and key != "verify_name_on_connect":
                del tls[key]
        assert await _refused(wanted)
        assert not saw.nodes


async def test_client_without_tls_gets_in_nowhere(ca: Path) -> None:
    port = free_port()
    async with coordinator(port, ca / "c") as (_, saw):
        assert await _refused(config(plan("m1", port, joins=True, join_timeout_s=1.0), 5))
        assert not saw.nodes


async def test_certificate_of_another_ca_gets_in_nowhere(ca: Path, tmp_path: Path) -> None:
    port = free_port()
    make_authority(tmp_path / "other", ["m1"])
    async with coordinator(port, ca / "c") as (_, saw):
        wanted = hostile(plan("m1", port, joins=True, folder=tmp_path / "other" / "m1", join_timeout_s=1.0))
        wanted["transport"]["link"]["tls"]["root_ca_certificate"] = str(ca / "ca.pem")
        assert await _refused(wanted)
        assert not saw.nodes
        with pytest.raises(ClusterError, match="are the credentials from the same CA"):
            async with member("m1", port, tmp_path / "other" / "m1", join_timeout_s=0.5):
                pass


def test_certificate_of_another_node_is_refused_before_anything_is_sent(ca: Path) -> None:
    with pytest.raises(ClusterInputError, match=r"^node m2: the certificate in .*node\.pem is that of m1"):
        check(plan("m2", 7447, joins=True, folder=ca / "m1"))


async def test_member_cannot_speak_as_another_nor_hear_what_is_not_for_it(ca: Path) -> None:
    port = free_port()
    async with coordinator(port, ca / "c") as (c, saw), member("m1", port, ca / "m1") as (m1, _):
        await saw.until(lambda: saw.saw("m1"))
        insider = plan("m2", port, joins=True, folder=ca / "m2", join_timeout_s=GETS_IN_S)
        async with raw_session(hostile(insider)) as liar:
            heard: list[str] = []
            ear = liar.declare_queryable("opavnic/**", lambda query: heard.append(str(query.key_expr)))

            def ask(key: str, **body: Any) -> list[Any]:
                found = liar.get(key, payload=json.dumps(body), timeout=GETS_IN_S)
                return [reply.ok.payload.to_string() for reply in found if reply.ok is not None]

            hello = {"protocol": PROTOCOL, "epoch": 5, "digest": "-"}
            known: dict[str, Any] = {}
            for _ in range(2):
                [reply] = await asyncio.to_thread(ask, "opavnic/m2/-/join", **hello, **known)
                assert json.loads(reply)["coordinator"] == "c"
                known = {"heard": json.loads(reply)["machines"]["c"]}
            assert saw.saw("m2")

            async def serve(sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
                return {"sender": sender}

            m1.verbs["status"] = c.verbs["status"] = serve
            assert [json.loads(one) for one in await asyncio.to_thread(ask, "opavnic/m2/c/status")] == [
                {"sender": "m2"}
            ]
            lies = ("opavnic/m1/c/status", "opavnic/c/m1/status", "opavnic/m9/-/join")
            for key in lies:
                assert await asyncio.to_thread(ask, key, **hello) == []
            assert not saw.saw("m9")
            assert await c.request(M1, "status", {}) == {"sender": "c"}
            assert await m1.request(C, "status", {}) == {"sender": "m1"}
            assert not [key for key in heard if "/m2/" not in key and key not in lies]
            ear.undeclare()


async def test_member_takes_nobody_for_the_coordinator_whom_its_credentials_do_not_name(ca: Path) -> None:
    """Who has taken the address of the coordinator has a certificate of the CA, and answers."""
    port = free_port()
    impostor = plan("m2", port, joins=False, folder=ca / "m2")
    async with raw_session(hostile(impostor)) as liar:
        ear = liar.declare_queryable(
            "opavnic/**",
            lambda query: query.reply(
                query.key_expr, json.dumps({"coordinator": "m2", "machines": {"m2": 5}})
            ),
        )
        with pytest.raises(ClusterError, match="the coordinator does not answer"):
            async with member("m1", port, ca / "m1", join_timeout_s=2.0):
                pass
        ear.undeclare()


async def test_connection_is_for_the_member_that_has_requested_it(ca: Path, tmp_path: Path) -> None:
    port = free_port()
    make_authority(tmp_path / "other", ["m1"])
    async with coordinator(port, ca / "c") as (c, saw), member("m1", port, ca / "m1") as (m1, _):
        await saw.until(lambda: saw.saw("m1"))
        for stranger in (None, tmp_path / "other" / "m1", ca / "m2"):
            accepted = asyncio.get_running_loop().create_future()
            near = await m1.connect(C, c.expect(M1, accepted.set_result))
            near.credentials = None if stranger is None else load_credentials(stranger)

            async def talk(end: PeerSocket) -> bytes:
                reader, writer = await end.streams()
                writer.write(b"let me in")
                try:
                    return await reader.readexactly(1)
                finally:
                    writer.close()

            ends = (near, await accepted)
            async with asyncio.timeout(GETS_IN_S):
                met = await asyncio.gather(*(talk(end) for end in ends), return_exceptions=True)
            assert isinstance(met[1], (OSError, EOFError, ClusterError)), met
            for end in ends:
                end.close()


def test_listening_off_the_loopback_needs_tls_or_a_word(ca: Path) -> None:
    everywhere = Address.parse("tcp/0.0.0.0:7447", is_listen=True)
    with pytest.raises(
        ClusterInputError, match=r"^tcp/0\.0\.0\.0:7447: any machine that reaches this address"
    ):
        check(SessionPlan(M1, (everywhere,)))
    check(SessionPlan(M1, (everywhere,), is_insecure=True))
    check(SessionPlan(M1, (Address.parse("tcp/127.0.0.1:7447"), Address.parse("tcp/[::1]:7447"))))
    check(SessionPlan(M1, (Address.parse("tls/0.0.0.0:7447"),), credentials=load_credentials(ca / "m1")))
    with pytest.raises(ClusterInputError, match="TLS needs credentials"):
        check(SessionPlan(M1, (Address.parse("tls/192.0.2.1:7447"),)))


@pytest.mark.parametrize(
    "text", ["", "tls", "udp/1.2.3.4:5", "tls/h:0", "tls/h:99999", "tls/h:1#x=y", "tcp/a/b:1"]
)
def test_address_that_is_none_is_refused_with_what_is_right(text: str) -> None:
    with pytest.raises(ClusterInputError, match="tls/ADDRESS:PORT is right"):
        Address.parse(text)
