"""The subnet management agent of an HFI port or of a switch: the shell around what answers, guards and tells.

Source: of the rights to manage a node: hfi1: opa_smp_check in ud.c, opa_local_smp_check and check_mkey in mad.c;
that the M_Key is asked of the node's own programs, too: handle_outgoing_dr_smp in core/mad.c. The InfiniBand
architecture, 14.2.4.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.management.sma.answers import answer
from hfi_sim.management.sma.facts import capabilities_of, node_info_of
from hfi_sim.management.sma.node import AttributeRequest, SetLinks, SmaNode, UnansweredError
from hfi_sim.management.smp.interface import SmpRequest, SubnetInterface
from hfi_sim.nodes.end_port import PortSettings
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort, SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import BASE_VERSION_IB, MadClass, MadHeader, MadStatus, Method
from hfi_sim.wire.mad.smp_header import CLASS_VERSION, LidRoutedHeader
from hfi_sim.wire.sma.node import IbNodeInfo
from hfi_sim.wire.sma.notice import (
    BAD_KEY,
    BAD_MKEY,
    CAPABILITIES,
    LINK_STATE,
    NOTICE_DATA,
    NoticeType,
    Producer,
    SubnetNotice,
    TrapNumber,
)

REPEATS: Final = 5
"""Times that a trap is repeated if it is not repressed."""
MAX_WAITING: Final = 100
"""Traps of one notice type that wait at once; a further one is not sent.

Source: check_and_add_trap of hfi1 mad.c and RVT_MAX_TRAP_LEN of rdma_vt.h, in Linux.
"""
SHORTEST_WAIT_S: Final = 0.1


@dataclass(slots=True)
class _Trap:
    kind: int
    mad: bytes
    wait_s: float
    due: float
    repeated: int = 0


class TrapQueue:
    """The traps of one port."""

    def __init__(self) -> None:
        self._traps: dict[int, _Trap] = {}
        self._due: deque[bytes] = deque()

    def add(self, now: float, tid: int, kind: int, mad: bytes, wait_s: float) -> bool:
        """Take a trap to send; return whether it will be. Args: kind: notice type; wait_s: until it is repeated."""
        waiting = [trap for trap in self._traps.values() if trap.kind == kind]
        if len(waiting) >= MAX_WAITING or any(trap.mad[24:] == mad[24:] for trap in waiting):
            return False
        wait_s = max(wait_s, SHORTEST_WAIT_S)
        self._traps[tid] = _Trap(kind, mad, wait_s, now + wait_s)
        self._due.append(mad)
        return True

    def repress(self, tid: int) -> bool:
        """Forget a trap that a manager has acknowledged; return whether it was there."""
        return self._traps.pop(tid, None) is not None

    def clear(self) -> None:
        """Forget all traps: no manager awaits them any more."""
        self._traps.clear()
        self._due.clear()

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        return min((trap.due for trap in self._traps.values()), default=None)

    def expire(self, now: float) -> None:
        """Repeat what has waited long enough, or give it up."""
        for tid, trap in list(self._traps.items()):
            if trap.due > now:
                continue
            if trap.repeated >= REPEATS:
                del self._traps[tid]
                continue
            trap.repeated += 1
            trap.due = now + trap.wait_s
            self._due.append(trap.mad)

    def next(self) -> bytes | None:
        """Return the next trap to send, or None."""
        return self._due.popleft() if self._due else None


log = logging.getLogger("hfi_sim.management.sma")

CLASS_VERSION_IB: Final = 1
_TURN: Final = 16
_TIMEOUT_UNIT_S: Final = 4.096e-6
_RETURN_PATH: Final = 30


class SubnetManagementAgent:
    """The agent of one HFI port, or of a switch."""

    def __init__(
        self, port: HfiPort | SwitchPort0, interface: SubnetInterface, clock: Clock, set_links: SetLinks
    ) -> None:
        """Take the SMPs that end at a port. Args:  interface: its queue pair 0."""
        self._port = port
        self._node = SmaNode(port, set_links)
        self._guard = MkeyGuard(port.settings)
        self._traps = TrapQueue()
        self._next_tid = 1
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} SMA",
            step=self._step,
            deadline=self._traps.next_deadline,
            on_timer=self._traps.expire,
            turn=_TURN,
        )
        interface.agent = self._take
        if isinstance(port, HfiPort):
            port.on_announcement(self._tell_announcement)
        else:
            port.switch.on_link = self._link_changed

    def shutdown(self) -> None:
        """End: no timer is left, and no trap is sent again."""
        self._runner.shutdown()

    # --- SMPs ----------------------------------------------------------------------------------------------

    def _take(self, asked: SmpRequest) -> bool | Drop | None:
        smp, header = asked.smp, asked.request.header
        is_ib = smp.base_version == BASE_VERSION_IB
        verdict = may_manage(header.method, asked.request.pkey, is_local=asked.is_local, is_ib=is_ib)
        if verdict is SmpVerdict.DENY:
            self._tell_bad_pkey(asked)
            return Drop.MAD_DENIED
        is_managers = header.attr_id == SubnetAttrId.SM_INFO and not is_ib
        if verdict is SmpVerdict.PASS_ON or (is_managers and self._has_manager):
            return None
        now = self._runner.time()
        if not self._guard.admits(now, smp.mkey, header.method):
            self._tell_bad_mkey(asked)
            return Drop.MAD_DENIED
        if header.method == Method.TRAP_REPRESS:
            self._traps.repress(header.tid)
            self._runner.poll()
            return False
        try:
            status, data = self._answer(asked)
        except UnansweredError:
            return False
        smp.answer(status, data)
        return True

    @property
    def _has_manager(self) -> bool:
        return isinstance(self._port, HfiPort) and self._port.is_sm

    def _answer(self, asked: SmpRequest) -> tuple[int, bytes]:
        smp, header = asked.smp, asked.request.header
        if smp.base_version == BASE_VERSION_IB:
            return self._answer_ib(asked)
        if header.class_version != CLASS_VERSION:
            return MadStatus.BAD_VERSION, smp.data
        if header.method not in (Method.GET, Method.SET):
            return MadStatus.UNSUPPORTED_METHOD, b""
        question = AttributeRequest(
            attr_id=header.attr_id,
            attr_mod=header.attr_mod,
            is_set=header.method == Method.SET,
            data=smp.data,
            in_port=asked.in_port,
            shows_mkey=self._guard.shows(smp.mkey, header.method),
            is_local=asked.is_local,
        )
        return answer(self._node, question)

    def _answer_ib(self, asked: SmpRequest) -> tuple[int, bytes]:
        """Answer an SMP of base version 1, of which there is only NodeInfo: it says that the node speaks OPA."""
        header = asked.request.header
        if header.class_version != CLASS_VERSION_IB:
            return MadStatus.BAD_VERSION, b""
        if header.method != Method.GET or header.attr_id != SubnetAttrId.NODE_INFO:
            return MadStatus.UNSUPPORTED, b""
        return MadStatus.OK, IbNodeInfo.of(node_info_of(self._port, asked.in_port)).build()

    # --- traps ---------------------------------------------------------------------------------------------

    def _link_changed(self, port: SwitchPort) -> None:
        """Tell that a port of the switch has got or lost its link."""
        lid = port.switch.port0.lid
        self._trap(TrapNumber.LINK_STATE_CHANGE, NoticeType.URGENT, LINK_STATE.build(lid=lid))

    def _tell_announcement(self, port: HfiPort, described: bool) -> None:
        """Tell the capabilities, or that the node describes itself otherwise: the flag alone, as the driver does."""
        data = (
            CAPABILITIES.build(lid=port.lid, description_changed=True) if described else capabilities_of(port)
        )
        self._trap(TrapNumber.CAPABILITY_CHANGE, NoticeType.INFORMATIONAL, data)

    def _tell_bad_pkey(self, asked: SmpRequest) -> None:
        request = asked.request
        data = BAD_KEY.build(lid1=request.slid, lid2=request.dlid, key=request.pkey)
        self._trap(TrapNumber.BAD_PKEY, NoticeType.SECURITY, data)

    def _tell_bad_mkey(self, asked: SmpRequest) -> None:
        smp, request = asked.smp, asked.request
        hops = min(smp.hop_count, _RETURN_PATH) if smp.directed else 0
        data = BAD_MKEY.build(
            lid=request.slid,
            dr_slid=smp.dr_slid or 0xFFFFFFFF if smp.directed else 0,
            method=request.header.method,
            dr_notice=smp.directed,
            dr_path_truncated=smp.directed and smp.hop_count > _RETURN_PATH,
            dr_hop_count=hops,
            attr_id=request.header.attr_id,
            attr_mod=request.header.attr_mod,
            mkey=smp.mkey,
            dr_return_path=(smp.return_path if smp.directed else b"")[:hops].ljust(_RETURN_PATH, b"\0"),
        )
        self._trap(TrapNumber.BAD_MKEY, NoticeType.SECURITY, data)

    def _trap(self, number: TrapNumber, kind: NoticeType, data: bytes) -> None:
        """Send a trap to the subnet manager, if one has said where it is."""
        settings = self._port.settings
        if not settings.trap_lid or not self._port.lid:
            return
        notice = SubnetNotice(
            type=kind,
            producer=Producer.SWITCH if isinstance(self._port, SwitchPort0) else Producer.HFI,
            trap_number=number,
            issuer_lid=self._port.lid,
            data=data.ljust(NOTICE_DATA, b"\0"),
        )
        tid = self._next_tid
        self._next_tid += 1
        header = MadHeader(
            mgmt_class=MadClass.SUBN_LID,
            class_version=CLASS_VERSION,
            method=Method.TRAP,
            tid=tid,
            attr_id=SubnetAttrId.NOTICE,
        )
        mad = (header.build() + LidRoutedHeader(mkey=settings.info.mkey).build() + notice.build()).ljust(
            2048, b"\0"
        )
        wait_s = _TIMEOUT_UNIT_S * (1 << settings.info.subnet_timeout)
        if self._traps.add(self._runner.time(), tid, kind, mad, wait_s):
            log.info("[%s] trap %d: %s", self._port.name, number, number.text)
            self._runner.poll()

    def _step(self) -> bool:
        mad = self._traps.next()
        if mad is None:
            return False
        port = self._port
        if port.settings.trap_lid:
            port.send_smp(mad, port.settings.trap_lid, port.pkeys.management)
        return True


_OF_MANAGERS = frozenset({Method.TRAP, Method.REPORT, Method.REPORT_RESP, Method.GET_RESP})
"""Methods that an agent leaves to a subnet manager on its port."""
_UNGUARDED = frozenset({Method.TRAP, Method.REPORT_RESP, Method.GET_RESP})
"""Those that a limited member may send, too."""
_MOST_VIOLATIONS = 0xFFFF


class SmpVerdict(Enum):
    """What becomes of an SMP."""

    ANSWER = "answer"
    PASS_ON = "pass on"  # noqa: S105 - no password
    """It is for a subnet manager on the port, if there is one."""
    DENY = "deny"


def may_manage(method: int, pkey: int, *, is_local: bool, is_ib: bool = False) -> SmpVerdict:
    """Return what becomes of an SMP, by its method and its packet's P_Key.

    Args:    is_local: whether a program of this node asks. is_ib: whether it is of base version 1.
    Source:  hfi1's mad.c: process_subn_opa() looks at the P_Key of local SMPs, process_subn() does not.
    """
    if is_local:
        if not is_ib and pkey not in (PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT):
            return SmpVerdict.DENY
    elif method not in _UNGUARDED and pkey != PKEY_FULL_MANAGEMENT:
        return SmpVerdict.DENY
    return SmpVerdict.PASS_ON if method in _OF_MANAGERS else SmpVerdict.ANSWER


class MkeyGuard:
    """The M_Key of a node, and the lease that ends its protection after a violation."""

    def __init__(self, settings: PortSettings) -> None:
        self._settings = settings
        self._lease_ends: float | None = None

    def admits(self, now: float, mkey: int, method: int) -> bool:
        """Return whether an SMP with this key may pass; one that may not is a violation, and is counted."""
        info = self._settings.info
        if self._lease_ends is not None and now >= self._lease_ends:
            self._lease_ends = None
            info = self._settings.info = replace(info, mkey_protect=0)
        if info.mkey in (0, mkey):
            if method in (Method.GET, Method.SET, Method.TRAP_REPRESS):
                self._lease_ends = None
            return True
        if method == Method.GET and info.mkey_protect < 2:
            return True
        if method not in (Method.GET, Method.SET, Method.TRAP_REPRESS):
            return True
        self._settings.info = replace(info, mkey_violations=min(info.mkey_violations + 1, _MOST_VIOLATIONS))
        if self._lease_ends is None and info.mkey_lease_period:
            self._lease_ends = now + info.mkey_lease_period
        return False

    def shows(self, mkey: int, method: int) -> bool:
        """Return whether an answer may show the key."""
        info = self._settings.info
        return method == Method.SET or mkey == info.mkey or info.mkey_protect == 0
