"""The right to manage a node: the P_Key of the packet, and the M_Key of the SMP.

Source: hfi1 of Linux: opa_smp_check in ud.c, opa_local_smp_check and check_mkey in mad.c; that the M_Key is asked of
the node's own programs, too: handle_outgoing_dr_smp in core/mad.c. The InfiniBand architecture, 14.2.4.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.nodes.port_settings import PortSettings
from hfi_sim.wire.mad.header import RESPONSE_BIT, Method

_REQUESTS = frozenset({Method.GET, Method.SET, Method.TRAP_REPRESS, Method.REPORT})
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
        return SmpVerdict.ANSWER if method in _REQUESTS else SmpVerdict.PASS_ON
    if method & RESPONSE_BIT or method == Method.TRAP:
        return SmpVerdict.PASS_ON
    if pkey != PKEY_FULL_MANAGEMENT:
        return SmpVerdict.DENY
    return SmpVerdict.ANSWER if method in _REQUESTS else SmpVerdict.PASS_ON


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
