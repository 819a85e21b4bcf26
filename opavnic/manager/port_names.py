"""The names of ports as nodes describe themselves, `node1 hfi1_0`, and what is wrong with the names of a configuration.

The first word of a description is the host, the number at its end the HFI; hosts with several HFIs have h1, h1.2, ...,
as in labs. The whole description names the first port of its HFI as well, and with :PORT any. Sans-IO.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hfi_sim.base.text import hint
from hfi_sim.management.sa.picture import SaPort
from vema.em.desired.desired import EmConfig
from vema.em.desired.ports import PortFacts, named_port
from vema.em.desired.ranges import ALL

_NUMBER: Final = re.compile(r"_(\d{1,3})$", re.ASCII)


class DescribedPorts:
    """A `vema.em.service.administered_subnet.PortNames` of a real fabric."""

    open_ended: Final = True

    def __init__(self, only: Sequence[str] = ()) -> None:
        """Args:  only: hosts, HFIs, ports or GUIDs; all others are left alone. Empty: none is."""
        self.only = tuple(only)
        self._seen: Mapping[int, SaPort] | None = None
        self._names: list[PortFacts] = []
        self._silent: list[PortFacts] = []
        """Ports without Ethernet."""
        self._hosts: set[str] = set()
        """All hosts, those too that `only` leaves out."""
        self._twice: dict[str, list[int]] = {}
        """Names that several ports bear, with the GUIDs of these."""

    def of(self, seen: Mapping[int, SaPort]) -> list[PortFacts]:
        """Return the ports that announce Ethernet."""
        if seen is not self._seen:
            self._seen = seen
            self._read(seen)
        return self._names

    def _read(self, seen: Mapping[int, SaPort]) -> None:
        named = {guid: port_name(port) for guid, port in seen.items()}
        counts = Counter(name.name for name in named.values())
        self._twice = {}
        self._names, self._silent = [], []
        self._hosts = {name.host for name in named.values()}
        for guid, name in named.items():
            if counts[name.name] > 1:
                self._twice.setdefault(name.name, []).append(guid)
                own = f"{guid:#018x}"
                name = named_port(guid, f"{own}:{name.opa_port_num}", own, own, name.opa_port_num)
            if self.only and not self.only_has(name):
                continue
            (self._names if seen[guid].carries_ethernet else self._silent).append(name)

    def only_has(self, name: PortFacts) -> bool:
        """Return whether a port is among those that the manager keeps to."""
        return not {*labels_of(name)}.isdisjoint(self.only)

    def trouble(self, config: EmConfig) -> list[str]:
        """Return what is wrong with the names in a configuration, given the ports of the last reading; each once."""
        if self._seen is None:
            return []
        there = {label for name in self._names for label in labels_of(name)}
        mute = {label: name for name in self._silent for label in labels_of(name)}
        found = list(self._ambiguous())
        missing: dict[str, list[str]] = {}
        for vesw in config.vesws:
            for member in () if vesw.members == ALL else vesw.members:
                if member not in there:
                    missing.setdefault(member, []).append(vesw.name)
        known = sorted({name.host for name in self._names})
        for number, (member, vesws) in enumerate(missing.items()):
            whose = f"member of {', '.join(vesws)}"
            if member in mute:
                found.append(
                    f"{member} ({whose}): its port {mute[member].name} does not announce Ethernet: is opa_vnic loaded "
                    "there?"
                )
            elif (bearers := self._twice.get(member) or self._twice.get(f"{member}:1")) is not None:
                guids = ", ".join(f"{guid:#018x}" for guid in bearers)
                found.append(
                    f"{member} ({whose}): {len(bearers)} ports are called so: name one by its GUID ({guids})"
                )
            elif not self.only or member in self.only:
                found.append(
                    f"{member} ({whose}): no port in service is called so: it is off, or another is meant"
                    f"{hint(member, known, number)}"
                )
        return found

    def _ambiguous(self) -> Iterator[str]:
        for name, guids in self._twice.items():
            shown = ", ".join(f"{guid:#018x}" for guid in guids[:4])
            more = f" and {len(guids) - 4} more" if len(guids) > 4 else ""
            yield f"{len(guids)} ports describe themselves as {name} and are known by their GUIDs alone: {shown}{more}"

    def only_unknown(self) -> list[str]:
        """Return what `only` names and no port is called, a line each with the nearest name."""
        labels = {label for name in (*self._names, *self._silent) for label in labels_of(name)} | {
            *self._twice
        }
        known = sorted(self._hosts)
        return [
            f"--only {name}: no port in service is called so: it is off, or another is meant{hint(name, known, number)}"
            for number, name in enumerate(name for name in self.only if name not in labels)
        ]

    def left_out(self, config: EmConfig) -> list[str]:
        """Return the members of a configuration that `only` leaves out."""
        if not self.only:
            return []
        kept = {label for name in (*self._names, *self._silent) for label in labels_of(name)} | {*self.only}
        return sorted(
            {m for vesw in config.vesws if vesw.members != ALL for m in vesw.members if m not in kept}
        )


def port_name(port: SaPort) -> PortFacts:
    """Return what a port is called by the description of its node."""
    text = " ".join(port.description.replace("\0", " ").split())
    host, _, device = text.partition(" ")
    host = host or f"{port.guid:#018x}"
    number = int(found[1]) if (found := _NUMBER.search(device)) is not None else 0
    hfi = host if number == 0 else f"{host}.{number + 1}"
    aliases = (f"{text}:{port.opa_port_num}", *((text,) if port.opa_port_num == 1 and text != host else ()))
    return named_port(
        port.guid, f"{hfi}:{port.opa_port_num}", hfi, host, port.opa_port_num, aliases if text else ()
    )


def labels_of(name: PortFacts) -> tuple[str, ...]:
    """Return all names that mean a port, its host and HFI among them."""
    return (name.hfi, name.host, *name.labels)
