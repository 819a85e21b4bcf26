"""Switches in a ring whose tables lead around it without end: what no subnet manager makes, but a hand can."""

from __future__ import annotations

from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.subnet_manager import Routing, SubnetManager

HOST, NEXT, BEFORE = 1, 2, 3
"""Ports of each switch."""
LOST_LID = 0x77
"""Leads around the ring, and to nobody."""


def make_ring(fabric: Fabric, switches: int, link: LinkConfig = PLAIN_LINK) -> list[HfiPort]:
    """Cable a ring with a host at each switch, sweep it, and return the hosts' ports. Args: link: of the trunks."""
    ring = [fabric.add_switch(f"sw{number}", ports=3) for number in range(switches)]
    for here, there in zip(ring, [*ring[1:], ring[0]], strict=True):
        fabric.connect(here.ports[NEXT], there.ports[BEFORE], link)
    ports = []
    for number, switch in enumerate(ring):
        ports.append(fabric.add_hfi(f"h{number}").ports[1])
        fabric.connect(ports[-1], switch.ports[HOST])
    SubnetManager(fabric, routing=Routing(may_deadlock=True)).sweep()
    return ports


def lead_around(switches: list[Switch], *, unicast: bool = True, groups: tuple[int, ...] = ()) -> None:
    """Program a circle for LOST_LID, and for `groups` a tree that is none."""
    for switch in switches:
        lft = dict(switch.lft) | ({LOST_LID: NEXT} if unicast else {})
        switch.program(lft, dict(switch.mft) | dict.fromkeys(groups, frozenset((HOST, NEXT, BEFORE))))
