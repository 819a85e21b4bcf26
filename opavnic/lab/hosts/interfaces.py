"""The VNICs that a lab file requests, and the names of their interfaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.world.host_backends.backend import Interface
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, interface_name


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
