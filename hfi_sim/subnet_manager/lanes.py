"""The lanes of routes, as tables of ports: SCtoSC at switches, SCtoVLt wherever packets leave, SLtoSC at hosts.

The service channels 0 to 14 are shared out among the lanes: class 0 to `classes_of(lanes) - 1` on lane 0, the same on
lane 1, and so on. What hosts send is of the class of its service channel modulo their number, and is delivered on the
service channel of that class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hfi_sim.base.types import SC_MANAGEMENT
from hfi_sim.engine.link.config import LAST_VL, SERVICE_CHANNELS
from hfi_sim.nodes.cable import LinkPort
from hfi_sim.nodes.end_port import ONE_TO_ONE
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.routing import RouteLanes
from hfi_sim.subnet_manager.groups import SweepView

_CHANNELS: Final = SC_MANAGEMENT
"""Service channels of data that lanes share out: 0 to 14."""


def classes_of(lanes: int) -> int:
    """Return how many classes of service there are beside each other on so many lanes."""
    return _CHANNELS // lanes


def program_lanes(view: SweepView, before: int) -> int:
    """Give all ports the tables of the lanes of a view's routes; of one lane, those that ports begin with.

    Args:    before: how many lanes the ports have tables for.
    Returns: how many they have now.
    """
    routes = view.routes
    lanes = routes.lanes if routes is not None and view.graph.vls else RouteLanes()
    is_plain = lanes.count == 1
    if is_plain and before == 1:
        return 1
    for port in view.ports:
        _leave(port, lanes.count)
        port.settings.sl_to_sc = ONE_TO_ONE if is_plain else _by_class(lanes.count)
        port.settings.sc_to_sl = ONE_TO_ONE if is_plain else _back(lanes.count)
    for at, switch in enumerate(view.switches):
        cabled = [own for own in switch.ports.values() if own.link is not None]
        for own in cabled:
            _leave(own, lanes.count)
            tables = {} if is_plain else _turns(own, cabled, at, view, lanes)
            own.set_sc_to_sc({out: tables.get(out, ONE_TO_ONE) for out in {*own.sc_to_sc, *tables}})
    return lanes.count


def _leave(port: LinkPort, count: int) -> None:
    """Set the virtual lanes by which a port sends."""
    flow = None if port.link is None else port.link.direction_from(port).planned.flow
    if flow is None:
        return
    table: tuple[int, ...] = ()
    if count > 1 and flow.vls > 1:
        classes, groups = classes_of(count), max(flow.vls // count, 1)
        vls = [
            (sc % classes % groups * count + sc // classes % count) % flow.vls
            for sc in range(SERVICE_CHANNELS)
        ]
        vls[SC_MANAGEMENT] = LAST_VL
        table = tuple(vls)
    if port.sc_to_vl != table:
        port.set_sc_to_vl(table)


def _turns(
    port: SwitchPort, cabled: list[SwitchPort], at: int, view: SweepView, lanes: RouteLanes
) -> dict[int, tuple[int, ...]]:
    """Return the tables SCtoSC of what comes in at a port, by leaving port."""
    number = port.port_num
    arcs = view.graph.arcs[at]
    found: dict[int, tuple[int, ...]] = {}
    for out in (other.port_num for other in cabled if other is not port):
        if number not in arcs:
            if out in arcs:
                found[out] = _on_lanes([lanes.first.get((at, out), 0)] * lanes.count)
        elif out not in arcs:
            found[out] = _by_class(lanes.count)
        elif (at, number, out) in lanes.turns:
            found[out] = _on_lanes(lanes.turns[at, number, out])
    return found


def _on_lanes(after: Sequence[int]) -> tuple[int, ...]:
    """Return the table that leads from each lane to another. Args: after: for each lane."""
    classes = classes_of(len(after))
    table = [sc % classes + classes * after[sc // classes % len(after)] for sc in range(SERVICE_CHANNELS)]
    table[SC_MANAGEMENT] = SC_MANAGEMENT
    return tuple(table)


def _by_class(count: int) -> tuple[int, ...]:
    """Return the service channel of each class: that on lane 0."""
    return _on_lanes((0,) * count)


def _back(count: int) -> tuple[int, ...]:
    """Return the service level of each service channel: its class."""
    return tuple(sc % classes_of(count) for sc in range(SERVICE_CHANNELS))
