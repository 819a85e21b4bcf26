"""What the control API says of a fabric: faults, topology, routes, lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, TypeVar

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.targets import directions_of
from hfi_sim.fabric.table_paths import cycle, hops, paths
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.ibnet import dumps
from hfi_sim.fabric.waits import find_deadlock
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from opavnic.base.state import StateModel
from opavnic.state.fabric import (
    DirectionStatus,
    FaultsSet,
    FaultStatus,
    LanesState,
    LaneStatus,
    RoutesState,
    TopologyState,
)
from opavnic.world.world import World

MAX_WAYS: Final = 512
"""Directions whose lanes one reply holds: a view must not delay the fabric for long."""
Model = TypeVar("Model", bound=StateModel)


@dataclass(frozen=True, slots=True)
class FabricView(Generic[Model]):
    """Something to be seen of a fabric, on this machine or on another one."""

    name: str
    model: type[Model]
    of: Callable[[World, Mapping[str, str]], Model]
    """Takes the parameters of the query."""


def _faults(world: World, _query: Mapping[str, str]) -> FaultsSet:
    rows = [FaultStatus(**row) for row in world.faults.show()]
    return FaultsSet(seed=world.fabric.seed, faults=rows)


def _topology(world: World, query: Mapping[str, str]) -> TopologyState:
    """Args:  query: `name`: of the lab."""
    fabric, engine = world.fabric, "of the fabric manager"
    if world.managed_by == "builtin":
        engine, found = world.subnet_manager.engine, world.subnet_manager.cycle()
    else:
        found = cycle(fabric)
    name = query.get("name", world.topology.name)
    return TopologyState(
        lab=name,
        ibnetdiscover=dumps(Topology.of_fabric(fabric, name)),
        down=_down(fabric),
        engine=engine,
        cycle=found,
        deadlock=[] if (stuck := find_deadlock(fabric)) is None else stuck.waits,
        lids={port.name: port.lid for port in fabric.hfi_ports()},
    )


def _down(fabric: Fabric) -> list[str]:
    """Return the links that are down, and directions of others that are cut."""
    found = []
    for link in fabric.links:
        cut = [way.name for way in link.directions if not way.up]
        found += [link.name] if not link.up else cut
    return found


def _routes(world: World, query: Mapping[str, str]) -> RoutesState:
    """Args:  query: `from` and `to`: hosts or HFI ports."""
    fabric = world.fabric
    a, b = (_port(fabric.hfi_ports(), query.get(key, "")) for key in ("from", "to"))
    return RoutesState(
        source=a.name,
        to=b.name,
        lid=b.lid,
        paths=paths(fabric, a, b),
        hops=[[direction_status(hop) for hop in way] for way in hops(fabric, a, b)],
    )


def _lanes(world: World, query: Mapping[str, str]) -> LanesState:
    """Args:  query: `on`: a place, as of a fault."""
    ways = directions_of(world.fabric, query.get("on", ""))
    if len(ways) > MAX_WAYS:
        raise InputError(f"{len(ways)} directions of links match; one reply holds at most {MAX_WAYS}")
    return LanesState(directions=[direction_status(way) for way in ways])


FAULTS: Final = FabricView("faults", FaultsSet, _faults)
TOPOLOGY: Final = FabricView("topology", TopologyState, _topology)
ROUTES: Final = FabricView("routes", RoutesState, _routes)
LANES: Final = FabricView("lanes", LanesState, _lanes)
VIEWS: Final[Mapping[str, FabricView[Any]]] = {view.name: view for view in (FAULTS, TOPOLOGY, ROUTES, LANES)}


def direction_status(way: LinkDirection) -> DirectionStatus:
    """Return one direction of a link with its virtual lanes: their counters and, on a link with credits, bytes held."""
    lanes = way.lanes
    return DirectionStatus(
        name=way.name,
        up=way.up,
        rate_bps=way.rate_bps,
        queue_bytes=way.config.queue_bytes,
        vls=[
            LaneStatus(
                vl=vl,
                **asdict(counted),
                credits=None if lanes is None else lanes.credits[vl],
                waiting=None if lanes is None else lanes.waiting[vl],
                occupied=None if lanes is None else lanes.occupied[vl],
            )
            for vl, counted in enumerate(way.vl_counters())
            if lanes is None or vl < len(lanes.credits)
        ],
    )


def _port(known: Any, name: str) -> HfiPort:
    ports: dict[str, HfiPort] = {port.name: port for port in known}
    port = ports.get(name) or ports.get(f"{name}:1")
    if port is None:
        raise InputError(unknown_name("HFI port", name, ports))
    return port
