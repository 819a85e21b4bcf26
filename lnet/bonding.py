"""The choice of a route for each message: round robin over usable routes, or by speed as an option.

Source: seed 004, "Run time Behavior" and "Route Recovery" (kiblnd_next_route_locked).
"""

from __future__ import annotations

from lnet.objects import KibRoute, KibRoutes, RouteState


def next_route(routes: KibRoutes, *, weighted: bool = False) -> tuple[KibRoute | None, list[KibRoute]]:
    """Return the route of the next message, and the disconnected routes to recover that were met on the way.

    A route whose device is down or fatal is skipped. One that is disconnected although its device is up is
    skipped too, and is the second part of the answer; one that is being tried again is only skipped, so that
    nobody waits for a route that has failed. None: no route can be used now.
    """
    met = [r for r in routes if r.state is RouteState.DISCONNECTED and r.rt_dev.state.usable]
    if weighted:
        return _by_speed(routes), met
    count = len(routes.routes)
    for step in range(count):
        index = (routes.next + step) % count
        route = routes.routes[index]
        if _usable(route):
            routes.next = (index + 1) % count
            return route, met
    return None, met


def _usable(route: KibRoute) -> bool:
    return route.rt_dev.state.usable and route.state.usable


def _by_speed(routes: KibRoutes) -> KibRoute | None:
    """Smooth weighted round robin: every route earns its speed, the richest pays for all."""
    usable = [route for route in routes if _usable(route)]
    if not usable:
        return None
    for route in usable:
        route.share += route.rt_dev.speed_gbps
    chosen = max(usable, key=lambda route: route.share)
    chosen.share -= sum(route.rt_dev.speed_gbps for route in usable)
    return chosen
