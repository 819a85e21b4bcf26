"""The VNICs that a lab file requests, and the names of their interfaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.world.host_backends.backend import Interface
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, VeswFacts, interface_name
from vema.em.desired.desired import VeswSection


def plan_interfaces(model: LabModel, host: str) -> list[Interface]:
    """Return the VNICs of a host, in the order of the virtual switches in the file."""
    found = []
    there = Counter[int]()
    for vesw, port in model.vnics[host]:
        nth = there[vesw.id]
        there[vesw.id] += 1
        name, addresses = interface_name(vesw.name, nth), model.addresses(vesw, host, nth)
        found.append(
            Interface(
                host,
                port.name,
                vesw,
                model.vports[vesw.id, port.name],
                name,
                addresses,
                nth,
                link_local=vesw.has_link_local,
            )
        )
    return found


def facts_of(
    model: LabModel, given: Sequence[VeswSection], name: str, vesw_id: int, host: str, nth: int
) -> VeswFacts:
    """Return what a lab knows of a virtual switch for the n-th VNIC of a host there. Args: given: those of its EM."""
    sections = [*model.vesws, *given]
    subnets = next((item.subnet for item in sections if item.id == vesw_id and item.subnet), ())
    bridged = any(vesw.id == vesw_id and model.is_bridge_port(vesw, host) for vesw in model.vesws)
    addresses = () if bridged else model.addresses_in(name, subnets, host, nth)
    link_local = all(vesw.has_link_local for vesw in model.vesws if vesw.id == vesw_id)
    return VeswFacts(name, addresses, link_local)


def avoid_taken_names(lab: str, interfaces: list[Interface], taken: Callable[[str], bool]) -> None:
    """Rename interfaces on the machine itself whose names are taken there: to LAB-blue, or HOST-blue.

    Raises:  LabError: these names are taken or too long as well.
    """
    for interface in interfaces:
        wanted = interface.title
        candidates = [wanted, f"{lab}-{wanted}", f"{interface.host}-{wanted}"]
        free = [name for name in candidates if len(name) <= INTERFACE_NAME_MAX and not taken(name)]
        others = {item.name for item in interfaces if item is not interface}
        name = next((name for name in free if name == wanted or name not in others), None)
        if name is None:
            raise LabError(
                f'an interface "{wanted}" exists on this machine, and {", ".join(candidates[1:])} are taken or longer '
                f"than {INTERFACE_NAME_MAX} characters: give the virtual switch another name"
            )
        interface.name = name
