"""The Ethernet Managers of a scenario, one by one: the first, and standbys on hosts."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from hfi_sim.nodes.hfi import HfiPort
from opavnic.management.em_port import SmTopology, make_em
from opavnic.scenario.base import ScenarioError
from opavnic.scenario.hosts import ScenarioFabric, ScenarioHost
from vema.em.desired.election import Role
from vema.em.service.service import EthernetService

CONVERGENCE_S: Final = 60.0
HEARTBEAT_S: Final = 0.1
DEAD_AFTER_S: Final = 1.0
"""Silence of the master after which a standby takes over."""
BEST: Final = 15
"""The priority of the first manager."""


class Manager:
    """One Ethernet Manager on a port."""

    def __init__(self, scenario: ScenarioFabric, port: HfiPort, priority: int) -> None:
        """Args:  priority: of those that run, the one with the highest is the master."""
        self.port = port
        self.election = {"priority": priority, "heartbeat": HEARTBEAT_S, "dead_after": DEAD_AFTER_S}
        """The section of an EM file."""
        self.service = make_em(
            SmTopology(scenario.subnet_manager, port, host_of=scenario.world.host_of),
            port,
            clock=scenario.clock,
            wall_clock=scenario.clock.time,
        )


class EmStandby:
    """A standby Ethernet Manager on a host; see `ScenarioEm.standby`."""

    def __init__(self, host: ScenarioHost, manager: Manager) -> None:
        self.host = host
        """Its VNICs go on beside the manager."""
        self.manager = manager

    @property
    def is_master(self) -> bool:
        """Whether it has taken over."""
        return self.manager.service.core is not None and self.manager.service.role is Role.MASTER

    async def take_over(self, *, within: float = CONVERGENCE_S) -> None:
        """Wait until it has become the master, and has converged.

        Args:    within: seconds.
        Raises:  AssertionError: it has not in time.
        """
        service = self.manager.service
        if not await service.wait_for(lambda: self.is_master and service.converged, within):
            raise AssertionError(
                f"the standby manager on {self.host.name} has not taken over within {within:g} s"
            )

    def stop(self) -> None:
        """Stop it, as if its process were killed."""
        self.manager.service.halt()

    def start(self) -> None:
        """Start it again after `stop`."""
        self.manager.service.restart()


class Converging:
    """Something that has been done already, and whose consequences can be awaited."""

    def __init__(self, service: EthernetService) -> None:
        self._service = service

    def __await__(self) -> Generator[Any, None, None]:
        if not (yield from self._service.wait_converged(CONVERGENCE_S).__await__()):
            raise ScenarioError(f"the Ethernet Manager has not converged within {CONVERGENCE_S:g} s")


def cut_short(service: EthernetService) -> str:
    """Return why a manager could not do what was requested."""
    failed = service.failure
    return (
        "the Ethernet Manager was stopped" if failed is None else f"the Ethernet Manager failed ({failed!r})"
    )
