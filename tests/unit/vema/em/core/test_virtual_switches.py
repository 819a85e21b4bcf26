"""The work of a change grows with what it changes, and not with the virtual switches and ports beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hfi_sim.wire.mad.header import Mad
from unit.vema.agent.fake_vnic import LinkedBench
from unit.vema.em.core.test_state import facts
from vema.em.core import dialogue
from vema.em.core.core import EmCore
from vema.em.core.steps import Step
from vema.em.desired.desired import EmConfig, LimitsSection, parse_config
from vema.em.desired.ports import Roster
from vema.em.store.persisted import Memory

HUB = 1
"""The host that is a member of every virtual switch."""


def members(vesw_id: int) -> list[int]:
    return [HUB, 2 * vesw_id, 2 * vesw_id + 1]


def config(vesws: int, *, without: int = 0, mtu: int = 1500) -> EmConfig:
    """Return virtual switches of three hosts each; the first is without a host, or has another MTU."""
    listed = [
        {"id": id_, "name": f"v{id_}", "pkey": 0x8002, "members": [f"h{host}" for host in members(id_)]}
        for id_ in range(1, vesws + 1)
    ]
    listed[0] |= {"members": [f"h{host}" for host in members(1) if host != without], "mtu": mtu}
    return parse_config({"mac": "learn", "polling": {"counters": 60}, "vesws": listed})


@dataclass
class Work:
    """What an EM has done."""

    requests: list[tuple[int, int, Step]] = field(default_factory=list)
    """Port, vport and step of each, in their order."""
    planned: int = 0
    """Virtual switches whose members were looked up."""
    looked_at: int = 0
    """Vports that were held against what they are to be."""


class Fabric:
    """An EM that has converged on virtual switches of three hosts each."""

    def __init__(self, vesws: int) -> None:
        self.vesws = vesws
        hosts = range(1, 2 * vesws + 2)
        self.core = EmCore(config(vesws), Memory(), now=0.0)
        self.core.set_active(0.0, True)
        self.core.set_ports(0.0, map(facts, hosts))
        self._agents = {host: LinkedBench() for host in hosts}
        self.settle(0.0)

    def settle(self, now: float, seconds_each: float = 0.0) -> list[tuple[int, int, Step]]:
        """Let agents answer, each after some seconds, until there is no more to ask; return what was asked."""
        asked = []
        self.core.wake(now, 1000)
        while self.core.has_more:
            for request in self.core.next_requests(64):
                asked.append((request.guid, request.vport_num, request.step))
                response = self._agents[request.guid].agent.receive(request.mad.build())
                assert response is not None
                now += seconds_each
                self.core.answer(now, request, Mad.parse(response))
            self.core.wake(now, 1000)
        assert self.core.converged
        return asked

    def work_of(self, change: Callable[[Fabric], None], monkeypatch: pytest.MonkeyPatch) -> Work:
        """Return the work of a change."""
        work = Work()
        look_up, next_request = Roster.members, dialogue.next_of_vport

        def planned(roster: Roster, *args: object) -> object:
            work.planned += 1
            return look_up(roster, *args)  # type: ignore[arg-type]

        def looked_at(*args: object) -> object:
            work.looked_at += 1
            return next_request(*args)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Roster, "members", planned)
            patch.setattr(dialogue, "next_of_vport", looked_at)
            change(self)
            work.requests = self.settle(1.0)
        return work


def a_member_leaves(fabric: Fabric) -> None:
    fabric.core.set_config(1.0, config(fabric.vesws, without=3))


def another_mtu(fabric: Fabric) -> None:
    fabric.core.set_config(1.0, config(fabric.vesws, mtu=2000))


def a_port_goes_and_is_forgotten(fabric: Fabric) -> None:
    fabric.core.set_ports(0.0, [port.facts for port in fabric.core.ports.values() if port.facts.guid != 3])
    fabric.core.wake(0.0 + fabric.core.config.limits.leave_hold, 1000)


@pytest.mark.parametrize("change", [a_member_leaves, another_mtu, a_port_goes_and_is_forgotten])
def test_change_of_one_virtual_switch_takes_no_more_work_beside_40_than_beside_4(
    change: Callable[[Fabric], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (Fabric(vesws).work_of(change, monkeypatch) for vesws in (4, 40))
    assert few == many
    assert many.requests
    assert many.planned == 1


def test_configuration_that_is_applied_again_is_held_against_every_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fabric = Fabric(4)
    work = fabric.work_of(lambda fabric: fabric.core.set_config(1.0, config(4)), monkeypatch)
    assert {step for _, _, step in work.requests} == {Step.SCAN}
    assert {guid for guid, _, _ in work.requests} == set(fabric.core.ports)
    assert work.planned == 0


def test_em_without_memory_that_needs_long_to_ask_all_members_leaves_their_tables_alone() -> None:
    """Tables without the members that were not asked yet would take these from the tables of all others."""
    fabric = Fabric(4)
    fabric.core = EmCore(
        config(4).model_copy(update={"limits": LimitsSection(in_flight=1)}), Memory(), now=0.0
    )
    fabric.core.set_active(0.0, True)
    fabric.core.set_ports(0.0, map(facts, range(1, 10)))
    asked = fabric.settle(0.0, seconds_each=0.5)
    assert {step for _, _, step in asked if step.is_set} == set()
    assert len(asked) > 20


def test_virtual_switch_none_of_whose_members_is_there_is_settled_at_once() -> None:
    core = EmCore(config(1), Memory(), now=0.0)
    core.set_active(0.0, True)
    assert core.converged


def test_tables_do_not_wait_for_a_member_that_does_not_answer() -> None:
    core = EmCore(config(1), Memory(), now=0.0)
    core.set_active(0.0, True)
    core.set_ports(0.0, map(facts, members(1)))
    agents = {host: LinkedBench() for host in members(1)}
    tables = set()
    core.wake(0.0, 1000)
    while core.has_more:
        for request in core.next_requests(64):
            answer = agents[request.guid].agent.receive(request.mad.build())
            core.answer(0.0, request, None if request.guid == 3 or answer is None else Mad.parse(answer))
            tables |= {request.guid} if request.step is Step.TABLE else set()
        core.wake(0.0, 1000)
    assert tables == {1, 2}
