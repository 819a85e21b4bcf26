"""LNet as a part of a lab: checks the `lnet` sections of the hosts and starts the nodes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

from hfi_sim.base.text import nearest
from lnet.base.errors import LnetConfigError, NidError
from lnet.base.nid import Net
from lnet.settings.networks import parse_networks
from lnet.settings.section import LnetModel, read_targets
from opavnic.world.part import Part, PartRequest, PartWorld
from vema.em.desired.problems import KeyPath, Problem

if TYPE_CHECKING:
    from lnet.host.lab import LnetLab

log = logging.getLogger("lnet.part")


class LnetPart(Part):
    """LNet on every host with a section `lnet`. If no host has one, its routes respond with an error."""

    host_section = LnetModel
    starts_always = True

    def check(self, asked: PartRequest) -> Iterator[Problem]:
        taken: dict[str, str] = {}
        for name, section in asked.hosts.items():
            path: KeyPath = ("hosts", name, "lnet")
            host = asked.plan.hosts[name]
            yield from _address_problems(path, section, host.hfis * host.ports, taken)
            yield from _network_problems(path, section)
            try:
                read_targets(section, asked.directory)
            except LnetConfigError as error:
                yield Problem((*path, "targets"), str(error))

    @contextlib.asynccontextmanager
    async def start(self, world: PartWorld, asked: PartRequest) -> AsyncIterator[LnetLab]:
        from lnet.host.lab import LnetLab

        with LnetLab(world, asked) as running:
            if running.hosts:
                log.info("LNet on %s", ", ".join(running.hosts))
            yield running


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
    problems = [
        Problem(where, f'unknown interface "{name}" ({nearest(name, known)})')
        for group in groups
        for name in group.interfaces
        if name not in known
    ]
    named = section.bonding if isinstance(section.bonding, dict) else {}
    for text in named:
        try:
            Net.parse(text)
        except NidError as error:
            problems.append(Problem((*path, "bonding", text), str(error)))
    return problems


lnet: Final = LnetPart("lnet")
