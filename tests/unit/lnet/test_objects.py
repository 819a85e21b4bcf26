"""The mesh of routes, the states of a device, the choice of a route, the recovery list."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.types import PortEvent
from lnet.base.nid import Nid
from lnet.objects.objects import DevState, KibDev, KibRoute, KibRoutes, RouteState, make_mesh
from lnet.routes.bonding import Connd, next_route

NID = Nid.parse("10.1.1.5@o2ib")


def devices(count: int, state: DevState = DevState.PORT_ACTIVE) -> list[KibDev]:
    return [KibDev(f"ib{i}", IPv4Address(f"10.1.1.{2 + i}"), state, 100.0) for i in range(count)]


def addresses(count: int) -> list[IPv4Address]:
    return [IPv4Address(f"10.1.1.{5 + i}") for i in range(count)]


@given(st.integers(0, 16), st.integers(0, 16))
def test_mesh_follows_the_algorithm_of_the_document(n_ips: int, n_if: int) -> None:
    ips, devs = addresses(n_ips), devices(n_if)
    mesh = make_mesh(NID, ips, devs)
    assert len(mesh) == (min(max(n_ips, n_if), 16) if n_if else 0)
    for i, route in enumerate(mesh):
        assert route.rt_addr == (ips[i % n_ips] if n_ips else NID.addr)
        assert route.rt_dev is devs[i % n_if]
    assert len({(route.rt_dev, route.rt_addr) for route in mesh}) == len(mesh)


def test_new_mesh_keeps_the_routes_that_stand_in_both() -> None:
    devs = devices(3)
    routes = KibRoutes(make_mesh(NID, addresses(3), devs))
    old = list(routes)
    gone = routes.replace(make_mesh(NID, addresses(2), devs))
    assert [str(route) for route in routes] == [
        "10.1.1.2->10.1.1.5",
        "10.1.1.3->10.1.1.6",
        "10.1.1.4->10.1.1.5",
    ]
    assert list(routes)[:2] == old[:2]
    assert gone == [old[2]]


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([(PortEvent.PORT_ACTIVE, 100.0)], DevState.PORT_ACTIVE),
        ([(PortEvent.PORT_ACTIVE, 25.0)], DevState.PORT_DEGRADE),
        ([(PortEvent.PORT_ACTIVE, 100.0), (PortEvent.PORT_ERR, 0.0)], DevState.PORT_DOWN),
        ([(PortEvent.DEVICE_FATAL, 0.0), (PortEvent.PORT_ERR, 0.0)], DevState.FATAL),
        ([(PortEvent.DEVICE_FATAL, 0.0), (PortEvent.PORT_ACTIVE, 100.0)], DevState.PORT_ACTIVE),
        ([(PortEvent.PORT_ACTIVE, 100.0), (PortEvent.LID_CHANGE, 100.0)], DevState.PORT_ACTIVE),
    ],
)
def test_device_state_follows_events(events: list[tuple[PortEvent, float]], state: DevState) -> None:
    dev = devices(1, DevState.PORT_DOWN)[0]
    for event, speed in events:
        dev.apply(event, speed, expected_gbps=100.0)
    assert dev.state is state


def make_routes(count: int) -> KibRoutes:
    return KibRoutes(make_mesh(NID, addresses(count), devices(count)))


def chosen(routes: KibRoutes, times: int, *, weighted: bool = False) -> list[str]:
    picks = [next_route(routes, weighted=weighted)[0] for _ in range(times)]
    return [route.rt_dev.name if route is not None else "" for route in picks]


@pytest.mark.parametrize("state", DevState)
def test_round_robin_skips_a_device_that_is_down_and_no_degraded_one(state: DevState) -> None:
    routes = make_routes(3)
    routes.routes[1].rt_dev.state = state
    turn = ["ib0", "ib1", "ib2"] if state.usable else ["ib0", "ib2"]
    assert chosen(routes, 6) == turn * (6 // len(turn))
    assert next_route(routes, weighted=False)[1] == []


@pytest.mark.parametrize("state", [DevState.PORT_ACTIVE, DevState.PORT_DEGRADE])
def test_disconnected_route_on_a_live_device_is_met_for_recovery(state: DevState) -> None:
    routes = make_routes(3)
    routes.routes[1].state = RouteState.DISCONNECTED
    routes.routes[1].rt_dev.state = state
    route, met = next_route(routes, weighted=False)
    assert route is routes.routes[0]
    assert met == [routes.routes[1]]


def test_no_usable_route_gives_none() -> None:
    routes = make_routes(2)
    for route in routes:
        route.rt_dev.state = DevState.PORT_DOWN
    assert next_route(routes, weighted=False) == (None, [])


def test_weighted_choice_gives_every_rail_its_share_of_messages() -> None:
    for speeds in ((100.0, 25.0), (100.0, 100.0, 25.0), (100.0, 50.0, 25.0, 25.0), (25.0, 100.0, 200.0)):
        routes = make_routes(len(speeds))
        for route, speed in zip(routes, speeds, strict=True):
            route.rt_dev.speed_gbps = speed
        turns = round(sum(speeds))
        picks = chosen(routes, 3 * turns, weighted=True)
        assert [picks.count(f"ib{rail}") for rail in range(len(speeds))] == [3 * speed for speed in speeds]


def test_weighted_choice_shares_among_the_rails_that_are_left() -> None:
    routes = make_routes(3)
    routes.routes[2].rt_dev.speed_gbps = 25.0
    chosen(routes, 5, weighted=True)
    routes.routes[0].rt_dev.state = DevState.PORT_DOWN
    picks = chosen(routes, 500, weighted=True)
    assert picks.count("ib0") == 0
    assert 399 <= picks.count("ib1") <= 401


def make_route() -> KibRoute:
    return KibRoute(NID, NID.addr, devices(1)[0])


def test_recovery_waits_longer_after_every_failure_up_to_a_limit() -> None:
    connd, route, now, waits = Connd(0.1, 1.0), make_route(), 0.0, []
    for _ in range(7):
        connd.add(route, now)
        due = connd.deadline()
        assert due is not None
        waits.append(round(due - now, 6))
        assert connd.due(due - 0.01) == []
        assert connd.due(due) == [route]
        assert connd.deadline() is None
        now = due
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_recovery_at_once_when_the_port_came_back() -> None:
    connd, route = Connd(0.1, 1.0), make_route()
    connd.add(route, 5.0, at_once=True)
    assert connd.due(5.0) == [route]


def test_recovery_forgets_routes_of_a_device_that_went_down() -> None:
    connd, route = Connd(0.1, 1.0), make_route()
    connd.add(route, 0.0)
    connd.remove_device(route.rt_dev)
    assert connd.due(99.0) == []
    assert connd.deadline() is None


def test_route_adding_again_while_it_waits_keeps_its_time() -> None:
    connd, route = Connd(0.1, 1.0), make_route()
    connd.add(route, 0.0)
    connd.add(route, 0.05)
    assert connd.deadline() == 0.1


def test_route_counts_its_time_down() -> None:
    route = make_route()
    route.went_down(10.0, "gone")
    route.went_down(11.0, "still gone")
    assert route.down_for(12.0) == 2.0
    assert route.last_error == "still gone"
    route.came_up(13.0)
    assert route.down_for(20.0) == 3.0
    assert route.last_error == ""


def test_new_mesh_goes_on_with_the_route_that_was_next() -> None:
    devs, ips = devices(3), addresses(3)
    routes = KibRoutes(make_mesh(NID, ips[:1], devs), next=1)
    routes.replace(make_mesh(NID, ips, devs))
    assert str(routes.routes[routes.next]) == "10.1.1.3->10.1.1.6", "in the place of one that is gone"
    routes.replace(make_mesh(NID, ips[1:], devs[1:]))
    assert str(routes.routes[routes.next]) == "10.1.1.3->10.1.1.6", "kept, at another place"
    routes.replace([])
    assert routes.next == 0
