"""The Ethernet Managers of a scenario, one by one: the first, and standbys on hosts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.nodes.hfi import HfiPort
from opavnic.management.em_port import SmTopology, make_em
from opavnic.scenario.base import ScenarioError
from opavnic.scenario.hosts import ScenarioFabric, ScenarioHost
from opavnic.scenario.vnic import ScenarioVnic
from vema.em.core.core import EmCore
from vema.em.desired.election import Role
from vema.em.service.service import EthernetService

CONVERGENCE_S: Final = 60.0
HEARTBEAT_S: Final = 0.1
DEAD_AFTER_S: Final = 1.0
"""Silence of the master after which a standby takes over."""
BEST: Final = 15
"""The priority of the first manager."""
_ABSENT_SHOWN: Final = 4


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


def why_absent(core: EmCore, vnic: ScenarioVnic, vesw_id: int) -> str:
    """Return why a manager has not configured a member's VNIC on its virtual switch; empty if it has."""
    own = vnic.port
    if own.state is not PortState.ACTIVE:
        return f"the link of {own.name} is down"
    if own not in vnic.host.scenario.subnet_manager.ports_in_service():
        return f"the subnet manager cannot reach {own.name}"
    if not has_agent(own):
        return "its management agent is gone"
    port = core.ports.get(int(own.guid))
    if port is None or not port.in_service:
        return "the Ethernet Manager has not discovered it"
    if port.isolated:
        return f"isolated: {port.isolated}"
    if not any(vport.vesw_id == vesw_id and vport.done for vport in port.vports.values()):
        return "its management agent does not answer" if port.failures else "it is not configured"
    return ""


def not_up(
    service: EthernetService, awaited: Iterable[ScenarioVnic], why: list[str], timeout_s: float
) -> str:
    """Return which members have not come up, and why. Args:  why: of those that the manager has not configured."""
    if not why and service.converged:
        down = [vnic.name for vnic in awaited if not vnic.host.scenario.is_up(vnic)]
        why = [f"{name}: configured, but its device is not up" for name in down]
    if not why:
        return f"the Ethernet Manager has not converged within {timeout_s:g} s"
    more = [f"and {len(why) - _ABSENT_SHOWN} more"] if len(why) > _ABSENT_SHOWN else []
    return (
        f"not up within {timeout_s:g} s: {'; '.join([*why[:_ABSENT_SHOWN], *more])} "
        "(wait=False does not wait, wait=[hosts] waits only for these)"
    )


def has_agent(port: HfiPort) -> bool:
    """Return whether a port says that it has a management agent for Ethernet."""
    return CapabilityMask3.ETH_ON_FABRIC_SUPPORTED in port.capability_mask3


def em_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the form of an EM file, with hosts by name."""
    plain = dict(options)
    if "default_ports" in plain:
        hosts = plain["default_ports"]
        plain["default_ports"] = [host if isinstance(host, str) else host.name for host in hosts]
    return plain
