"""Locally administered MAC addresses: fabric id, virtual switch and LID in 48 bits, so that no MAC table is needed.

v = fabric_id (10 bits) | vesw_id (12 bits) << 10. Byte 0 holds v[5:0] above the local bit 0x02 and the group bit
0x01, byte 1 v[13:6], byte 2 v[21:14]; bytes 3 to 5 hold the LID, little-endian.

Source: seed 000, "locally administered MAC address"; byte order of the LID: the public driver's
opa_vnic_get_dlid().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.base.types import MacAddr
from vema.base.types import MAX_FABRIC_ID

LOCAL_BIT: Final = 0x02
"""Bit of byte 0: locally administered."""
GROUP_BIT: Final = 0x01
"""Bit of byte 0: multicast."""

_WIDTHS: Final = {"fabric_id": 10, "vesw_id": 12, "lid": 24}


@dataclass(frozen=True, slots=True)
class Lmac:
    """The contents of a locally administered MAC address."""

    fabric_id: int
    """10 bits."""
    vesw_id: int
    """12 bits."""
    lid: int
    """24 bits."""
    group: bool = False
    """Whether it is a multicast address."""

    @classmethod
    def parse(cls, mac: bytes) -> Self:
        """Decode a MAC address.

        Raises:  WireError: not 6 bytes, or not locally administered.
        """
        if len(mac) != 6:
            raise WireError("mac", len(mac), f"{len(mac)} bytes, a MAC address has 6")
        if not mac[0] & LOCAL_BIT:
            raise WireError(
                "mac", 0, f"{mac.hex(':')} is not locally administered (bit 0x02 of the first byte)"
            )
        ids = mac[0] >> 2 | mac[1] << 6 | mac[2] << 14
        return cls(
            ids & MAX_FABRIC_ID, ids >> 10, int.from_bytes(mac[3:6], "little"), bool(mac[0] & GROUP_BIT)
        )

    def build(self) -> MacAddr:
        """Return the 6 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        for name, width in _WIDTHS.items():
            value = getattr(self, name)
            if not 0 <= value < 1 << width:
                raise ValueError(f"{name} {value:#x} does not fit {width} bits")
        ids = self.fabric_id | self.vesw_id << 10
        first = (ids & 0x3F) << 2 | LOCAL_BIT | (GROUP_BIT if self.group else 0)
        return MacAddr(bytes((first, ids >> 6 & 0xFF, ids >> 14)) + self.lid.to_bytes(3, "little"))


def lid_of(mac: bytes) -> int:
    """Return the LID in a MAC address of 6 bytes, regardless of its other bits."""
    return mac[5] << 16 | mac[4] << 8 | mac[3]
