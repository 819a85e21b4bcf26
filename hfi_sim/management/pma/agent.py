"""The performance management agent of one HFI port, or of all ports of one switch: MADs in, MADs out. Sans-IO.

That of an HFI answers InfiniBand's form, too (`answer_in_ib_form`), of the same registers; sysfs reads them here.

Every Get and Set gets a response; what is wrong with it is its status. Counters of a fabric are never reset, so
clearing notes what a counter was, and that is taken off from then on.

Source: process_perf_opa() of opa-hfi1's mad.c; stl_pm.h of opa-ff.
Differs: several ports in one request, as switches have them, where a wrong number of ports has a status of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.counters import Drop
from hfi_sim.engine.api import PortError
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.pma.ports import CountedPort, Counts, answer_in_ib_form
from hfi_sim.wire.header import Header
from hfi_sim.wire.lrh16b import SIZE, Lrh16B
from hfi_sim.wire.mad import pma_attributes as pm
from hfi_sim.wire.mad.attributes import PmAttrId
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    BASE_VERSION_OPA,
    MAD_SIZE,
    RESPONSE_BIT,
    Mad,
    MadHeader,
    MadStatus,
    Method,
    mad_size,
)

METHODS: Final = frozenset(range(RESPONSE_BIT)) - {Method.TRAP}
"""It answers all requests: those of an unknown method, too, with a status."""
_DATA_SIZE: Final = MAD_SIZE - MadHeader.SIZE
HFI_VL_MASK: Final = 0x80FF
"""The VLs of an HFI: 0 to 7, and 15."""
_RESPONSE_TIME: Final = 18
"""An answer takes 4.096 us * 2**18 at most."""
_CLASS_PORT_INFO_SIZE: Final = 80
"""Its trap address is 0: nothing here sends traps."""
_LLI_ADDER: Final = 8
_LER_ADDER: Final = 2
"""What is added to a resolution that is not 0."""

Answer = tuple[int, bytes]
"""Status and data."""
_INVALID: Final[Answer] = (MadStatus.INVALID, b"")
_TOO_LARGE: Final[Answer] = (pm.PmStatus.TOO_LARGE, b"")
_WRONG_NUMBER: Final[Answer] = (pm.PmStatus.WRONG_NUMBER, b"")


class PerformanceAgent:
    """See the module."""

    def __init__(
        self, ports: Callable[[], Mapping[int, CountedPort]], *, default_port: int, is_hfi: bool = False
    ) -> None:
        """Make an agent that has cleared nothing.

        Args:  ports: asked for its ports by number with the first request. default_port: which one number 0 means.
               is_hfi: whether it answers base version 1, for its default port.
        """
        self._is_hfi = is_hfi
        self._find_ports = ports
        self._found: Mapping[int, CountedPort] | None = None
        self._default_port = default_port
        self._cleared: dict[int, Counts] = {}
        """Of each port, what its counters were when they were cleared."""
        self._cleared_vls: dict[tuple[int, int], Counts] = {}
        """Likewise, of each VL of a port."""
        self._answers: Final[Mapping[tuple[int, int], Callable[[int, bytes], Answer]]] = {
            (Method.GET, PmAttrId.CLASS_PORT_INFO): self._class_port_info,
            (Method.GET, PmAttrId.PORT_STATUS): self._port_status,
            (Method.GET, PmAttrId.DATA_PORT_COUNTERS): self._data_counters,
            (Method.GET, PmAttrId.ERROR_PORT_COUNTERS): self._error_counters,
            (Method.GET, PmAttrId.ERROR_INFO): self._error_info,
            (Method.SET, PmAttrId.CLEAR_PORT_STATUS): self._clear,
            (Method.SET, PmAttrId.ERROR_INFO): self._clear_error_info,
        }

    @property
    def _ports(self) -> Mapping[int, CountedPort]:
        if self._found is None:
            self._found = self._find_ports()
        return self._found

    # --- requests ------------------------------------------------------------------------------------------

    def receive(self, request: MadRequest) -> bytes:
        """Return the response to a request."""
        header = request.header
        size = mad_size(header.base_version)
        asked = request.mad[MadHeader.SIZE : size]
        if header.base_version == BASE_VERSION_IB and self._is_hfi:
            port = self._default_port
            status, data = answer_in_ib_form(
                header, asked.ljust(size - MadHeader.SIZE, b"\0"), port, lambda: self.counts(port)
            )
            return Mad(replace(header, method=Method.GET_RESP, status=status), data).build()
        status, data = self._answer(header, asked.ljust(_DATA_SIZE, b"\0"))
        response = replace(header, method=Method.GET_RESP, status=status)
        return Mad(response, data.ljust(-(-len(data) // 8) * 8, b"\0")).build()

    def _answer(self, header: MadHeader, data: bytes) -> Answer:
        if header.base_version != BASE_VERSION_OPA or header.class_version != pm.CLASS_VERSION:
            return MadStatus.BAD_VERSION, data[: mad_size(header.base_version) - MadHeader.SIZE]
        if header.method not in (Method.GET, Method.SET):
            return MadStatus.UNSUPPORTED_METHOD, b""
        answer = self._answers.get((header.method, header.attr_id))
        if answer is None:
            return MadStatus.UNSUPPORTED, b""
        return answer(header.attr_mod, data)

    def _selected(self, number: int | None, port_mask: bytes) -> list[int] | Answer:
        """Return the ports of a mask, or what is wrong with it. Args: number: how many there are to be; None: any."""
        mask = int.from_bytes(port_mask)
        selected = [port_num for port_num in range(pm.PORTS) if mask >> port_num & 1]
        if not selected or any(port_num not in self._ports for port_num in selected):
            return _INVALID
        if number is not None and number != len(selected):
            return _INVALID if self._is_hfi else _WRONG_NUMBER
        return selected

    def _class_port_info(self, attr_mod: int, _data: bytes) -> Answer:
        info = bytes([BASE_VERSION_OPA, pm.CLASS_VERSION, 0, 0]) + _RESPONSE_TIME.to_bytes(4, "big")
        return MadStatus.INVALID if attr_mod else MadStatus.OK, info.ljust(_CLASS_PORT_INFO_SIZE, b"\0")

    # --- counters ------------------------------------------------------------------------------------------

    def counts(self, port_num: int) -> Counts:
        """Return the counters of a port since they were cleared, by the names of `COUNTERS`; waits as flit times.

        Raises:  KeyError: it is no port of this agent.
        """
        port = self._ports[port_num]
        return _since(port.counts(), self._cleared.get(port_num), port)

    def vl_counts(self, port_num: int, vls: Sequence[int]) -> Iterator[Counts]:
        """Yield the counters of some VLs of a port since they were cleared, by the names of `VL_COUNTERS`; of a VL that
        does not exist none.
        """
        port = self._ports[port_num]
        rows = port.vl_counts() if vls else ()
        for vl in vls:
            yield _since(rows[vl], self._cleared_vls.get((port_num, vl)), port) if vl < len(rows) else {}

    def _port_status(self, attr_mod: int, data: bytes) -> Answer:
        request = pm.PortStatusRequest.parse(data)
        vls = self._vls(request.vl_mask)
        port_num = request.port_num or self._default_port
        if (
            self._is_hfi
            and pm.PORT_STATUS.size + request.vl_mask.bit_count() * pm.PORT_STATUS_VL.size > _DATA_SIZE
        ):
            return _TOO_LARGE
        if attr_mod >> 24 != 1 or vls is None or port_num not in self._ports:
            return _INVALID
        if pm.PORT_STATUS.size + len(vls) * pm.PORT_STATUS_VL.size > _DATA_SIZE:
            return _TOO_LARGE
        head = {
            **_limited(pm.PORT_STATUS, self.counts(port_num)),
            "port_num": port_num,
            "vl_mask": request.vl_mask,
            "link_quality": self._ports[port_num].link_quality(),
        }
        rows = (_pack(pm.PORT_STATUS_VL, counts) for counts in self.vl_counts(port_num, vls))
        return MadStatus.OK, _pack(pm.PORT_STATUS, head) + b"".join(rows)

    def _data_counters(self, attr_mod: int, data: bytes) -> Answer:
        request = pm.PortCountersRequest.parse(data)

        def block(port_num: int) -> bytes:
            counts = self.counts(port_num)
            head = {name: counts[name] for name in pm.DATA_COUNTERS} | {
                "port_num": port_num,
                "link_quality": self._ports[port_num].link_quality(),
                "error_summary": _summary(counts, request.resolutions),
            }
            return _pack(pm.DATA_PORT, head)

        vls = self._vls(request.vl_mask)
        if self._is_hfi:  # hfi1 looks at the first port of the mask alone
            ports = int.from_bytes(request.port_mask) & (1 << 64) - 1
            first = (ports & -ports).to_bytes(len(request.port_mask))
            return self._port_counters(attr_mod, request, vls, block, pm.DATA_PORT, pm.DATA_PORT_VL, first)
        return self._port_counters(attr_mod, request, vls, block, pm.DATA_PORT, pm.DATA_PORT_VL)

    def _error_counters(self, attr_mod: int, data: bytes) -> Answer:
        request = pm.PortCountersRequest.parse(data)

        def block(port_num: int) -> bytes:
            counts = _limited(pm.ERROR_PORT, self.counts(port_num))
            head = {name: counts[name] for name in pm.ERROR_COUNTERS} | {"port_num": port_num}
            return _pack(pm.ERROR_PORT, head)

        vls = _bits(request.vl_mask) if self._is_hfi else self._vls(request.vl_mask)
        return self._port_counters(attr_mod, request, vls, block, pm.ERROR_PORT, pm.ERROR_PORT_VL)

    def _port_counters(
        self,
        attr_mod: int,
        request: pm.PortCountersRequest,
        vls: list[int] | None,
        block: Callable[[int], bytes],
        of_port: Header,
        of_vl: Header,
        port_mask: bytes = b"",
    ) -> Answer:
        """Answer with the blocks of several ports, each followed by those of its VLs."""
        selected = self._selected(attr_mod >> 24, port_mask or request.port_mask)
        if isinstance(selected, tuple):
            return selected
        if vls is None:
            return _INVALID
        if request.SIZE + len(selected) * (of_port.size + len(vls) * of_vl.size) > _DATA_SIZE:
            return _TOO_LARGE
        parts = [request.build()]
        for port_num in selected:
            parts.append(block(port_num))
            parts += (_pack(of_vl, counts) for counts in self.vl_counts(port_num, vls))
        return MadStatus.OK, b"".join(parts)

    def _clear(self, attr_mod: int, data: bytes) -> Answer:
        if self._is_hfi and attr_mod >> 24 != 1:  # of a switch, tools name one block for any number of ports
            return _INVALID
        request = pm.ClearPortStatus.parse(data)
        selected = self._selected(None, request.port_mask)
        if isinstance(selected, tuple):
            return selected
        names = [name for name, bit in pm.COUNTER_BITS.items() if request.counter_mask & bit]
        for port_num in selected:
            port = self._ports[port_num]
            counts = port.counts()
            self._cleared.setdefault(port_num, {}).update({name: counts[name] for name in names})
            for vl, row in enumerate(port.vl_counts()):
                cleared = {name: row[name] for name in names if name in row}
                self._cleared_vls.setdefault((port_num, vl), {}).update(cleared)
        return MadStatus.OK, request.build()

    # --- first errors --------------------------------------------------------------------------------------

    def _error_info(self, attr_mod: int, data: bytes) -> Answer:
        request = pm.ErrorInfoRequest.parse(data)
        selected = self._selected(attr_mod >> 24, request.port_mask)
        if isinstance(selected, tuple):
            return selected
        if request.SIZE + len(selected) * pm.ErrorInfoPort.SIZE > _DATA_SIZE:
            return _TOO_LARGE
        blocks = (error_info(port_num, self._ports[port_num].errors()).build() for port_num in selected)
        return MadStatus.OK, request.build() + b"".join(blocks)

    def _clear_error_info(self, attr_mod: int, data: bytes) -> Answer:
        request = pm.ErrorInfoRequest.parse(data)
        selected = self._selected(attr_mod >> 24, request.port_mask)
        if isinstance(selected, tuple):
            return selected
        reasons = reasons_of(request.info_mask)
        for port_num in selected:
            self._ports[port_num].forget_errors(reasons)
        return MadStatus.OK, request.build() + bytes(pm.ErrorInfoPort.SIZE if self._is_hfi else 0)

    def _vls(self, mask: int) -> list[int] | None:
        """Return the VLs of a mask; None: it names some that cannot be."""
        return None if mask & ~(HFI_VL_MASK if self._is_hfi else (1 << pm.VLS) - 1) else _bits(mask)


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _since(counts: Counts, cleared: Counts | None, port: CountedPort) -> Counts:
    """Return what was counted since it was cleared, times as flit times."""
    counts = {name: count - (cleared.get(name, 0) if cleared else 0) for name, count in counts.items()}
    counts["xmit_wait"] = port.flit_times(counts["xmit_wait"])
    return counts


def _summary(counts: Counts, resolutions: int) -> int:
    """Return the sum of all error counters."""
    shifts = dict.fromkeys(pm.ERROR_COUNTERS, 0)
    if lli := resolutions >> 4:
        shifts["local_link_integrity_errors"] = lli + _LLI_ADDER
    if ler := resolutions & 0xF:
        shifts["link_error_recovery"] = ler + _LER_ADDER
    return sum(counts[name] >> shift for name, shift in shifts.items())


def _limited(header: Header, counts: Counts) -> Counts:
    """Return counters that stay at the most that their fields hold."""
    return {
        name: min(count, (1 << header.fields[name].bits) - 1)
        for name, count in counts.items()
        if name in header.fields
    }


def _pack(header: Header, values: Mapping[str, int]) -> bytes:
    """Return the bytes of a block; fields without a value are 0."""
    blanks = {name: 0 if field.is_number else b"" for name, field in header.fields.items()}
    return header.codec.pack(*(values.get(name, blank) for name, blank in blanks.items()))


_RCV_CODES: Final[Mapping[Drop, pm.RcvErrorCode]] = {
    Drop.RX_LENGTH: pm.RcvErrorCode.BAD_LENGTH,
    Drop.RX_TRUNCATED: pm.RcvErrorCode.TOO_SHORT,
    Drop.RX_DLID: pm.RcvErrorCode.BAD_DLID,
    Drop.RX_L2: pm.RcvErrorCode.BAD_L2,
    Drop.SW_MALFORMED: pm.RcvErrorCode.BAD_L2,
}
"""There is no code for a wrong ICRC."""
_RELAY_CODES: Final[Mapping[Drop, int]] = {
    Drop.SW_NO_ROUTE: pm.BAD_DLID_RANGE,
    Drop.SW_NO_GROUP: pm.BAD_DLID_RANGE,
    Drop.SW_SC: pm.BAD_SC2SC,
}
_KINDS: Final[Mapping[pm.ErrorInfoBit, tuple[Drop, ...]]] = {
    pm.ErrorInfoBit.RCV: tuple(_RCV_CODES),
    pm.ErrorInfoBit.OVERRUN: (Drop.RX_OVERFLOW,),
    pm.ErrorInfoBit.XMIT_CONSTRAINT: (Drop.TX_PKEY, Drop.TX_SLID, Drop.SW_PKEY_OUT),
    pm.ErrorInfoBit.RCV_CONSTRAINT: (Drop.RX_PKEY, Drop.SW_PKEY_IN),
    pm.ErrorInfoBit.RELAY: tuple(_RELAY_CODES),
}
"""Of several drops of one kind, that which stands first here is told."""
_CONSTRAINTS: Final = (
    (pm.ErrorInfoBit.XMIT_CONSTRAINT, "xmit_constraint", pm.HAPPENED),
    (pm.ErrorInfoBit.RCV_CONSTRAINT, "rcv_constraint", pm.HAPPENED | pm.PKEY_VIOLATION),
)


def reasons_of(info_mask: int) -> tuple[Drop, ...]:
    """Return the drops that a mask of ErrorInfo means."""
    return tuple(drop for bit, drops in _KINDS.items() if info_mask & bit for drop in drops)


def error_info(port_num: int, errors: Mapping[Drop, PortError]) -> pm.ErrorInfoPort:
    """Return what is to be told of a port."""
    values: dict[str, Any] = {}
    if (error := _first(errors, pm.ErrorInfoBit.RCV)) is not None:
        drop, packet = error
        code = _RCV_CODES[drop] if len(packet) == SIZE else pm.RcvErrorCode.TOO_SHORT
        padded = packet.ljust(SIZE, b"\0")
        values |= {"rcv_status": pm.HAPPENED | code, "rcv_flit_1": padded[:8], "rcv_flit_2": padded[8:]}
    if (lrh := _header(errors, pm.ErrorInfoBit.OVERRUN)) is not None:
        values["overrun_status"] = pm.HAPPENED | lrh.sc << 2
    for kind, name, status in _CONSTRAINTS:
        if (lrh := _header(errors, kind)) is not None:
            values |= {f"{name}_status": status, f"{name}_pkey": lrh.pkey, f"{name}_slid": lrh.slid}
    if (error := _first(errors, pm.ErrorInfoBit.RELAY)) is not None:
        lrh = _header_of(error[1])
        values |= {
            "relay_status": pm.HAPPENED | lrh.rc << 4 | _RELAY_CODES[error[0]],
            "relay_slid": lrh.slid,
            "relay_sc": lrh.sc,
            "relay_dlid": lrh.dlid,
        }
    return pm.ErrorInfoPort(port_num=port_num, **values)


def _first(errors: Mapping[Drop, PortError], kind: pm.ErrorInfoBit) -> tuple[Drop, bytes] | None:
    noted = (drop for drop in _KINDS[kind] if drop in errors and errors[drop].first)
    return next(((drop, errors[drop].first) for drop in noted), None)


def _header(errors: Mapping[Drop, PortError], kind: pm.ErrorInfoBit) -> Lrh16B | None:
    error = _first(errors, kind)
    return None if error is None else _header_of(error[1])


def _header_of(packet: bytes) -> Lrh16B:
    """Return the header of a first packet; packets without a whole one are dropped as such."""
    return Lrh16B.parse(packet.ljust(SIZE, b"\0"))
