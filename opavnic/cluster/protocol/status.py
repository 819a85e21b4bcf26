"""Joins the status of each machine's share into the status of the whole lab. Pure: data in, data out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hfi_sim.engine.link.rule import PACKET_KINDS

Status = dict[str, Any]
_PACKET_KINDS: Final = frozenset(kind.value for kind in PACKET_KINDS)


def fold(shares: Mapping[str, Status], order: Iterable[str]) -> Status:
    """Return the status of a lab.

    Args:  shares: of each machine that answered, this one first; each has `cluster` with its links.
           order: the hosts, as in the lab file.
    """
    own, *_ = shares.values()
    places = {host: place for place, host in enumerate(order)}
    hosts = [{**host, "machine": machine} for machine, share in shares.items() for host in share["hosts"]]
    hosts.sort(key=lambda host: places.get(host["name"], len(places)))
    return {
        **own,
        "mads": sum(share["mads"] for share in shares.values()),
        "hosts": hosts,
        "apps": [app for share in shares.values() for app in share["apps"]],
        "links": _links([share["links"] for share in shares.values()]),
        "drops": _drops([share["drops"] for share in shares.values()]),
        "balance": unaccounted(shares),
        "cluster": {
            **own["cluster"],
            "machines": {
                machine: {
                    "hosts": [host["name"] for host in share["hosts"]],
                    "datapath": share["datapath"],
                    "links": share["cluster"]["links"],
                }
                for machine, share in shares.items()
            }
            | {machine: None for machine in own["cluster"]["placed"] if machine not in shares},
        },
    }


def _links(found: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join the machines' rows of links: each machine counts the links that it carries, both ends count a cut link."""
    joined: dict[str, dict[str, Any]] = {}
    for row in (row for rows in found for row in rows):
        known = joined.setdefault(row["name"], dict(row))
        for key in ("packets_forth", "packets_back", "bytes_forth", "bytes_back"):
            known[key] = max(known[key], row[key])
        if row is not known:
            known["drops"] = max(known["drops"], row["drops"])
        if row["state"] != "up":
            known["state"] = row["state"]
    return list(joined.values())


def _drops(found: list[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    joined: dict[str, Counter[str]] = {}
    for drops in found:
        for element, reasons in drops.items():
            joined.setdefault(element, Counter()).update(reasons)
    return {element: dict(reasons) for element, reasons in joined.items()}


def unaccounted(shares: Mapping[str, Status]) -> dict[str, int]:
    """Return where frames are neither delivered nor counted, in an element or between two machines, and how many.

    Between machines this is the difference between the packets acknowledged at one and those received by the other. The
    machines are asked one after the other, so the figure is exact only at rest.
    """
    lost = {
        f"{machine}: {element}": packets
        for machine, share in shares.items()
        for element, packets in share["balance"].items()
    }
    sent = {link["leaves"]: link["sent"] for share in shares.values() for link in share["cluster"]["links"]}
    received = {
        link["arrives"]: link["received"] for share in shares.values() for link in share["cluster"]["links"]
    }
    for direction in sent.keys() & received.keys():
        if packets := sent[direction] - received[direction]:
            lost[f"{direction} network"] = packets
    return lost


def fold_faults(shares: Sequence[Status]) -> Status:
    """Return the faults of a lab; each machine has counted the packets that its engine carries."""
    own, *others = shares
    rows = {row["number"]: dict(row) for row in own["faults"]}
    for row in (row for share in others for row in share["faults"]):
        known = rows.setdefault(row["number"], row)
        if known is row:
            continue
        together = sum if row["kind"] in _PACKET_KINDS else max
        for key in ("seen", "hits"):
            known[key] = together((known[key], row[key]))
    return {**own, "faults": [rows[number] for number in sorted(rows)]}
