"""The receive side of an HFI port: find the VNIC for a packet with L4 type Ethernet.

Source: the public driver's hfi1_vnic_bypass_rcv(). Its table holds the VNICs that are up, by the low 8 bits of the id
of their virtual switch; with driver quirks off, ours uses all 12.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from vema.base.types import MAX_VESW_ID

if TYPE_CHECKING:
    from opavnic.vnic.adapter import Adapter

DRIVER_VESW_ID_MASK: Final = 0xFF
"""The bits of a virtual switch's id that the driver uses."""
_ETHERNET: Final = int(L4.ETHERNET)
_L4_AT: Final = Lrh16B.HEADER.place("l4").offset
_VESW_ID_AT: Final = Lrh16B.SIZE + EthernetL4.HEADER.place("vesw_id").offset
_HEADER_SIZE: Final = Lrh16B.SIZE + EthernetL4.SIZE


class VnicDemux:
    """The VNICs of one HFI port that are up, by virtual switch."""

    def __init__(self, *, driver_quirks: bool) -> None:
        self.mask = DRIVER_VESW_ID_MASK if driver_quirks else MAX_VESW_ID
        """The bits of the virtual switch id that the table uses as key."""
        self.table: dict[int, Adapter] = {}
        """The VNICs that are up, by the masked id of their virtual switch."""

    def attach(self, vesw_id: int, vnic: Adapter) -> int:
        """Add a VNIC that goes up; return 0, -EINVAL for vesw_id 0, or -EBUSY if the key is taken.

        Source: the public driver's hfi1_vnic_up().
        """
        if not vesw_id:
            return -errno.EINVAL
        key = vesw_id & self.mask
        if key in self.table:
            return -errno.EBUSY
        self.table[key] = vnic
        return 0

    def detach(self, vnic: Adapter) -> None:
        """Remove a VNIC that goes down. Does nothing if it is not up."""
        self.table = {key: other for key, other in self.table.items() if other is not vnic}

    def receive(self, packet: bytes, token: BufferToken | None = None) -> Drop | None:
        """Pass a packet to its VNIC; return a Drop if there is none.

        The driver has no port counter for these packets: it counts rx_nohandler on the VNIC with the lowest id.

        Args:  packet: header, frame, pad, ICRC and tail; the port has checked it. token: see `Receiver.receive`.
        """
        if len(packet) < _HEADER_SIZE or packet[_L4_AT] != _ETHERNET:
            return Drop.RX_L4
        vesw_id = packet[_VESW_ID_AT] | packet[_VESW_ID_AT + 1] << 8
        vnic = self.table.get(vesw_id & self.mask)
        if vnic is not None:
            vnic.receive(packet, token)
            return None
        if self.table:
            self.table[min(self.table)].count_no_handler()
        return Drop.VNIC_NO_VESW
