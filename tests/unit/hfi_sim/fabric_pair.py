"""Two HFIs on one switch, swept: the smallest fabric that does something."""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet

TEST_L4 = 0x55


@dataclass
class Pair:
    """A fabric with ports `a` (which runs the subnet manager) and `b`, and what `b` received on TEST_L4."""

    fabric: Fabric
    sm: SubnetManager
    switch: Switch
    a: HfiPort
    b: HfiPort
    received: list[bytes]

    def packet(self, payload: bytes = b"x" * 40, **fields: int) -> bytes:
        values: dict[str, int] = {
            "slid": self.a.lid,
            "dlid": self.b.lid,
            "l4": TEST_L4,
            "pkey": 0xFFFF,
            **fields,
        }
        return build_packet(Lrh16B(**values), payload, self.fabric.icrc)  # type: ignore[arg-type]


def make_pair(fabric: Fabric | None = None) -> Pair:
    fabric = fabric if fabric is not None else Fabric()
    switch = fabric.add_switch("sw0", ports=4)
    a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
    fabric.connect(a, switch.ports[1])
    fabric.connect(b, switch.ports[2])
    sm = SubnetManager(fabric, a)
    sm.sweep()
    received: list[bytes] = []

    def take(_port: HfiPort, packet: bytes, _token: object) -> None:
        received.append(packet)

    b.register_l4(TEST_L4, take)
    return Pair(fabric, sm, switch, a, b, received)
