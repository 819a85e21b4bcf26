"""The agents that programs have registered on a port: which registrations are valid, and which agent gets a MAD.

Source: ib_register_mad_agent and find_mad_agent in drivers/infiniband/core/mad.c of Linux.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hfi_sim.management.umad.abi import Registration, UmadError
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MadClass, MadHeader, is_vendor_class, oui_of
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, has_rmpp

if TYPE_CHECKING:
    from hfi_sim.management.umad.file import UmadFile

MAX_AGENTS: Final = 32
"""Agents of one open file; their ids are 0 to 31."""
_CLASS_END: Final = 0x50
_OUI_SIZE: Final = 3
_VERSION_END: Final = 0x83
_SUBNET_CLASSES: Final = (MadClass.SUBN_LID, MadClass.SUBN_DIRECTED)
_HI_TID_MASK: Final = 0xFFFFFFFF

IsTaken = Callable[[int, bytes | None, Iterable[int], int], bool]
"""Whether an agent of this process has one of the methods of a class (and OUI) in a version of it already."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramAgent:
    """One agent of a program."""

    owner: UmadFile
    id: int
    """Its number among the agents of its file."""
    hi_tid: int
    """The upper half of the transaction ids of its requests, which brings it their responses."""
    asked: Registration

    @property
    def kernel_rmpp(self) -> bool:
        """Whether RMPP is done for it."""
        return bool(self.asked.rmpp_version) and not self.asked.user_rmpp


class AgentRegistry:
    """All agents of one port."""

    def __init__(self, is_taken: IsTaken) -> None:
        self._is_taken = is_taken
        self._by_tid: dict[int, ProgramAgent] = {}
        self._by_method: dict[tuple[int, int, bytes | None, int], ProgramAgent] = {}
        self._last_tid = 0

    def __len__(self) -> int:
        return len(self._by_tid)

    def register(self, owner: UmadFile, id_: int, asked: Registration) -> ProgramAgent:
        """Enter an agent.

        Raises:  UmadError: EINVAL, as the kernel says to a registration that makes no sense or whose methods are taken.
        """
        if reason := _fault(asked):
            raise UmadError(errno.EINVAL, reason)
        keys = _keys(asked)
        oui = asked.oui if is_vendor_class(asked.mgmt_class) else None
        if any(key in self._by_method for key in keys) or self._is_taken(
            asked.mgmt_class, oui, asked.methods, asked.class_version
        ):
            raise UmadError(errno.EINVAL, f"a method of class {asked.mgmt_class:#04x} has an agent already")
        agent = ProgramAgent(owner, id_, self._next_tid(), asked)
        self._by_tid[agent.hi_tid] = agent
        self._by_method.update(dict.fromkeys(keys, agent))
        return agent

    def _next_tid(self) -> int:
        while True:
            self._last_tid = self._last_tid + 1 & _HI_TID_MASK or 1
            if self._last_tid not in self._by_tid:
                return self._last_tid

    def unregister(self, agent: ProgramAgent) -> None:
        """Take an agent off."""
        del self._by_tid[agent.hi_tid]
        for key in _keys(agent.asked):
            del self._by_method[key]

    def of_response(self, header: MadHeader) -> ProgramAgent | None:
        """Return the agent whose request a response answers, by its transaction id."""
        return self._by_tid.get(header.tid >> 32)

    def of_request(self, header: MadHeader, mad: bytes) -> ProgramAgent | None:
        """Return the agent that has registered for an unsolicited MAD."""
        oui = oui_of(mad.ljust(DATA_OFFSET_VENDOR, b"\0")) if is_vendor_class(header.mgmt_class) else None
        return self._by_method.get((header.mgmt_class, header.class_version, oui, header.method))


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


def _keys(asked: Registration) -> list[tuple[int, int, bytes | None, int]]:
    if not asked.mgmt_class:
        return []
    oui = asked.oui if is_vendor_class(asked.mgmt_class) else None
    return [(asked.mgmt_class, asked.class_version, oui, method) for method in asked.methods]
