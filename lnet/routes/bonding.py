"""Choose a route for each message: round robin over the usable routes or, optionally, weighted by speed.

Source: seed 004, "Run time Behavior" and "Route Recovery" (kiblnd_next_route_locked).
"""

from __future__ import annotations

from lnet.objects.objects import KibRoute, KibRoutes, RouteState


def next_route(routes: KibRoutes, *, weighted: bool = False) -> tuple[KibRoute | None, list[KibRoute]]:
    """Return the route for the next message, and the disconnected routes that should be reconnected.

    Routes whose device is down or fatal are skipped. So are routes that are disconnected although their device is
    up (these are returned for recovery), and routes that are already being probed. A message therefore never waits
    for a route that has failed.

    Returns: the route, or None if no route is usable now; the disconnected routes whose device is usable.
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
    """Smooth weighted round robin: credit each route with its speed, and charge the highest balance with the total."""
    usable = [route for route in routes if _usable(route)]
    if not usable:
        return None
    for route in usable:
        route.share += route.rt_dev.speed_gbps
    chosen = max(usable, key=lambda route: route.share)
    chosen.share -= sum(route.rt_dev.speed_gbps for route in usable)
    return chosen
