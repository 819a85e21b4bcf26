"""The agents of a port: receivers of MADs that are not responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, HfiSimError
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    DATA_OFFSET_VENDOR,
    MAD_SIZE_IB,
    SMP_CLASSES,
    Mad,
    MadHeader,
    MadStatus,
    Method,
    is_vendor_class,
    mad_size,
    oui_of,
)


class RefusedError(HfiSimError):
    """A request that an agent answers with a status instead of what was asked for."""

    def __init__(self, status: int = MadStatus.INVALID, data: bytes = b"") -> None:
        super().__init__(f"status {status:#06x}")
        self.status = status
        self.data = data
        """What the response shows all the same."""


@dataclass(frozen=True, slots=True)
class MadRequest:
    """A MAD that arrived, with its source and destination as the packet gives them."""

    mad: bytes
    header: MadHeader
    slid: int
    pkey: int
    sl: int
    """Its service level: the port's SCtoSL table gives it for the service channel of the packet."""
    src_qp: int
    dlid: int = 0
    """The LID that it was sent to: one of the port's."""
    is_9b: bool = False
    """Whether it came as a 9B packet: its response goes as one, too."""

    def whole(self) -> MadRequest:
        """Return the same as an agent finds it in a receive buffer: zeros follow where less was sent.

        Differs: what stands there in the kernel is left from earlier MADs.
        """
        size = mad_size(self.header.base_version)
        return self if len(self.mad) >= size else replace(self, mad=self.mad.ljust(size, b"\0"))


Done = Callable[[Mad | None], None]
"""Takes what comes of a request, once: the response, or None where there is none after the last retry."""

AgentHandler = Callable[[MadRequest], bytes | Drop | None]
"""Takes a MAD; a returned MAD goes back to the sender as the response. A Drop says why the MAD is dropped."""


@dataclass(frozen=True, slots=True)
class AgentRegistration:
    """An agent: the class, the OUI (vendor classes only) and the methods that it takes."""

    mgmt_class: int
    oui: bytes | None
    methods: frozenset[int]
    handler: AgentHandler
    class_version: int | None = None
    """The only version of the class that it takes; None: any."""
    rmpp: bool = False
    """Whether the stack does RMPP for it, as for agents of the kernel that register with RMPP version 1."""
    of_program: bool = False
    """Whether it stands for an agent of a program: that gets a MAD as long as it came."""

    def shares_versions(self, other: AgentRegistration) -> bool:
        """Return whether both take MADs of some version of the class."""
        return None in (self.class_version, other.class_version) or self.class_version == other.class_version


class AgentTable:
    """The agents of one port; a method of a version of a class has at most one, and one of a program beside it."""

    def __init__(self) -> None:
        self._agents: dict[tuple[int, bytes | None], list[AgentRegistration]] = {}
        """By class and OUI, those of programs last; few for each, while some agents take all 128 methods."""

    def register(self, agent: AgentRegistration) -> None:
        """Add an agent; one of this process comes before those of programs.

        Raises:  FabricError: another agent has one of its methods.
        """
        others = self._agents.setdefault((agent.mgmt_class, agent.oui), [])
        for other in others:
            passed = other.of_program and not agent.of_program
            if not passed and (taken := agent.methods & other.methods) and agent.shares_versions(other):
                raise FabricError(
                    f"method {min(taken):#04x} of class {agent.mgmt_class:#04x} already has an agent"
                )
        others.insert(len(others) if agent.of_program else 0, agent)

    def unregister(self, registration: AgentRegistration) -> None:
        """Remove an agent; do nothing if it has been removed."""
        key = registration.mgmt_class, registration.oui
        kept = [agent for agent in self._agents.get(key, ()) if agent is not registration]
        if kept:
            self._agents[key] = kept
        else:
            self._agents.pop(key, None)

    def of(self, header: MadHeader, mad: bytes) -> AgentRegistration | None:
        """Return the agent of a MAD, or None. One that ends before its OUI is of none."""
        oui = oui_of(mad.ljust(DATA_OFFSET_VENDOR, b"\0")) if is_vendor_class(header.mgmt_class) else None
        for agent in self._agents.get((header.mgmt_class, oui), ()):
            if header.method in agent.methods and agent.class_version in (None, header.class_version):
                return agent
        return None


def unsupported(request: MadRequest) -> bytes | None:
    """Return the answer to a Get or Set that has no agent: status 0x000c, the header alone in base version 0x80.

    Source: generate_unmatched_resp of Linux, and hfi1. Of queue pair 0 hfi1 answers all Gets and Sets itself.
    """
    header = request.header
    if header.method not in (Method.GET, Method.SET) or header.mgmt_class in SMP_CLASSES:
        return None
    answer = replace(header, method=Method.GET_RESP, status=MadStatus.UNSUPPORTED).build()
    if header.base_version == BASE_VERSION_IB:
        answer += request.mad[MadHeader.SIZE : MAD_SIZE_IB]
    return answer
