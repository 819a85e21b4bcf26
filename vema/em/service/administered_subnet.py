"""A subnet as an EM on one of its ports sees it through subnet administration: an `EmSubnet` for any fabric manager.

Members are the ports that are ACTIVE and announce Ethernet; partitions, lanes and MTUs are those of its
virtual fabrics; each virtual switch has the group whose GID is made of its P_Key and its id, and the multicast LID that
the fabric manager gives that group. The EM is registered as a service. Both are asked for in InfiniBand's form of the
records: fabric managers know no other for them (opa-fm, sa_McMemberRecord.c).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hfi_sim.base.types import LID_MULTICAST_FIRST, PKEY_FULL_MANAGEMENT, PKEY_FULL_MEMBER
from hfi_sim.management.sa.client import Held, OrderState, SaOrder
from hfi_sim.management.sa.picture import SaPort
from hfi_sim.management.sa.session import SaClientPort, SaSession
from hfi_sim.wire.mad.attributes import SaAttrId, SaStatus
from hfi_sim.wire.mad.header import MadStatus, Method
from hfi_sim.wire.sa.message import SaMessage, rate_code
from hfi_sim.wire.sa.records import JOIN_FULL, SELECT_EXACTLY, VfInfoRecord
from hfi_sim.wire.sa.records_ib import IbMcMemberRecord, IbServiceRecord
from hfi_sim.wire.sma.port_info import MTU_BYTES, MtuCode, mtu_code_for
from vema.em.core.virtual_switches import Group, group_gid
from vema.em.desired.ports import PartitionLane, PortFacts

log = logging.getLogger("vema.em")

EM_SERVICE_ID: Final = 0x1100D03C34866666
EM_SERVICE_NAME: Final = b"Primary Intel OmniPath Ethernet Manager"
"""Formed as the names and numbers of the subnet and performance managers are: opamgt asks for the EM's service, but the
sources that would name it are not published."""
_SITE_SCOPE: Final = 5
_MLID_16_FIRST: Final = 0xC000
_JOINED: Final = IbMcMemberRecord.mask(
    "mgid", "port_gid", "q_key", "mtu_selector", "mtu", "traffic_class", "pkey", "rate_selector", "rate",
    "sl", "scope", "join_state", "proxy_join",
)  # fmt: skip
_SERVICE: Final = IbServiceRecord.mask("service_id", "pkey", "gid", "lease", "name")
_MANAGERS: Final = SaMessage.request(
    Method.GET_TABLE,
    SaAttrId.SERVICE_RECORD,
    IbServiceRecord(service_id=EM_SERVICE_ID),
    mask=IbServiceRecord.mask("service_id"),
)
"""The question which ports run an EM."""


class PortNames(Protocol):
    """Gives the ports of a subnet their names: a lab from its file, a program from what ports say of themselves."""

    @property
    def open_ended(self) -> bool:
        """Whether ports may come whose names are not known yet: a member without a port is no mistake then."""
        ...

    def of(self, seen: Mapping[int, SaPort]) -> Iterable[PortFacts]:
        """Return the ports that announce Ethernet, or will as far as is known, by their names alone (`named_port`).

        Args:  seen: ACTIVE ports, by GUID.
        """
        ...


class OwnPort(SaClientPort, Protocol):
    """The port of the EM."""

    @property
    def guid(self) -> int:
        """Its port GUID."""
        ...

    @property
    def lid(self) -> int:
        """Its LID; 0: none has been given yet."""
        ...

    @property
    def management_pkey(self) -> int:
        """The P_Key of the management partition in its table."""
        ...


@dataclass(frozen=True, slots=True)
class _Member:
    """What has a port join a group: the key of its order. A group of other properties is another: it is left first."""

    vesw_id: int
    guid: int
    pkey: int
    mtu: int
    rate: int
    sl: int


class AdministeredSubnet:
    """The EM's view; a `vema.em.service.interfaces.EmSubnet`."""

    given: Final = True

    def __init__(self, session: SaSession, port: OwnPort, names: PortNames) -> None:
        """View the subnet from `port`, on which the EM and the session run."""
        self.names = names
        self._session = session
        self._port = port
        self._groups: dict[int, Group] = {}
        self._handlers: list[Callable[[], None]] = []
        self._lids: dict[int, int] = {}
        self._joining: dict[tuple[int, int], _Member] = {}
        """The memberships that are wanted, by virtual switch and port."""
        self._managers: frozenset[int] | None = None
        """The GUIDs of the ports that are registered as an EM's; None: not asked yet."""
        self._reading = 0
        """The number of the picture's reading after which the services were asked for last."""
        session.subscribe(self._follow)

    # --- ports ---------------------------------------------------------------------------------------------

    @property
    def lid(self) -> int:
        """LID of the port that the EM runs on; 0: the fabric manager has not given one yet."""
        return self._port.lid

    @property
    def sl(self) -> int:
        """Service level of the management partition, for MADs to agents."""
        management = PKEY_FULL_MANAGEMENT
        return next((vf.sl_base for vf in self._fabrics() if vf.pkey | PKEY_FULL_MEMBER == management), 0)

    @property
    def open_ended(self) -> bool:
        """Whether ports may come whose names are not known yet."""
        return self.names.open_ended

    def ports(self) -> list[PortFacts]:
        """Return the ports that are in service and announce Ethernet on fabric."""
        seen = self._session.picture.ports
        named = ((name, seen.get(name.guid)) for name in self.names.of(seen))
        return [self._facts(name, s) for name, s in named if s is not None and s.carries_ethernet]

    def known(self) -> list[PortFacts]:
        """Return all ports that announce Ethernet on fabric, whether the fabric manager has found them or not."""
        seen = self._session.picture.ports
        return [self._facts(name, seen.get(name.guid)) for name in self.names.of(seen)]

    def _facts(self, name: PortFacts, seen: SaPort | None) -> PortFacts:
        if seen is None:
            return name
        lanes = tuple(_lane(fabric, seen) for fabric in self._fabrics())
        return replace(name, lid=seen.lid, pkeys=seen.pkeys, lanes=lanes)

    def _fabrics(self) -> list[VfInfoRecord]:
        """Return the virtual fabric of each P_Key: the first, where several share it."""
        first: dict[int, VfInfoRecord] = {}
        for fabric in self._session.picture.fabrics:
            first.setdefault(fabric.pkey | PKEY_FULL_MEMBER, fabric)
        return list(first.values())

    # --- groups --------------------------------------------------------------------------------------------

    def set_groups(self, groups: dict[int, Group | None]) -> None:
        """Give virtual switches, by id, their multicast groups: have their ports join, as soon as they can."""
        for vesw_id, group in groups.items():
            if group is None:
                self._groups.pop(vesw_id, None)
            else:
                self._groups[vesw_id] = group
        self._place()

    def group_lids(self) -> Mapping[int, int]:
        """Return the multicast LIDs that the fabric manager has given so far, by id of the virtual switch."""
        return self._lids

    def group_members(self, mlid: int) -> frozenset[int]:
        """Return the GUIDs of the ports that have joined a group."""
        return frozenset(
            member.guid
            for member, held in self._members()
            if held.state is OrderState.HELD and _mlid(held) == mlid
        )

    def join_election(self) -> None:
        """Do nothing: being registered as a service is what lets other EMs find this one."""

    @property
    def _own_guid(self) -> int:
        """The GUID of the port of the EM as subnet administration has it, which counts there; else its own word."""
        seen = self._session.picture.ports.values()
        return next((port.guid for port in seen if port.lid == self._port.lid), self._port.guid)

    def election_lids(self, heard: Iterable[int]) -> frozenset[int] | None:
        """Return the LIDs of the other ports that are registered as an EM's, or that heartbeats came from."""
        if self._managers is None:
            return None
        seen = self._session.picture.ports
        found = {seen[guid].lid for guid in self._managers if guid in seen}
        return frozenset(found.union(heard) - {self._port.lid})

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` when ports come, go or change, or a group gets its LID."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    @property
    def trouble(self) -> list[str]:
        """What the fabric manager does not give: the description of the fabric, or a port's place in a group."""
        found = [f"subnet administration: {error}"] if (error := self._session.picture.error) else []
        names = {name.guid: name.name for name in self.names.of(self._session.picture.ports)}
        refused: dict[tuple[int, str], list[str]] = {}
        for member, held in self._members():
            if held.error and self._joining.get((member.vesw_id, member.guid)) == member:
                where = names.get(member.guid, f"{member.guid:#x}")
                refused.setdefault((member.vesw_id, self._refusal(member, held)), []).append(where)
        for (vesw_id, error), ports in refused.items():
            more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
            found.append(f"group of virtual switch {vesw_id}: {ports[0]}{more} may not join: {error}")
        return found

    @property
    def pkeys(self) -> frozenset[int] | None:
        """The P_Keys of the virtual fabrics, as full members bear them; None: not known yet."""
        if not self._session.picture.complete:
            return None
        return frozenset(fabric.pkey | PKEY_FULL_MEMBER for fabric in self._fabrics())

    def why_not_in_group(self, vesw_id: int, guid: int) -> str:
        """Return why a port is not in the group of a virtual switch, or why that has no LID."""
        member = self._joining.get((vesw_id, guid))
        own = None if member is None else self._session.client.orders.get(member)
        if member is not None and own is not None and own.error:
            return f"its port may not join the multicast group: {self._refusal(member, own)}"
        if vesw_id in self._lids:
            return ""
        refused = (item for item in self._members() if item[0].vesw_id == vesw_id and item[1].error)
        for other, held in refused:
            return f"no member may join the multicast group: {self._refusal(other, held)}"
        return ""

    def _refusal(self, member: _Member, held: Held) -> str:
        group = self._groups.get(member.vesw_id)
        if group is None or "0x0200" not in held.error:
            return held.error
        needs = f"an Application for MGIDs ff15:0:{group.pkey:04x}::, as `opavnic fm config` writes it"
        return f"{held.error}; its virtual fabric needs {needs}"

    # --- at the administration -----------------------------------------------------------------------------

    def _members(self) -> list[tuple[_Member, Held]]:
        orders = self._session.client.orders.items()
        return [(key, held) for key, held in orders if isinstance(key, _Member)]

    def _follow(self) -> None:
        changed = self._session.picture.take_changed()
        if changed:
            self._place()
        if (readings := self._session.picture.readings) != self._reading:
            self._reading = readings
            self._session.client.ask(_MANAGERS, self._take_managers)
            self._session.poll()
        orders = self._session.client.orders
        kept = {vesw_id: lid for vesw_id, lid in self._lids.items() if vesw_id in self._groups}
        for key in self._session.client.take_news():
            held = orders.get(key)
            if isinstance(key, _Member) and held is not None and held.state is OrderState.HELD:
                kept[key.vesw_id] = _mlid(held)
        if changed or kept != self._lids:
            self._lids = kept
            for handler in tuple(self._handlers):
                handler()

    def _place(self) -> None:
        """Hold the orders against what is wanted and what is there."""
        picture, client = self._session.picture, self._session.client
        if not picture.complete:
            return  # read again first: what is placed meanwhile would be placed twice
        sls = {fabric.pkey | PKEY_FULL_MEMBER: _group_sl(fabric) for fabric in self._fabrics()}
        wanted = {}
        for vesw_id, group in self._groups.items():
            sl = sls.get(group.pkey | PKEY_FULL_MEMBER)
            for guid in group.guids & picture.ports.keys() if sl is not None else ():
                record = _membership(vesw_id, group, self._gid(guid), sl or 0, picture.slowest_bps)
                member = _Member(vesw_id, guid, group.pkey, record.mtu, record.rate, record.sl)
                wanted[member] = SaOrder(SaAttrId.MC_MEMBER_RECORD, record, _JOINED)
        self._joining = {(member.vesw_id, member.guid): member for member in wanted}
        for member, _ in self._members():
            if member not in wanted:
                client.drop(member, tell=member.guid in picture.ports)
        for member, order in wanted.items():
            client.place(member, order)
        client.place("service", SaOrder(SaAttrId.SERVICE_RECORD, self._service(), _SERVICE))
        self._session.poll()

    def _take_managers(self, message: SaMessage | None) -> None:
        """Learn which ports run an EM; if this one is not among them any more, the administration began anew.

        Only an event of the port says that it did; behind a umad device there are no such events.
        """
        if message is None or message.header.status not in (MadStatus.OK, SaStatus.NO_RECORDS):
            return
        records = message.table(IbServiceRecord) if message.header.status == MadStatus.OK else []
        managers = frozenset(
            int.from_bytes(record.gid[8:]) for record in records if record.service_id == EM_SERVICE_ID
        )
        order = self._session.client.orders.get("service")
        forgotten = self._own_guid in (self._managers or ()) and self._own_guid not in managers
        if forgotten and order is not None and order.state is OrderState.HELD:
            log.warning(
                "[%s] subnet administration has forgotten this port; all is placed anew", self._port.name
            )
            self._session.begin_anew()
        changed = managers != self._managers
        self._managers = managers
        for handler in tuple(self._handlers) if changed else ():
            handler()

    def _gid(self, guid: int) -> bytes:
        return self._session.picture.subnet_prefix.to_bytes(8) + guid.to_bytes(8)

    def _service(self) -> IbServiceRecord:
        return IbServiceRecord(
            service_id=EM_SERVICE_ID,
            pkey=self._port.management_pkey,
            gid=self._gid(self._own_guid),
            name=EM_SERVICE_NAME.ljust(64, b"\0"),
        )


def _lane(fabric: VfInfoRecord, port: SaPort) -> PartitionLane:
    sc, vl, mtu = port.lane(fabric.sl_base)
    limit = (
        MTU_BYTES.get(MtuCode(fabric.mtu), 0) if fabric.mtu_specified and fabric.mtu in set(MtuCode) else mtu
    )
    return PartitionLane(fabric.pkey | PKEY_FULL_MEMBER, fabric.sl_base, sc, vl, min(mtu, limit))


def _group_sl(fabric: VfInfoRecord) -> int:
    return fabric.sl_multicast if fabric.sl_multicast_specified else fabric.sl_base


def _membership(vesw_id: int, group: Group, port_gid: bytes, sl: int, rate_bps: float) -> IbMcMemberRecord:
    return IbMcMemberRecord(
        mgid=group_gid(vesw_id, group.pkey),
        port_gid=port_gid,
        mtu_selector=SELECT_EXACTLY,
        mtu=max(mtu_code_for(group.mtu), MtuCode.MTU_2048),
        pkey=group.pkey,
        rate_selector=SELECT_EXACTLY,
        rate=rate_code(rate_bps),
        sl=sl,
        scope=_SITE_SCOPE,
        join_state=JOIN_FULL,
        proxy_join=True,
    )


def _mlid(held: Held) -> int:
    """Return the LID of a group as packets bear it: 24 bits."""
    return LID_MULTICAST_FIRST + IbMcMemberRecord.parse(held.answer).mlid - _MLID_16_FIRST
