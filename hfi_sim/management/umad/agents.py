"""The agents that programs have registered on a port: which registrations are valid.

Source: ib_register_mad_agent in drivers/infiniband/core/mad.c of Linux.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hfi_sim.management.mad.sends import SendKey
from hfi_sim.management.umad.abi import Registration, UmadError
from hfi_sim.wire.mad.header import MadClass, is_vendor_class
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, has_rmpp

if TYPE_CHECKING:
    from hfi_sim.management.umad.file import UmadFile

MAX_AGENTS: Final = 32
"""Agents of one open file; their ids are 0 to 31."""
_CLASS_END: Final = 0x50
_OUI_SIZE: Final = 3
_VERSION_END: Final = 0x83
_SUBNET_CLASSES: Final = (MadClass.SUBN_LID, MadClass.SUBN_DIRECTED)


@dataclass(frozen=True, slots=True, eq=False)
class ProgramAgent:
    """One agent of a program."""

    owner: UmadFile
    id: int
    """Its number among the agents of its file."""
    hi_tid: int
    """The upper half of the transaction ids of its requests, which brings it their responses."""
    asked: Registration
    waiting: dict[SendKey, SendKey] = field(default_factory=dict)
    """Keys in the MAD stack of what it has sent and what waits. A request has none twice, whomever it asks."""

    @property
    def kernel_rmpp(self) -> bool:
        """Whether RMPP is done for it."""
        return bool(self.asked.rmpp_version) and not self.asked.user_rmpp


def check(asked: Registration) -> None:
    """Raise UmadError where the kernel refuses a registration for what it says: EINVAL."""
    if reason := _fault(asked):
        raise UmadError(errno.EINVAL, reason)


def _fault(asked: Registration) -> str:
    """Return why the kernel refuses a registration; empty: it does not."""
    if asked.mgmt_class and asked.oui is not None and len(asked.oui) > _OUI_SIZE:
        return f"OUI 0x{asked.oui.hex()} has more than 24 bits"
    if asked.rmpp_version not in (0, RMPP_VERSION):
        return f"RMPP version {asked.rmpp_version}"
    if not asked.mgmt_class:
        return "RMPP of one's own, but no class" if asked.user_rmpp else ""
    if asked.class_version >= _VERSION_END:
        return f"class version {asked.class_version:#04x}"
    if asked.mgmt_class >= _CLASS_END and asked.mgmt_class != MadClass.SUBN_DIRECTED:
        return f"class {asked.mgmt_class:#04x}"
    if is_vendor_class(asked.mgmt_class) and not any(asked.oui or b""):
        return "a vendor class without OUI"
    if asked.rmpp_version and not has_rmpp(asked.mgmt_class):
        return f"class {asked.mgmt_class:#04x} has no RMPP"
    if (asked.mgmt_class in _SUBNET_CLASSES) != (asked.qpn == 0):
        return f"class {asked.mgmt_class:#04x} is not that of queue pair {asked.qpn}"
    return ""
