"""What the fabric's subnet manager tells a port whose SMA is hfi1's own, as SMPs on a directed route. Sans-IO.

The manager sets our ports by calls. For such a port, what it has set is told on: LIDs, P_Keys, tables of service
levels, buffers, then ARMED and ACTIVE, as a fabric manager does. A link that is just up may lose what comes before
the driver has seen that, or the driver may still call the port down: requests are repeated, and where the port is not
ACTIVE at the end, all is told again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final

from hfi_sim.base.clock import Clock, TimerHandle
from hfi_sim.base.errors import WireError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import (
    LID_PERMISSIVE,
    PKEY_FULL_MANAGEMENT,
    PKEY_FULL_MEMBER,
    PKEY_LIMITED_MANAGEMENT,
    SC_MANAGEMENT,
    Pkey,
    PortState,
)
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import L4, dlid_of, l4_of, sc_of
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet, parse_mad_packet
from hfi_sim.wire.mad.header import MAD_SIZE, MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from hfi_sim.wire.sma.port_info import PortInfo
from hfi_sim.wire.sma.tables import PARTITION_TABLE, PKEYS_PER_BLOCK, BufferControl

log = logging.getLogger("opavnic.kernel.hfi1")
_ONE: Final = 1 << 24 | 1
"""Attribute modifier: one port, port 1."""
_BLOCK: Final = 1 << 24
"""One block of a table, the first."""
_BEGINS: Final = 1 << 9
"""A manager begins to set the port up; without it, hfi1 refuses ARMED."""
_STATUS: Final = 0x7FFF
_REPEAT_S: Final = 0.1
_TRIES: Final = 100
"""So often before an SMA is called silent; it is then asked less often."""
_AGAIN_S: Final = 1.0
_TIDS: Final = 0x6F70617600000000
"""Its transaction ids follow, which no fabric manager's have."""
_TID_SPACE: Final = 32
_LINK_IS_UP: Final = (PortState.INIT, PortState.ARMED, PortState.ACTIVE)
_DATA_VLS: Final = 8
_DEDICATED, _SHARED, _OVERALL = 64, 0x200, 0x400
"""Buffers of a VL, and of all: more than hfi1 has under way."""

Request = tuple[Method, SubnetAttrId, int, bytes]
Dialogue = Generator[Request, bytes, bool]
"""Yields requests, is sent the data of their responses; returns whether the port is in the state that it should be."""


class Hfi1Setup:
    """The dialogue with one SMA; at any time, one request is open at most."""

    def __init__(
        self, port: HfiPort, send: Callable[[bytes], None], activate: Callable[[], None], clock: Clock
    ) -> None:
        """Prepare. Args: send: takes packets for the HFI. activate: is called between ARMED and ACTIVE."""
        self._port = port
        self._send = send
        self._activate = activate
        self._clock = clock
        self._dialogue: Dialogue | None = None
        self._tid = _TIDS
        self._tries = 0
        self._timer: TimerHandle | None = None
        self._refused: set[int] = set()
        """Attributes that were refused since the manager has changed something: a warning for each."""

    def begin(self) -> None:
        """Tell the SMA all that holds now; what was being told is given up."""
        self._refused.clear()
        self._begin()

    def _begin(self) -> None:
        self._dialogue = self._all()
        self._go_on(None)

    def end(self) -> None:
        """Await nothing more."""
        self._dialogue = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_open(self, packet: bytes) -> None:
        """Send the open request, and again where no response comes."""
        self._send(packet)
        self._tries += 1
        if self._tries == _TRIES:
            log.warning("[%s] hfi1 does not answer", self._port.name)
        wait_s = _REPEAT_S if self._tries < _TRIES else _AGAIN_S
        self._timer = self._clock.call_later(wait_s, self._send_open, packet)

    def take(self, packet: bytes) -> bool:
        """Take the response to the open request; return False where a packet is something else."""
        if l4_of(packet) != L4.FM or sc_of(packet) != SC_MANAGEMENT or dlid_of(packet) != LID_PERMISSIVE:
            return False
        try:
            _, mad = parse_mad_packet(packet)
            header = MadHeader.parse(mad)
        except WireError:
            return False
        is_answer = header.method == Method.GET_RESP and header.mgmt_class == MadClass.SUBN_DIRECTED
        if not is_answer or header.tid >> _TID_SPACE != _TIDS >> _TID_SPACE:
            return False
        if self._dialogue is None or header.tid != self._tid:
            return True
        status = header.status & _STATUS
        if status and header.attr_id not in self._refused:
            self._refused.add(header.attr_id)
            log.warning(
                "[%s] hfi1 refuses attribute %#06x: status %#06x", self._port.name, header.attr_id, status
            )
        self._go_on(mad[MadHeader.SIZE + DirectedHeader.SIZE :].ljust(MAD_SIZE, b"\0"))
        return True

    def _go_on(self, data: bytes | None) -> None:
        self._stop_timer()
        dialogue = self._dialogue
        assert dialogue is not None  # noqa: S101 - the callers have looked
        try:
            request = next(dialogue) if data is None else dialogue.send(data)
        except StopIteration as end:
            self._dialogue = None
            if not end.value:
                self._timer = self._clock.call_later(_AGAIN_S, self._begin)
        else:
            self._ask(*request)

    def _ask(self, method: Method, attribute: SubnetAttrId, modifier: int, data: bytes) -> None:
        self._tid += 1
        head = MadHeader(
            mgmt_class=MadClass.SUBN_DIRECTED,
            method=method,
            class_specific=1 << 8 | 1,  # after the first of one hop, by the switch's port
            tid=self._tid,
            attr_id=attribute,
            attr_mod=modifier,
        )
        path = bytes([0, 1]).ljust(64, b"\0")
        mad = (head.build() + DirectedHeader(initial_path=path).build() + data).ljust(MAD_SIZE, b"\0")
        where = (LID_PERMISSIVE, LID_PERMISSIVE, SC_MANAGEMENT, PKEY_FULL_MANAGEMENT)
        self._tries = 0
        self._send_open(build_fm_packet(*where, 0, 0, mad, self._port.icrc))

    def _all(self) -> Dialogue:
        port = self._port
        data = yield Method.GET, SubnetAttrId.PORT_INFO, _ONE, b""
        info = PortInfo.parse(data[: PortInfo.SIZE])
        before = info.state
        if before not in _LINK_IS_UP:
            return False
        info = replace(info, lid=port.lid, lmc=port.lmc, master_sm_lid=port.sm_lid, state=0, physical_state=0)
        yield Method.SET, SubnetAttrId.PORT_INFO, _ONE, info.build()
        table = PARTITION_TABLE.build(pkeys=in_their_places(port.pkeys))
        yield Method.SET, SubnetAttrId.PARTITION_TABLE, _BLOCK, table
        yield Method.SET, SubnetAttrId.SL_TO_SC, 0, bytes(port.settings.sl_to_sc)
        yield Method.SET, SubnetAttrId.SC_TO_SL, 0, bytes(port.settings.sc_to_sl)
        if port.state is not PortState.ACTIVE:
            return True
        if before == PortState.INIT:
            vls = ({"dedicated": _DEDICATED, "shared": _SHARED},) * _DATA_VLS
            data = yield Method.GET, SubnetAttrId.BUFFER_CONTROL, _ONE, b""
            now = BufferControl.parse(data[: BufferControl.SIZE])
            wanted = replace(now, overall_shared=_OVERALL, vls=(*vls, *now.vls[_DATA_VLS:]))
            yield Method.SET, SubnetAttrId.BUFFER_CONTROL, _ONE, wanted.build()
            armed = replace(info, state=PortState.ARMED)
            yield Method.SET, SubnetAttrId.PORT_INFO, _ONE | _BEGINS, armed.build()
        if before in (PortState.INIT, PortState.ARMED):
            self._activate()
            yield Method.SET, SubnetAttrId.PORT_INFO, _ONE, replace(info, state=PortState.ACTIVE).build()
            data = yield Method.GET, SubnetAttrId.PORT_INFO, _ONE, b""
        return PortInfo.parse(data[: PortInfo.SIZE]).state == PortState.ACTIVE


def in_their_places(pkeys: PkeyTable) -> tuple[int, ...]:
    """Return the P_Keys of a block of the partition table: a partition of data, those of management, the rest.

    IPoIB's interface is in the first, and hfi1 sends its own SMPs with the second.
    Source: hfi1, `add_full_mgmt_pkey`; opa-fm, which gives ports the same order.
    """
    data = [pkey for pkey in pkeys.entries if pkey and pkey | PKEY_FULL_MEMBER != PKEY_FULL_MANAGEMENT]
    full = PKEY_FULL_MANAGEMENT if pkeys.may_send(PKEY_FULL_MANAGEMENT) else 0
    table = (*(data[:1] or [Pkey(0)]), PKEY_LIMITED_MANAGEMENT, full, *data[1:])[:PKEYS_PER_BLOCK]
    return table + (0,) * (PKEYS_PER_BLOCK - len(table))
