"""Tables and frames that the measurements share."""

from __future__ import annotations

from ipaddress import IPv4Address

from ejfat.control.epochs import programming
from ejfat.control.epochs.calendar import spread
from ejfat.control.epochs.epochs import EpochManager
from ejfat.control.epochs.programming import Rewrite, TableTarget
from ejfat.events.segmentation import Segmenter
from ejfat.tables.schema import Op, TableSet

SENDER, LB, WORKER = IPv4Address("10.8.0.2"), IPv4Address("10.8.0.1"), IPv4Address("10.8.0.3")
_EVENTS = 2048
_LB_MAC = 0x020000000001


def make_tables(members: int = 4, *, worker: Rewrite | None = None, mac: int = _LB_MAC) -> TableSet:
    """Return tables that serve all versions with `members` members, or with one given worker."""
    tables = TableSet()
    target = TableTarget(0, with_v1=True)
    rewrites = (
        [worker]
        if worker
        else [Rewrite(n, 0x020000000100 + n, IPv4Address(f"10.8.1.{n + 1}"), 10000) for n in range(members)]
    )
    updates = programming.own_addresses(target, mac, [LB])
    updates.append(programming.sender(target, SENDER, Op.PUT))
    for rewrite in rewrites:
        updates += programming.member(target, rewrite, Op.PUT)
    updates += EpochManager(target).begin(spread({r.member_id: 512 // len(rewrites) for r in rewrites}))
    tables.apply(updates)
    return tables


def make_frames(version: int, payload: int, mac: int = _LB_MAC) -> list[bytes]:
    """Return one frame for each of two thousand ticks."""
    segmenter = Segmenter(version=version, mtu=9000)
    return [
        segmenter.frames(bytes(payload), tick=tick, data_id=1, event=tick, src=SENDER, dst=LB, dst_mac=mac)[0]
        for tick in range(1_000_000, 1_000_000 + _EVENTS)
    ]
