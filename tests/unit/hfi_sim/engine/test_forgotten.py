"""Elements that are gone: what still names them reaches no other element and changes nothing, on every engine."""

from __future__ import annotations

from random import Random

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import PortState
from hfi_sim.engine.config import HfiEnd, SwitchEnd, SwitchPortConfig
from hfi_sim.engine.events.outputs import DirectionId, PortId, SwitchId
from hfi_sim.engine.link.capture import CaptureConfig
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.rule import FaultKind
from unit.hfi_sim.engine.hand_made import ACTIVE, HandMade, link, number_of, packet, port_config, rule

SWITCH = SwitchId(0)
CREDITS = link(flow=FlowControl())
DOWN = SwitchPortConfig(PortState.DOWN)


class Star(HandMade):
    """Hosts that come and go on one switch; a LID stays with the port of the switch."""

    def __init__(self, hosts: int, config: LinkConfig) -> None:
        super().__init__()
        self.switch(hosts, {lid: lid for lid in range(1, hosts + 1)})
        self.config = config
        self.there: dict[int, tuple[PortId, DirectionId]] = {}
        """The port and the first direction of each host, by LID."""

    def come(self, now: int, lid: int) -> None:
        self.now = max(self.now, now)
        port = self.port(lid)
        self.there[lid] = port, self.cable(HfiEnd(port), SwitchEnd(SWITCH, lid), self.config)
        self.engine.set_switch_port(now, SWITCH, lid, ACTIVE)

    def go(self, now: int, lid: int) -> None:
        port, first = self.there.pop(lid)
        directions = [first, DirectionId(first + 1)]
        for direction in directions:
            self.engine.set_link(now, direction, self.config, False)
        self.engine.set_switch_port(now, SWITCH, lid, DOWN)
        self.engine.set_port(now, port, port_config(lid, state=PortState.DOWN))
        self.run(now)
        self.engine.count()
        self.engine.forget(now, [port], directions)


@pytest.mark.parametrize("config", [link(), CREDITS], ids=["plain", "credits"])
def test_packet_on_its_way_to_a_host_that_goes_never_reaches_its_successor(config: LinkConfig) -> None:
    bed = Star(3, config)
    for lid in (1, 2):
        bed.come(0, lid)
    for number in range(20):
        bed.send(number, bed.there[1][0], packet(1, 2, number))
    bed.run(8_000)  # some have arrived, some wait, some are on the second cable
    old = bed.there[2]
    bed.go(8_000, 2)
    bed.come(8_000, 2)
    assert bed.there[2] == (2, 4), "numbers are not given again"
    bed.send(9_000, bed.there[1][0], packet(1, 2, 99))
    bed.run()
    entered = {number_of(output.packet) for output in bed.observed(DirectionId(old[1] + 1))}
    arrived, after = (
        {number_of(output.packet) for output in bed.delivered(port)} for port in (old[0], bed.there[2][0])
    )
    assert 0 < len(arrived) < len(entered) < 20
    assert 99 in after
    assert not entered & after
    bed.check_rest()


def test_inputs_for_what_is_gone_change_nothing() -> None:
    bed = Star(2, link())
    for lid in (1, 2):
        bed.come(0, lid)
    port, first = bed.there[2]
    bed.go(10, 2)
    engine = bed.engine
    engine.set_link(20, first, link(), True)
    engine.set_rules(20, first, [rule(FaultKind.LOSS)])
    engine.observe(20, first, True)
    ring = engine.capture_ring(CaptureConfig(interfaces=1))
    engine.attach(20, first, ring, 0)
    engine.set_port(20, port, port_config(2))
    engine.stall_port(20, port, True)
    engine.forget(20, [port], [first])
    assert bed.send(20, port, packet(2, 1)) is not None
    bed.send(30, bed.there[1][0], packet(1, 2))
    assert bed.run() is not None
    engine.detach(40, first, ring)
    assert bed.engine.deadline is None
    assert bed.delivered() == []
    assert engine.lanes(first) is None
    assert not engine.is_stopped(port)
    assert bed.drops()[Drop.LINK_DOWN] == 0
    bed.check_rest()


@pytest.mark.parametrize("config", [link(), CREDITS], ids=["plain", "credits"])
@pytest.mark.parametrize("seed", range(6))
def test_hosts_come_and_go_under_traffic_and_engines_agree(seed: int, config: LinkConfig) -> None:
    random, bed, now = Random(seed), Star(4, config), 0
    for lid in (1, 2, 3, 4):
        bed.come(0, lid)
    for number in range(300):
        now += random.randrange(2_000)
        here = sorted(bed.there)
        if random.random() < 0.1 and len(here) > 1:
            bed.go(now, random.choice(here))
        elif random.random() < 0.2 and len(here) < 4:
            bed.come(now, random.choice([lid for lid in (1, 2, 3, 4) if lid not in here]))
        else:
            source = random.choice(here)
            bed.send(now, bed.there[source][0], packet(source, random.randint(1, 4), number))
        bed.run(now)
    bed.run()
    bed.check_rest()
