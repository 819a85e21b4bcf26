"""Speeds and widths of links: one row a rate, the same in each view; only a fault makes a link look degraded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.link_modes import (
    LANE_BPS,
    LANES_OF,
    Generation,
    LinkMode,
    ability,
    active_mode,
    planned_mode,
)
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology.opa_xml import loads
from hfi_sim.management.sma.facts import node_info_of, port_info_of
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.sa.message import RATES, rate_code

TABLE = [
    # rate, speed, width, static rate, device id, sysfs
    (12.5e9, 1, 1, 11, 0x24F0, "12.5 Gb/sec (1X FDR)"),
    (25e9, 2, 1, 15, 0x24F0, "25 Gb/sec (1X EDR)"),
    (50e9, 2, 2, 12, 0x24F0, "50 Gb/sec (2X EDR)"),
    (75e9, 2, 4, 9, 0x24F0, "75 Gb/sec (3X EDR)"),
    (100e9, 2, 8, 16, 0x24F0, "100 Gb/sec (4X EDR)"),
    (200e9, 8, 2, 17, 0x0001, "200 Gb/sec (2X NDR)"),
    (400e9, 8, 8, 21, 0x0001, "400 Gb/sec (4X NDR)"),
]
rates = st.floats(1e6, 1e12)


def highest(bits: int) -> int:
    return 1 << bits.bit_length() - 1


@pytest.mark.parametrize(("rate", "speed", "width", "static", "device", "sysfs"), TABLE)
def test_every_view_of_a_planned_link_says_the_same(
    rate: float, speed: int, width: int, static: int, device: int, sysfs: str
) -> None:
    fabric = Fabric(ManualClock())
    port = fabric.add_hfi("h1").ports[1]
    far = fabric.add_switch("sw0", ports=4).ports[1]
    link = fabric.connect(port, far, LinkConfig(rate))
    SubnetManager(fabric).sweep()
    for end in (port, far):
        info = port_info_of(end)
        assert (info.speed_active, info.width_active) == (speed, width)
        assert (info.width_tx_active, info.width_rx_active) == (width, width)
        for bits in (info.speed_supported, info.speed_enabled):
            assert highest(bits) == speed
        for bits in (
            info.width_supported,
            info.width_enabled,
            info.downgrade_supported,
            info.downgrade_enabled,
        ):
            assert highest(bits) == width
    assert node_info_of(port).device_id == device
    assert link.mode.text == sysfs
    assert rate_code(rate) == static
    told = f"<LinkSpeedActive_Int>{speed}</LinkSpeedActive_Int><LinkWidthActive_Int>{width}</LinkWidthActive_Int>"
    nodes = "".join(
        f"<Node><NodeDesc>{name}</NodeDesc><NodeGUID>{guid}</NodeGUID><NodeType>{kind}</NodeType>"
        f"<PortInfo><PortNum>1</PortNum>{told}</PortInfo></Node>"
        for name, guid, kind in (("h1", "0xb1", "FI"), ("sw0", "0xa1", "SW"))
    )
    ends = "".join(
        f"<{side}><NodeGUID>{guid}</NodeGUID><PortNum>1</PortNum></{side}>"
        for side, guid in (("From", "0xb1"), ("To", "0xa1"))
    )
    read = loads(f"<Snapshot><Nodes>{nodes}</Nodes><Links><Link>{ends}</Link></Links></Snapshot>")
    assert [cable.link.rates_bps for cable in read.cables] == [(rate, rate)]


@pytest.mark.parametrize("rate", [row[0] for row in TABLE[1:]])
def test_a_fault_alone_makes_a_link_look_degraded(rate: float) -> None:
    fabric = Fabric(ManualClock())
    port = fabric.add_hfi("h1").ports[1]
    fabric.connect(port, fabric.add_switch("sw0", ports=4).ports[1], LinkConfig(rate))
    before = port_info_of(port)
    faults = Faults(fabric)
    faults.add(f"rate on h1 rate={rate * 0.9:.0f}bit/s")
    slower = port_info_of(port)
    mode = LinkMode(slower.speed_active, slower.width_active)
    assert mode.rate_bps < rate
    assert (slower.speed_supported, slower.width_supported) == (
        before.speed_supported,
        before.width_supported,
    )
    faults.clear()
    assert port_info_of(port) == before


def test_a_node_is_of_the_generation_of_its_fastest_cable_and_no_longer() -> None:
    fabric = Fabric(ManualClock())
    switch = fabric.add_switch("sw0", ports=4)
    slow, fast = (fabric.add_hfi(name).ports[1] for name in ("h1", "h2"))
    fabric.connect(slow, switch.ports[1], LinkConfig(100e9))
    cable = fabric.connect(fast, switch.ports[2], LinkConfig(400e9))
    assert (slow.hfi.generation, fast.hfi.generation) == (Generation.OPA_100, Generation.CN5000)
    assert port_info_of(slow).speed_supported == 3
    assert port_info_of(switch.ports[1]).speed_supported == 2, "CN5000 has lanes of 25 and 100 Gbit/s"
    assert port_info_of(switch.ports[3]).speed_supported == 0xA
    fabric.disconnect([cable])
    assert switch.generation is Generation.OPA_100


@given(rates)
def test_no_mode_is_closer_to_a_rate_than_the_planned_one(rate: float) -> None:
    every = [bps * lanes for speed, bps in LANE_BPS.items() if speed != 4 for lanes in LANES_OF.values()]
    assert abs(planned_mode(rate).rate_bps - rate) == min(abs(one - rate) for one in every)


@given(rates, rates)
def test_a_slower_link_is_within_what_its_ports_support(planned: float, now: float) -> None:
    mode = active_mode(now, planned)
    plan = planned_mode(planned)
    assert mode.rate_bps <= plan.rate_bps
    assert (mode == plan) or now < planned
    for generation in Generation:
        if plan.speed & generation.speeds:
            able = ability(plan, generation)
            assert able.mode == plan
            assert mode.width & able.widths


def test_each_static_rate_has_one_code() -> None:
    assert len(set(RATES)) == len(RATES)
