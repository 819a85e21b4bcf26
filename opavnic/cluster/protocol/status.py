"""Joins the state of each machine's share into the state of the whole lab. Pure: models in, models out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hfi_sim.engine.link.rule import PACKET_KINDS
from opavnic.base.state import counters_of
from opavnic.state.fabric import FaultsSet, FaultStatus
from opavnic.state.lab import ClusterStatus, Drops, LabState, LinkStatus, MachineStatus, SlowestMachine

MOST_LATE_MS: Final = 100.0
"""Lateness of an event loop that counts as its limit: people and managers notice it."""
MOST_WAITING: Final = 5000
"""Waiting packets that count as the limit of a link: little less than fit, of 1500 bytes each."""
_DROP: Final = "drop_"
"""Begins the counters of drops by reason."""
_PACKET_KINDS: Final = frozenset(kind.value for kind in PACKET_KINDS)


def fold(shares: Mapping[str, LabState], order: Iterable[str]) -> LabState:
    """Return the state of a lab.

    Args:  shares: of each machine that answered, this one first. order: the hosts, as in the lab file.
    """
    own, *_ = shares.values()
    places = {host: place for place, host in enumerate(order)}
    hosts = [
        host.model_copy(update={"machine": machine})
        for machine, share in shares.items()
        for host in share.hosts
    ]
    hosts.sort(key=lambda host: places.get(host.name, len(places)))
    cluster = _cluster(own)
    machines: dict[str, MachineStatus | None] = {
        machine: MachineStatus(
            hosts=[host.name for host in share.hosts],
            datapath=share.datapath,
            links=_cluster(share).links,
            load=_cluster(share).load,
        )
        for machine, share in shares.items()
    }
    machines |= {machine: None for machine in cluster.placed if machine not in shares}
    counters = {"counters": _counters(shares.values())} if "counters" in own.model_fields_set else {}
    return own.model_copy(
        update={
            **counters,
            "mads": sum(share.mads for share in shares.values()),
            "hosts": hosts,
            "vesws": [row for share in shares.values() for row in share.vesws],
            "apps": [app for share in shares.values() for app in share.apps],
            "links": _links(share.links for share in shares.values()),
            "drops": _drops(share.drops for share in shares.values()),
            "balance": unaccounted(shares),
            "cluster": cluster.model_copy(update={"machines": machines, "slowest": slowest(machines)}),
        }
    )


def slowest(machines: Mapping[str, MachineStatus | None]) -> SlowestMachine | None:
    """Return the machine that is nearest to a limit: of its processors, of its event loop, or of what waits for it."""
    found = []
    for name, share in machines.items():
        if share is None or share.load is None:
            continue
        load, measures = share.load, []
        others = max(0.0, load.busy * load.processors - load.used)
        text = f"the lab uses {load.used:.1f} of {load.processors} processors, other programs {others:.1f}"
        measures.append((max(load.busy, load.used / load.processors), text))
        text = f"its event loop is late by up to {load.late_ms:.0f} ms"
        measures.append((load.late_ms / MOST_LATE_MS, text))
        waiting = [
            (link.waiting, link.leaves, other)
            for other, its in machines.items()
            for link in (() if its is None else its.links)
            if link.peer == name and link.waiting
        ]
        if waiting:
            packets, direction, other = max(waiting)
            text = f"{packets} packets wait for it at {other}, on {direction}"
            measures.append((packets / MOST_WAITING, text))
        measures.sort(reverse=True)
        found.append((measures[0][0], name, [text for _, text in measures]))
    if not found:
        return None
    pressure, name, why = max(found)
    return SlowestMachine(machine=name, pressure=round(min(pressure, 1.0), 3), why=why)


def _cluster(share: LabState) -> ClusterStatus:
    assert share.cluster is not None  # noqa: S101 - of a share of a lab on several machines
    return share.cluster


def _links(found: Iterable[Sequence[LinkStatus]]) -> list[LinkStatus]:
    """Join the machines' rows of links: each machine counts the links that it carries, both ends count a cut link."""
    joined: dict[str, LinkStatus] = {}
    for row in (row for rows in found for row in rows):
        known = joined.setdefault(row.name, row)
        if known is not row:
            counts = {name: max(getattr(known, name), getattr(row, name)) for name in counters_of(LinkStatus)}
            state = known.state if row.is_up else row.state
            joined[row.name] = known.model_copy(update={"state": state, **counts})
    return list(joined.values())


def _counters(shares: Iterable[LabState]) -> dict[str, dict[str, int]]:
    """Join the counters of elements: the machine that carries one counts it, at the others it stays at 0.

    Both ends count the packets of a cut link, and each the drops that it has made.
    """
    joined: dict[str, dict[str, int]] = {}
    for share in shares:
        for element, counts in share.counters.items():
            known = joined.setdefault(element, {})
            for name, count in counts.items():
                before = known.get(name, 0)
                known[name] = before + count if name.startswith(_DROP) else max(before, count)
    return joined


def _drops(found: Iterable[Drops]) -> Drops:
    joined: dict[str, Counter[str]] = {}
    for drops in found:
        for element, reasons in drops.items():
            joined.setdefault(element, Counter()).update(reasons)
    return {element: dict(reasons) for element, reasons in joined.items()}


def unaccounted(shares: Mapping[str, LabState]) -> dict[str, int]:
    """Return where frames are neither delivered nor counted, in an element or between two machines, and how many.

    Between machines this is the difference between the packets acknowledged at one and those received by the other. The
    machines are asked one after the other, so the figure is exact only at rest.
    """
    lost = {
        f"{machine}: {element}": packets
        for machine, share in shares.items()
        for element, packets in share.balance.items()
    }
    cut = [link for share in shares.values() for link in _cluster(share).links]
    sent = {link.leaves: link.sent for link in cut}
    received = {link.arrives: link.received for link in cut}
    for direction in sent.keys() & received.keys():
        if packets := sent[direction] - received[direction]:
            lost[f"{direction} network"] = packets
    return lost


def fold_faults(shares: Sequence[FaultsSet]) -> FaultsSet:
    """Return the faults of a lab; each machine has counted the packets that its engine carries."""
    own, *others = shares
    rows = {row.number: row for row in own.faults}
    for row in (row for share in others for row in share.faults):
        known = rows.setdefault(row.number, row)
        if known is row:
            continue
        together = sum if row.kind in _PACKET_KINDS else max
        counts = {
            name: together((getattr(known, name), getattr(row, name))) for name in counters_of(FaultStatus)
        }
        rows[row.number] = known.model_copy(update=counts)
    return own.model_copy(update={"faults": [rows[number] for number in sorted(rows)]})
