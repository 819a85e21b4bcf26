"""ErrorInfo: of each kind of error the first packet that a port has dropped, as the attribute tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hfi_sim.base.counters import Drop
from hfi_sim.engine.port_errors import PortError
from hfi_sim.wire.lrh16b import SIZE, Lrh16B
from hfi_sim.wire.mad.pma_attributes import (
    BAD_DLID_RANGE,
    BAD_SC2SC,
    HAPPENED,
    PKEY_VIOLATION,
    ErrorInfoBit,
    ErrorInfoPort,
    RcvErrorCode,
)

_RCV_CODES: Final[Mapping[Drop, RcvErrorCode]] = {
    Drop.RX_LENGTH: RcvErrorCode.BAD_LENGTH,
    Drop.RX_TRUNCATED: RcvErrorCode.TOO_SHORT,
    Drop.RX_DLID: RcvErrorCode.BAD_DLID,
    Drop.RX_L2: RcvErrorCode.BAD_L2,
    Drop.SW_MALFORMED: RcvErrorCode.BAD_L2,
}
"""There is no code for a wrong ICRC."""
_RELAY_CODES: Final[Mapping[Drop, int]] = {
    Drop.SW_NO_ROUTE: BAD_DLID_RANGE,
    Drop.SW_NO_GROUP: BAD_DLID_RANGE,
    Drop.SW_SC: BAD_SC2SC,
}
_KINDS: Final[Mapping[ErrorInfoBit, tuple[Drop, ...]]] = {
    ErrorInfoBit.RCV: tuple(_RCV_CODES),
    ErrorInfoBit.OVERRUN: (Drop.RX_OVERFLOW,),
    ErrorInfoBit.XMIT_CONSTRAINT: (Drop.TX_PKEY, Drop.TX_SLID, Drop.SW_PKEY_OUT),
    ErrorInfoBit.RCV_CONSTRAINT: (Drop.RX_PKEY, Drop.SW_PKEY_IN),
    ErrorInfoBit.RELAY: tuple(_RELAY_CODES),
}
"""Of several drops of one kind, that which stands first here is told."""


def reasons_of(info_mask: int) -> tuple[Drop, ...]:
    """Return the drops that a mask of ErrorInfo means."""
    return tuple(drop for bit, drops in _KINDS.items() if info_mask & bit for drop in drops)


def error_info(port_num: int, errors: Mapping[Drop, PortError]) -> ErrorInfoPort:
    """Return what is to be told of a port."""
    values: dict[str, Any] = {}
    if (error := _first(errors, ErrorInfoBit.RCV)) is not None:
        drop, packet = error
        code = _RCV_CODES[drop] if len(packet) == SIZE else RcvErrorCode.TOO_SHORT
        padded = packet.ljust(SIZE, b"\0")
        values |= {"rcv_status": HAPPENED | code, "rcv_flit_1": padded[:8], "rcv_flit_2": padded[8:]}
    if (lrh := _header(errors, ErrorInfoBit.OVERRUN)) is not None:
        values["overrun_status"] = HAPPENED | lrh.sc << 2
    if (lrh := _header(errors, ErrorInfoBit.XMIT_CONSTRAINT)) is not None:
        values |= {
            "xmit_constraint_status": HAPPENED,
            "xmit_constraint_pkey": lrh.pkey,
            "xmit_constraint_slid": lrh.slid,
        }
    if (lrh := _header(errors, ErrorInfoBit.RCV_CONSTRAINT)) is not None:
        values |= {
            "rcv_constraint_status": HAPPENED | PKEY_VIOLATION,
            "rcv_constraint_pkey": lrh.pkey,
            "rcv_constraint_slid": lrh.slid,
        }
    if (error := _first(errors, ErrorInfoBit.RELAY)) is not None:
        lrh = _header_of(error[1])
        values |= {
            "relay_status": HAPPENED | lrh.rc << 4 | _RELAY_CODES[error[0]],
            "relay_slid": lrh.slid,
            "relay_sc": lrh.sc,
            "relay_dlid": lrh.dlid,
        }
    return ErrorInfoPort(port_num=port_num, **values)


def _first(errors: Mapping[Drop, PortError], kind: ErrorInfoBit) -> tuple[Drop, bytes] | None:
    return next(((drop, errors[drop].first) for drop in _noted(errors, kind)), None)


def _header(errors: Mapping[Drop, PortError], kind: ErrorInfoBit) -> Lrh16B | None:
    error = _first(errors, kind)
    return None if error is None else _header_of(error[1])


def _header_of(packet: bytes) -> Lrh16B:
    """Return the header of a first packet; packets without a whole one are dropped as such."""
    return Lrh16B.parse(packet.ljust(SIZE, b"\0"))


def _noted(errors: Mapping[Drop, PortError], kind: ErrorInfoBit) -> Iterable[Drop]:
    return (drop for drop in _KINDS[kind] if drop in errors and errors[drop].first)
