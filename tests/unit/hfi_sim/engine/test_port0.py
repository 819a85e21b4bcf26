"""Port 0 of a switch at the engine's edge: what is on its way to a switch when port 0 opens is not late."""

from __future__ import annotations

from hfi_sim.base.types import PortState
from hfi_sim.engine.config import HfiEnd, SwitchEnd
from hfi_sim.engine.events.outputs import DirectionId, PortId
from unit.hfi_sim.engine.hand_made import GBIT, HandMade, link, packet, port_config


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


def test_packets_for_port_0_and_for_hosts_come_out_in_the_order_of_time_however_late() -> None:
    bed = HandMade()
    switch = bed.switch(3, {lid: lid for lid in (1, 2, 3)})
    hosts = [bed.port(number) for number in (1, 2, 3)]
    for number, host in enumerate(hosts, 1):
        bed.cable(HfiEnd(host), SwitchEnd(switch, number), link(rate_bps=100 * GBIT, latency_ns=300))
    port0 = bed.port0(switch, 9)
    for direction in range(6):
        bed.engine.observe(0, DirectionId(direction), False)
    bed.send(0, hosts[0], packet(1, 2))
    bed.send(400, hosts[2], packet(3, 9))
    bed.send(401, hosts[0], packet(1, 2))
    bed.engine.handle_timeout(1_000_000)
    bed.run()
    outputs = bed.delivered()
    assert [output.port for output in outputs] == [hosts[1], port0, hosts[1]]
    assert [output.time for output in outputs] == sorted(output.time for output in outputs)
    bed.check_rest()
