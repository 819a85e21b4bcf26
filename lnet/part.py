"""LNet as a part of a lab: the section `lnet` of a host in the lab file, what can be wrong with it, and its start."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, Field

from hfi_sim.did_you_mean import nearest
from lnet.errors import ConfigError, NidError
from lnet.networks import parse_networks
from lnet.targets import KibTarget, parse_targets
from opavnic.files import MAX_TEXT, FileError, read_text
from opavnic.world.part import Asked, Part, PartWorld
from vema.em.problems import KeyPath, Problem
from vema.sections import PartitionKey, Section, Time

if TYPE_CHECKING:
    from lnet.lab import LnetLab

log = logging.getLogger("lnet.lab")


def _check_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f'"{text}" is not an IPv4 address such as 10.1.1.2') from None


class LnetModel(Section):
    """LNet on a host: its HFIs as the interfaces ib0, ib1, ... of networks."""

    networks: str = ""
    """As the module parameter: o2ib0(ib0,ib1),o2ib1(ib2); none: `lnetctl net add` makes them."""
    addresses: list[Annotated[str, AfterValidator(_check_ipv4)]] = Field(min_length=1, max_length=16)
    """The address of each HFI port in turn: ib0, ib1, ..."""
    targets: str | None = None
    """A targets file, from the directory of the lab file: NID IP1 ... IPN in each line."""
    pkey: PartitionKey = 0x8001
    timeout: Annotated[Time, Field(gt=0)] = 50.0
    """A message that could not be sent by then is reported failed."""
    idle_timeout: Annotated[Time, Field(gt=0)] | None = None
    """Close connections that were idle so long; none: they stay up."""
    announce: bool = False
    """Tell peers this host's addresses, and use theirs where no target says otherwise."""
    weighted: bool = False
    """Give a degraded device a share of the messages by its speed."""


class LnetPart(Part):
    """LNet on every host that has a section `lnet`; without any, its routes say so."""

    host_section = LnetModel
    starts_always = True

    def check(self, asked: Asked) -> Iterator[Problem]:
        taken: dict[str, str] = {}
        for name, section in asked.hosts.items():
            path: KeyPath = ("hosts", name, "lnet")
            host = asked.plan.hosts[name]
            yield from _address_problems(path, section, host.hfis * host.ports, taken)
            yield from _network_problems(path, section)
            try:
                read_targets(section, asked.directory)
            except ConfigError as error:
                yield Problem((*path, "targets"), str(error))

    @contextlib.asynccontextmanager
    async def start(self, world: PartWorld, asked: Asked) -> AsyncIterator[LnetLab]:
        from lnet.lab import LnetLab

        with LnetLab(world, asked) as running:
            if running.hosts:
                log.info("LNet on %s", ", ".join(running.hosts))
            yield running


def read_targets(section: LnetModel, directory: Path) -> list[KibTarget]:
    """Return the targets of the section's file; none where it names no file.

    Raises:  ConfigError: the file cannot be read, or a line of it is wrong.
    """
    if section.targets is None:
        return []
    file = directory / section.targets
    try:
        text = read_text(file, MAX_TEXT, "targets file")
    except FileError as error:
        raise ConfigError(error.name, 0, error.reason) from error
    return parse_targets(text, str(file))


def _address_problems(path: KeyPath, section: LnetModel, ports: int, taken: dict[str, str]) -> list[Problem]:
    problems = []
    count = len(section.addresses)
    if count > ports:
        problems.append(
            Problem((*path, "addresses"), f"{count} addresses for {ports} HFI ports; write hfis: {count}")
        )
    for index, addr in enumerate(section.addresses):
        interface = f"ib{index} of {path[1]}"
        if addr in taken:
            problems.append(
                Problem((*path, "addresses", index), f"{addr} is already the address of {taken[addr]}")
            )
        taken.setdefault(addr, interface)
    return problems


def _network_problems(path: KeyPath, section: LnetModel) -> list[Problem]:
    where = (*path, "networks")
    known = [f"ib{index}" for index in range(len(section.addresses))]
    try:
        groups = parse_networks(section.networks)
    except NidError as error:
        return [Problem(where, str(error))]
    return [
        Problem(where, f'unknown interface "{name}" ({nearest(name, known)})')
        for group in groups
        for name in group.interfaces
        if name not in known
    ]


lnet: Final = LnetPart("lnet")
