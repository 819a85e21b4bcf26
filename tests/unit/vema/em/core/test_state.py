"""What the EM knows of the vports of a port, by number and by virtual switch, says one thing through every change."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Mad, Method
from unit.vema.agent.fake_vnic import LinkedBench
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.traps import TrapLimiter
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import EthLinkStatus
from vema.em.core.core import EmCore
from vema.em.core.dialogue import DIGESTS_LOST, LIST_RESTARTS, Effect, Request, request_for, take_vport_answer
from vema.em.core.messages import build_request
from vema.em.core.state import Port, TrapWindow, Vport
from vema.em.core.steps import Step
from vema.em.desired.desired import parse_config
from vema.em.desired.ports import PortFacts
from vema.em.store.persisted import Memory, VportRecord

HOSTS = range(1, 4)
VESW_IDS = range(1, 5)
MEMBERS = st.lists(st.sets(st.sampled_from(HOSTS), min_size=1), max_size=len(VESW_IDS))
"""The members of the virtual switches 1, 2, ..."""


def facts(host: int) -> PortFacts:
    return PortFacts(host, 16 + host, f"h{host}:1", f"h{host}", f"h{host}", 1)


class Manager(RuleBasedStateMachine):
    """An EM whose agents answer, refuse or are silent, and whose ports and virtual switches come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.agents = {host: LinkedBench() for host in HOSTS}
        self.asked: list[Request] = []
        remembered = [
            VportRecord(1, num, vesw_id, 0, (), (), 0, (), 0, MacAddr(bytes([2, 0, 0, 0, 0, num])))
            for num, vesw_id in ((1, 1), (2, 9), (4, 2), (5, 2))
        ]
        self.core = EmCore(parse_config({"mac": "learn", "vesws": []}), Memory(remembered, []), now=0.0)
        self.core.set_active(self.now, True)
        self.other_ports(set(HOSTS))
        self.another_configuration([set(HOSTS)] * 3)

    @rule(members=MEMBERS)
    def another_configuration(self, members: list[set[int]]) -> None:
        vesws = [
            {"id": vesw_id, "name": f"v{vesw_id}", "pkey": 0x8002, "members": [f"h{host}" for host in here]}
            for vesw_id, here in zip(VESW_IDS, map(sorted, members), strict=False)
        ]
        self.core.set_config(self.now, parse_config({"mac": "learn", "vesws": vesws}))

    @rule(hosts=st.sets(st.sampled_from(HOSTS)))
    def other_ports(self, hosts: set[int]) -> None:
        self.core.set_ports(self.now, [facts(host) for host in sorted(hosts)])

    @rule(active=st.booleans(), trust=st.booleans())
    def another_master(self, active: bool, trust: bool) -> None:
        self.core.set_active(self.now, active, trust_memory=trust)

    @rule(host=st.sampled_from(HOSTS), num=st.integers(1, 6), vesw_id=st.integers(1, 6))
    def vport_of_a_stranger(self, host: int, num: int, vesw_id: int) -> None:
        info = VeswPortInfo(vesw_id=vesw_id, config_state=3)
        self.agents[host].ask(2, 0x11, info.build(), attr_mod=num)

    @rule(host=st.sampled_from(HOSTS))
    def agent_without_memory(self, host: int) -> None:
        self.agents[host] = LinkedBench()

    @rule(seconds=st.sampled_from([0.1, 2.0, 60.0]))
    def time(self, seconds: float) -> None:
        self.now += seconds
        self.core.wake(self.now, 1000)

    @rule(count=st.sampled_from([1, 5, 200]), silent=st.sets(st.integers(0, 200), max_size=1))
    def exchanges(self, count: int, silent: set[int]) -> None:
        """Let agents answer; now and then one is silent."""
        for number in range(count):
            self.asked += self.core.next_requests(64)
            if not self.asked:
                return
            request = self.asked.pop(0)
            response = self.agents[request.guid].agent.receive(request.mad.build())
            assert response is not None
            self.core.answer(self.now, request, None if number in silent else Mad.parse(response))

    @invariant()
    def by_virtual_switch_is_what_a_scan_finds(self) -> None:
        for port in self.core.ports.values():
            assert all(num == vport.num for num, vport in port.vports.items())
            for vesw_id in range(1, 10):
                found = [vport for vport in port.vports.values() if vport.vesw_id == vesw_id]
                assert list(port.vports_on(vesw_id)) == found
            assert list(port.vports_on(0)) == []

    @invariant()
    def converged_is_what_a_look_at_every_port_finds(self) -> None:
        core = self.core
        here = [port for port in core.ports.values() if port.in_service and not port.isolated]
        done = all(port.ready and all(vport.done for vport in port.vports.values()) for port in here)
        done = done and all(vesw.dirty_since is None for vesw in core.vesws.values())
        if core.converged:
            assert core.active
            assert done
            assert not core.in_flight
        elif core.active and not core.in_flight and not core.has_more:
            assert not done


TestManager = Manager.TestCase
TestManager.settings = settings(
    max_examples=40, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)


def test_vport_in_place_of_another_is_found_where_it_belongs() -> None:
    core = EmCore(parse_config({"vesws": []}), Memory(), now=0.0)
    core.set_ports(0.0, [facts(1)])
    port = core.ports[1]
    first, second = Vport(1, 7, 2), Vport(1, 7, 3)
    port.add(first)
    port.add(second)
    assert (list(port.vports_on(2)), list(port.vports_on(3))) == ([], [second])
    port.remove(7)
    port.remove(7)
    assert (dict(port.vports), list(port.vports_on(3))) == ({}, [])


def test_em_knows_after_each_trap_whether_the_agent_would_send_another() -> None:
    window, agent = TrapWindow(), TrapLimiter()
    sent = []
    for now in (0, 0, 0.1, 0.2, 0.3, 0.4, 1.0, 1.073, 1.074, 1.09, 1.1, 2.1, 2.14, 2.147, 2.15, 9, 9.5, 11):
        silent = window.silent(now)
        assert agent.admit(now, has_sink=True) is not silent, now
        if not silent:
            window.seen(now)
            sent.append(now)
    assert sent == [0, 0, 0.1, 0.2, 0.3, 1.074, 1.09, 1.1, 2.1, 2.14, 2.15, 9, 9.5, 11]


def test_scan_ends_after_as_many_free_numbers_beyond_the_last_vport_as_it_was_told() -> None:
    for patience, looked_at in ((1, [1, 2]), (3, [1, 2, 3, 4, 5, 6])):
        port = Port(facts(1))
        port.start_scan(patience)
        looked = []
        while (num := port.scan) is not None:
            looked.append(num)
            if num in (1, 3):
                port.add(Vport(1, num, 2))
            port.go_on_scanning(num, exists=num in (1, 3))
        assert looked == looked_at


def test_agent_whose_list_changes_between_pages_is_at_fault_after_32_restarts_in_a_row() -> None:
    port, vport = Port(facts(1)), Vport(1, 1, 2)

    def page(start: int, gen_count: int) -> Effect:
        step = Step.UNICAST
        macs = tuple(MacAddr(bytes((2, 0, 0, 0, start, number))) for number in range(2))
        request = request_for(port, 1, step, IfaceMacs.HEADER.codec.pack(start, 0, 0, 0))
        mad = build_request(
            Method.GET,
            step.attr_id,
            IfaceMacs(start, 2, 4, gen_count, macs).build(),
            attr_mod=request.attr_mod,
        )
        return take_vport_answer(
            vport, request, replace(mad, header=replace(mad.header, method=Method.GET_RESP))
        )

    for _ in range(2):
        for number in range(LIST_RESTARTS - 1):
            page(0, number)
            page(2, number + 1)
        page(0, 99)
        assert page(2, 99) & Effect.RECORD, "a list that was read counts anew"
    for number in range(LIST_RESTARTS):
        page(0, number)
        with pytest.raises(AgentError) if number == LIST_RESTARTS - 1 else nullcontext():
            page(2, number + 1)


def test_digest_lost_three_times_in_a_row_is_an_error_and_now_and_then_is_none() -> None:
    port, vport = Port(facts(1)), Vport(1, 1, 2)
    request = request_for(port, 1, Step.READ, b"")

    def look(digest: int) -> Effect:
        info = VeswPortInfo(
            vesw_id=2, config_state=3, eth_link_status=EthLinkStatus.UP, mac_tbl_digest=digest
        )
        mad = build_request(Method.GET, request.step.attr_id, info.build(), attr_mod=request.attr_mod)
        vport.fresh = False
        return take_vport_answer(
            vport, request, replace(mad, header=replace(mad.header, method=Method.GET_RESP))
        )

    def other_digest_after_a_write() -> Effect:
        vport.layout, vport.digest = (), 5
        return look(6)

    look(5)
    for _ in range(2):
        for _ in range(DIGESTS_LOST - 1):
            assert other_digest_after_a_write() & Effect.TABLE
        vport.digest = 5
        look(5)
    for _ in range(2):
        for _ in range(DIGESTS_LOST - 1):
            assert other_digest_after_a_write() & Effect.TABLE
        with pytest.raises(AgentError, match="times after another was written"):
            other_digest_after_a_write()


def test_vport_gets_the_lowest_number_that_no_other_has_or_will_have() -> None:
    port = Port(facts(1))
    port.add(Vport(1, 1, 2))
    changed = port.allot({2: 0, 3: 0, 4: 2})
    assert [(vport.num, vport.vesw_id) for vport in changed] == [(3, 3), (2, 4)]
    assert {num: vport.vesw_id for num, vport in port.vports.items()} == {1: 2, 3: 3, 2: 4}
