"""What can be wrong with the sections `lnet` of a lab file, found before anything is made.

The lab's reader finds this through the entry point group "opavnic.lab_checks".
"""

from __future__ import annotations

from pathlib import Path

from hfi_sim.did_you_mean import nearest
from lnet.errors import ConfigError, NidError
from lnet.networks import parse_networks
from lnet.targets import KibTarget, parse_targets
from opavnic.files import MAX_TEXT, FileError, read_text
from opavnic.lab.model import LabModel, LnetModel
from vema.em.problems import KeyPath, Problem


def check_lab(model: LabModel, directory: Path) -> list[Problem]:
    """Return the problems of all sections `lnet`; targets files are looked for in `directory`."""
    problems: list[Problem] = []
    taken: dict[str, str] = {}
    for name, host in model.hosts.items():
        if host.lnet is None:
            continue
        path: KeyPath = ("hosts", name, "lnet")
        problems += _address_problems(path, host.lnet, host.hfis * host.ports, taken)
        problems += _network_problems(path, host.lnet)
        try:
            read_targets(host.lnet, directory)
        except ConfigError as error:
            problems.append(Problem((*path, "targets"), str(error)))
    return problems


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
