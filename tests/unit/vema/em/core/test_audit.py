"""The audit of MAC tables: a wrong section under the right digest is found and mended; nothing else is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Mad, Method
from unit.vema.em.em_fabric import EmFabric, config, managed
from vema.attributes.attr_id import AttrId
from vema.base.errors import AgentError
from vema.em.core.audit import MIN_STEP_S, Audit
from vema.em.core.state import ManagedVesw, Port, Vport
from vema.em.desired.mac_tables import DIRTY, SECTIONS, VeswTable, digest_of
from vema.em.desired.plan import VeswPlan
from vema.em.desired.ports import PortFacts
from vema.em.service.service import EthernetService

ROUND_S = 60.0
Test = Callable[..., Coroutine[Any, Any, None]]
MAD = slice(24, None)
"""The MAD in a packet."""


def virtual(test: Test) -> Test:
    """Run a test on virtual time."""
    return pytest.mark.asyncio(pytest.mark.looptime(test))


def addresses(first: int, count: int) -> list[MacAddr]:
    return [MacAddr(bytes((2, 0xAA, first)) + n.to_bytes(3, "big")) for n in range(count)]


def table_set(packet: bytes, dlid: int) -> tuple[int, int] | None:
    """Return first slot and digest of a packet that is a Set of MAC entries to a LID, else None."""
    mad = packet[MAD]
    to = int.from_bytes(packet[4:7], "little") & 0xFFFFF
    if packet[8] != 0x08 or mad[1] != 0x34 or mad[3] != 2 or to != dlid:
        return None
    if int.from_bytes(mad[16:18], "big") != AttrId.MAC_ENTRIES:
        return None
    return int.from_bytes(mad[40:42], "big"), int.from_bytes(mad[44:48], "big")


@contextmanager
def old_set_comes_between(fabric: EmFabric, host: int, kept: list[bytes]) -> Iterator[None]:
    """Keep the first Set of section 0 to a host; put it in after the first Set of the next update."""
    port, target = fabric.em_ports[0], fabric.port(host).lid
    send = port.send_built

    def doubling(packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        ended = send(packet, slid, dlid, pkey)
        found = table_set(packet, target)
        if found is not None and found[0] == 0:
            if not kept:
                kept.append(packet)
            elif found[1] == DIRTY and len(kept) == 1:
                kept.append(packet)
                send(kept[0], slid, dlid, pkey)
        return ended

    port.send_built = doubling  # type: ignore[method-assign]
    yield
    port.send_built = send  # type: ignore[method-assign]


async def quiet(em: EthernetService) -> None:
    assert await em.wait_converged(120.0)


async def fabric_with_a_wrong_section(audit: float) -> tuple[EmFabric, EthernetService]:
    """Three hosts; h1 has an old section of its MAC table under the right digest, and the EM knows nothing of it."""
    fabric = EmFabric(3)
    em = fabric.em()
    em.start(config(polling={"interval": 0, "audit": audit}))
    await quiet(em)
    fabric.netdev(2).set_uc_list(addresses(1, 140))
    assert fabric.netdev(2).open() == 0
    kept: list[bytes] = []
    with old_set_comes_between(fabric, 1, kept):
        assert await em.wait_for(lambda: len(fabric.dlids(1)) == 142, 30.0)
        await quiet(em)
        fabric.netdev(2).set_uc_list(addresses(2, 140))
        assert await em.wait_for(lambda: len(kept) == 2, 30.0)
        await asyncio.sleep(5.0)  # the looks after the last traps
        await quiet(em)
    assert any("no entry" in str(difference) for difference in await em.verify())
    return fabric, em


def gets(em: EthernetService) -> int:
    assert em.core is not None
    return em.core.gets


@virtual
async def test_wrong_section_under_the_right_digest_is_found_mended_and_reported() -> None:
    fabric, em = await fabric_with_a_wrong_section(ROUND_S)
    before = fabric.sets()
    await asyncio.sleep(2 * ROUND_S + 1)
    await quiet(em)
    assert [str(difference) for difference in await em.verify()] == []
    assert fabric.sets() == before + 1
    (event,) = [s for s in em.store.events() if s.kind == "table-differs"]
    assert (event.port, event.vport_num, event.vesw_id) == ("h1:1", 1, 2)
    assert event.text == "MAC table: section 0 does not match its digest, sent again"
    em.stop()


@virtual
async def test_audit_that_is_off_reads_no_table() -> None:
    _, em = await fabric_with_a_wrong_section(0.0)
    asked = gets(em)
    await asyncio.sleep(10 * 600.0)
    assert gets(em) == asked
    assert await em.verify() != []
    em.apply(config(polling={"interval": 0, "audit": "10s"}))  # and it can be turned on
    await asyncio.sleep(21.0)
    await quiet(em)
    assert await em.verify() == []
    em.stop()


@virtual
async def test_right_tables_are_read_once_in_a_round_and_nothing_is_sent() -> None:
    async with managed(5, config(polling={"interval": 0, "audit": ROUND_S})) as (fabric, em):
        asked, sets = gets(em), fabric.sets()
        await asyncio.sleep(ROUND_S - 1)
        assert gets(em) == asked
        await asyncio.sleep(10 * ROUND_S)
        assert 9 * 5 * SECTIONS <= gets(em) - asked <= 11 * 5 * SECTIONS
        assert fabric.sets() == sets
        assert {s.kind for s in em.store.events()} == {"vport-configured"}


@virtual
async def test_rate_is_bounded_however_short_the_round_is() -> None:
    async with managed(5, config(polling={"interval": 0, "audit": "10ms"})) as (_, em):
        asked = gets(em)
        await asyncio.sleep(10.0)
        # and beside each table one look for a vport that somebody else has made
        assert 0 < gets(em) - asked <= (10.0 / MIN_STEP_S + 1) * (SECTIONS + 1) / SECTIONS + 1


@virtual
async def test_manager_without_memory_learns_what_stands_where_and_then_changes_one_section() -> None:
    fabric = EmFabric(3)
    em = fabric.em()
    em.start(config(polling={"interval": 0, "audit": ROUND_S}))
    await quiet(em)
    assert fabric.netdev(2).open() == 0
    em.stop()
    em = fabric.em()
    em.start(config(polling={"interval": 0, "audit": ROUND_S}))
    await quiet(em)
    await asyncio.sleep(2 * ROUND_S + 1)
    sets = fabric.sets()
    assert fabric.netdev(2).set_mac(MacAddr(b"\x02\0\0\0\xee\xee")) == 0
    assert await em.wait_for(lambda: b"\x02\0\0\0\xee\xee" in fabric.dlids(1), 10.0)
    await quiet(em)
    assert fabric.sets() == sets + 2  # one for each of the others, not the 17 sections of an unknown table
    em.stop()


@virtual
async def test_agent_that_is_silent_or_refuses_does_not_hold_the_others_up() -> None:
    fabric, em = await fabric_with_a_wrong_section(ROUND_S)
    for name, mute in (("h2:1", True), ("h3:1", False)):
        agent = fabric.vnics[name].agent
        honest = agent.receive

        def spoilt(mad: bytes, *, pkey: int = 0xFFFF, honest=honest, mute=mute) -> bytes | None:  # type: ignore[no-untyped-def]
            answer = honest(mad, pkey=pkey)
            if mad[3] != 1 or int.from_bytes(mad[16:18], "big") != AttrId.MAC_ENTRIES:
                return answer  # type: ignore[no-any-return]
            return None if mute else answer[:4] + b"\0\x1c" + answer[6:]

        agent.receive = spoilt  # type: ignore[method-assign]
    await asyncio.sleep(4 * ROUND_S)
    assert "table-differs" in {s.kind for s in em.store.events()}
    assert len(fabric.dlids(1)) == 142
    em.stop()


# --- answers that make no sense ------------------------------------------------------------------------------


def audited() -> tuple[Port, Vport, dict[int, ManagedVesw]]:
    """Return a port with one vport whose MAC table is empty, and its virtual switch."""
    facts = PortFacts(1, 2, "h1:1", "h1", "h1", 1)
    port, plan = Port(facts, ready=True), VeswPlan(1, config().vesws[0], True, (facts,), (), 0xF00002)
    vport = Vport(1, 1, 2, digest=digest_of(()), done=True)
    port.add(vport)
    return port, vport, {2: ManagedVesw(plan, VeswTable())}


@given(st.binary(max_size=2100), st.booleans())
def test_any_answer_is_a_section_or_an_error_and_the_audit_goes_on(answer: bytes, dressed: bool) -> None:
    port, vport, vesws = audited()
    audit = Audit(1.0, now=0.0)
    assert audit.wake(1.0, {1: port}, vesws) == vport.key
    request = audit.request(port, vport)
    assert request is not None
    asked = request.mad
    header = replace(asked.header, method=Method.GET_RESP) if dressed else asked.header
    mad = Mad(header, asked.data[:16] + answer if dressed else answer)
    with suppress(AgentError, WireError):
        assert audit.take(vport, request, mad) == []
    assert not vport.damaged
    assert audit.wake(2.0, {1: port}, vesws) == vport.key
    assert audit.request(port, vport) is not None


def test_section_that_is_awaited_holds_the_audit_and_one_that_was_lost_does_not() -> None:
    port, vport, vesws = audited()
    audit = Audit(1.0, now=0.0)
    assert audit.wake(1.0, {1: port}, vesws) == vport.key
    assert audit.request(port, vport) is not None
    vport.busy = True
    assert audit.wake(2.0, {1: port}, vesws) is None
    vport.busy = False  # it was given up
    assert audit.wake(3.0, {1: port}, vesws) == vport.key
    assert audit.request(port, vport) is not None


def test_audit_goes_on_when_the_vport_whose_section_is_awaited_has_gone() -> None:
    port, vport, vesws = audited()
    audit = Audit(1.0, now=0.0)
    assert audit.wake(1.0, {1: port}, vesws) == vport.key
    assert audit.request(port, vport) is not None
    port.remove(vport.num)
    assert audit.wake(2.0, {1: port}, vesws) is None
