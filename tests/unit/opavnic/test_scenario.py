"""The scenario object: what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from scapy.layers.l2 import ARP

from hfi_sim.fabric.topology import generate
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioError, ScenarioSimulator, ms, seconds
from vema.attributes.attr_id import AttrId
from vema.base.types import MadStatus


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": ["h1", "h9"]}, r'unknown host "h9" \(nearest: "h'),
        ({"members": ["h1"], "mtuu": 9000}, "mtuu"),
        ({"members": ["h1"], "mtu": 3}, "mtu"),
        ({"members": ["h1"], "pkey": 0x18001}, "pkey"),
        ({"members": ["h1"], "id": 4096}, "4096"),
        ({"members": ["h1"], "default_ports": ["h7"]}, "h7"),
    ],
)
async def test_refused_virtual_switch_leaves_nothing_behind(
    hosts: Hosts, em: ScenarioEm, options: dict[str, Any], message: str
) -> None:
    await em.vesw("blue", members=hosts)
    before = (dict(em.vesws), hosts["h1"].port.pkeys)
    with pytest.raises(ScenarioError, match=message):
        await em.vesw("red", **options)
    assert (dict(em.vesws), hosts["h1"].port.pkeys) == before
    assert list(hosts["h1"].vnics) == ["blue"]
    await em.vesw("red", members=hosts)  # the name is free, and the next call is not refused for the last one
    assert await hosts["h1"].ping(hosts["h2"], on="red") == 1


async def test_refused_update_leaves_the_virtual_switch_as_it_was(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, mtu=2000)
    with pytest.raises(ScenarioError, match="mtu"):
        await em.update("blue", mtu=99_999)
    with pytest.raises(ScenarioError, match=r'unknown host "h3"'):
        await em.update("blue", members=["h3"], mtu=1500)
    with pytest.raises(ScenarioError, match=r'unknown virtual switch "blu" \(nearest: "blue"'):
        await em.remove("blu")
    assert em.vesws["blue"]["mtu"] == 2000
    await em.update("blue", mtu=4000)
    assert hosts["h1"].vnic().adapter.netdev.max_mtu == 4000


async def test_many_virtual_switches_are_refused_together(hosts: Hosts, em: ScenarioEm) -> None:
    with pytest.raises(ScenarioError, match=r'unknown host "h8"'):
        await em.vesws_of({"red": ["h1"], "blue": ["h8"]})
    assert em.vesws == {}
    assert hosts["h1"].vnics == {}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("partition on h2", "h2/blue: the link of h2:1 is down"),
        ("link-down on h2", "h2/blue: the link of h2:1 is down"),
        ("crash on h2 after=1us", "h2/blue: its management agent is gone"),
        ("loss on h2 l4=mad", "h2/blue: "),
    ],
)
async def test_virtual_switch_whose_member_does_not_come_up_fails_and_says_who_and_why(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, fault: str, why: str
) -> None:
    lab.faults.add(fault)
    with pytest.raises(ScenarioError, match=f"not up within 60 s: {why}"):
        await em.vesw("blue", members=hosts)
    assert lab.clock.time() == pytest.approx(60.0, abs=0.1)
    lab.faults.clear()
    await em.update("blue", mtu=2000)  # it is still wanted, and everybody can be reached now
    assert await hosts["h1"].ping(hosts["h2"]) == 1


async def test_virtual_switch_with_a_member_whose_agent_is_gone_is_refused_and_says_so(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    lab.faults.add("crash on h2")
    with pytest.raises(ScenarioError, match=r"the management agents of h2 are gone"):
        await em.vesw("blue", members=hosts)
    assert em.vesws == {}


async def test_virtual_switch_whose_member_is_isolated_says_what_its_agent_answered(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    lab.stand_in(hosts["h2"]).reply(AttrId.CLASS_PORT_INFO, MadStatus.INVALID)
    with pytest.raises(ScenarioError, match=r"within 5 s: h2/blue: isolated: .*0x001c"):
        await em.vesw("blue", members=hosts, timeout=5)


async def test_update_waits_for_a_member_whose_link_comes_back(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=["h1"])
    lab.faults.add("link-down on h2 for=10s")
    await em.update("blue", members=hosts)
    assert lab.clock.time() > 10
    assert await hosts["h1"].ping(hosts["h2"]) == 1


async def test_update_of_a_member_that_is_away_fails_in_its_time(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    lab.faults.add("link-down on h2")
    await asyncio.sleep(seconds(1))
    with pytest.raises(ScenarioError, match=r"within 2 s: h2/blue: the link of h2:1 is down"):
        await em.update("blue", mtu=4000, timeout=2)


@pytest.mark.parametrize("wait", [False, ["h1"]])
async def test_virtual_switch_with_a_member_that_is_absent_on_purpose_does_not_wait_for_it(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, wait: bool | list[str]
) -> None:
    lab.faults.add("link-down on h2")
    await em.vesw("blue", members=hosts, wait=wait)
    assert lab.clock.time() < 1
    with pytest.raises(ScenarioError, match=r"h2/blue: no .* this VNIC yet: the link of h2:1 is down"):
        hosts["h2"].send(bytes(60))
    await em.vesw("red", members=["h1"])  # nor does the next change, which is not about it
    assert hosts["h1"].vnic("red").adapter.is_passing


async def test_virtual_switch_that_nobody_waits_for_works_once_it_is_there(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    h1, h2 = hosts
    await em.vesw("blue", members=hosts)
    await em.remove("blue")
    lab.faults.add("link-down on h2 for=1s")
    await em.vesw("red", members=hosts, wait=False)
    await asyncio.sleep(seconds(3))
    h1.send(ARP(pdst=h2.ip))
    await h2.expect(ARP(op=1))
    assert await h1.ping(h2) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": "h1"}, r'members is "h1"; it is a list of hosts, such as \["h1"\]'),
        ({"members": [1.5]}, "1.5 is not a host"),
        ({"members": ["h1"], "wait": ["h5"]}, r'unknown host "h5"'),
        ({"members": ["h1"], "timeout": 0}, "timeout is 0; it is a number of seconds above 0"),
    ],
)
async def test_wrong_words_about_members_change_nothing(
    hosts: Hosts, em: ScenarioEm, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        await em.vesw("blue", **options)
    assert em.vesws == {}


async def test_exception_of_a_predicate_is_what_the_test_fails_for(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    asyncio.get_running_loop().call_later(1e-4, h1.send, ARP(pdst=h2.ip))
    with pytest.raises(AttributeError, match="nosuch"):
        await h2.expect(lambda packet: packet.nosuch, within=ms(1))
    await h2.expect(ARP(op=1))  # the frame is not lost by that


@pytest.mark.parametrize("wrong", ["arp", 5, None, int])
async def test_what_is_no_pattern_is_refused_at_once(hosts: Hosts, em: ScenarioEm, wrong: object) -> None:
    await em.vesw("blue", members=hosts)
    h1 = hosts[0]
    for use in (h1.expect, h1.expect_none):
        with pytest.raises(ScenarioError, match=r"is not a pattern; give a packet such as ARP\(op=2\)"):
            await use(wrong)
    with pytest.raises(ScenarioError, match="is not a pattern"):
        h1.vnic().respond(wrong, lambda packet: None)


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5ms", None])
async def test_what_is_no_time_is_refused_at_once(hosts: Hosts, em: ScenarioEm, wrong: Any) -> None:
    await em.vesw("blue", members=hosts)
    h1 = hosts[0]
    for use in (h1.expect, h1.expect_none):
        with pytest.raises(ScenarioError, match=r"within is .*; it is a number of seconds, 0 or more"):
            await use(ARP, within=wrong)
    with pytest.raises(ScenarioError, match="for_s is "):
        await h1.sniff(for_s=wrong)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda lab: lab.stand_in("h9"), r'unknown host "h9" \(nearest: "h'),
        (lambda lab: lab.hosts["h1"].send("abc"), r"h1/blue: 'abc' cannot be sent; give a packet such as"),
        (lambda lab: lab.hosts[7], "no host number 7: 2 hosts have the numbers 0 to 1"),
        (lambda lab: lab.hosts[1.5], "1.5 is not a host"),
    ],
)
async def test_slips_are_refused_with_what_would_be_right(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, use: Callable[[Scenario], object], message: str
) -> None:
    await em.vesw("blue", members=hosts)
    with pytest.raises(ScenarioError, match=message):
        use(lab)


async def test_simulator_takes_hosts_by_name_and_refuses_who_is_none(
    hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    await mad_simulator.configure("h1")
    assert (await mad_simulator.get("h1", AttrId.VESW_PORT_INFO, vport=1)).vesw_id == 1
    with pytest.raises(ScenarioError, match='unknown host "h9"'):
        await mad_simulator.get("h9", AttrId.VESW_PORT_INFO, vport=1)
    with pytest.raises(ScenarioError, match=r"1\.5 has no LID"):
        await mad_simulator.get(1.5, AttrId.VESW_PORT_INFO)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r'configure: unknown field "vesw_di" \(nearest: "vesw_id"'):
        await mad_simulator.configure(hosts["h1"], vesw_di=1)


@pytest.mark.parametrize("wrong", [-5, math.nan])
def test_time_does_not_pass_backwards(lab: Scenario, wrong: float) -> None:
    with pytest.raises(ScenarioError, match=r"seconds is .*; it is a number of seconds, 0 or more"):
        lab.advance(wrong)
    assert lab.clock.time() == 0


@pytest.mark.looptime
async def test_end_of_a_scenario_that_fails_at_one_step_comes_about_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(generate(kind="single-switch", hosts=2))
    await scenario.__aenter__()
    await scenario.em.vesw("blue", members=scenario.hosts)
    netdevs = [a.netdev for port in scenario.world.vnic_ports.values() for a in port.adapters.values()]
    assert netdevs
    genuine = scenario.em.service.stop

    def broken() -> None:
        genuine()
        raise RuntimeError("boom")

    monkeypatch.setattr(scenario.em.service, "stop", broken)
    with pytest.raises(ScenarioError, match=r"failed to stop: Ethernet Manager: RuntimeError: boom"):
        await scenario.__aexit__(None, None, None)
    assert not any(netdev.is_up for netdev in netdevs)
    assert asyncio.get_running_loop().get_exception_handler() is None, "the recording has ended"


@pytest.mark.looptime
async def test_end_that_fails_does_not_hide_why_a_scenario_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(generate(kind="single-switch", hosts=2))
    await scenario.__aenter__()
    monkeypatch.setattr(scenario.world.vnic_ports["h2:1"], "close", lambda: 1 // 0)
    why = AssertionError("nobody came")
    await scenario.__aexit__(AssertionError, why, None)
    assert why.__notes__ == ["VNICs of h2: ZeroDivisionError: integer division or modulo by zero"]
