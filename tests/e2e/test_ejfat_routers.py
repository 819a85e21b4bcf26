"""The load balancer with its worker and sender behind a router, which it finds by the kernel's routes or is told of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE

import pytest

from e2e.ejfat_commands import ejfat, run_ejfat
from e2e.places import inside, ip, namespaces, veth

LINK_LOCAL = "fe80::fe"

pytestmark = pytest.mark.timeout(180)


@dataclass
class Site:
    """Addresses on both sides of a router; the load balancer's host and the far host have the first ones."""

    near: str
    far: str
    length: int
    own: str
    """Of the load balancer."""
    router: str
    far_router: str


SITES = {
    4: Site("10.7.0.1", "10.8.0.1", 24, "10.7.0.100", "10.7.0.254", "10.8.0.254"),
    6: Site("fd07::1", "fd08::1", 64, "fd07::100", "fd07::fe", "fd08::fe"),
}


@pytest.fixture
def places() -> Iterator[tuple[str, str]]:
    """The namespaces of the load balancer and of a host behind a router."""
    with namespaces("lb", "router", "far") as (lb, router, far):
        for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            assert inside(router, "sh", "-c", f"echo 1 > /proc/sys/net/{setting}").returncode == 0
        for netns, port in ((lb, "near"), (far, "far")):
            veth(router, port, netns)
            ip("link", "set", port, "up", netns=router)
            for interface in ("lo", "eth0"):  # gRPC takes IPv6 for absent where it has no loopback
                ip("link", "set", interface, "up", netns=netns)
        ip("address", "add", f"{LINK_LOCAL}/64", "dev", "near", "nodad", netns=router)
        for version, site in SITES.items():
            now = ["nodad"] if version == 6 else []
            for netns, interface, address in (
                (lb, "eth0", site.near), (router, "near", site.router),
                (router, "far", site.far_router), (far, "eth0", site.far),
            ):  # fmt: skip
                ip("address", "add", f"{address}/{site.length}", "dev", interface, *now, netns=netns)
            ip("route", "add", "default", "via", site.far_router, netns=far)
        yield lb, far


@pytest.mark.parametrize(
    ("version", "route", "gateway"),
    [
        (4, SITES[4].router, None),
        (4, None, SITES[4].router),
        (6, SITES[6].router, None),
        (6, LINK_LOCAL, None),  # as routers advertise themselves
        (6, None, SITES[6].router),
    ],
)
def test_worker_and_sender_behind_a_router_are_served(
    places: tuple[str, str], version: int, route: str | None, gateway: str | None
) -> None:
    """All that `doctor` checks, from behind the router: senders, next hop, slots, loss, whole events, ports."""
    lb, far = places
    site = SITES[version]
    # its gRPC has to find its way back; what the load balancer forwards goes by the option
    back = route or (LINK_LOCAL if version == 6 else site.router)
    where = "default" if route is not None else f"{site.far}/{32 if version == 4 else 128}"
    ip("route", "add", where, "via", back, "dev", "eth0", netns=lb)
    host = site.near if version == 4 else f"[{site.near}]"
    command = [
        "lb", "--interface", "eth0", f"--ipv{version}", site.own,
        "--listen", f"{host}:18008", "--period", "0.2", "--reserve", "run", "--senders", site.far,
        *([] if gateway is None else ["--gateway", gateway]),
    ]  # fmt: skip
    with ejfat(lb, *command, stdin=DEVNULL, stdout=PIPE) as balancer:
        uri = balancer.stdout.readline().strip()
        done = run_ejfat(far, "doctor", "--uri", uri, "--address", site.far, "--json", timeout_s=120)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"], found["checks"]
    assert {check["check"]: check["text"] for check in found["checks"]}[
        "events"
    ] == "200 of 200 events arrived whole"
