"""Records of subnet administration that hold what a node's agent says of itself: class version 0x80. Big-endian.

Source: opa-ff, stl_sa_types.h.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Final

from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import declared
from hfi_sim.wire.sa.record import SaRecord, inside, reserved

_LID: Final = Field(32, "LID of the port, or of port 0 of its switch", HEX)
_PORT_NUM: Final = Field(8, "its number on its node")


def _record(name: str, *components: str, **fields: Field) -> type[Any]:
    """Declare a record: a LID, then fields; what is left out is 0. Args: components: as in `SaRecord`."""
    declarations = [
        (field, Annotated[type(item.zero), item], item.zero)
        for field, item in {"lid": _LID, **fields}.items()
    ]
    space = {"COMPONENTS": components, "__module__": __name__}
    kind = dataclasses.make_dataclass(
        name, declarations, bases=(SaRecord,), namespace=space, frozen=True, slots=True, kw_only=True
    )
    return declared(name, name, "big")(kind)


ScToScRecord = _record(
    "SCtoSCRecord",
    *("lid", "in_port", "out_port"),
    in_port=Field(8, "number of the port that they come by"),
    out_port=Field(8, "number of the port that they leave by"),
    reserved_6=reserved(16),
    table=inside(32, "the SC of each SC"),
)
"""The SC that a switch gives packets between two of its ports, by the SC they come with."""
VlArbitrationRecord = _record(
    "VLArbitrationTableRecord",
    *("lid", "port_num", "block"),
    port_num=_PORT_NUM,
    block=Field(8, "the section: 0 low, 1 high, 2 preemption elements, 3 preemption matrix"),
    reserved_6=reserved(16),
    elements=inside(256, "the section"),
)
"""One section of a port's VL arbitration table."""
BufferControlRecord = _record(
    "BufferControlTableRecord",
    *("lid", "port_num"),
    port_num=_PORT_NUM,
    reserved_5=reserved(24),
    table=inside(132, "BufferControl"),
)
"""The buffers of a port."""
CableInfoRecord = _record(
    "CableInfoRecord",
    *("lid", "port_num", "length", "", "address", ""),
    port_num=_PORT_NUM,
    length=Field(7, "bytes less one; of a request: up to 127"),
    reserved_6=reserved(1),
    address=Field(12, "where they begin, 128 to 255"),
    port_type=Field(4, "what the port is, as in PortInfo"),
    memory=inside(64, "the bytes"),
)
"""Up to 64 bytes of the memory of a port's cable; `length` and `address` say what to read."""
CongestionInfoRecord = _record(
    "CongestionInfoRecord", "lid", reserved_4=reserved(32), congestion_info=inside(4, "CongestionInfo")
)
"""What a node can do about congestion."""
SwitchCongestionRecord = _record(
    "SwitchCongestionRecord", "lid", reserved_4=reserved(32), setting=inside(76, "the setting")
)
"""The congestion setting of a switch."""
SwitchPortCongestionRecord = _record(
    "SwitchPortCongestionRecord",
    *("lid", "port_num"),
    port_num=_PORT_NUM,
    reserved_5=reserved(24),
    setting=inside(4, "the setting"),
)
"""The congestion setting of a port of a switch."""
HfiCongestionRecord = _record(
    "HfiCongestionRecord", "lid", reserved_4=reserved(32), setting=inside(198, "the setting")
)
"""The congestion setting of an HFI."""
HfiCongestionControlRecord = _record(
    "HfiCongestionControlRecord",
    *("lid", "block"),
    block=Field(16, "number of the block"),
    reserved_6=reserved(16),
    table=inside(130, "the limit and 64 entries"),
)
"""A block of the congestion control table of an HFI."""
