"""Multicast groups by their MGIDs: ports join, the first makes the group, the last that leaves ends it.

The broadcast group of IPoIB is made for the first port of its partition that joins it: IPoIB does not make it itself.

Source: the InfiniBand architecture, 15.2.5.17 (MCMemberRecord); opa-fm, sa_McMemberRecord.c. Of the broadcast group:
RFC 4391, 4 and 5; the MulticastGroup of opafm.xml, which opa-fm makes when it begins (MTU 2048, Q_Key 0).
Differs: every port sees all members. No port can join a group that the Ethernet Manager has made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import LIDS_OF_JOINED_GROUPS, Guid, Lid
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import multicast_lid_32
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager.administration.scope import SaRequest, gid_of, guid_of
from hfi_sim.subnet_manager.groups import Announced, MulticastGroups
from hfi_sim.wire.mad.attributes import SaStatus
from hfi_sim.wire.sa.message import LIFE, MTUS, RATES, choose, is_wanted, rate_code
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import JOIN_FULL, JOIN_NON_MEMBER, JOIN_SEND_ONLY, McMemberRecord
from hfi_sim.wire.sa.records_ib import IbMcMemberRecord
from hfi_sim.wire.sma.notice import TrapNumber
from hfi_sim.wire.sma.port_info import MtuCode, mtu_code_for

MAX_GROUPS: Final = len(LIDS_OF_JOINED_GROUPS)
"""Groups that programs may make."""
_NEEDED: Final = ("port_gid", "join_state")
_NEEDED_TO_CREATE: Final = ("pkey", "q_key", "sl", "traffic_class")
_MUST_AGREE: Final = ("pkey", "q_key", "sl", "traffic_class")
_RECEIVES: Final = JOIN_FULL | JOIN_NON_MEMBER
_ANY_MGID: Final = bytes.fromhex("ff12a01bfe80000000000000")
_IPV4_SIGNATURE: Final = bytes.fromhex("401b")
_PARTITION: Final = slice(4, 6)
"""Where the P_Key stands in an MGID of IPoIB."""
_EVERYBODY: Final = bytes(6) + b"\xff" * 4
Announce = Callable[[TrapNumber, bytes], None]
"""Tells subscribers of a trap about a GID."""
_Record = McMemberRecord | IbMcMemberRecord


class _Qualities(NamedTuple):
    """What all members of a group agree on."""

    pkey: int
    q_key: int
    sl: int
    traffic_class: int
    mtu: int
    rate: int
    hop_limit: int
    scope: int


@dataclass(slots=True)
class _Group:
    mgid: bytes
    mlid: Lid
    qualities: _Qualities
    states: dict[Guid, int] = field(default_factory=dict)
    """How each member has joined: bits of JoinState."""


class Membership:
    """The groups that are known by an MGID."""

    def __init__(
        self,
        groups: MulticastGroups,
        find: Callable[[Guid], HfiPort | None],
        announce: Announce,
        slowest_bps: Callable[[], float],
    ) -> None:
        """Begin without any.

        Args:  find: returns the port in service that has a GUID. slowest_bps: returns the rate that every link has,
               which is that of a group whose maker asks for none.
        """
        self._slowest_bps = slowest_bps
        self._groups = groups
        self._find = find
        self._announce = announce
        self._by_mgid: dict[bytes, _Group] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._by_mgid)

    def records(self, ib: bool) -> Iterator[SaRecord]:
        """Yield a record for each member of each group."""
        for group in self._by_mgid.values():
            for guid, state in group.states.items():
                yield _record(group, guid, state, ib)
        rate = rate_code(self._slowest_bps())
        for mlid, announced in self._groups.announced.items():
            group = _Group(announced.mgid, mlid, _qualities_of(announced, rate))
            for guid in sorted(self._groups.members(mlid)):
                yield _record(group, guid, JOIN_FULL, ib)

    def tell(self, group: Announced, begins: bool) -> None:
        """Take note that a group has been made here, or (False) is gone."""
        self._announce(TrapNumber.GROUP_ADDED if begins else TrapNumber.GROUP_DELETED, group.mgid)

    def _announced(self, mgid: bytes) -> Announced | None:
        return next((group for group in self._groups.announced.values() if group.mgid == mgid), None)

    def join(self, question: SaRequest) -> SaRecord:
        """Let a port join a group; return what the group is like.

        Raises:  RefusedError.
        """
        asked, has, port = self._read(question)
        if not asked.join_state:
            raise RefusedError(SaStatus.INVALID)
        group = self._by_mgid.get(asked.mgid)
        if group is None and self._announced(asked.mgid) is not None:
            raise RefusedError(SaStatus.DENIED)  # its members are those of a virtual switch
        if group is None:
            group = self._create(asked, has, port)
        elif not _agrees(asked, has, group.qualities) or not port.pkeys.admits(group.qualities.pkey):
            raise RefusedError(SaStatus.INVALID)
        state = group.states[port.guid] = group.states.get(port.guid, 0) | asked.join_state
        self._groups.join(group.mlid, port, receives=bool(state & _RECEIVES))
        return _record(group, port.guid, state, question.ib)

    def leave(self, question: SaRequest) -> SaRecord:
        """Take a port out of a group, as far as it names bits of JoinState; return what it was.

        Raises:  RefusedError.
        """
        asked, _, port = self._read(question)
        group = self._by_mgid.get(asked.mgid)
        state = 0 if group is None else group.states.get(port.guid, 0)
        if group is None or not state & asked.join_state:
            raise RefusedError(SaStatus.INVALID)
        record = _record(group, port.guid, state & asked.join_state, question.ib)
        state &= ~asked.join_state
        if state:
            group.states[port.guid] = state
            self._groups.join(group.mlid, port, receives=bool(state & _RECEIVES))
        else:
            self._drop(group, port)
        return record

    def gone(self, port: HfiPort) -> None:
        """Drop a port that is out of service from all its groups."""
        for group in tuple(self._by_mgid.values()):
            if port.guid in group.states:
                self._drop(group, port)

    def clear(self) -> None:
        """End all groups: they have no administration any more."""
        for group in self._by_mgid.values():
            self._groups.delete(group.mlid)
        self._by_mgid.clear()

    def pkey_of(self, mgid: bytes) -> int | None:
        """Return the P_Key of a group, or None."""
        if (announced := self._announced(mgid)) is not None:
            return announced.pkey
        group = self._by_mgid.get(mgid)
        return None if group is None else group.qualities.pkey

    def _read(self, question: SaRequest) -> tuple[_Record, set[str], HfiPort]:
        message = question.message
        asked = message.one(IbMcMemberRecord) if question.ib else message.one(McMemberRecord)
        has = asked.names(question.mask)
        if not has.issuperset(_NEEDED):
            raise RefusedError(SaStatus.INSUFFICIENT_COMPONENTS)
        guid = guid_of(asked.port_gid)
        port = None if guid is None else self._find(guid)
        if port is None:
            raise RefusedError(SaStatus.INVALID_GID)
        if not question.may_speak_for(port):
            raise RefusedError(SaStatus.DENIED)
        return asked, has, port

    def _create(self, asked: _Record, has: set[str], port: HfiPort) -> _Group:
        if asked.join_state == JOIN_SEND_ONLY:
            raise RefusedError(SaStatus.INVALID)
        if not has.issuperset(_NEEDED_TO_CREATE):
            if not _is_broadcast(asked.mgid) or "pkey" not in has:
                raise RefusedError(SaStatus.INSUFFICIENT_COMPONENTS)
            if asked.mgid[_PARTITION] != asked.pkey.to_bytes(2):
                raise RefusedError(SaStatus.INVALID)
        if not asked.pkey & 0x7FFF or not port.pkeys.admits(asked.pkey):
            raise RefusedError(SaStatus.INVALID)
        mtu: int | None = int(MtuCode.MTU_2048)
        rate: int | None = rate_code(self._slowest_bps())
        if "mtu" in has:
            mtu = choose(asked.mtu_selector, asked.mtu, MTUS)
        if "rate" in has:
            rate = choose(asked.rate_selector, asked.rate, RATES)
        if mtu is None or rate is None:
            raise RefusedError(SaStatus.INVALID)
        mgid = asked.mgid if "mgid" in has and any(asked.mgid) else self._new_mgid()
        if mgid[0] != 0xFF:
            raise RefusedError(SaStatus.INVALID_GID)
        if len(self._by_mgid) >= MAX_GROUPS:
            raise RefusedError(SaStatus.NO_RESOURCES)
        try:
            mlid = self._groups.create(among=LIDS_OF_JOINED_GROUPS)
        except FabricError:
            raise RefusedError(SaStatus.NO_RESOURCES) from None
        qualities = _Qualities(
            asked.pkey, asked.q_key, asked.sl, asked.traffic_class, mtu, rate, asked.hop_limit, mgid[1] & 0x0F
        )
        group = self._by_mgid[mgid] = _Group(mgid, mlid, qualities)
        self._announce(TrapNumber.GROUP_ADDED, mgid)
        return group

    def _new_mgid(self) -> bytes:
        while True:
            self._made += 1
            mgid = _ANY_MGID + (self._made & 0xFFFFFFFF).to_bytes(4)
            if mgid not in self._by_mgid:
                return mgid

    def _drop(self, group: _Group, port: HfiPort) -> None:
        group.states.pop(port.guid, None)
        self._groups.leave(group.mlid, port)
        if not any(state & ~JOIN_SEND_ONLY for state in group.states.values()):
            self._groups.delete(group.mlid)
            del self._by_mgid[group.mgid]
            self._announce(TrapNumber.GROUP_DELETED, group.mgid)


def _is_broadcast(mgid: bytes) -> bool:
    """Return whether an MGID is that of IPoIB's IPv4 broadcast: ff1S:401b:PKEY::ffff:ffff, of any scope S."""
    return mgid[0] == 0xFF and mgid[1] >> 4 == 1 and mgid[2:4] == _IPV4_SIGNATURE and mgid[6:] == _EVERYBODY


def _qualities_of(group: Announced, rate: int) -> _Qualities:
    mtu = max(mtu_code_for(group.mtu), MtuCode.MTU_2048)
    return _Qualities(group.pkey, 0, 0, 0, int(mtu), rate, 0, group.mgid[1] & 0x0F)


def _agrees(asked: _Record, has: set[str], qualities: _Qualities) -> bool:
    """Return whether what a join says of a group is so."""
    same = all(getattr(asked, name) == getattr(qualities, name) for name in _MUST_AGREE if name in has)
    return (
        same
        and ("mtu" not in has or is_wanted(qualities.mtu, asked.mtu_selector, asked.mtu, MTUS))
        and ("rate" not in has or is_wanted(qualities.rate, asked.rate_selector, asked.rate, RATES))
    )


def _record(group: _Group, guid: Guid, state: int, ib: bool) -> SaRecord:
    qualities = group.qualities
    common = {
        "mgid": group.mgid,
        "port_gid": gid_of(guid),
        "mtu_selector": 2,
        "rate_selector": 2,
        "life_selector": 2,
        "life": LIFE,
        "join_state": state,
        **qualities._asdict(),
    }
    if ib:
        common["sl"] = qualities.sl & 0x0F
        return IbMcMemberRecord(mlid=0xC000 | group.mlid & 0x3FFF, **common)
    return McMemberRecord(mlid=multicast_lid_32(group.mlid), **common)
