"""The agents of a port: receivers of MADs that are not responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hfi_sim.base.errors import FabricError
from hfi_sim.wire.mad.header import MadHeader, is_vendor_class, oui_of


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


AgentHandler = Callable[[MadRequest], bytes | None]
"""Takes a MAD; a returned MAD goes back to the sender as the response."""


@dataclass(frozen=True, slots=True)
class AgentRegistration:
    """An agent: the class, the OUI (vendor classes only) and the methods that it takes."""

    mgmt_class: int
    oui: bytes | None
    methods: frozenset[int]
    handler: AgentHandler


class AgentTable:
    """The agents of one port; a method of a class has at most one."""

    def __init__(self) -> None:
        self._agents: dict[tuple[int, bytes | None, int], AgentRegistration] = {}

    def register(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        """Add an agent.

        Raises:  FabricError: another agent has one of these methods.
        """
        registration = AgentRegistration(mgmt_class, oui, frozenset(methods), handler)
        for method in registration.methods:
            if self.is_taken(mgmt_class, oui, (method,)):
                raise FabricError(f"method {method:#04x} of class {mgmt_class:#04x} already has an agent")
        for method in registration.methods:
            self._agents[mgmt_class, oui, method] = registration
        return registration

    def is_taken(self, mgmt_class: int, oui: bytes | None, methods: Iterable[int]) -> bool:
        """Return whether one of these methods has an agent."""
        return any((mgmt_class, oui, method) in self._agents for method in methods)

    def unregister(self, registration: AgentRegistration) -> None:
        """Remove an agent; do nothing if it has been removed."""
        for method in registration.methods:
            key = (registration.mgmt_class, registration.oui, method)
            if self._agents.get(key) is registration:
                del self._agents[key]

    def handler_of(self, header: MadHeader, mad: bytes) -> AgentHandler | None:
        """Return the handler of a MAD, or None. A MAD of a vendor class must be long enough to hold an OUI."""
        oui = oui_of(mad) if is_vendor_class(header.mgmt_class) else None
        registration = self._agents.get((header.mgmt_class, oui, header.method))
        return None if registration is None else registration.handler
