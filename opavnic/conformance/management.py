"""Recorded conversations with hfi1's agents of subnet and performance management, held with an HFI again.

Responses are compared byte for byte, but for the hop pointer, which the link's other end has changed. Differences are
told by the fields of the attribute; which of them are meant so is declared (`BY_DESIGN`).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from hfi_sim.wire.header import Header
from hfi_sim.wire.mad.attributes import PmAttrId, SubnetAttrId
from hfi_sim.wire.mad.header import BASE_VERSION_IB, MadHeader, Method
from opavnic.conformance.asked_hfi import SMP_DATA, AskedHfi, SimulatedHfi
from opavnic.conformance.mad_sessions import ARM, Exchange, MadSession
from opavnic.conformance.result import CaseDifference, Result, read_cases
from opavnic.management.management_attributes import PERFORMANCE, SUBNET

if TYPE_CHECKING:
    from pathlib import Path

_MEMBER: Final = struct.Struct(">HHI")

_MORE_KEYS: Final = "our ports have 64 P_Keys, an HFI1 has 16"
_NO_BUFFERS: Final = "our links have buffers before a manager shares them: ARMED does not wait for that"
_PLAN: Final = "speeds are those of the planned cable"
_DEVICE: Final = "the virtual HFI has no EPROM, no module in its cage, and measures no link"
COUNTS: Final = (
    "packets and flits are counted by the virtual HFI, which is ours, with the questions of its start"
)
_TABLE: Final = "SCtoVLt, until it is set, is the link's own"


class Meant(NamedTuple):
    """A difference that is meant so."""

    attribute: int
    field: str
    why: str
    expected: object = None
    """What hfi1 says there, or what it begins with; None: anything."""

    def covers(self, attribute: int, field: str, expected: object) -> bool:
        """Return whether a difference is this one."""
        if (attribute, field) != (self.attribute, self.field):
            return False
        is_start = isinstance(self.expected, tuple) and isinstance(expected, tuple)
        begins = expected[: len(self.expected)] if is_start else expected  # type: ignore[index, arg-type]
        return self.expected is None or begins == self.expected


BY_DESIGN: Final = (
    Meant(SubnetAttrId.PARTITION_TABLE, "status", _MORE_KEYS),
    Meant(SubnetAttrId.PARTITION_TABLE, "length", _MORE_KEYS),
    Meant(SubnetAttrId.NODE_INFO, "partition_cap", _MORE_KEYS),
    Meant(
        SubnetAttrId.PARTITION_TABLE,
        "pkeys",
        "our ports begin without the default partition 0x8001, and managers' without 0xffff",
        (0x8001, 0x7FFF, 0xFFFF, *[0] * 29),
    ),
    Meant(SubnetAttrId.BUFFER_CONTROL, "overall_shared", _NO_BUFFERS, 0),
    Meant(SubnetAttrId.BUFFER_CONTROL, "vls", _NO_BUFFERS, ({"dedicated": 0, "shared": 0},) * 8),
    Meant(SubnetAttrId.PORT_INFO, "state", _NO_BUFFERS, 2),
    Meant(SubnetAttrId.PORT_STATE_INFO, "state", _NO_BUFFERS, 2),
    Meant(SubnetAttrId.CABLE_INFO, "status", _DEVICE),
    Meant(SubnetAttrId.CABLE_INFO, "length", _DEVICE),
    Meant(SubnetAttrId.PORT_INFO, "port_type", _DEVICE, 0),
    Meant(SubnetAttrId.PORT_INFO, "replay_wire_depth", _DEVICE, 0),
    Meant(SubnetAttrId.PORT_INFO, "speed_supported", _PLAN),
    Meant(SubnetAttrId.PORT_INFO, "speed_enabled", _PLAN),
    Meant(SubnetAttrId.PORT_INFO, "lmc", "a base LID that its LMC does not fit is left alone"),
    Meant(
        SubnetAttrId.PORT_INFO,
        "pkey_violations",
        "ours counts SMPs with a wrong P_Key, which hfi1 drops uncounted",
    ),
    Meant(SubnetAttrId.HFI_CONGESTION_LOG, "data", "our congestion log has no time: it is empty"),
    Meant(SubnetAttrId.SC_TO_VLT, "vls", _TABLE, tuple(bytes([*range(8), *[0] * 7, 15]).ljust(32, b"\0"))),
    Meant(SubnetAttrId.NODE_INFO, "answer", "an agent answers although its tables lead nowhere", False),
    Meant(SubnetAttrId.SL_TO_SC, "answer", "an agent answers although its tables lead nowhere", False),
)
PM_BY_DESIGN: Final = (
    *(
        Meant(attribute, name, COUNTS)
        for attribute in (PmAttrId.PORT_STATUS, PmAttrId.DATA_PORT_COUNTERS)
        for name in ("xmit_data", "rcv_data", "xmit_pkts", "rcv_pkts", "VLs")
    ),
    Meant(PmAttrId.PORT_STATUS, "link_quality", _DEVICE, 0),
    Meant(PmAttrId.DATA_PORT_COUNTERS, "link_quality", _DEVICE, 0),
    Meant(
        PmAttrId.ERROR_INFO, "overrun_status", "hfi1 calls no overrun its first one until it is cleared", 0x80
    ),
    Meant(0x12, "data", "a P_Key that does not fit is counted as an error of constraints"),
    Meant(0x1D, "data", COUNTS),
    Meant(0, "answer", "a Set of attribute 0 in InfiniBand's form is answered", False),
)

Differences = dict[tuple[int, str], tuple[object, object]]
"""What differs, by attribute and field: what hfi1 says, and what was said now."""


def differences(asked: Exchange, got: bytes | None) -> Differences:
    """Return the fields of a response that differ from the recorded one."""
    attribute = asked.attribute
    expected = asked.response
    if expected is None or got is None:
        return {} if expected is got else {(attribute, "answer"): (expected is not None, got is not None)}
    found: Differences = {}
    if len(expected) != len(got):
        found[attribute, "length"] = (len(expected), len(got))
    size = max(len(expected), len(got))
    expected, got = expected.ljust(size, b"\0"), got.ljust(size, b"\0")
    heads = [MadHeader.parse(mad) for mad in (expected, got)]
    for name in MadHeader.HEADER.names:
        if (
            name != "class_specific"
            and (pair := (getattr(heads[0], name), getattr(heads[1], name)))[0] != pair[1]
        ):
            found[attribute, name] = pair
    start = SMP_DATA if asked.is_smp else MadHeader.SIZE
    if expected[MadHeader.SIZE : start] != got[MadHeader.SIZE : start]:
        found[attribute, "route"] = (expected[MadHeader.SIZE : start], got[MadHeader.SIZE : start])
    if (attribute, "status") in found:
        return found  # then the data differ, too
    if asked.is_smp and attribute == SubnetAttrId.AGGREGATE:
        return found | _members(expected[start:], got[start:])
    if asked.is_smp:
        return found | _data(attribute, _layout(attribute), expected[start:], got[start:])
    return found | _pm_data(asked, expected[start:], got[start:])


def _layout(attribute: int) -> Header | None:
    return SUBNET[attribute].header if attribute in SUBNET else None


def _data(attribute: int, header: Header | None, expected: bytes, got: bytes) -> Differences:
    if expected == got:
        return {}
    if header is None or expected[header.size :] != got[header.size :] or len(got) < header.size:
        return {(attribute, "data"): (expected.rstrip(b"\0"), got.rstrip(b"\0"))}
    pairs = zip(header.names, header.unpack(expected), header.unpack(got), strict=True)
    return {(attribute, name): (theirs, ours) for name, theirs, ours in pairs if theirs != ours}


def _members(expected: bytes, got: bytes) -> Differences:
    """Return the differences of the attributes of an Aggregate."""
    found: Differences = {}
    at = 0
    while at + _MEMBER.size <= len(expected):
        heads = [_MEMBER.unpack_from(data, at) for data in (expected, got)]
        attribute, length, _ = heads[0]
        start = at + _MEMBER.size
        at = start + (length & 0x7F) * 8
        if heads[0] != heads[1]:
            found[SubnetAttrId.AGGREGATE, "member"] = (heads[0], heads[1])
        found |= _data(attribute, _layout(attribute), expected[start:at], got[start:at])
    return found


def _pm_data(asked: Exchange, expected: bytes, got: bytes) -> Differences:
    attribute = asked.attribute
    if expected == got:
        return {}
    kind = PERFORMANCE.get(attribute)
    start = 0 if kind is None or kind.port is None else kind.head.size
    if kind is None or asked.mad[0] == BASE_VERSION_IB or expected[:start] != got[:start]:
        return {(attribute, "data"): (expected.rstrip(b"\0"), got.rstrip(b"\0"))}
    block = kind.port or kind.head
    end = start + block.size
    found = _data(attribute, block, expected[start:end], got[start:end])
    if expected[end:] != got[end:]:
        found[attribute, "VLs"] = (expected[end:], got[end:])
    return found


def hold(session: MadSession, hfi: AskedHfi) -> Iterator[tuple[Exchange, bytes | None]]:
    """Hold a conversation; yield each exchange, and what is answered now."""
    for step in session.steps:
        if isinstance(step, Exchange):
            yield step, hfi.ask(step.mad, step.pkey)
        elif step == ARM:
            hfi.arm_neighbour()
        else:
            hfi.await_link()


Ask = Callable[[], AbstractContextManager[AskedHfi]]
"""Makes an HFI as it is when its link is up for the first time."""


def simulated() -> AbstractContextManager[AskedHfi]:
    """Return one of ours, whose link is up."""
    return nullcontext(SimulatedHfi())


def run_management(path: Path, of: str, ask: Ask) -> Result:
    """Hold the conversations of a file with an HFI.

    Args:    of: sma or pma; the others of the file are passed over.
    Raises:  VectorFileError: the file cannot be read, or holds something else. KernelError: the kernel failed.
    """
    result = Result(of, str(path))
    meant = BY_DESIGN if of == "sma" else PM_BY_DESIGN
    for session in read_cases(path, MadSession.parse):
        if session.of != of:
            continue
        with ask() as hfi:
            for number, (asked, got) in enumerate(hold(session, hfi)):
                if asked.is_smp != (of == "sma"):
                    continue
                found = differences(asked, got)
                reasons = _reasons(found, meant)
                row = result.rows.setdefault(_name(asked), Counter())
                row["equal" if not found else "by design" if reasons else "differs"] += 1
                if reasons:
                    result.by_design[reasons] += 1
                where = f"{session.name}, {_name(asked)} {asked.attr_mod:#x}, "
                result.add(
                    []
                    if reasons
                    else [CaseDifference(number, where + name, *pair) for (_, name), pair in found.items()]
                )
    return result


def _reasons(found: Differences, meant: tuple[Meant, ...]) -> str:
    """Return why these differences are meant so; empty if one of them is not, or there are none."""
    reasons: dict[str, None] = {}
    for (attribute, field), (expected, _) in found.items():
        why = [row.why for row in meant if row.covers(attribute, field, expected)]
        if not why:
            return ""
        reasons[why[0]] = None
    return "; ".join(reasons)


def _name(asked: Exchange) -> str:
    """Return what was asked for: method and attribute."""
    codes = SubnetAttrId if asked.is_smp else PmAttrId
    known = {int(code): code.text for code in codes}
    methods = {int(method): method.text for method in Method}
    attribute = known.get(asked.attribute, f"attribute {asked.attribute:#06x}")
    return f"{methods.get(asked.method, f'method {asked.method:#04x}')}({attribute})"
