"""Agents that are alive and never agree with themselves: isolated, reported, and no load on the others."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR
from unit.vema.em.em_fabric import EmFabric, config
from vema.attributes.attr_id import AttrId

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

LINK, DIGEST, UC_GEN = (DATA_OFFSET_VENDOR + 152 + at for at in (4, 20, 116))
"""Where VeswPortInfo has the link status, the digest, and the generation count of the unicast list."""
A_MINUTE_S = 60.0
ASKED_IN_A_MINUTE = 400
"""Of one port that makes no sense: looks every 10 s, 17 sections of a table at most after each, isolation for 30 s."""

Lie = Callable[[int, bytearray], None]
"""Changes an answer to a request for an attribute."""


def no_link_ever() -> Lie:
    def lie(attr_id: int, answer: bytearray) -> None:
        if attr_id == AttrId.VESW_PORT_INFO:
            answer[LINK] = 0

    return lie


def another_digest_each_time() -> Lie:
    numbers = itertools.count(1000)

    def lie(attr_id: int, answer: bytearray) -> None:
        if attr_id == AttrId.VESW_PORT_INFO:
            struct.pack_into(">I", answer, DIGEST, next(numbers))

    return lie


def digest_that_never_changes() -> Lie:
    def lie(attr_id: int, answer: bytearray) -> None:
        if attr_id == AttrId.VESW_PORT_INFO:
            struct.pack_into(">I", answer, DIGEST, 0x5EED)

    return lie


def generation_counts_that_jump() -> Lie:
    numbers = itertools.count(7, 13)

    def lie(attr_id: int, answer: bytearray) -> None:
        if attr_id in (AttrId.IFACE_UCAST_MACS, AttrId.IFACE_MCAST_MACS):
            struct.pack_into(">H", answer, DATA_OFFSET_VENDOR + 6, next(numbers) & 0xFFFF)

    return lie


def generation_counts_of_another_list() -> Lie:
    numbers = itertools.count(7, 13)

    def lie(attr_id: int, answer: bytearray) -> None:
        if attr_id == AttrId.VESW_PORT_INFO:
            struct.pack_into(">H", answer, UC_GEN, next(numbers) & 0xFFFF)

    return lie


@pytest.mark.parametrize(
    ("lie", "isolated"),
    [
        (no_link_ever, "link status 0 as if there were no vport"),
        (another_digest_each_time, "3 times after another was written"),
        (digest_that_never_changes, "3 times after another was written"),
        (generation_counts_that_jump, "changed between two pages"),
        (generation_counts_of_another_list, ""),  # its lists are read at each look, that is all
    ],
)
async def test_agent_that_never_agrees_with_itself_costs_little_and_is_reported(
    lie: Callable[[], Lie], isolated: str
) -> None:
    fabric = EmFabric(3)
    em = fabric.em()
    em.start(config())
    assert await em.wait_converged()
    vnic = fabric.vnics["h2:1"]
    honest, tell = vnic.agent.receive, lie()
    asked = 0

    def liar(mad: bytes, *, pkey: int = 0xFFFF) -> bytes | None:
        nonlocal asked
        asked += 1
        answer = bytearray(honest(mad, pkey=pkey) or b"")
        tell(int.from_bytes(mad[16:18], "big"), answer)
        return bytes(answer)

    vnic.agent.receive = liar  # type: ignore[method-assign]
    netdev = fabric.netdev(2)
    assert netdev.open() == 0
    netdev.set_uc_list([MacAddr(b"\x02\x11\0\0" + n.to_bytes(2, "big")) for n in range(700)])  # three pages
    await em.wait_for(lambda: False, A_MINUTE_S)
    assert asked < ASKED_IN_A_MINUTE
    reasons = [stored.text for stored in em.store.events() if stored.kind == "agent-isolated"]
    if isolated:
        assert isolated in reasons[0]
    else:
        assert reasons == []
    assert {difference.port for difference in await em.verify()} <= {"h2:1"}
    vnic.agent.receive = honest  # type: ignore[method-assign]
    assert await em.wait_converged(700.0)
    assert await em.wait_for(lambda: len(fabric.dlids(1)) == 702, 700.0)
    em.stop()
