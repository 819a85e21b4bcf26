"""The load balancer as a part of a lab: `apps: [{kind: ejfat-lb, host: lb, options: {...}}]`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ejfat.base.addresses import IpAddress, parse_ip
from ejfat.live.lb_options import LbOptions
from hfi_sim.base.text import nearest
from opavnic.base.packages import advice, is_installed
from opavnic.world.part import AppRequest, Part, PartRequest, PartWorld
from vema.em.desired.problems import Problem

if TYPE_CHECKING:
    from ejfat.live.lab_app import LabLoadBalancer


class LoadBalancerPart(Part):
    """Load balancers of a lab, each on its own host; the lab file lists them as apps."""

    app_options = LbOptions

    def check(self, asked: PartRequest) -> Iterator[Problem]:
        for app in asked.apps:
            if not is_installed("ejfat"):
                yield Problem(
                    ("apps", app.index, "kind"), f"{self.name} needs more packages: {advice('ejfat')}"
                )
                continue
            if asked.plan.address(asked.plan.vesws_of(app.host)[0], app.host) is None:
                message = f"{self.name} needs a virtual switch with a subnet"
                yield Problem(("apps", app.index, "host"), message)
            yield from _option_problems(asked, app)

    @contextlib.asynccontextmanager
    async def start(self, world: PartWorld, asked: PartRequest) -> AsyncIterator[LabLoadBalancer]:
        from ejfat.live.lab_app import load_balancer

        (app,) = asked.apps
        async with load_balancer(world, app, self.name, _senders(asked, app), asked.directory) as running:
            yield running


def _option_problems(asked: PartRequest, app: AppRequest) -> Iterator[Problem]:
    from ejfat.base.errors import BadRequestError
    from ejfat.control.grpc.listening import check_listen
    from ejfat.control.members import check_name

    options: LbOptions = app.options
    for name in ("listen", "p4_listen"):
        try:
            if getattr(options, name):
                check_listen(getattr(options, name))
        except BadRequestError as error:
            yield Problem(app.path(name), str(error))
    try:
        if options.reserve:
            check_name("reservation", options.reserve)
    except BadRequestError as error:
        yield Problem(app.path("reserve"), str(error))
    if bool(options.tls_cert) != bool(options.tls_key):
        yield Problem(
            app.path("tls_cert" if options.tls_cert else "tls_key"), "give tls_cert and tls_key, or neither"
        )
    if options.p4_open and options.p4_token_file:
        yield Problem(app.path("p4_open"), "give p4_open or p4_token_file, not both")
    is_private = options.p4_listen.startswith("unix:")
    if options.p4_listen and not (options.p4_token_file or options.p4_open or is_private):
        message = "anyone could program the tables; give p4_token_file, or p4_open to allow that"
        yield Problem(app.path("p4_listen"), message)
    for version, name in ((4, "ipv4"), (6, "ipv6")):
        for place, text in enumerate(getattr(options, name)):
            try:
                parse_ip(text, version)
            except BadRequestError as error:
                yield Problem(app.path(name, place), str(error))
    for place, gateway in enumerate(options.gateway):
        if not _is_address(gateway):
            yield Problem(app.path("gateway", place), f'"{gateway}" is not an address')
    for place, sender in enumerate(options.senders):
        if sender not in asked.plan.hosts and not _is_address(sender):
            known = nearest(sender, asked.plan.hosts)
            message = f'"{sender}" is neither a host nor an address ({known})'
            yield Problem(app.path("senders", place), message)


def _senders(asked: PartRequest, app: AppRequest) -> list[IpAddress]:
    """Return the addresses that may send: those in the options, or all other hosts of the virtual switch."""
    vesw = asked.plan.vesws_of(app.host)[0]
    names = app.options.senders or [host for host in asked.plan.hosts_of(vesw) if host != app.host]
    addresses: list[IpAddress] = []
    for name in names:
        address = asked.plan.address(vesw, name) if name in asked.plan.hosts else None
        addresses.append(ip_address(name) if address is None else address.ip)
    return addresses


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


load_balancer: Final = LoadBalancerPart("ejfat-lb")
