"""The management agent (VEMA) of one HFI port: MADs in, MADs out. Sans-IO.

agent = Agent(create_vnic, opa_port_num=1, now=clock.time, send_trap=sink)
response = agent.receive(mad, pkey=0xFFFF)

As with the driver, every request gets a response: the first 40 bytes of the request with method
0x81 and a status, then the attribute. The response to a Set holds what a Get would now return.

Source: the public driver's vema_recv(), vema_get() and vema_set().
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_FULL_MEMBER, MacAddr
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MAD_SIZE, METHOD_OFFSET, MadHeader, Method
from vema.agent.vnic import CreateVnic, Vnic
from vema.attributes.attr_id import VNIC, AttrId, Value
from vema.attributes.class_port_info import CAPABILITY_TRAPS, ClassPortInfo
from vema.attributes.iface_macs import MAX_MACS, IfaceMacs
from vema.attributes.mac_entries import MacEntries
from vema.attributes.traps import Trap, TrapLimiter, TrapSink, build_trap
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import VnicUnavailableError
from vema.base.types import EMA_CLASS_VERSION, MAX_VPORT_NUM, MAX_VPORTS, MadStatus, TrapOpcode, VportNum

log = logging.getLogger("vema.agent.agent")

_ATTRIBUTE: Final = struct.Struct(">HHI")
_ATTRIBUTE_AT: Final = MadHeader.HEADER.place("attr_id").offset
_AFTER_STATUS: Final = MadHeader.HEADER.place("status").in_slice.stop
_DATA_SIZE: Final = MAD_SIZE - DATA_OFFSET_VENDOR
_RESPONSE: Final = bytes([Method.GET_RESP])
_CAP_MASK: Final = MAX_VPORTS << 8 | CAPABILITY_TRAPS
_RESPONSE_TIME: Final = 18
_UINT16: Final = 0xFFFF

Answer = tuple[int, bytes]
"""Status and attribute data; the data of an error is empty."""
Handler = Callable[[VportNum, bytes], Answer]
"""Takes the vport number and the 2008 data bytes of a request."""

_UNSUPPORTED: Final[Answer] = (MadStatus.UNSUPPORTED, b"")
_INVALID: Final[Answer] = (MadStatus.INVALID, b"")
_DENIED: Final[Answer] = (MadStatus.DENIED, b"")


@dataclass(slots=True)
class AgentCounters:
    """The counters of a port's agent."""

    gets: int = 0
    sets: int = 0
    refused: int = 0
    """Answered with a status other than 0."""
    denied: int = 0
    """Those refused for their P_Key: Sets not from full members of the management partition, Gets from outside it."""
    traps: int = 0
    traps_suppressed: int = 0
    """Not sent because of the rate limit, or because there is no sink."""


class Agent:
    """The agent of one HFI port. It owns the table of vports and the ClassPortInfo."""

    def __init__(
        self,
        create_vnic: CreateVnic,
        *,
        opa_port_num: int,
        now: Callable[[], float],
        send_trap: TrapSink,
        driver_quirks: bool = False,
        sets_need_full_member: bool = True,
        name: str = "",
    ) -> None:
        """Start without vports and without a trap sink.

        Args:  opa_port_num: number of the HFI port, from 1. now: seconds on a steady clock, for the rate limit
               of traps. driver_quirks: like the driver, state the requested number of addresses even if a MAD cannot
               hold as many. sets_need_full_member: refuse Sets without the P_Key of full members of the management
               partition, and Gets from outside this partition; the driver refuses neither. name: for the log.
        """
        self.vnics: dict[VportNum, Vnic] = {}
        self.class_port_info = ClassPortInfo()
        self.counters = AgentCounters()
        self._create_vnic = create_vnic
        self._opa_port_num = opa_port_num
        self._name = name or f"port {opa_port_num}"
        self._now = now
        self._send_trap = send_trap
        self._driver_quirks = driver_quirks
        self._sets_need_full_member = sets_need_full_member
        self._limiters: dict[VportNum, TrapLimiter] = {}
        self._trap_tid = 0
        self._gets: Mapping[int, Handler] = {
            attr_id: partial(self._get_of_vnic, attr_id.row.kind)
            if attr_id.row.get == VNIC
            else getattr(self, f"_get_{attr_id.row.get}")
            for attr_id in AttrId
            if attr_id.row.get
        }
        self._sets: Mapping[int, Handler] = {
            attr_id: getattr(self, f"_set_{attr_id.row.set}") for attr_id in AttrId if attr_id.row.set
        }

    # --- requests ------------------------------------------------------------------------------------------

    def receive(self, mad: bytes, *, pkey: int = PKEY_FULL_MANAGEMENT) -> bytes:
        """Return the response to a MAD, 2048 bytes.

        Base version, class, class version and OUI are not checked: the MAD stack filters by them.

        Args:  mad: of any length: as in the driver, whose receive buffer has 2048 bytes, it does not matter how many
               were sent. Zeros stand for those that were not. pkey: the P_Key of the request.
        """
        mad = mad[:MAD_SIZE].ljust(MAD_SIZE, b"\0")
        attr_id, _, attr_mod = _ATTRIBUTE.unpack_from(mad, _ATTRIBUTE_AT)
        status, data = self._dispatch(
            mad[METHOD_OFFSET], attr_id, VportNum(attr_mod & MAX_VPORT_NUM), mad, pkey
        )
        if status:
            self.counters.refused += 1
            log.debug("[%s] attribute %#06x: status %#06x", self._name, attr_id, status)
        # the response repeats the request up to the attribute, except for method and status
        head = (
            mad[:METHOD_OFFSET]
            + _RESPONSE
            + status.to_bytes(2, "big")
            + mad[_AFTER_STATUS:DATA_OFFSET_VENDOR]
        )
        return head + data[:_DATA_SIZE].ljust(_DATA_SIZE, b"\0")

    def _dispatch(self, method: int, attr_id: int, vport_num: VportNum, mad: bytes, pkey: int) -> Answer:
        if method == Method.GET:
            self.counters.gets += 1
            handler = self._gets.get(attr_id)
            permitted = pkey | PKEY_FULL_MEMBER == PKEY_FULL_MANAGEMENT
        elif method == Method.SET:
            self.counters.sets += 1
            handler = self._sets.get(attr_id)
            permitted = pkey == PKEY_FULL_MANAGEMENT
        else:
            return _UNSUPPORTED
        if self._sets_need_full_member and not permitted:
            self.counters.denied += 1
            return _DENIED
        return _UNSUPPORTED if handler is None else handler(vport_num, mad[DATA_OFFSET_VENDOR:])

    def _get_class_port_info(self, _vport_num: VportNum, _data: bytes) -> Answer:
        info = replace(
            self.class_port_info,
            base_version=EMA_CLASS_VERSION,
            class_version=EMA_CLASS_VERSION,
            cap_mask=_CAP_MASK,
            cap_mask2_resp_time=_RESPONSE_TIME,
        )
        return MadStatus.OK, info.build()

    def _set_class_port_info(self, vport_num: VportNum, data: bytes) -> Answer:
        self.class_port_info = ClassPortInfo.parse(data)
        return self._get_class_port_info(vport_num, data)

    def _get_vesw_port_info(self, vport_num: VportNum, _data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        info = VeswPortInfo.power_on() if vnic is None else vnic.port_info
        return MadStatus.OK, info.build()

    def _set_vesw_port_info(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        if vnic is None:
            try:
                vnic = self._create_vnic(vport_num, self.report)
            except VnicUnavailableError as error:
                log.warning("[%s vport %d] not created: %s", self._name, vport_num, error)
                return _INVALID
            self.vnics[vport_num] = vnic
            log.info("[%s vport %d] created", self._name, vport_num)
        vnic.apply(VeswPortInfo.parse(data))
        return MadStatus.OK, vnic.port_info.build()

    def _get_mac_entries(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        offset, num_entries = MacEntries.parse_range(data)
        if vnic is None or not MacEntries.range_fits(offset, num_entries):
            return _INVALID
        section = MacEntries(offset, vnic.mac_table_digest, vnic.mac_section(offset, num_entries))
        return MadStatus.OK, section.build()

    def _set_mac_entries(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        if vnic is None or not MacEntries.range_fits(*MacEntries.parse_range(data)):
            return _INVALID
        section = MacEntries.parse(data)
        vnic.update_mac_table(section.offset, section.entries, section.digest)
        return self._get_mac_entries(vport_num, data)

    def _get_ucast_macs(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        if vnic is None:
            return _INVALID
        page = self._macs(data, *vnic.ucast_macs())
        if page.start + page.num_macs >= page.total:
            vnic.ucast_macs_read()
        return MadStatus.OK, page.build()

    def _get_mcast_macs(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        return _INVALID if vnic is None else (MadStatus.OK, self._macs(data, *vnic.mcast_macs()).build())

    def _macs(self, data: bytes, macs: Sequence[MacAddr], gen_count: int) -> IfaceMacs:
        request = IfaceMacs.parse_request(data)
        wanted = request.num_macs or MAX_MACS
        if not self._driver_quirks:
            wanted = min(wanted, MAX_MACS)
        stretch = tuple(macs[request.start : request.start + wanted])
        total = len(macs) & _UINT16
        return IfaceMacs(request.start, len(stretch), total, gen_count, stretch)

    def _set_delete_vesw(self, vport_num: VportNum, data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        if vnic is None:
            return _INVALID
        vnic.reset()
        log.info("[%s vport %d] back to power-on defaults", self._name, vport_num)
        return self._get_vesw_port_info(vport_num, data)

    def _get_of_vnic(self, kind: type[Value], vport_num: VportNum, _data: bytes) -> Answer:
        vnic = self.vnics.get(vport_num)
        return _INVALID if vnic is None else (MadStatus.OK, vnic.read(kind).build())

    def forget(self, vport_num: VportNum) -> None:
        """Forget a vport whose VNIC has been removed: it has never existed."""
        self.vnics.pop(vport_num, None)
        self._limiters.pop(vport_num, None)

    # --- traps ---------------------------------------------------------------------------------------------

    def report(self, vnic: Vnic, opcode: TrapOpcode) -> None:
        """Handle a change reported by `vnic`: send a trap, if there is a sink and the rate limit permits."""
        class_port_info = self.class_port_info
        limiter = self._limiters.setdefault(vnic.vport_num, TrapLimiter())
        if not limiter.admit(self._now(), has_sink=class_port_info.trap_lid != 0):
            self.counters.traps_suppressed += 1
            return
        self._trap_tid += 1
        self.counters.traps += 1
        mad = build_trap(self._trap_tid, vnic.port_info, vnic.vport_num, self._opa_port_num, opcode)
        self._send_trap(Trap(mad, class_port_info.trap_lid, class_port_info.trap_sl))
