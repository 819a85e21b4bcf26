"""MADs made to be put to Linux's own driver and to our agent at once, and what may differ between the responses.

The first part is for the agent (VEMA), and its order matters: what a Set leaves is what a Get finds. The second part is
for the MAD layer, which decides before the agent or in its place. Both agents begin without vports.

Source: seed 001; drivers/infiniband/core/mad.c and mad_rmpp.c of Linux for what the MAD layer looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from hfi_sim.base.types import PKEY_LIMITED_MANAGEMENT, MacAddr
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    BASE_VERSION_OPA,
    MAD_SIZE,
    MAD_SIZE_IB,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
)
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, RmppFlag, RmppStatus, RmppType
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MAX_SECTION, SOURCE_ENTRY, MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import MAC_TABLE_ENTRIES, ConfigState

_IN_BOTH: Final = "(docs/reference/vema.md, Where we differ from the driver in both settings)"
NEED_FULL_MEMBER: Final = (
    "a Set needs a full member of the management partition (docs/reference/vema.md, Who may configure)"
)
ANSWERED_IN_FULL: Final = f"the P_Key of a response to a limited member {_IN_BOTH}"
SHORT_IS_ZERO: Final = f"what a short MAD lacks is zero {_IN_BOTH}"

_VPORT: Final = 77
_NO_VPORT: Final = 201
_ALL: Final = b"\xff" * 6
_WHOLE: Final = RmppFlag.ACTIVE | RmppFlag.FIRST | RmppFlag.LAST
_PAYLOAD: Final = 300
"""What the segments of this table say that they hold, in bytes."""


@dataclass(frozen=True, slots=True)
class MadProbe:
    """One MAD; its transaction id is set when it is sent."""

    name: str
    mad: bytes
    pkey: int | None = None
    """None: the management P_Key of a full member."""
    by_design: str = ""
    """Why the responses may differ; empty: they may not."""


def mad_probes() -> list[MadProbe]:
    """Return all, in the order in which they are to be sent."""
    return [*_agent_probes(), *_permission_probes(), *_layer_probes()]


def _mad(
    method: int,
    attr_id: int,
    data: bytes = b"",
    mod: int = _VPORT,
    *,
    rmpp: RmppHeader | None = None,
    **changes: Any,
) -> bytes:
    """Return a MAD of 2048 bytes; `changes` are fields of its headers."""
    vendor = {name: changes.pop(name) for name in ("oui", "vendor_reserved") if name in changes}
    header = MadHeader(mgmt_class=MadClass.EMA, method=method, tid=0, attr_id=attr_id, attr_mod=mod)
    parts = (
        replace(header, **changes).build(),
        (rmpp or RmppHeader()).build(),
        VendorHeader(**vendor).build(),
        data,
    )
    return b"".join(parts).ljust(MAD_SIZE, b"\0")


def _get(attr_id: int, data: bytes = b"", mod: int = _VPORT, **changes: Any) -> bytes:
    return _mad(Method.GET, attr_id, data, mod, **changes)


def _set(attr_id: int, data: bytes = b"", mod: int = _VPORT, **changes: Any) -> bytes:
    return _mad(Method.SET, attr_id, data, mod, **changes)


def _info(**changes: Any) -> bytes:
    """Return a VeswPortInfo with something in each field, those that are reserved too."""
    info = VeswPortInfo(
        fabric_id=0x301,
        vesw_id=9,
        pkey=0x8002,
        u_mcast_dlid=0xF00009,
        u_ucast_dlid=tuple(range(0x10, 0x20)),
        rc=0x01234567,
        eth_mtu=1500,
        vesw_port_num=7,
        base_mac=MacAddr(bytes.fromhex("022c00070000")),
        config_state=ConfigState.FORWARDING,
        pcp_to_sc_uc=bytes(range(8)),
        pcp_to_vl_uc=bytes(range(8)),
        pcp_to_sc_mc=bytes(range(8)),
        pcp_to_vl_mc=bytes(range(8)),
        non_vlan_sc_uc=1,
        non_vlan_vl_uc=1,
        non_vlan_sc_mc=2,
        non_vlan_vl_mc=2,
    )
    built = bytearray(replace(info, **changes).build())
    for place in VeswPortInfo.HEADER.places:
        if place.name.startswith("reserved"):
            built[place.in_slice] = bytes(
                (at * 7 + 1) & 0xFF for at in range(place.offset, place.offset + place.size)
            )
    return bytes(built)


def _section(offset: int, *entries: MacEntry | None, digest: int = 0) -> bytes:
    return MacEntries(offset, digest, entries).build()


def _range(offset: int, count: int, digest: int = 0) -> bytes:
    """Return a section's header alone; the claims need not be true."""
    return MacEntries.HEADER.pack_values({"offset": offset, "num_entries": count, "digest": digest})


def _entry(mac: str, dlid: int, side_data: int = 0, mask: bytes = _ALL) -> MacEntry:
    return MacEntry(MacAddr(bytes.fromhex(mac)), mask, dlid << 8 | side_data)


def _agent_probes() -> Iterator[MadProbe]:
    port, info, table = AttrId.CLASS_PORT_INFO, AttrId.VESW_PORT_INFO, AttrId.MAC_ENTRIES
    unicast, multicast = AttrId.IFACE_UCAST_MACS, AttrId.IFACE_MCAST_MACS
    summary, errors, delete = AttrId.SUMMARY_COUNTERS, AttrId.ERROR_COUNTERS, AttrId.DELETE_VESW
    nothing = bytes(ClassPortInfo.SIZE)
    yield MadProbe("ClassPortInfo Set, all zeros", _set(port, nothing, 0))
    yield MadProbe("ClassPortInfo Get", _get(port, mod=0))
    yield MadProbe("ClassPortInfo Set, all ones", _set(port, b"\xff" * ClassPortInfo.SIZE, 0))
    yield MadProbe("ClassPortInfo Get after it", _get(port, mod=0))
    yield MadProbe("ClassPortInfo Set, zeros again", _set(port, nothing, 0))
    yield MadProbe("ClassPortInfo Get, modifier 5", _get(port, mod=5))
    yield MadProbe("VeswPortInfo Get, no such vport", _get(info, mod=200))
    yield MadProbe("VeswPortInfo Get, vport 0, none yet", _get(info, mod=0))
    noisy: dict[str, Any] = {
        "status": 0x1234,
        "class_specific": 0x5678,
        "reserved": 0x9ABC,
        "vendor_reserved": 0xDE,
    }
    yield MadProbe("VeswPortInfo Get, other header fields set", _get(info, mod=200, **noisy))
    yield MadProbe("VeswPortInfo Set", _set(info, _info()))
    yield MadProbe("VeswPortInfo Get", _get(info))
    yield MadProbe("VeswPortInfo Get, high bits of the modifier", _get(info, mod=0xABCDEF00 | _VPORT))
    yield MadProbe("VeswPortInfo Set, vport 0", _set(info, _info(vesw_id=10), 0))
    yield MadProbe("VeswPortInfo Get, vport 0", _get(info, mod=0))
    odd: dict[str, dict[str, Any]] = {
        "MTU 0": {"eth_mtu": 0},
        "MTU 65535": {"eth_mtu": 0xFFFF},
        "a group address": {"base_mac": MacAddr(bytes.fromhex("032c00070000"))},
        "address zero": {"base_mac": MacAddr(bytes(6))},
        "state 0": {"config_state": 0},
        "state 255": {"config_state": 0xFF},
        "virtual switch 0": {"vesw_id": 0},
        "virtual switch 0xffff": {"vesw_id": 0xFFFF},
        "all as before": {},
    }
    for name, changes in odd.items():
        yield MadProbe(f"VeswPortInfo Set, {name}", _set(info, _info(**changes)))
    yield MadProbe("MacEntries Get, no such vport", _get(table, _range(0, 0), _NO_VPORT))
    yield MadProbe("MacEntries Get, no table yet", _get(table, _range(0, 5, 9)))
    five = [_entry(f"02000000000{n}", n + 1) for n in range(1, 6)]
    yield MadProbe("MacEntries Set, five", _set(table, _section(3, *five, digest=0x1234)))
    for offset, count in ((0, 10), (0, MAX_SECTION), (0, MAX_SECTION + 1), (2047, 1), (2047, 2), (0xFFFF, 1)):
        yield MadProbe(f"MacEntries Get, {count} from {offset}", _get(table, _range(offset, count)))
    too_many = _range(0, MAX_SECTION + 1, 7) + b"\x02" * 1900
    yield MadProbe(f"MacEntries Set, {MAX_SECTION + 1}", _set(table, too_many))
    beyond = _range(MAC_TABLE_ENTRIES, 1, 7) + b"\x02" * 16
    yield MadProbe("MacEntries Set, behind the table", _set(table, beyond))
    yield MadProbe("MacEntries Set, a digest alone", _set(table, _range(0, 0, 0xDEADBEEF)))
    yield MadProbe("MacEntries Set, one removed", _set(table, _section(3, None, digest=0x55)))
    yield MadProbe("MacEntries Get after it", _get(table, _range(0, 10)))
    mixed = (
        _entry("020000000077", 5),
        _entry("020000000077", 6, SOURCE_ENTRY),
        _entry("ffffffffffff", 0xF00001, 0xFF, bytes(6)),
    )
    yield MadProbe(
        "MacEntries Set, twice the same, a source, broadcast",
        _set(table, _section(10, *mixed, digest=0x1234)),
    )
    yield MadProbe("MacEntries Get after that", _get(table, _range(8, 20)))
    for name, attr_id in (("IfaceUcastMacs", unicast), ("IfaceMcastMacs", multicast)):
        yield MadProbe(f"{name} Get", _get(attr_id))
        for start, count in ((1, 1), (0, 1), (0xFFFF, 0xFFFF)):
            data = IfaceMacs.HEADER.pack_values(
                {"start": start, "num_macs": count, "total": 0, "gen_count": 0}
            )
            yield MadProbe(f"{name} Get, {count} from {start}", _get(attr_id, data))
    yield MadProbe("IfaceMcastMacs Get, no such vport", _get(multicast, mod=_NO_VPORT))
    for name, attr_id in (("SummaryCounters", summary), ("ErrorCounters", errors)):
        yield MadProbe(f"{name} Get", _get(attr_id))
        yield MadProbe(f"{name} Get, no such vport", _get(attr_id, mod=_NO_VPORT))
    yield MadProbe("SummaryCounters Set", _set(summary))
    yield MadProbe("DeleteVesw Get", _get(delete))
    yield MadProbe("DeleteVesw Set, no such vport", _set(delete, mod=_NO_VPORT))
    yield MadProbe("IfaceUcastMacs Set", _set(unicast))
    yield MadProbe("attribute 0x21 Get", _get(0x21))
    yield MadProbe("attribute 0xffff Get", _get(0xFFFF))
    yield MadProbe("attribute 0 Set", _set(0))
    yield MadProbe("DeleteVesw Set", _set(delete))
    yield MadProbe("VeswPortInfo Get after it", _get(info))
    yield MadProbe("MacEntries Get after it, no table", _get(table, _range(0, 10, 99)))
    yield MadProbe("VeswPortInfo Set after it", _set(info, _info()))
    for attr_id in AttrId:
        if attr_id != AttrId.NOTICE:
            yield MadProbe(f"{attr_id.text} Get, no data, modifier 1", _get(attr_id, mod=1))


def _permission_probes() -> Iterator[MadProbe]:
    info = AttrId.VESW_PORT_INFO
    limited = int(PKEY_LIMITED_MANAGEMENT)
    changed = _set(info, _info(eth_mtu=1400))
    yield MadProbe("Get of a limited member", _get(info), limited)
    yield MadProbe("Set of a limited member", changed, limited, NEED_FULL_MEMBER)
    yield MadProbe("Set of a full member", changed)
    yield MadProbe("Get after it", _get(info))


def _layer_probes() -> Iterator[MadProbe]:
    """Yield those for the MAD layer, each from a full member and from a limited one."""
    for name, mad in _layer_mads():
        yield MadProbe(name, mad)
        yield MadProbe(f"{name}, limited member", mad, int(PKEY_LIMITED_MANAGEMENT))
    info = AttrId.VESW_PORT_INFO
    yield MadProbe("Set of 320 bytes", _set(info, _info(), 5)[:320])
    yield MadProbe("Get after it", _get(info, mod=5))
    yield MadProbe(
        "Set of base version 1",
        _set(info, _info(), 6, base_version=BASE_VERSION_IB)[:MAD_SIZE_IB],
        None,
        SHORT_IS_ZERO,
    )
    yield MadProbe("Set that is cut in the middle", _set(info, _info(), 7)[:140], None, SHORT_IS_ZERO)


def _layer_mads() -> Iterator[tuple[str, bytes]]:
    port, info = AttrId.CLASS_PORT_INFO, AttrId.VESW_PORT_INFO
    for version in (0, 1, 0x81, 0xFF):
        yield f"class version {version:#x}", _get(port, class_version=version)
    yield "class version 0xff, a Set", _set(info, _info(), class_version=0xFF)
    yield "OUI 00066b", _get(port, oui=b"\x00\x06\x6b")
    yield "OUI 010203, a Set", _set(info, _info(), oui=b"\x01\x02\x03")
    for mgmt_class in (3, 6, 7, 0x0A, 0x20, 0x35, 0x4F, 0x50):
        yield f"class {mgmt_class:#x}", _get(port, mgmt_class=mgmt_class)
        yield f"class {mgmt_class:#x}, a Set", _set(port, mgmt_class=mgmt_class)
    yield "class 3, version 2", _get(port, mgmt_class=MadClass.SUBN_ADM, class_version=2)
    yield "class 6, version 1", _get(port, mgmt_class=6, class_version=1)
    yield "class 7, version 2", _get(port, mgmt_class=7, class_version=2)
    old: dict[str, Any] = {"base_version": BASE_VERSION_IB}
    yield "base version 1", _get(port, **old)[:MAD_SIZE_IB]
    yield "base version 1, no agent", _get(port, mgmt_class=0x0A, **old)[:MAD_SIZE_IB]
    performance = _get(port, mgmt_class=MadClass.PERFORMANCE, class_version=1, **old)
    yield "base version 1, performance management", performance[:MAD_SIZE_IB]
    yield "base version 2", _get(port, base_version=2)
    for method in (
        Method.SEND,
        Method.TRAP,
        Method.REPORT,
        Method.TRAP_REPRESS,
        Method.GET_TABLE,
        Method.DELETE,
        0x33,
    ):
        yield f"method {method:#x}", _mad(method, info)
    for size in (24, 39, 40, 112, 320, MAD_SIZE - 1):
        yield f"Get of {size} bytes", _get(port)[:size]
    yield from _rmpp_mads()


def _rmpp_mads() -> Iterator[tuple[str, bytes]]:
    info = AttrId.VESW_PORT_INFO

    def segment(method: int = Method.GET, **changes: Any) -> bytes:
        fields = {
            "version": RMPP_VERSION,
            "type": RmppType.DATA,
            "rtime_flags": _WHOLE,
            "segment": 1,
            "length": _PAYLOAD,
        }
        return _mad(method, info, rmpp=RmppHeader(**fields | changes))

    yield "segment, first and last", segment()
    yield "segment, first and last, as long as a MAD", segment(length=MAD_SIZE - 36)
    yield "segment, first", segment(rtime_flags=RmppFlag.ACTIVE | RmppFlag.FIRST)
    yield "segment, last", segment(rtime_flags=RmppFlag.ACTIVE | RmppFlag.LAST)
    yield "segment 2, nothing before", segment(rtime_flags=RmppFlag.ACTIVE, segment=2)
    yield "segment 2, first", segment(rtime_flags=RmppFlag.ACTIVE | RmppFlag.FIRST, segment=2)
    yield "segment with a status", segment(rmpp_status=7)
    for version in (0, 2, 255):
        yield f"RMPP version {version}", segment(version=version)
        yield f"RMPP version {version}, a Set", segment(Method.SET, version=version)
    for kind in (0, RmppType.ACK, RmppType.STOP, RmppType.ABORT, 5, 9):
        yield f"RMPP type {int(kind)}", segment(type=kind, rtime_flags=RmppFlag.ACTIVE)
    yield (
        "STOP, resources",
        segment(type=RmppType.STOP, rtime_flags=RmppFlag.ACTIVE, rmpp_status=RmppStatus.RESOURCES),
    )
    yield "ABORT, too long", segment(type=RmppType.ABORT, rtime_flags=RmppFlag.ACTIVE, rmpp_status=118)
    yield "ACK, window too small", segment(type=RmppType.ACK, rtime_flags=RmppFlag.ACTIVE, segment=400)
    other = RmppFlag.FIRST | RmppFlag.LAST | 0xF8
    yield (
        "not ACTIVE, other bytes",
        segment(rtime_flags=other, rmpp_status=3, segment=0x11223344, length=0x55667788),
    )
    yield "base version 0x80 and no data", _get(AttrId.SUMMARY_COUNTERS, base_version=BASE_VERSION_OPA)
