"""Nodes with real sessions on the loopback: packets, questions, who is there, who is refused."""

from __future__ import annotations

import pytest

from opavnic.cluster.errors import AskError, ClusterError, ClusterInputError, RefusedError
from opavnic.cluster.membership import Role
from opavnic.cluster.streams import WINDOW
from opavnic.cluster.transport import NodeName
from opavnic.cluster.zenoh_transport import ZenohTransport
from unit.opavnic.cluster.nodes import FABRIC, coordinator, free_port, member, plan

C, M1 = NodeName("c"), NodeName("m1")
LINK = "sw1:3/h 1"


async def test_packets_cross_in_order_and_both_ends_count_the_same() -> None:
    port = free_port()
    async with coordinator(port) as (c, c_saw), member("m1", port) as (m1, m1_saw):
        assert m1.fabric == FABRIC
        await c_saw.until(lambda: c_saw.saw("m1", "joined"))
        c.bind(LINK, 0, M1)
        m1.bind(LINK, 1, C)
        packets = [b"%d" % number for number in range(3 * WINDOW)]
        sent = 0

        def send_the_rest() -> bool:
            nonlocal sent
            sent += c.send_train(LINK, 0, 0, packets[sent:])
            return sent == len(packets)

        await c_saw.until(send_the_rest)
        await m1_saw.until(lambda: len(m1_saw.packets) == len(packets))
        assert m1_saw.packets == packets
        assert c.links()[LINK].sent == m1.links()[LINK].received == len(packets)
        assert not c.counters()
        assert not m1.counters()


async def test_node_that_leaves_is_gone_and_what_was_under_way_is_lost() -> None:
    port = free_port()
    async with coordinator(port) as (c, saw):
        async with member("m1", port) as (m1, m1_saw):
            await saw.until(lambda: saw.saw("m1", "joined"))
            c.bind(LINK, 0, M1)
            m1.bind(LINK, 1, C)
            await saw.until(lambda: c.send_train(LINK, 0, 0, [b"1"]))
            await m1_saw.until(lambda: m1_saw.packets)
            m1.pause(LINK, 0)  # before the acknowledgement, which waits for more packets
            assert c.links()[LINK].under_way == 1
        await saw.until(lambda: saw.saw("m1", "gone"))
        assert (saw.lost, c.links()[LINK].lost, c.links()[LINK].under_way) == (1, 1, 0)


async def test_question_is_answered_with_the_name_of_who_asked() -> None:
    port = free_port()
    async with coordinator(port) as (c, saw), member("m1", port) as (m1, _):
        await saw.until(lambda: saw.saw("m1", "joined"))

        async def serve(asker: NodeName, verb: str, body: dict[str, object]) -> dict[str, object]:
            if verb == "fail":
                raise ClusterError("host h9: there is none")
            return {"asker": asker, "verb": verb, **body}

        c.serve = serve
        assert await m1.ask(C, "status", {"x": [1]}) == {"asker": "m1", "verb": "status", "x": [1]}
        with pytest.raises(AskError, match=r"^node c: fail: host h9: there is none$"):
            await m1.ask(C, "fail", {})
        with pytest.raises(AskError, match=r"^node m9: status: does not answer$"):
            await m1.ask(NodeName("m9"), "status", {})
        with pytest.raises(AskError, match="a question of"):
            await m1.ask(C, "status", {"x": "y" * (1 << 20)})


async def test_second_node_of_a_name_is_refused_on_its_own_side() -> None:
    port = free_port()
    async with coordinator(port), member("m1", port):
        with pytest.raises(RefusedError, match="the fabric has a node of this name already"):
            async with member("m1", port, lease_s=0.5):
                pass


async def test_second_coordinator_and_other_lab_file_are_refused() -> None:
    port = free_port()
    async with coordinator(port, digest="aa" * 8):
        second = ZenohTransport(
            plan("d", port, joins=True, lease_s=0.5), Role.COORDINATOR, fabric=FABRIC, digest="aa" * 8
        )
        with pytest.raises(RefusedError, match="fabric 0x301 has a coordinator already, c"):
            await second.start()
        with pytest.raises(RefusedError, match="brings another lab file"):
            async with member("m1", port, lease_s=0.5, digest="bb" * 8):
                pass


async def test_coordinator_that_is_not_there_is_one_line() -> None:
    port = free_port()
    with pytest.raises(ClusterError, match=rf"no coordinator answers at tcp/127.0.0.1:{port}"):
        async with member("m1", port, join_timeout_s=0.3):
            pass


async def test_port_that_is_taken_is_one_line() -> None:
    port = free_port()
    async with coordinator(port):
        with pytest.raises(ClusterInputError, match=rf"tcp/127.0.0.1:{port}"):
            async with coordinator(port):
                pass
