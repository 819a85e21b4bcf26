"""Subscriptions to events of the subnet, and the notices queued for the subscribers.

A subscriber has one notice on the way at a time and acknowledges it with a ReportResp. One that does not, however often
it is repeated, has gone away: its subscription ends.

Source: the InfiniBand architecture, 13.4.8.3 and 13.4.11 (InformInfo, event forwarding).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from hfi_sim.base.types import Guid
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager.administration.scope import SaRequest, gid_of
from hfi_sim.wire.mad.attributes import SaStatus
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import InformInfo, InformInfoRecord
from hfi_sim.wire.sa.records_ib import IbInformInfo, IbInformInfoRecord, IbNotice
from hfi_sim.wire.sma.notice import SubnetNotice, TrapNumber

MAX_SUBSCRIPTIONS: Final = 1024
"""Subscriptions at a time."""
MAX_OF_ONE: Final = 64
"""Of these, of one port."""
MAX_WAITING: Final = 256
"""Notices that wait for one subscription; what comes then is lost to it."""
_EVERY: Final = 0xFFFF
_EVERYBODY: Final = 0xFFFFFF
_QUEUE_PAIRS: Final = (0, 1)
_Key = tuple[Guid, bool, int, int, int, bytes, int, int]
"""The subscriber, whether it gets InfiniBand's form, and what it wants to hear of."""
_ABOUT_GIDS: Final = frozenset(
    {
        TrapNumber.GID_IN_SERVICE,
        TrapNumber.GID_OUT_OF_SERVICE,
        TrapNumber.GROUP_ADDED,
        TrapNumber.GROUP_DELETED,
    }
)


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscription."""

    port: HfiPort
    ib: bool
    """Whether it gets notices in InfiniBand's form."""
    info: InformInfo | IbInformInfo
    number: int
    waiting: deque[SubnetNotice] = field(default_factory=deque)
    is_busy: bool = False
    """Whether a notice is on its way."""


class Subscriptions:
    """All subscriptions."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, Subscription] = {}
        self._ready: deque[Subscription] = deque()
        self._number = itertools.count()
        self.lost = 0
        """Notices that a subscriber did not get: too many waited, or it has gone away."""

    def __len__(self) -> int:
        return len(self._by_key)

    def change(self, question: SaRequest) -> SaRecord:
        """Take a subscription, or end it.

        Raises:  RefusedError.
        """
        info = question.message.one(IbInformInfo) if question.ib else question.message.one(InformInfo)
        if info.is_generic != 1 or info.subscribe > 1 or info.qpn not in _QUEUE_PAIRS:
            raise RefusedError(SaStatus.INVALID)
        port = question.asker
        about = (info.trap, info.type, info.producer, info.gid, info.lid_begin, info.lid_end)
        key = (port.guid, question.ib, *about)
        if not info.subscribe:
            if key not in self._by_key:
                raise RefusedError(SaStatus.INVALID)
            self._end(key)
        elif key not in self._by_key:
            of_one = sum(other.port.guid == port.guid for other in self._by_key.values())
            if len(self._by_key) >= MAX_SUBSCRIPTIONS or of_one >= MAX_OF_ONE:
                raise RefusedError(SaStatus.NO_RESOURCES)
            self._by_key[key] = Subscription(port, question.ib, info, next(self._number) & 0xFFFF)
        return info

    def records(self, ib: bool) -> Iterator[SaRecord]:
        """Yield a record for each subscription of one form."""
        for subscription in self._by_key.values():
            port, info, number = subscription.port, subscription.info, subscription.number
            if ib and subscription.ib:
                yield IbInformInfoRecord(gid=gid_of(port.guid), number=number, inform_info=info.build())
            elif not ib and not subscription.ib:
                yield InformInfoRecord(lid=port.lid, number=number, inform_info=info.build())

    def announce(self, notice: SubnetNotice) -> None:
        """Queue a notice for each of its subscribers."""
        for subscription in self._by_key.values():
            if not _wants(subscription.info, notice):
                continue
            if len(subscription.waiting) >= MAX_WAITING:
                self.lost += 1
                continue
            subscription.waiting.append(notice)
            self._ready.append(subscription)

    def next_report(self) -> tuple[Subscription, SubnetNotice | IbNotice] | None:
        """Return a notice to send now and its destination, or None; it is on its way until `reported`."""
        while self._ready:
            subscription = self._ready.popleft()
            if subscription.waiting and not subscription.is_busy:
                subscription.is_busy = True
                notice = subscription.waiting.popleft()
                return subscription, _ib_notice(notice) if subscription.ib else notice
        return None

    def reported(self, subscription: Subscription, heard: bool) -> None:
        """Note that a notice has been acknowledged, or never was."""
        subscription.is_busy = False
        if heard:
            self._ready.append(subscription)
            return
        self.lost += 1
        for key, other in tuple(self._by_key.items()):
            if other is subscription:
                self._end(key)

    def gone(self, port: HfiPort) -> None:
        """End the subscriptions of a port that is out of service."""
        for key, subscription in tuple(self._by_key.items()):
            if subscription.port.guid == port.guid:
                self._end(key)

    def _end(self, key: _Key) -> None:
        subscription = self._by_key.pop(key)
        self.lost += len(subscription.waiting)
        subscription.waiting.clear()


def _wants(info: InformInfo | IbInformInfo, notice: SubnetNotice) -> bool:
    if info.trap not in (_EVERY, notice.trap_number) or info.type not in (_EVERY, notice.type):
        return False
    if info.producer not in (_EVERYBODY, notice.producer):
        return False
    if any(info.gid):
        return notice.trap_number in _ABOUT_GIDS and notice.data[:16] == info.gid
    everywhere = 0xFFFF if isinstance(info, IbInformInfo) else 0xFFFFFFFF
    if info.lid_begin in (0, everywhere):
        return True
    return info.lid_begin <= notice.issuer_lid <= max(info.lid_end, info.lid_begin)


def _ib_notice(notice: SubnetNotice) -> IbNotice:
    """Return a notice in InfiniBand's form."""
    if notice.trap_number in _ABOUT_GIDS:
        data = bytes(6) + notice.data[:16]
    elif notice.trap_number == TrapNumber.CAPABILITY_CHANGE:
        data = bytes(2) + notice.data[2:4] + bytes(2) + notice.data[4:8]
    else:
        data = notice.data[2:4]
    plain = IbNotice(
        type=notice.type,
        producer=notice.producer,
        trap=notice.trap_number,
        issuer_lid=notice.issuer_lid & 0xFFFF,
        issuer_gid=notice.issuer_gid,
    )
    return replace(plain, data=data.ljust(len(plain.data), b"\0"))
