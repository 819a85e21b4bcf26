"""Records of subnet administration that hold what a node's agent says of itself: class version 0x80. Big-endian.

Source: opa-ff, stl_sa_types.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import declared
from hfi_sim.wire.sa.record import SaRecord, inside, reserved

_LID = Annotated[int, Field(32, "LID of the port, or of port 0 of its switch", HEX)]
_PORT_NUM = Annotated[int, Field(8, "its number on its node")]


@declared("SCtoSCRecord", "SCtoSCRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScToScRecord(SaRecord):
    """The SC that a switch gives packets between two of its ports, by the SC they come with."""

    COMPONENTS: ClassVar = ("lid", "in_port", "out_port")

    lid: _LID = 0
    in_port: Annotated[int, Field(8, "number of the port that they come by")] = 0
    out_port: Annotated[int, Field(8, "number of the port that they leave by")] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    table: Annotated[bytes, inside(32, "the SC of each SC")] = bytes(32)


@declared("VLArbitrationTableRecord", "VLArbitrationTableRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class VlArbitrationRecord(SaRecord):
    """One section of a port's VL arbitration table."""

    COMPONENTS: ClassVar = ("lid", "port_num", "block")

    lid: _LID = 0
    port_num: _PORT_NUM = 0
    block: Annotated[
        int, Field(8, "the section: 0 low, 1 high, 2 preemption elements, 3 preemption matrix")
    ] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    elements: Annotated[bytes, inside(256, "the section")] = bytes(256)


@declared("BufferControlTableRecord", "BufferControlTableRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class BufferControlRecord(SaRecord):
    """The buffers of a port."""

    COMPONENTS: ClassVar = ("lid", "port_num")

    lid: _LID = 0
    port_num: _PORT_NUM = 0
    reserved_5: Annotated[int, reserved(24)] = 0
    table: Annotated[bytes, inside(132, "BufferControl")] = bytes(132)


@declared("CableInfoRecord", "CableInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class CableInfoRecord(SaRecord):
    """Up to 64 bytes of the memory of a port's cable."""

    COMPONENTS: ClassVar = ("lid", "port_num", "length", "", "address", "")
    """`length` and `address` say what to read, so nothing is selected by them."""

    lid: _LID = 0
    port_num: _PORT_NUM = 0
    length: Annotated[int, Field(7, "bytes less one; of a request: up to 127")] = 0
    reserved_6: Annotated[int, reserved(1)] = 0
    address: Annotated[int, Field(12, "where they begin, 128 to 255")] = 0
    port_type: Annotated[int, Field(4, "what the port is, as in PortInfo")] = 0
    memory: Annotated[bytes, inside(64, "the bytes")] = bytes(64)


@declared("CongestionInfoRecord", "CongestionInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionInfoRecord(SaRecord):
    """What a node can do about congestion."""

    COMPONENTS: ClassVar = ("lid",)

    lid: _LID = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    congestion_info: Annotated[bytes, inside(4, "CongestionInfo")] = bytes(4)


@declared("SwitchCongestionRecord", "SwitchCongestionRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCongestionRecord(SaRecord):
    """The congestion setting of a switch."""

    COMPONENTS: ClassVar = ("lid",)

    lid: _LID = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    setting: Annotated[bytes, inside(76, "the setting")] = bytes(76)


@declared("SwitchPortCongestionRecord", "SwitchPortCongestionRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPortCongestionRecord(SaRecord):
    """The congestion setting of a port of a switch."""

    COMPONENTS: ClassVar = ("lid", "port_num")

    lid: _LID = 0
    port_num: _PORT_NUM = 0
    reserved_5: Annotated[int, reserved(24)] = 0
    setting: Annotated[bytes, inside(4, "the setting")] = bytes(4)


@declared("HfiCongestionRecord", "HfiCongestionRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class HfiCongestionRecord(SaRecord):
    """The congestion setting of an HFI."""

    COMPONENTS: ClassVar = ("lid",)

    lid: _LID = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    setting: Annotated[bytes, inside(198, "the setting")] = bytes(198)


@declared("HfiCongestionControlRecord", "HfiCongestionControlRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class HfiCongestionControlRecord(SaRecord):
    """A block of the congestion control table of an HFI."""

    COMPONENTS: ClassVar = ("lid", "block")

    lid: _LID = 0
    block: Annotated[int, Field(16, "number of the block")] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    table: Annotated[bytes, inside(130, "the limit and 64 entries")] = bytes(130)
