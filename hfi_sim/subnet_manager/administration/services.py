"""Services that ports offer, until their lease ends or a port deletes them.

Source: the InfiniBand architecture, 15.2.5.14 (ServiceRecord).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from hfi_sim.base.deadlines import Timers
from hfi_sim.base.types import Guid
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager.administration.scope import SaRequest, gid_of, guid_of
from hfi_sim.wire.mad.attributes import SaStatus
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import LEASE_FOREVER, ServiceRecord
from hfi_sim.wire.sa.records_ib import IbServiceRecord

MAX_SERVICES: Final = 1024
"""Services at a time."""
_ServiceKey = tuple[int, Guid, int]
"""The service, the GUID of its port, and the P_Key."""


@dataclass(slots=True)
class _Service:
    port: HfiPort
    key: bytes
    name: bytes
    data: bytes
    ends_at: float | None


class Services:
    """The services of a subnet."""

    def __init__(self, find: Callable[[Guid], HfiPort | None]) -> None:
        """Begin without any. Args: find: returns the port in service that has a GUID."""
        self._find = find
        self._services: dict[_ServiceKey, _Service] = {}
        self._leases: Timers[_ServiceKey] = Timers()

    def __len__(self) -> int:
        return len(self._services)

    def records(self, now: float, ib: bool) -> Iterator[SaRecord]:
        """Yield a record for each service."""
        for key in self._services:
            yield self._record(now, key, ib)

    def enter(self, question: SaRequest) -> SaRecord:
        """Offer a service, or renew it.

        Raises:  RefusedError.
        """
        asked, has = self._read(question)
        if not has.issuperset({"service_id", "gid"}):
            raise RefusedError(SaStatus.INSUFFICIENT_COMPONENTS)
        guid = guid_of(asked.gid)
        port = None if guid is None else self._find(guid)
        if port is None:
            raise RefusedError(SaStatus.INVALID_GID)
        if not question.may_speak_for(port):
            raise RefusedError(SaStatus.DENIED)
        key = (asked.service_id, port.guid, asked.pkey if "pkey" in has else 0)
        if key not in self._services and len(self._services) >= MAX_SERVICES:
            raise RefusedError(SaStatus.NO_RESOURCES)
        lease = asked.lease if "lease" in has else LEASE_FOREVER
        ends_at = None if lease == LEASE_FOREVER else question.now + lease
        self._services[key] = _Service(port, asked.key, asked.name, asked.data, ends_at)
        self._leases.cancel(key)
        if ends_at is not None:
            self._leases.set(key, ends_at)
        return self._record(question.now, key, question.ib)

    def delete(self, question: SaRequest) -> SaRecord:
        """Take the one service away that a request names.

        Raises:  RefusedError: none fits, or several do.
        """
        asked, _ = self._read(question)
        mask = question.mask & ~type(asked).mask("lease")
        select = type(asked).selects(asked.build(), mask)
        found = [key for key in self._services if select(self._record(question.now, key, question.ib))]
        if len(found) != 1:
            raise RefusedError(SaStatus.TOO_MANY_RECORDS if found else SaStatus.NO_RECORDS)
        if not question.may_speak_for(self._services[found[0]].port):
            raise RefusedError(SaStatus.DENIED)
        record = self._record(question.now, found[0], question.ib)
        self._services.pop(found[0])
        self._leases.cancel(found[0])
        return record

    def next_deadline(self) -> float | None:
        """Return when the next lease ends, or None."""
        return self._leases.next()

    def expire(self, now: float) -> None:
        """Take away what has no lease any more."""
        for key in self._leases.due(now):
            self._services.pop(key, None)

    def _read(self, question: SaRequest) -> tuple[ServiceRecord | IbServiceRecord, set[str]]:
        message = question.message
        asked = message.one(IbServiceRecord) if question.ib else message.one(ServiceRecord)
        return asked, asked.names(question.mask)

    def _record(self, now: float, key: _ServiceKey, ib: bool) -> SaRecord:
        service, (service_id, guid, pkey) = self._services[key], key
        lease = LEASE_FOREVER if service.ends_at is None else max(0, int(service.ends_at - now))
        record = IbServiceRecord(
            service_id=service_id,
            gid=gid_of(guid),
            pkey=pkey,
            lease=lease,
            key=service.key,
            name=service.name,
            data=service.data,
        )
        if ib:
            return record
        own = {
            name: getattr(record, name)
            for name in ("service_id", "gid", "pkey", "lease", "key", "name", "data")
        }
        return replace(ServiceRecord(**own), lid=service.port.lid)
