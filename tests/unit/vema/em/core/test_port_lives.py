"""What becomes of a port that leaves, is silent or answers nonsense, as events and requests show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.wire.mad.header import Mad, Method
from unit.vema.agent.fake_vnic import AgentBench, LinkedBench
from vema.attributes.traps import TrapOpcode, build_trap
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import MadStatus, VportNum
from vema.em.core.core import EmCore
from vema.em.core.dialogue import Request
from vema.em.core.port_lives import ISOLATION_S
from vema.em.core.state import Vport
from vema.em.core.steps import Step
from vema.em.desired.desired import parse_config
from vema.em.desired.ports import PortFacts
from vema.em.store.persisted import EventRecord, Memory

PORT = PortFacts(1, 17, "h1:1", "h1", "h1", 1)


def core_with_port() -> EmCore:
    core = EmCore(parse_config({"vesws": []}), Memory(), now=0.0)
    core.set_active(0.0, True)
    core.set_ports(0.0, [PORT])
    return core


def asked(core: EmCore) -> Request:
    (request,) = core.next_requests(64)
    return request


def events(core: EmCore) -> list[str]:
    return [record.kind for record in core.take_records() if isinstance(record, EventRecord)]


def serve(core: EmCore, bench: AgentBench, now: float) -> list[Step]:
    """Let an agent answer everything until there is no more to ask; return the steps that were Sets."""
    sets: list[Step] = []
    core.wake(now, 100)
    while requests := core.next_requests(64):
        for request in requests:
            sets += [request.step] if request.step.is_set else []
            core.answer(now, request, Mad.parse(bench.agent.receive(request.mad.build())))
        core.wake(now, 100)
    return sets


def answers_nonsense(core: EmCore) -> None:
    request = asked(core)
    core.answer(0.0, request, replace(request.mad, data=b""))


def test_port_whose_answer_ends_inside_an_attribute_is_isolated_at_once() -> None:
    core = core_with_port()
    request = asked(core)
    answer = Mad.parse(AgentBench().agent.receive(request.mad.build()))
    core.answer(0.0, request, replace(answer, data=answer.data[:40]))
    assert core.ports[1].isolated


def test_isolated_port_with_other_facts_is_served_and_reported_as_isolated_no_longer() -> None:
    core = core_with_port()
    answers_nonsense(core)
    assert core.ports[1].isolated
    assert core.next_requests(64) == []
    core.set_ports(1.0, [replace(PORT, lid=18)])
    assert asked(core).dlid == 18
    assert core.ports[1].isolated == ""
    assert not core.converged


def test_port_that_leaves_is_forgotten_once_and_served_when_it_returns() -> None:
    core = core_with_port()
    for _ in range(2):  # at one instant, so the ends of all these absences are due together
        core.set_ports(0.0, [])
        core.set_ports(0.0, [PORT])
    core.set_ports(0.0, [])
    assert core.next_requests(64) == []
    core.wake(60.0, 100)
    core.wake(120.0, 100)
    assert events(core) == [*["port-left", "port-joined"] * 2, "port-left", "port-forgotten"]
    core.set_ports(121.0, [PORT])
    assert events(core) == ["port-joined"]
    core.answer(121.0, asked(core), None)
    assert events(core) == ["port-silent"]


def test_silent_port_is_left_alone_and_then_asked_again() -> None:
    core = core_with_port()
    core.answer(0.0, asked(core), None)
    assert events(core) == ["port-silent"]
    core.wake(0.9, 100)
    assert core.next_requests(64) == []
    core.wake(1.0, 100)
    assert asked(core).guid == 1


def test_port_that_has_no_agent_is_silent_at_once() -> None:
    core = core_with_port()
    request = asked(core)
    header = replace(request.mad.header, method=Method.GET_RESP, status=MadStatus.UNSUPPORTED)
    core.answer(0.0, request, Mad(header, b""))
    assert core.next_requests(64) == []
    assert [record.text for record in core.take_records() if isinstance(record, EventRecord)] == [
        "attribute 0x0001 refused by the port: no agent (0x000c)"
    ]
    core.wake(1.0, 100)
    assert asked(core).guid == 1


def test_trap_of_an_isolated_port_does_not_end_its_isolation() -> None:
    core = core_with_port()
    core.ports[1].add(Vport(1, 1, 2))
    answers_nonsense(core)
    core.trap(
        1.0, build_trap(1, VeswPortInfo(vesw_id=2), VportNum(1), 1, TrapOpcode.UCAST_MACS_CHANGED), PORT.lid
    )
    core.wake(ISOLATION_S - 0.1, 100)
    assert core.next_requests(64) == []
    core.wake(ISOLATION_S, 100)
    assert asked(core).guid == 1


def test_agent_is_isolated_at_every_third_refusal_in_a_row() -> None:
    core = core_with_port()
    for now in (0.0, ISOLATION_S):
        core.wake(now, 100)
        for refusals in range(3):
            assert core.ports[1].isolated == "", refusals
            request = asked(core)
            header = replace(request.mad.header, method=Method.GET_RESP, status=MadStatus.INVALID)
            core.answer(now, request, replace(request.mad, header=header))
        assert core.ports[1].isolated
    assert events(core) == ["agent-isolated"] * 2


@pytest.mark.parametrize("policy", ["learn", "locally-administered"])
def test_agent_that_has_lost_its_state_gets_its_trap_sink_before_its_vports(policy: str) -> None:
    vesw = {"id": 2, "name": "blue", "members": ["h1"], "mac": policy, "pkey": 0x8002}
    core = EmCore(parse_config({"vesws": [vesw], "polling": {"counters": 5}}), Memory(), now=0.0)
    core.set_sink(0.0, 1)
    core.set_active(0.0, True)
    core.set_ports(0.0, [replace(PORT, pkeys=frozenset({0x8002}))])
    serve(core, AgentBench(), 0.0)
    sets = serve(core, AgentBench(), 5.0)
    assert sets[:2] == [Step.SUBSCRIBE, Step.CONFIGURE]
    assert "agent-restarted" in events(core)


def test_port_that_returns_in_the_middle_of_a_scan_is_scanned_from_the_first_number() -> None:
    core = core_with_port()
    port = core.ports[1]
    port.start_scan(3)
    port.go_on_scanning(1, exists=False)
    assert port.scan == 2
    core.set_ports(0.0, [])
    core.set_ports(0.0, [PORT])
    assert (port.scan, port.patience, port.absent) == (1, 3, 0)


def test_manager_that_is_not_active_sends_nothing_until_it_is() -> None:
    core = EmCore(parse_config({"vesws": []}), Memory(), now=0.0)
    core.set_ports(0.0, [PORT])
    core.wake(60.0, 100)
    assert not core.active
    assert core.next_requests(64) == []
    core.set_active(60.0, True)
    assert asked(core).guid == 1


def served_core(bench: AgentBench) -> EmCore:
    """Return a core that has configured one vport, and polls it after that when it hears of it."""
    vesw = {"id": 2, "name": "blue", "members": ["h1"], "pkey": 0x8002}
    core = EmCore(parse_config({"vesws": [vesw], "polling": {"interval": 0}}), Memory(), now=0.0)
    core.set_active(0.0, True)
    core.set_ports(0.0, [replace(PORT, pkeys=frozenset({0x8002}))])
    serve(core, bench, 0.0)
    assert "vport-configured" in events(core)
    assert core.next_requests(64) == []
    return core


def test_manager_without_memory_removes_what_another_has_left_behind() -> None:
    bench = LinkedBench()
    served_core(bench)
    later = EmCore(parse_config({"vesws": []}), Memory(), now=1.0)
    later.set_active(1.0, True)
    later.set_ports(1.0, [replace(PORT, pkeys=frozenset({0x8002}))])
    assert Step.DELETE in serve(later, bench, 1.0)


def test_trap_of_a_link_that_changed_lets_its_vport_be_read() -> None:
    core = served_core(AgentBench())
    core.trap(
        1.0,
        build_trap(1, VeswPortInfo(vesw_id=2), VportNum(1), 1, TrapOpcode.ETH_LINK_STATUS_CHANGED),
        PORT.lid,
    )
    assert asked(core).step is Step.READ


def test_mac_table_that_another_manager_wrote_is_reported_and_written_again() -> None:
    bench = LinkedBench()
    core = served_core(bench)
    vnic = bench.vnics[1]
    table = dict(vnic.table)
    vnic.update_mac_table(0, [None] * 16, 0xBAD)
    core.trap(
        1.0,
        build_trap(1, VeswPortInfo(vesw_id=2), VportNum(1), 1, TrapOpcode.ETH_LINK_STATUS_CHANGED),
        PORT.lid,
    )
    assert set(serve(core, bench, 1.0)) == {Step.TABLE}
    assert vnic.table == table
    assert "table-differs" in events(core)
