"""What follows the MAD header of an SMP: M_Key, and the directed route of class 0x81. Big-endian.

Source: opa_smi.h and ib_smi.h of Linux: struct opa_smp, struct ib_smp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import WireHeader, declared
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    BASE_VERSION_OPA,
    MAD_SIZE,
    MAD_SIZE_IB,
    MadClass,
    MadHeader,
    Method,
    mad_size,
)

PATH_LENGTH: Final = 64
"""Bytes of a path; byte 0 is not used, so it has 63 hops at most."""
DIRECTION: Final = 0x8000
"""Bit of the MAD header's status: the SMP is on its way back."""


@declared("smp", "SMP header", "big", source="opa_smi.h of Linux")
@dataclass(frozen=True, slots=True, kw_only=True)
class LidRoutedHeader(WireHeader):
    """Bytes 24 to 31 of an SMP that is routed by LID; data follow."""

    mkey: Annotated[int, Field(64, "management key", HEX)] = 0


@declared("smp_directed", "directed route", "big", source="opa_smi.h of Linux")
@dataclass(frozen=True, slots=True, kw_only=True)
class DirectedHeader(WireHeader):
    """Bytes 24 to 175 of an SMP on a directed route; data follow."""

    mkey: Annotated[int, Field(64, "management key", HEX)] = 0
    dr_slid: Annotated[
        int, Field(32, "LID before the directed part; all ones: it begins at the sender", HEX)
    ] = 0xFFFFFFFF
    dr_dlid: Annotated[
        int, Field(32, "LID after the directed part; all ones: it ends at the receiver", HEX)
    ] = 0xFFFFFFFF
    initial_path: Annotated[bytes, Field(512, "port by which each hop leaves, from byte 1", BYTES)] = bytes(
        64
    )
    return_path: Annotated[bytes, Field(512, "port by which each hop has come", BYTES)] = bytes(64)
    reserved: Annotated[int, Field(64, "reserved", HEX)] = 0


@declared("smp_directed_ib", "directed route of base version 1", "big", source="ib_smi.h of Linux")
@dataclass(frozen=True, slots=True, kw_only=True)
class IbDirectedHeader(WireHeader):
    """Bytes 24 to 255 of an SMP of base version 1 on a directed route; its data are within."""

    mkey: Annotated[int, Field(64, "management key", HEX)] = 0
    dr_slid: Annotated[
        int, Field(16, "LID before the directed part; all ones: it begins at the sender", HEX)
    ] = 0xFFFF
    dr_dlid: Annotated[
        int, Field(16, "LID after the directed part; all ones: it ends at the receiver", HEX)
    ] = 0xFFFF
    reserved: Annotated[bytes, Field(224, "reserved", BYTES)] = bytes(28)
    data: Annotated[bytes, Field(512, "data", BYTES)] = bytes(64)
    initial_path: Annotated[bytes, Field(512, "port by which each hop leaves, from byte 1", BYTES)] = bytes(
        64
    )
    return_path: Annotated[bytes, Field(512, "port by which each hop has come", BYTES)] = bytes(64)


_MKEY: Final = slice(MadHeader.SIZE, MadHeader.SIZE + 8)
_STATUS: Final = MadHeader.HEADER.place("status").in_slice
_HOPS: Final = MadHeader.HEADER.place("class_specific").offset
_DATA_LID: Final = MadHeader.SIZE + LidRoutedHeader.SIZE
_DATA_DIRECTED: Final = MadHeader.SIZE + DirectedHeader.SIZE
_DATA_IB: Final = 64
CLASS_VERSION: Final = 0x80
"""Of OPA's form, in which an SMP of base version 0x80 is; with any other, Linux looks for a route in InfiniBand's."""
_DATA_IB_SIZE: Final = 64


def _places(header: type[WireHeader]) -> dict[str, slice]:
    return {
        place.name: slice(MadHeader.SIZE + place.offset, MadHeader.SIZE + place.offset + place.size)
        for place in header.HEADER.places
    }


_OPA: Final = _places(DirectedHeader)
_IB: Final = _places(IbDirectedHeader)


class Smp:
    """An SMP as it is passed from node to node: its bytes, changed in place."""

    __slots__ = ("_has_ib_form", "_places", "base_version", "mad", "mgmt_class")

    def __init__(self, mad: bytes | bytearray | memoryview) -> None:
        """Take a MAD of a class of subnet management. One of base version 0x80 may travel without zeros at its end.

        Raises:  WireError: shorter than its headers, or, of base version 1, than such a MAD.
        Source:  hfi1, whose SMPs are as long as their attributes.
        """
        directed = mad[1] == MadClass.SUBN_DIRECTED
        self._has_ib_form = mad[0] != BASE_VERSION_OPA or mad[2] != CLASS_VERSION
        least = MAD_SIZE_IB if self._has_ib_form else _DATA_DIRECTED if directed else _DATA_LID
        if len(mad) < least:
            raise WireError(
                "smp", len(mad), f"{len(mad)} bytes, an SMP of base version {mad[0]:#04x} has {least}"
            )
        self.mad = bytearray(mad[: mad_size(mad[0])])
        self.base_version = mad[0]
        self.mgmt_class = mad[1]
        self._places = _IB if self._has_ib_form else _OPA

    def __bytes__(self) -> bytes:
        return bytes(self.mad)

    @property
    def directed(self) -> bool:
        """Whether it bears a directed route."""
        return self.mgmt_class == MadClass.SUBN_DIRECTED

    @property
    def mkey(self) -> int:
        """Its M_Key."""
        return int.from_bytes(self.mad[_MKEY])

    @property
    def _data(self) -> slice:
        if self._has_ib_form:
            return slice(_DATA_IB, _DATA_IB + _DATA_IB_SIZE)
        return slice(_DATA_DIRECTED if self.directed else _DATA_LID, MAD_SIZE)

    @property
    def data(self) -> bytes:
        """The room for its attribute: what was sent, and zeros."""
        place = self._data
        return bytes(self.mad[place]).ljust(place.stop - place.start, b"\0")

    # --- the directed route --------------------------------------------------------------------------------

    @property
    def returning(self) -> bool:
        """Whether it is on its way back."""
        return bool(self.mad[_STATUS.start] & DIRECTION >> 8)

    @property
    def hop_pointer(self) -> int:
        """How far it has come; it can be anything in what a stranger sends."""
        return self.mad[_HOPS]

    @hop_pointer.setter
    def hop_pointer(self, value: int) -> None:
        self.mad[_HOPS] = value

    @property
    def hop_count(self) -> int:
        """Hops of the directed part."""
        return self.mad[_HOPS + 1]

    @property
    def dr_slid(self) -> int | None:
        """The LID before the directed part, 24 bits; None: the permissive one, nothing is before it."""
        return self._lid("dr_slid")

    @property
    def dr_dlid(self) -> int | None:
        """The LID after the directed part, 24 bits; None: the permissive one."""
        return self._lid("dr_dlid")

    def _lid(self, name: str) -> int | None:
        value = self.mad[self._places[name]]
        return None if value.count(0xFF) == len(value) else int.from_bytes(value) & LID_PERMISSIVE

    def leaves_by(self, hop: int) -> int:
        """Return the port that the initial path names for a hop, 1 to 63."""
        start: int = self._places["initial_path"].start
        return self.mad[start + hop]

    def came_by(self, hop: int) -> int:
        """Return the port that the return path names for a hop, 1 to 63."""
        start: int = self._places["return_path"].start
        return self.mad[start + hop]

    def record(self, hop: int, port_num: int) -> None:
        """Note the port by which it has come to a hop."""
        self.mad[self._places["return_path"].start + hop] = port_num

    @property
    def return_path(self) -> bytes:
        """The ports by which it has come, 64 bytes."""
        return bytes(self.mad[self._places["return_path"]])

    def answer(self, status: int, data: bytes) -> None:
        """Make the response of it that has these data; it is as long as they are, in whole 8 bytes."""
        place = self._data
        size = _DATA_IB_SIZE if self._has_ib_form else -(-len(data) // 8) * 8
        self.mad[place] = data.ljust(size, b"\0")
        self.turn_round(Method.GET_RESP, status)

    def turn_round(self, method: int, status: int) -> None:
        """Make a response of it."""
        self.mad[MadHeader.HEADER.place("method").offset] = method
        direction = DIRECTION if self.directed else 0
        self.mad[_STATUS] = (status & 0x7FFF | direction).to_bytes(2, "big")


def peer_of(mad: bytes, dlid: int) -> int:
    """Return the source LID that the answer to an SMP will bear, which was sent to `dlid`.

    That is `dlid` itself, or the permissive LID where the directed route begins at the sender.
    """
    if mad[1] != MadClass.SUBN_DIRECTED:
        return dlid
    places = _IB if mad[0] == BASE_VERSION_IB else _OPA
    slid = mad[places["dr_slid"]]
    return LID_PERMISSIVE if slid.count(0xFF) == len(slid) else dlid
