"""Port 0 of a switch at the engine's edge: what is on its way to a switch when port 0 opens is not late."""

from __future__ import annotations

from hfi_sim.engine.config import HfiEnd, SwitchEnd
from hfi_sim.engine.outputs import DirectionId, PortId
from hfi_sim.port_state import PortState
from unit.hfi_sim.engine.hand_made import HandMade, link, packet, port_config


def test_packet_on_its_way_when_port_0_opens_is_delivered_at_its_deadline() -> None:
    bed = HandMade()
    switch = bed.switch(2, {2: 2})
    port0 = bed.port0(switch, 9, state=PortState.DOWN)
    hosts: list[PortId] = []
    for number in (1, 2):
        hosts.append(bed.port(number))
        bed.cable(HfiEnd(hosts[-1]), SwitchEnd(switch, number), link())
    for direction in range(4):
        bed.engine.observe(0, DirectionId(direction), False)
    bed.send(0, hosts[0], packet(1, 9, size=1000))
    bed.engine.set_port(10, port0, port_config(9))
    assert bed.engine.deadline == 8000 + 1000
    bed.run()
    assert [(output.time, output.port, output.in_port) for output in bed.delivered()] == [(9000, port0, 1)]
    bed.check_rest()
