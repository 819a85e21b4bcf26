"""The subnet administration: answers from what the subnet manager knows, and notices for subscribers. Sans-IO.

Source: the InfiniBand architecture, 15.4; opa-fm, sa_*.c, for what Omni-Path has made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.link_modes import FULL_MODE, planned_mode
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT, Guid
from hfi_sim.management.mad.agents import MadRequest, RefusedError
from hfi_sim.management.mad.transfers import MAX_MESSAGE
from hfi_sim.management.sma.facts import capabilities_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.subnet_manager.administration import paths
from hfi_sim.subnet_manager.administration.membership import Membership
from hfi_sim.subnet_manager.administration.node_records import cables
from hfi_sim.subnet_manager.administration.readers import READERS
from hfi_sim.subnet_manager.administration.scope import Answer, SaRequest, gid_of, scope_of
from hfi_sim.subnet_manager.administration.services import Services
from hfi_sim.subnet_manager.administration.subscriptions import Subscription, Subscriptions
from hfi_sim.subnet_manager.groups import SweepView
from hfi_sim.subnet_manager.manager import SubnetManager
from hfi_sim.wire.mad.attributes import CLASS_VERSION_IB, CLASS_VERSION_OPA, SaAttrId, SaMethod, SaStatus
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    BASE_VERSION_OPA,
    RESPONSE_BIT,
    Mad,
    MadClass,
    MadHeader,
    MadStatus,
    Method,
    RmppHeader,
)
from hfi_sim.wire.sa.by_attribute import RECORDS, RECORDS_IB
from hfi_sim.wire.sa.message import DATA_AT, OFFSET_UNIT, SaHeader, SaMessage, rate_code, stride, table_header
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import McMemberRecord, SaClassPortInfo, SmInfoRecord, VfInfoRecord
from hfi_sim.wire.sa.records_ib import IbClassPortInfo, IbMcMemberRecord, IbNotice
from hfi_sim.wire.sa.records_tables import CableInfoRecord
from hfi_sim.wire.sma.notice import (
    CAPABILITIES,
    LINK_STATE,
    NOTICE_DATA,
    NoticeType,
    Producer,
    SubnetNotice,
    TrapNumber,
)
from hfi_sim.wire.sma.port_info import MtuCode
from hfi_sim.wire.sma.tables import SmInfo

METHODS: Final = (Method.GET, Method.SET, Method.GET_TABLE, SaMethod.GET_TRACE_TABLE, Method.DELETE)
"""What it answers."""
_VERSIONS: Final = ((BASE_VERSION_IB, CLASS_VERSION_IB), (BASE_VERSION_OPA, CLASS_VERSION_OPA))
_CAPABILITIES: Final = 1 << 2 | 1 << 9
_CAPABILITIES2: Final = 1 << 1 | 1 << 12
"""Records tell of quality of service; ports may join groups to send only, as full members (0x1000)."""
_RESPONSE_TIME: Final = 18
_MASTER: Final = 3
_PRIORITY: Final = 8
_EMPTY: Final = (
    SaAttrId.QUARANTINED_NODE_RECORD,
    SaAttrId.PORT_GROUP_RECORD,
    SaAttrId.PORT_GROUP_FORWARDING_RECORD,
    SaAttrId.DEVICE_GROUP_NAME_RECORD,
    SaAttrId.DEVICE_GROUP_MEMBER_RECORD,
)
"""Tables that exist but stay empty: no node is quarantined, groups of ports and devices are not made."""
_OF_THE_ASKER: Final[dict[int, int]] = {
    int(SaAttrId.CABLE_INFO_RECORD): CableInfoRecord.mask("length", "address")
}
"""Components that say what is wanted of each record, and select none."""
_CABLES: Final = False, int(SaAttrId.CABLE_INFO_RECORD)
_ANSWERED: Final = frozenset({*READERS, _CABLES})
"""Attributes of the fabric, by form."""
Reader = Callable[[SaRequest], Answer]


class Administration:
    """The subnet administration of one subnet manager."""

    def __init__(self, manager: SubnetManager, port: HfiPort, now: float) -> None:
        """Answer for a subnet manager that runs on `port`."""
        self._manager = manager
        self._port = port
        self._began = now
        self.membership = Membership(
            manager.groups, self._in_service, self._announce_gid, lambda: min(self._rates())
        )
        self.services = Services(self._in_service)
        self.subscriptions = Subscriptions()
        self._readers: dict[tuple[bool, int], Reader] = {
            **{(False, attr_id): _none for attr_id in _EMPTY},
            (False, SaAttrId.SM_INFO_RECORD): self._sm_infos,
            (False, SaAttrId.VF_INFO_RECORD): self._virtual_fabrics,
            (False, SaAttrId.INFORM_INFO_RECORD): lambda _: self.subscriptions.records(ib=False),
            (True, SaAttrId.INFORM_INFO_RECORD): lambda _: self.subscriptions.records(ib=True),
            (False, SaAttrId.MC_MEMBER_RECORD): lambda _: self.membership.records(ib=False),
            (True, SaAttrId.MC_MEMBER_RECORD): lambda _: self.membership.records(ib=True),
            (False, SaAttrId.SERVICE_RECORD): lambda question: self.services.records(question.now, ib=False),
            (True, SaAttrId.SERVICE_RECORD): lambda question: self.services.records(question.now, ib=True),
        }
        self._setters: dict[tuple[int, int], Callable[[SaRequest], SaRecord]] = {
            (Method.SET, SaAttrId.MC_MEMBER_RECORD): self.membership.join,
            (Method.DELETE, SaAttrId.MC_MEMBER_RECORD): self.membership.leave,
            (Method.SET, SaAttrId.SERVICE_RECORD): self.services.enter,
            (Method.DELETE, SaAttrId.SERVICE_RECORD): self.services.delete,
            (Method.SET, SaAttrId.INFORM_INFO): self.subscriptions.change,
        }

    # --- questions -----------------------------------------------------------------------------------------

    def answer(self, now: float, request: MadRequest) -> bytes | None:
        """Return the response to a request; None to one whose sender is no port of this subnet."""
        message = SaMessage.parse(request.mad.ljust(DATA_AT, b"\0"))
        asker = self._asker(request.slid)
        if asker is None:
            return None
        try:
            return self._respond(message, self._records(now, request, message, asker))
        except RefusedError as refused:
            return _refused(message, refused.status)
        except WireError:
            return _refused(message, SaStatus.INVALID)

    def _records(self, now: float, request: MadRequest, message: SaMessage, asker: HfiPort) -> list[SaRecord]:
        header = message.header
        if (header.base_version, header.class_version) not in _VERSIONS:
            raise RefusedError(MadStatus.BAD_VERSION)
        if request.pkey & PKEY_LIMITED_MANAGEMENT != PKEY_LIMITED_MANAGEMENT:
            raise RefusedError(SaStatus.DENIED)
        question = SaRequest(message, asker, request.pkey == PKEY_FULL_MANAGEMENT, now)
        self.services.expire(now)
        method, attr_id = header.method, header.attr_id
        if method in (Method.GET, Method.GET_TABLE):
            return self._get(question)
        if method == SaMethod.GET_TRACE_TABLE and attr_id == SaAttrId.TRACE_RECORD:
            return list(paths.trace(self._view(), question))
        setter = self._setters.get((method, attr_id))
        if setter is None:
            raise RefusedError(MadStatus.UNSUPPORTED)
        return [setter(question)]

    def _get(self, question: SaRequest) -> list[SaRecord]:
        header = question.message.header
        if header.attr_id == SaAttrId.CLASS_PORT_INFO and header.method == Method.GET:
            return [_class_port_info(question.ib)]
        if header.attr_id == SaAttrId.PATH_RECORD:
            found: list[SaRecord] = list(paths.paths(self._view(), question))
        elif (question.ib, header.attr_id) in _ANSWERED or (question.ib, header.attr_id) in self._readers:
            found = list(self._read(question))
            if found and header.attr_id != SaAttrId.VF_INFO_RECORD:
                select = type(found[0]).selects(question.message.data, _selecting(question))
                found = [record for record in found if select(record)]
            if header.attr_id == SaAttrId.MC_MEMBER_RECORD:
                found = _one_a_group(found, question)
        else:
            raise RefusedError(MadStatus.UNSUPPORTED)
        if not found:
            raise RefusedError(SaStatus.NO_RECORDS)
        if header.method == Method.GET and len(found) > 1:
            if header.attr_id != SaAttrId.PATH_RECORD:
                raise RefusedError(SaStatus.TOO_MANY_RECORDS)
            del found[1:]  # any of the paths will do
        return found

    def _read(self, question: SaRequest) -> Answer:
        """Return what may be asked for: all of it, and where the question says which nodes, little else."""
        key = question.ib, question.message.header.attr_id
        if key == _CABLES:
            scope = scope_of(self._view(), CableInfoRecord, question.message.data, _selecting(question))
            return cables(scope, question)
        if (reader := READERS.get(key)) is None:
            return self._readers[key](question)
        kind = (RECORDS_IB if question.ib else RECORDS)[key[1]]
        return reader(scope_of(self._view(), kind, question.message.data, question.mask))

    def _respond(self, message: SaMessage, records: list[SaRecord]) -> bytes:
        header = message.header
        step = stride(max(record.SIZE for record in records))
        data = b"".join(record.build().ljust(step * OFFSET_UNIT, b"\0") for record in records)
        if len(data) > MAX_MESSAGE - DATA_AT:
            raise RefusedError(SaStatus.NO_RESOURCES)
        is_table = header.method in (Method.GET_TABLE, SaMethod.GET_TRACE_TABLE)
        method = Method.GET_TABLE_RESP if is_table else _response_method(header.method)
        return SaMessage(
            replace(header, method=method, status=0),
            table_header() if is_table else RmppHeader(),
            replace(message.sa, attribute_offset=step),
            data,
        ).build()

    def _asker(self, slid: int) -> HfiPort | None:
        view = self._manager.view
        ports = [] if view is None else view.ports
        asker = next((port for port in ports if port.lid == slid), None)
        return asker or next((port for port in ports if port.lmc and port.has_lid(slid)), None)

    def _view(self) -> SweepView:
        view = self._manager.view
        if view is None:
            raise RefusedError(MadStatus.BUSY)
        return view

    def _in_service(self, guid: Guid) -> HfiPort | None:
        view = self._view()
        port = next((port for port in view.ports if port.guid == guid), None)
        return port if port is not None and self._manager.is_in_service(port) else None

    # --- the manager itself --------------------------------------------------------------------------------

    def sm_info(self, now: float) -> SmInfo:
        """Return what the subnet manager says of itself."""
        return SmInfo(
            port_guid=self._port.guid,
            act_count=self._manager.sweeps & 0xFFFFFFFF,
            elapsed_time=max(0, int(now - self._began)) & 0xFFFFFFFF,
            priority=_PRIORITY,
            initial_priority=_PRIORITY,
            state=_MASTER,
        )

    def _sm_infos(self, question: SaRequest) -> Answer:
        return [SmInfoRecord(lid=self._port.lid, sm_info=self.sm_info(question.now).build())]

    def _virtual_fabrics(self, question: SaRequest) -> Iterator[SaRecord]:
        """Yield the partition of management, then each other partition of the subnet."""
        asked = question.message.one(VfInfoRecord)
        mgid = VfInfoRecord.mask("mgid")
        service = VfInfoRecord.mask("service_id")
        mask = question.mask & ~(mgid | service)
        pkey_bit = VfInfoRecord.mask("pkey")
        wanted: set[int] | None = None
        if question.mask & mgid:
            pkey = self.membership.pkey_of(asked.mgid)
            wanted = set() if pkey is None else {pkey & 0x7FFF}
        elif question.mask & pkey_bit:
            wanted = {asked.pkey & 0x7FFF}
        select = VfInfoRecord.selects(asked.build(), mask & ~pkey_bit)
        fastest = max(self._rates())
        named = [("Admin", int(PKEY_LIMITED_MANAGEMENT))]
        named += [(f"partition-{pkey:#06x}", pkey) for pkey in self._manager.partitions()]
        for index, (name, pkey) in enumerate(named):
            record = VfInfoRecord(
                index=index,
                pkey=pkey,
                name=name.encode().ljust(64, b"\0"),
                mtu_specified=True,
                mtu=int(MtuCode.MTU_10240),
                rate_specified=True,
                rate=rate_code(fastest),
                option_flags=1 if index else 0,
            )
            if select(record) and (wanted is None or pkey & 0x7FFF in wanted):
                yield record

    def _rates(self) -> set[float]:
        """Return the rates that links are planned for; without a link, that of a port."""
        planned = {link.planned_bps for link in self._manager.fabric.links}
        return {planned_mode(rate_bps).rate_bps for rate_bps in planned} or {FULL_MODE.rate_bps}

    # --- notices -------------------------------------------------------------------------------------------

    def in_service(self, port: HfiPort) -> None:
        """Take note that a port is in service."""
        self._announce_gid(TrapNumber.GID_IN_SERVICE, gid_of(port.guid))

    def out_of_service(self, port: HfiPort) -> None:
        """Take note that a port is out of service: it leaves its groups, and hears nothing more."""
        self.subscriptions.gone(port)
        self.membership.gone(port)
        self._announce_gid(TrapNumber.GID_OUT_OF_SERVICE, gid_of(port.guid))

    def capabilities_changed(self, port: HfiPort, *, described: bool = False) -> None:
        """Take note that a port has announced something, or withdrawn it; or that its node describes itself anew."""
        data = (
            CAPABILITIES.build(lid=port.lid, description_changed=True) if described else capabilities_of(port)
        )
        self._announce(
            TrapNumber.CAPABILITY_CHANGE,
            NoticeType.INFORMATIONAL,
            Producer.HFI,
            port.lid,
            port.guid,
            data,
        )

    def link_changed(self, switch: Switch) -> None:
        """Take note that a port of a switch has come up or gone down."""
        self._announce(
            TrapNumber.LINK_STATE_CHANGE,
            NoticeType.URGENT,
            Producer.SWITCH,
            switch.lid,
            switch.node_guid,
            LINK_STATE.build(lid=switch.lid),
        )

    def _announce_gid(self, trap: TrapNumber, gid: bytes) -> None:
        port = self._port
        self._announce(trap, NoticeType.MANAGEMENT, Producer.CLASS_MANAGER, port.lid, port.guid, gid)

    def _announce(
        self, trap: TrapNumber, kind: NoticeType, producer: Producer, lid: int, guid: int, data: bytes
    ) -> None:
        notice = SubnetNotice(
            type=kind,
            producer=producer,
            trap_number=trap,
            issuer_lid=lid,
            issuer_gid=gid_of(guid),
            data=data.ljust(NOTICE_DATA, b"\0"),
        )
        self.subscriptions.announce(notice)

    def next_report(self) -> tuple[Subscription, Mad] | None:
        """Return the next report to send and its destination, or None."""
        report = self.subscriptions.next_report()
        if report is None:
            return None
        subscription, notice = report
        ib = isinstance(notice, IbNotice)
        header = MadHeader(
            base_version=BASE_VERSION_IB if ib else BASE_VERSION_OPA,
            mgmt_class=MadClass.SUBN_ADM,
            class_version=CLASS_VERSION_IB if ib else CLASS_VERSION_OPA,
            method=Method.REPORT,
            tid=0,
            attr_id=SaAttrId.NOTICE,
        )
        return subscription, SaMessage(header, RmppHeader(), SaHeader(), notice.build()).mad()

    # --- time ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        return self.services.next_deadline()

    def expire(self, now: float) -> None:
        """End what has no lease any more."""
        self.services.expire(now)


def _none(_question: SaRequest) -> Answer:
    """Return no records: a fabric has no records of this kind."""
    return ()


def _one_a_group(records: list[SaRecord], question: SaRequest) -> list[SaRecord]:
    """Leave one record for each group, where no group is asked for by its MGID.

    Source: the InfiniBand architecture, 15-0.2.5; opa-fm, sa_McMemberRecord_GetTable.
    """
    kind = IbMcMemberRecord if question.ib else McMemberRecord
    if question.mask & kind.mask("mgid"):
        return records
    first: dict[bytes, SaRecord] = {}
    for record in records:
        if isinstance(record, McMemberRecord | IbMcMemberRecord):
            first.setdefault(record.mgid, record)
    return list(first.values())


def _response_method(method: int) -> int:
    """Return the method of a response: that of the request with its bit; a Set is answered as a Get is."""
    return Method.GET_RESP if method == Method.SET else method | RESPONSE_BIT


def _refused(message: SaMessage, status: int) -> bytes:
    header = message.header
    method = header.method
    is_table = method in (Method.GET_TABLE, SaMethod.GET_TRACE_TABLE)
    answer = replace(
        header, method=Method.GET_TABLE_RESP if is_table else _response_method(method), status=int(status)
    )
    return SaMessage(answer, RmppHeader(), replace(message.sa, attribute_offset=0), b"").build()


def _selecting(question: SaRequest) -> int:
    """Return the components that select records."""
    return question.mask & ~_OF_THE_ASKER.get(question.message.header.attr_id, 0)


def _class_port_info(ib: bool) -> SaRecord:
    if ib:
        return IbClassPortInfo(
            capabilities=_CAPABILITIES, capabilities2=_CAPABILITIES2, response_time=_RESPONSE_TIME
        )
    return SaClassPortInfo(
        capabilities=_CAPABILITIES, capabilities2=_CAPABILITIES2, response_time=_RESPONSE_TIME
    )
