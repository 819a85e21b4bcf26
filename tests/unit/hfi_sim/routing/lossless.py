"""Fabrics with credits under full load, and an oracle of their channel dependencies.

The oracle knows nothing of routing engines: it follows packets over the tables that switches and ports have, as
hardware would, and leaves the search for cycles to networkx.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import networkx as nx

from hfi_sim.base.clock import ManualClock
from hfi_sim.engine.api import EngineFactory
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import Topology
from hfi_sim.nodes.cable import LinkPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet

L4 = 0x55
GROUP = 0xF00010
Channel = tuple[str, int]
"""A port that sends, by its name, and the VL on which it does."""


class Lossless:
    """A fabric with credits, swept."""

    def __init__(
        self,
        topology: Topology,
        engine: str,
        *,
        vls: int = 1,
        may_deadlock: bool = False,
        adaptive: bool = True,
        made_by: EngineFactory = PythonEngine,
        hoq_life_ns: int | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock, engine=made_by)
        flow = FlowControl(vls=vls, buffer_bytes=16384, hoq_life_ns=hoq_life_ns)
        topology.build(self.fabric, link=LinkConfig(rate_bps=1e9, flow=flow))
        self.ports = list(self.fabric.hfi_ports())
        routing = Routing(engine=engine, may_deadlock=may_deadlock, adaptive=adaptive)
        self.sm = SubnetManager(self.fabric, routing=routing)
        self.sm.sweep()
        self.got = 0
        for port in self.ports:
            self.sm.set_pkeys(port, [0x8002])
            port.register_l4(L4, self._take)
        self.sm.groups.assign({GROUP: self.ports})

    def _take(self, _port: HfiPort, _packet: bytes, _token: object) -> None:
        self.got += 1

    def load(self, packets: int, *, size: int = 4000) -> int:
        """Let every host send so many packets to every other one, all at once; return how many that are."""
        sent = 0
        for number in range(packets):
            for source in self.ports:
                for target in self.ports:
                    if source is not target:
                        lrh = Lrh16B(
                            source.lid,
                            target.lid,
                            l4=L4,
                            pkey=0x8002,
                            entropy=(sent * 7919 + number) & 0xFFFF,
                        )
                        assert source.send(build_packet(lrh, bytes(size), self.fabric.icrc)) is None
                        sent += 1
        return sent

    def cast(self, packets: int, *, size: int = 4000) -> int:
        """Let every host send so many packets to the group of all; return how many are to arrive."""
        for _ in range(packets):
            for source in self.ports:
                lrh = Lrh16B(source.lid, GROUP, l4=L4, pkey=0x8002)
                assert source.send(build_packet(lrh, bytes(size), self.fabric.icrc)) is None
        return packets * len(self.ports) * (len(self.ports) - 1)

    # --- the oracle ----------------------------------------------------------------------------------------

    def waits(self, scs: range = range(1)) -> nx.DiGraph[Channel]:
        """Return which channel waits for which, for all that hosts send; every pair must reach each other."""
        found: set[tuple[Channel, Channel]] = set()  # most are found from many sources
        channel_of = cache(_channel)
        for source in self.ports:
            for sc in scs:
                for target in self.ports:
                    if target is not source:
                        assert _follow(found, channel_of, source, target.lid, sc) == {target.name}, (
                            source.name,
                            target.name,
                        )
                _follow(found, channel_of, source, GROUP, sc)
        return nx.DiGraph(found)


def _channel(port: LinkPort, sc: int) -> Channel:
    assert port.link is not None
    assert port.link.up
    flow = port.link.direction_from(port).planned.flow
    assert flow is not None
    return port.name, (port.sc_to_vl or flow.map())[sc] % flow.vls


def _follow(
    found: set[tuple[Channel, Channel]],
    channel_of: Callable[[LinkPort, int], Channel],
    source: HfiPort,
    dlid: int,
    sc: int,
) -> set[str]:
    """Add which channel waits for which on all ways of a packet; return where the ways end."""
    ends: set[str] = set()
    waiting: list[tuple[LinkPort, int, Channel | None]] = [(source, sc, None)]
    seen = set()
    while waiting:
        port, sc, behind = waiting.pop()
        channel = channel_of(port, sc)
        if behind is not None:
            found.add((behind, channel))
        if (port, sc) in seen:
            continue
        seen.add((port, sc))
        assert port.link is not None
        far = port.link.far_end(port)
        if isinstance(far, HfiPort):
            ends.add(far.name)
            continue
        assert isinstance(far, SwitchPort)
        switch = far.switch
        if dlid == GROUP:
            hops = tuple(number for number in switch.mft.get(GROUP, ()) if number != far.port_num)
        else:
            hops = switch.lft.next_hops(dlid)
        assert hops, f"{switch.name} has no way to {dlid:#x}"
        for number in hops:
            table = far.sc_to_sc.get(number)
            waiting.append((switch.ports[number], sc if table is None else table[sc], channel))
    return ends
