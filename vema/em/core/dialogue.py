"""The dialogue with one agent: the next request to it, and the evaluation of its responses; see `steps`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Final

from hfi_sim.wire.mad.header import BASE_VERSION_OPA, Mad, Method
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.counters import FRAMES, REASONS, ErrorCounters, SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import EMA_CLASS_VERSION, EthLinkStatus
from vema.em.core.messages import attribute_in, build_request
from vema.em.core.state import Desired, Port, Vport, timeout_of
from vema.em.core.steps import Step
from vema.em.desired.mac_tables import DIRTY, EMPTY, ENTRY, SECTIONS, section_key, section_range
from vema.em.desired.plan import class_port_info, differences, is_power_on, port_info

PORT: Final = -1
"""In place of a vport number: the port itself."""

LIST_RESTARTS: Final = 32
"""Number of consecutive changes of an address list while it is read, after which its agent counts as faulty."""
DIGESTS_LOST: Final = 3
"""Number of consecutive polls that find another digest than was written, after which the agent counts as faulty."""

_PRESENT: Final = (EthLinkStatus.UP, EthLinkStatus.DOWN)
"""The link status of a vport that exists."""
_SECTION_HEADER: Final = MacEntries.HEADER.codec
_PAGE: Final = IfaceMacs.HEADER.codec


class Effect(Flag):
    """The effects of a response beyond its own vport."""

    NOTHING = 0
    ADDRESSES = auto()
    """The addresses of a member have changed."""
    RECORD = auto()
    """The record of the vport has changed."""
    LINK = auto()
    """The Ethernet link went up or down."""
    RESTARTED = auto()
    """The agent has lost its configuration."""
    CONFIGURED = auto()
    """The agent has accepted its configuration."""
    COUNTERS = auto()
    """A reading of the counters is complete."""
    TABLE = auto()
    """The MAC table no longer has the digest that it was written with."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to one agent. The sender chooses the transaction id."""

    guid: int
    epoch: int
    vport_num: int
    """`PORT` for the port itself."""
    dlid: int
    step: Step
    data: bytes
    """The attribute of a Set, or the selection of a Get."""
    timeout_s: float
    section: int = -1
    """The section of the MAC table that the request reads or writes."""

    @property
    def mad(self) -> Mad:
        """The MAD, with transaction id 0 for the sender to replace."""
        method = Method.SET if self.step.is_set else Method.GET
        return build_request(method, self.step.attr_id, self.data, attr_mod=self.attr_mod)

    @property
    def attr_mod(self) -> int:
        """The attribute modifier: the vport number."""
        return max(self.vport_num, 0)

    def answered_by(self, response: Mad) -> bytes:
        """Return the attribute data of the response.

        Raises:  AgentError: the agent refused, or this is not a response to the request.
        """
        return attribute_in(response, self.step.attr_id, self.attr_mod)


# --- the next request ----------------------------------------------------------------------------------------


def next_of_port(desired: Desired, port: Port) -> Request | None:
    """Return the next request about the port itself; None if it is ready for its vports."""
    seen = port.class_port_info
    if seen is None:
        return request_for(port, PORT, Step.IDENTIFY)
    wanted = class_port_info(desired.config, desired.sink_lid, seen)
    if wanted != seen:
        return request_for(port, PORT, Step.SUBSCRIBE, wanted.build())
    return None if port.scan is None else request_for(port, port.scan, Step.SCAN)


def next_of_vport(desired: Desired, port: Port, vport: Vport) -> Request | None:
    """Return the next request about a vport; None if there is nothing to do now."""
    info = vport.info
    if info is None or not vport.fresh:
        return request_for(port, vport.num, Step.READ)
    vesw = desired.vesws.get(vport.vesw_id)
    if vesw is None:
        return None if is_power_on(info) else request_for(port, vport.num, Step.DELETE)
    wanted = port_info(vesw.plan, port.facts, info)
    if wanted != info:
        return request_for(port, vport.num, Step.CONFIGURE, wanted.build())
    if vesw.plan.learns:
        for step, macs in ((Step.UNICAST, vport.unicast), (Step.MULTICAST, vport.multicast)):
            if not macs.current:
                return request_for(port, vport.num, step, _PAGE.pack(len(macs.pages), 0, 0, 0))
    if vesw.dirty_since is None:
        request = _next_section(desired, port, vport)
        if request is not None:
            return request
    if vport.counters_due:
        return request_for(port, vport.num, vport.counters_due[0])
    return None


def _next_section(desired: Desired, port: Port, vport: Vport) -> Request | None:
    vesw = desired.vesws[vport.vesw_id]
    digest = vesw.digest_for(port.facts.guid)
    if digest == vport.digest and not vport.damaged:
        return None
    table = vesw.table_for(port.facts.guid)
    changes = table.changes(vport.layout)
    if not changes:  # the sections are right but the digest is not: write it again
        changes = [0]
    index = changes[0]
    first, count = section_range(index)
    entries = table.section(index)
    if vport.layout is not None and (index >= len(vport.layout) or vport.layout[index] == EMPTY):
        count = len(entries.rstrip(b"\0")) // ENTRY.size + 1 if entries.strip(b"\0") else 0
        count = min(count, section_range(index)[1])
        entries = entries[: count * ENTRY.size]
    header = _SECTION_HEADER.pack(first, count, digest if len(changes) == 1 else DIRTY)
    return request_for(port, vport.num, Step.TABLE, header + entries, section=index)


def request_for(port: Port, vport_num: int, step: Step, data: bytes = b"", *, section: int = -1) -> Request:
    """Return the request of a step; `data` is the attribute of a Set, or selects the part that a Get reads."""
    facts, timeout_s = port.facts, timeout_of(port.response_time)
    return Request(facts.guid, port.epoch, vport_num, facts.lid, step, data, timeout_s, section)


# --- what an answer means ------------------------------------------------------------------------------------


def take_port_answer(port: Port, request: Request, mad: Mad) -> Vport | None:
    """Handle a response about the port itself; return a vport found by a scan, if any.

    Raises:  AgentError: the agent refused, or its response is invalid.
    """
    data = request.answered_by(mad)
    if request.step is not Step.SCAN:
        info = ClassPortInfo.parse(data)
        if (info.base_version, info.class_version) != (BASE_VERSION_OPA, EMA_CLASS_VERSION):
            raise AgentError(
                f"ClassPortInfo: versions {info.base_version:#x} and {info.class_version:#x}, not {BASE_VERSION_OPA:#x}"
            )
        if request.step is Step.SUBSCRIBE and (
            broken := differences(ClassPortInfo.parse(request.data), info)
        ):
            raise AgentError(f"ClassPortInfo: does not keep {'; '.join(broken)}")
        port.class_port_info = info
        port.response_time = info.response_time
        return None
    seen = VeswPortInfo.parse(data)
    exists = seen.eth_link_status in _PRESENT
    port.go_on_scanning(request.vport_num, exists=exists)
    if not exists or is_power_on(seen):
        return None
    found = Vport(port.facts.guid, request.vport_num, seen.vesw_id)
    _note_info(found, seen)
    return found


def take_vport_answer(vport: Vport, request: Request, mad: Mad) -> Effect:
    """Handle a response about a vport; return its effects.

    Raises:  AgentError: the agent refused, or its response is invalid.
    """
    return _TAKES[request.step](vport, request, request.answered_by(mad))


def _take_info(vport: Vport, _request: Request, data: bytes) -> Effect:
    return _note_info(vport, VeswPortInfo.parse(data))


def _take_configured(vport: Vport, request: Request, data: bytes) -> Effect:
    info = VeswPortInfo.parse(data)
    if broken := differences(VeswPortInfo.parse(request.data), info):
        raise AgentError(f"VeswPortInfo: does not keep {'; '.join(broken)}")
    return _note_info(vport, info) | Effect.CONFIGURED


def _take_deleted(vport: Vport, _request: Request, data: bytes) -> Effect:
    if not is_power_on(VeswPortInfo.parse(data)):
        raise AgentError("DeleteVesw: the vport keeps its configuration")
    vport.fresh = False
    return Effect.NOTHING


def _note_info(vport: Vport, info: VeswPortInfo) -> Effect:
    absent = info.eth_link_status not in _PRESENT
    if absent and (info.mac_tbl_digest != EMPTY or not is_power_on(info)):
        raise AgentError(
            f"VeswPortInfo: a configuration, and link status {info.eth_link_status} as if there were no vport"
        )
    effect = _judge_digest(vport, info, absent)
    before = vport.info
    if before is not None and {before.eth_link_status, info.eth_link_status} == set(EthLinkStatus):
        effect |= Effect.LINK
    if absent:
        was_there = before is not None and before.eth_link_status in _PRESENT
        if was_there or vport.unicast.read_gen is not None or vport.digest != EMPTY:
            effect |= Effect.RESTARTED  # its trap sink is gone as well, and comes before its vports
        vport.unicast.forget()
        vport.multicast.forget()
    if info.base_mac != vport.base_mac:
        vport.base_mac = info.base_mac
        effect |= Effect.ADDRESSES
    if info.mac_tbl_digest != vport.digest:
        vport.damaged = False
    if info.mac_tbl_digest != vport.digest or (info.mac_tbl_digest == EMPTY and not vport.damaged):
        vport.layout = () if info.mac_tbl_digest == EMPTY else None
    vport.digest = info.mac_tbl_digest
    vport.unicast.agent_gen = info.uc_macs_gen_count
    vport.multicast.agent_gen = info.mc_macs_gen_count
    vport.info, vport.fresh = info, True
    return effect


def _judge_digest(vport: Vport, info: VeswPortInfo, absent: bool) -> Effect:
    """Detect a table that another EM has written, and an agent that does not keep digests."""
    if info.mac_tbl_digest == vport.digest:
        if vport.info is not None and not vport.fresh:
            vport.digests_lost = 0
        return Effect.NOTHING
    if absent or vport.info is None or vport.layout is None:
        return Effect.NOTHING
    vport.digests_lost += 1
    if vport.digests_lost >= DIGESTS_LOST:
        vport.digests_lost = 0
        raise AgentError(
            f"VeswPortInfo: MAC table digest {info.mac_tbl_digest:#x}, {DIGESTS_LOST} times after another was written"
        )
    return Effect.TABLE


def _take_section(vport: Vport, request: Request, data: bytes) -> Effect:
    first, count, digest = _SECTION_HEADER.unpack_from(request.data)
    if data[: len(request.data)] != request.data:
        raise AgentError(f"MacEntries: does not keep entries {first} to {first + count - 1}")
    layout = [-1] * SECTIONS if vport.layout is None else list(vport.layout)
    layout += [EMPTY] * (request.section + 1 - len(layout))
    layout[request.section] = _section_key(request.data[_SECTION_HEADER.size :], request.section)
    while layout and layout[-1] == EMPTY:
        layout.pop()
    vport.layout, vport.digest = tuple(layout), digest
    if digest == DIRTY:
        return Effect.NOTHING
    vport.damaged = False
    return Effect.RECORD


def _section_key(entries: bytes, index: int) -> int:
    return section_key(entries.ljust(section_range(index)[1] * ENTRY.size, b"\0"))


def _take_page(vport: Vport, request: Request, data: bytes) -> Effect:
    macs = vport.unicast if request.step is Step.UNICAST else vport.multicast
    page = IfaceMacs.parse(data)
    start: int = _PAGE.unpack_from(request.data)[0]
    if page.start != start or page.num_macs != len(page.macs) or start + page.num_macs > page.total:
        raise AgentError(
            f"address list: {page.num_macs} addresses from {page.start}, of {page.total}, in a page of {len(page.macs)}"
        )
    if not page.macs and start < page.total:
        raise AgentError(f"address list: nothing from {start} on, though there are {page.total}")
    macs.agent_gen = page.gen_count
    if start and page.gen_count != macs.pages_gen:
        macs.restart()  # the list changed between two pages
        macs.restarts += 1
        if macs.restarts >= LIST_RESTARTS:
            macs.restarts = 0
            raise AgentError(f"address list: changed between two pages, {LIST_RESTARTS} times in a row")
        return Effect.NOTHING
    macs.pages_gen = page.gen_count
    macs.pages += page.macs
    if len(macs.pages) < page.total:
        return Effect.NOTHING
    changed = tuple(macs.pages) != macs.macs
    macs.macs, macs.read_gen, macs.stale = tuple(macs.pages), page.gen_count, False
    macs.restart()
    macs.restarts = 0
    return Effect.RECORD | (Effect.ADDRESSES if changed else Effect.NOTHING)


def _take_counters(vport: Vport, request: Request, data: bytes) -> Effect:
    if request.step is Step.SUMMARY:
        summary = SummaryCounters.parse(data)
        values = {name: getattr(summary, name) for name in FRAMES}
    else:
        errors = ErrorCounters.parse(data)
        values = {name: getattr(errors, name) for name in REASONS}
    vport.counters = {**vport.counters, **values}
    if request.step in vport.counters_due:
        vport.counters_due.remove(request.step)
    return Effect.NOTHING if vport.counters_due else Effect.COUNTERS


_TAKES: Final[Mapping[Step, Callable[[Vport, Request, bytes], Effect]]] = {
    Step.READ: _take_info,
    Step.DELETE: _take_deleted,
    Step.CONFIGURE: _take_configured,
    Step.UNICAST: _take_page,
    Step.MULTICAST: _take_page,
    Step.TABLE: _take_section,
    Step.SUMMARY: _take_counters,
    Step.ERRORS: _take_counters,
}


def lost(vport: Vport, request: Request) -> None:
    """Handle a request timeout; a Set may or may not have been applied."""
    vport.fresh = False
    if request.step is Step.TABLE:
        vport.layout = None
