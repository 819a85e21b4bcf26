"""What the lab file says of a host's kernel besides its VNICs, and what of it waits for a VNIC. Sans-IO.

What is said of a virtual switch that the host is not in waits until it joins: its addresses, the sysctls of its
interface, routes that lead there, the qdisc of the interface. All else is to be so at any time.
"""

from __future__ import annotations

from collections.abc import Iterator

from opavnic.lab.file.host_setup import LOOPBACK, OF_INTERFACE, HostRoute, HostSetup, IpAddress
from opavnic.lab.file.model import LabModel
from opavnic.world.host_backends.given import interface_name
from vema.base.sections import Subnet


def desired_host(model: LabModel, host: str) -> tuple[HostSetup, tuple[str, ...]]:
    """Return what a lab file says of a host that has its VNICs: what is to be so now, and what waits, a line each.

    What is to be so are addresses of the loopback, sysctls, and routes and qdiscs by names of virtual switches.
    """
    said = model.hosts[host]
    if not (said.addresses or said.sysctls or said.routes or said.qdiscs):
        return HostSetup(), ()
    absent = _Absent(model, host)
    waiting = [
        f"address {address} waits for {title}"
        for title in absent.titles & said.addresses.keys()
        for address in said.addresses[title]
    ]
    sysctls = {}
    for key, value in said.sysctls.items():
        if (title := _interface_of(key)) in absent.titles:
            waiting.append(f"sysctl {key} waits for {title}")
        else:
            sysctls[key] = value
    routes = []
    for route in said.routes:
        if title := absent.awaited_by(route):
            waiting.append(f"route {route} waits for {title}")
        else:
            routes.append(route)
    qdiscs = {title: its for title, its in said.qdiscs.items() if title not in absent.titles}
    waiting += [
        f"qdisc {its.kind} waits for {title}" for title, its in said.qdiscs.items() if title not in qdiscs
    ]
    loopback = {LOOPBACK: its} if (its := said.addresses.get(LOOPBACK)) else {}
    setup = HostSetup(addresses=loopback, sysctls=sysctls, routes=routes, qdiscs=qdiscs)
    return setup, tuple(sorted(waiting))


def _interface_of(sysctl: str) -> str | None:
    found = OF_INTERFACE.fullmatch(sysctl)
    return None if found is None else found[1]


class _Absent:
    """The VNICs that a host would have on virtual switches that it is not in."""

    def __init__(self, model: LabModel, host: str) -> None:
        said = model.hosts[host]
        counts: dict[str, int] = {}
        present = set()
        self._here: list[Subnet] = []
        for vesw, _ in model.vnics[host]:
            nth = counts.setdefault(vesw.name, 0)
            counts[vesw.name] += 1
            present.add(interface_name(vesw.name, nth))
            self._here += [address.network for address in model.addresses(vesw, host, nth)]
        self._here += [address.network for address in said.addresses.get(LOOPBACK, ())]
        named = {title for title in (*said.addresses, *said.qdiscs) if title != LOOPBACK}
        self.titles = ({vesw.name for vesw in model.vesws} | named) - present
        self._there: list[tuple[str, Subnet]] = [
            (title, address.network) for title in self.titles for address in said.addresses.get(title, ())
        ]
        self._there += [
            (vesw.name, subnet)
            for vesw in model.vesws
            if vesw.name in self.titles and vesw.name not in said.addresses
            for subnet in vesw.subnet
        ]

    def awaited_by(self, route: HostRoute) -> str:
        """Return the VNIC that a route waits for; empty: none."""
        if route.dev is not None:
            return route.dev if route.dev in self.titles else ""
        return next((title for gateway in route.via for title in self._leading_to(gateway)), "")

    def _leading_to(self, gateway: IpAddress) -> Iterator[str]:
        if not any(gateway in network for network in self._here):
            yield from (title for title, network in self._there if gateway in network)


def with_devices(setup: HostSetup, names: dict[str, str]) -> HostSetup:
    """Return a setup whose routes and qdiscs name interfaces.

    Args:  names: of interfaces, by what VNICs are called in the lab.
    """
    routes = [
        route if route.dev is None else route.model_copy(update={"dev": names.get(route.dev, route.dev)})
        for route in setup.routes
    ]
    qdiscs = {names.get(title, title): its for title, its in setup.qdiscs.items()}
    return setup.model_copy(update={"routes": routes, "qdiscs": qdiscs})
