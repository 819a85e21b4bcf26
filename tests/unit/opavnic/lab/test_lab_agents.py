"""Who may configure the agents of a lab, and what the lab tells of it."""

from __future__ import annotations

import pytest

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from hfi_sim.wire.mad.header import Method
from lab_in_memory import lab_in_memory, pings
from opavnic.lab.run.lab import Lab
from vema.attributes.attr_id import AttrId
from vema.attributes.counters import FRAMES, ErrorCounters, SummaryCounters
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import MadStatus
from vema.em.core.messages import build_request, read_response

LAB = {"name": "x", "hosts": {"h1": None, "h2": None}}
TOTALS = [f"{way}_{what}" for what in ("packets", "bytes", "errors", "dropped") for way in ("rx", "tx")]
KINDS = "unicast mcastbcast untagged vlan 64_size 65_127 128_255 256_511 512_1023 1024_1518 1519_max"
GROUP_NAMES = [f"{direction}_{kind}" for direction in ("tx", "rx") for kind in KINDS.split()]
REASONS = (
    "rx_fifo_errors rx_length_errors tx_fifo_errors tx_carrier_errors "
    "tx_dlid_zero tx_drop_state rx_drop_state rx_oversize rx_runt"
)
ETHTOOL_NAMES = TOTALS + GROUP_NAMES + REASONS.split()
"""As `ethtool -S` prints them for the Linux driver, in its order."""


def lab(**em: object) -> Lab:
    """Return a lab where h1 is a full member of the management partition and h2 a limited one."""
    vesw = {"id": 2, "name": "blue", "pkey": PKEY_FULL_MANAGEMENT, "members": ["h1"]}
    return lab_in_memory({**LAB, "vesws": [vesw], "em": {"mode": "external", **em}})


async def ask(lab: Lab, method: Method, attr_id: AttrId, data: bytes = b"") -> bytes:
    """Send a request from h2 to vport 9 of h1 and return the data of the response."""
    request = build_request(method, attr_id, data, attr_mod=9)
    world = lab.world
    response = await world.hosts["h2"].port.mad.request(world.hosts["h1"].port.lid, request)
    return read_response(request, response)


@pytest.mark.looptime
async def test_limited_member_may_get_and_its_sets_are_refused_and_counted() -> None:
    async with lab() as running:
        assert VeswPortInfo.parse(await ask(running, Method.GET, AttrId.VESW_PORT_INFO)).eth_mtu == 1500
        with pytest.raises(AgentError) as refused:
            await ask(running, Method.SET, AttrId.VESW_PORT_INFO, VeswPortInfo.power_on().build())
        assert refused.value.status == MadStatus.DENIED
        assert running.world.vnic_ports["h1:1"].adapters == {}
        agents = running.status(counters=True).counters
        assert (agents["h1 agent"]["denied"], agents["h2 agent"]["denied"]) == (1, 0)
        assert (agents["h1 agent"]["gets"], agents["h1 agent"]["sets"]) == (1, 1)


@pytest.mark.looptime
async def test_full_member_of_a_data_partition_may_neither_get_nor_set() -> None:
    vesw = {"id": 2, "name": "blue", "pkey": 0x8001, "members": ["h1", "h2"]}
    async with lab_in_memory({**LAB, "vesws": [vesw], "em": "external"}) as running:
        h1, h2 = (running.world.hosts[host].port for host in ("h1", "h2"))
        for method in (Method.GET, Method.SET):
            request = build_request(method, AttrId.VESW_PORT_INFO, attr_mod=1)
            with pytest.raises(AgentError) as refused:
                read_response(request, await h2.mad.request(h1.lid, request, pkey=0x8001))
            assert refused.value.status == MadStatus.DENIED
        assert running.world.vnic_ports["h1:1"].agent.counters.denied == 2


@pytest.mark.looptime
async def test_lab_that_follows_the_driver_lets_limited_members_set() -> None:
    async with lab(sets_need_full_member=False) as running:
        await ask(running, Method.SET, AttrId.VESW_PORT_INFO, VeswPortInfo.power_on().build())
        assert list(running.world.vnic_ports["h1:1"].adapters) == [9]


@pytest.mark.looptime
async def test_counters_by_mad_are_those_of_status_under_the_drivers_names() -> None:
    vesw = {"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": ["h1", "h2"]}
    async with lab_in_memory({**LAB, "vesws": [vesw]}) as running:
        assert await pings(running, "h1", "h2", 3) == 3
        running.interface("h1", "blue").netdev.set_carrier(False)  # type: ignore[union-attr]
        assert await pings(running, "h1", "h2") == 0
        stats = running.status(counters=True).counters["h1/blue ethtool"]
        world = running.world
        answers = {}
        for attribute in (AttrId.SUMMARY_COUNTERS, AttrId.ERROR_COUNTERS):
            request = build_request(Method.GET, attribute, attr_mod=1)
            response = await world.em_port.mad.request(world.hosts["h1"].port.lid, request)
            answers[attribute] = read_response(request, response)
    assert list(stats) == ETHTOOL_NAMES
    summary = SummaryCounters.parse(answers[AttrId.SUMMARY_COUNTERS])
    assert summary.tx_packets > 3
    told = {name: getattr(summary, name) for name in ETHTOOL_NAMES[:6]}
    groups = [getattr(summary, name) for name in FRAMES[6:]]
    told |= dict(zip(GROUP_NAMES, groups, strict=True))
    assert {name: stats[name] for name in told} == told
    errors = ErrorCounters.parse(answers[AttrId.ERROR_COUNTERS])
    assert errors.tx_errors > 0
    assert (stats["tx_drop_state"], stats["tx_dlid_zero"], stats["tx_errors"], stats["tx_dropped"]) == (
        errors.tx_drop_state,
        errors.tx_dlid_zero,
        errors.tx_errors,
        errors.tx_errors,
    )
