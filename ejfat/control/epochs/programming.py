"""Translate the decisions of the control plane to updates of the data plane's tables.

An instance always uses the v2/v3 tables. Instance 0 may use the v1 tables as well, so that the
same calendar serves senders of version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from ejfat.base.addresses import IpAddress
from ejfat.control.epochs.calendar import Prefix
from ejfat.tables.match_action import Entry, KeyMatch, TableSpec, exact, prefix_match
from ejfat.tables.schema import (
    V1_CALENDAR,
    V1_DST_FILTER,
    V1_EPOCH,
    V1_MEMBER,
    V23_CALENDAR,
    V23_EPOCH,
    V23_IP_DST,
    V23_IPV4_SRC,
    V23_IPV6_SRC,
    V23_MAC_DST,
    V23_MEMBER,
    Dialect,
    Op,
    Update,
)

_ETHER_TYPE = {4: 0x0800, 6: 0x86DD}
_ARP = 0x0806
_ANY_IFACE = KeyMatch(0, 0)
_BROADCAST = 0xFFFFFFFFFFFF
_ALL_NODES_MAC = 0x333300000001


@dataclass(frozen=True, slots=True)
class TableTarget:
    """The tables to update: an instance, and whether it also uses the v1 tables."""

    lb_id: int
    with_v1: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The rewrite of a member's packets."""

    member_id: int
    mac: int
    ip: IpAddress
    port: int
    port_bits: int = 0
    """log2 of the number of ports, which start at `port`."""
    keep_lb_header: bool = False


def _update(op: Op, dialect: Dialect, spec: TableSpec, entry: Entry) -> Update:
    return Update(op, dialect, spec.name, entry)


def own_addresses(target: TableTarget, mac: int, addresses: Iterable[IpAddress]) -> list[Update]:
    """Return the filter updates that admit frames to the load balancer: its MAC, its groups, its addresses."""
    updates: list[Update] = []
    macs = [mac, _BROADCAST, _ALL_NODES_MAC]
    for address in addresses:
        number = int(address)
        keys = [(_ETHER_TYPE[address.version], number)]
        if isinstance(address, IPv4Address):
            keys.append((_ARP, number))
        else:
            keys.append((_ETHER_TYPE[6], 0xFF020000_00000000_00000001_FF000000 | number & 0xFFFFFF))
            macs.append(0x3333FF000000 | number & 0xFFFFFF)
        for ether_type, key in keys:
            full = exact(V23_IP_DST, 0, ether_type, key)[1:]
            entry = Entry((_ANY_IFACE, *full), "set_ip_sa", (number, target.lb_id))
            updates.append(_update(Op.PUT, Dialect.V23, V23_IP_DST, entry))
        if target.with_v1:
            key_v1 = exact(V1_DST_FILTER, mac, _ETHER_TYPE[address.version], number)
            updates.append(_update(Op.PUT, Dialect.V1, V1_DST_FILTER, Entry(key_v1, "NoAction")))
    for one in dict.fromkeys(macs):
        entry = Entry((_ANY_IFACE, exact(V23_MAC_DST, 0, one)[1]), "set_mac_sa", (mac,))
        updates.append(_update(Op.PUT, Dialect.V23, V23_MAC_DST, entry))
    return updates


def sender(target: TableTarget, address: IpAddress, op: Op) -> Update:
    """Return the update of the source filter for one sender."""
    spec = V23_IPV4_SRC if address.version == 4 else V23_IPV6_SRC
    return _update(op, Dialect.V23, spec, Entry(exact(spec, target.lb_id, int(address)), "allow_ip_src"))


def member(target: TableTarget, rewrite: Rewrite, op: Op) -> list[Update]:
    """Return the updates of one member's rewrite."""
    version = rewrite.ip.version
    action = f"do_ipv{version}_member_rewrite"
    ether_type = _ETHER_TYPE[version]
    where = (rewrite.mac, int(rewrite.ip), rewrite.port)
    entry = Entry(
        exact(V23_MEMBER, target.lb_id, ether_type, rewrite.member_id),
        action,
        (*where, rewrite.port_bits, int(rewrite.keep_lb_header)),
    )
    updates = [_update(op, Dialect.V23, V23_MEMBER, entry)]
    if target.with_v1:
        entry = Entry(exact(V1_MEMBER, ether_type, rewrite.member_id), action, where)
        updates.append(_update(op, Dialect.V1, V1_MEMBER, entry))
    return updates


def calendar(target: TableTarget, epoch: int, members: Sequence[int], op: Op) -> list[Update]:
    """Return the updates of all slots of an epoch's calendar."""
    updates: list[Update] = []
    for slot, member_id in enumerate(members):
        key = exact(V23_CALENDAR, target.lb_id, epoch, slot)
        entry = Entry(key, "do_assign_member", (member_id,))
        updates.append(_update(op, Dialect.V23, V23_CALENDAR, entry))
        if target.with_v1:
            entry = Entry(exact(V1_CALENDAR, epoch, slot), "do_assign_member", (member_id,))
            updates.append(_update(op, Dialect.V1, V1_CALENDAR, entry))
    return updates


def assignment(target: TableTarget, prefix: Prefix, epoch: int, op: Op) -> list[Update]:
    """Return the updates that assign the ticks of a prefix to an epoch (longer prefix: lower priority number)."""
    tick = prefix_match(prefix.value, prefix.length)
    args, priority = (epoch,), 64 - prefix.length
    lb = exact(V23_EPOCH, target.lb_id, 0)[0]
    updates = [_update(op, Dialect.V23, V23_EPOCH, Entry((lb, tick), "do_assign_epoch", args, priority))]
    if target.with_v1:
        updates.append(_update(op, Dialect.V1, V1_EPOCH, Entry((tick,), "do_assign_epoch", args, priority)))
    return updates
