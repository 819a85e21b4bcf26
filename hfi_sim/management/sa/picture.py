"""A fabric as its subnet administration describes it: ports with partitions and lanes, and virtual fabrics. Sans-IO.

It is read whole, by six tables, whenever something may have changed and every `POLL_S` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from hfi_sim.base.errors import WireError
from hfi_sim.base.link_modes import FULL_MODE, LinkAbility
from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.management.sa.client import SaClient, status_text, table_of
from hfi_sim.wire.mad.attributes import SaAttrId, SaStatus
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import (
    NodeRecord,
    PartitionTableRecord,
    PortInfoRecord,
    ScToVlRecord,
    SlToScRecord,
    VfInfoRecord,
)
from hfi_sim.wire.sma.node import NodeInfo
from hfi_sim.wire.sma.port_info import PortInfo

POLL_S: Final = 10.0
RETRY_S: Final = 1.0
NODE_HFI: Final = 1
NO_CHANNEL: Final = 15
"""As SC or VL: there is none for data."""

_TABLES: Final[dict[int, type[SaRecord]]] = {
    SaAttrId.NODE_RECORD: NodeRecord,
    SaAttrId.PORT_INFO_RECORD: PortInfoRecord,
    SaAttrId.PARTITION_TABLE_RECORD: PartitionTableRecord,
    SaAttrId.SL_TO_SC_RECORD: SlToScRecord,
    SaAttrId.SC_TO_VLT_RECORD: ScToVlRecord,
    SaAttrId.VF_INFO_RECORD: VfInfoRecord,
}
R = TypeVar("R", bound=SaRecord)


@dataclass(frozen=True, slots=True)
class SaPort:
    """An ACTIVE port of an HFI."""

    guid: int
    lid: int
    opa_port_num: int
    description: str
    """Of its node."""
    carries_ethernet: bool
    pkeys: frozenset[int]
    sl_to_sc: bytes
    sc_to_vl: bytes
    """Of what it sends."""
    vl_mtus: tuple[int, ...]
    """Bytes of payload on each VL 0 to 31."""

    def lane(self, sl: int) -> tuple[int, int, int]:
        """Return the SC and the VL of a service level, and the MTU there; 15, 15 and 0 where it carries no data."""
        sc = self.sl_to_sc[sl]
        vl = self.sc_to_vl[sc] if sc < NO_CHANNEL or NO_CHANNEL < sc < len(self.sc_to_vl) else NO_CHANNEL
        if vl == NO_CHANNEL or vl >= len(self.vl_mtus):
            return NO_CHANNEL, NO_CHANNEL, 0
        return sc, vl, self.vl_mtus[vl]


class FabricPicture:
    """What the tables of the administration said last."""

    def __init__(self, client: SaClient) -> None:
        self.ports: dict[int, SaPort] = {}
        """By GUID."""
        self.fabrics: tuple[VfInfoRecord, ...] = ()
        self.slowest_bps = FULL_MODE.rate_bps
        """The rate that every port supports which has a link, no more than that of a port of Omni-Path 100."""
        self.subnet_prefix = PortInfo().subnet_prefix
        self.complete = False
        """Whether it was read since the subnet manager was last another, or began anew."""
        self.error = ""
        """Why it could not be read the last time."""
        self.readings = 0
        """How often it has been read."""
        self._client = client
        self._due_at: float | None = None
        self._round = 0
        self._missing: set[int] = set()
        self._found: dict[int, list[SaRecord]] = {}
        self._changed = False

    def doubt(self, now: float) -> None:
        """Read it again: something may have changed."""
        if self._due_at is None or self._due_at > now:
            self._due_at = now

    def forget(self, now: float) -> None:
        """Begin anew: another subnet manager speaks."""
        self._round += 1
        self._missing.clear()
        self.complete = False
        self._due_at = now

    def take_changed(self) -> bool:
        """Return whether it has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def next_wake(self) -> float | None:
        """Return when it is to be read, or None."""
        return None if self._missing else self._due_at

    def wake(self, now: float) -> bool:
        """Ask for the tables if that is due; return whether it was."""
        if self._missing or self._due_at is None or now < self._due_at:
            return False
        self._due_at = now + POLL_S
        self._round += 1
        self._missing = set(_TABLES)
        self._found = {}
        for attr_id in _TABLES:
            self._client.ask(table_of(attr_id), partial(self._take, now, self._round, attr_id))
        return True

    def _take(self, asked_at: float, round_: int, attr_id: int, message: SaMessage | None) -> None:
        if round_ != self._round or attr_id not in self._missing:
            return
        self._missing.discard(attr_id)
        status = None if message is None else message.header.status
        if message is not None and status in (MadStatus.OK, SaStatus.NO_RECORDS):
            try:
                self._found[attr_id] = list(message.table(_TABLES[attr_id])) if status == MadStatus.OK else []
            except WireError as error:
                self.error = f"{SaAttrId.text_of(attr_id)}: {error}"
        else:
            why = "no answer" if status is None else status_text(status)
            self.error = f"{SaAttrId.text_of(attr_id)}: {why}"
        if self._missing:
            return
        if len(self._found) < len(_TABLES):
            self._due_at = min(self._due_at or asked_at, asked_at + RETRY_S)
            return
        self.error = ""
        self._understand()

    def _table(self, attr_id: int, kind: type[R]) -> list[R]:
        return [record for record in self._found[attr_id] if isinstance(record, kind)]

    def _understand(self) -> None:
        before = self.ports, self.fabrics, self.slowest_bps, self.complete
        self.slowest_bps = FULL_MODE.rate_bps
        infos: dict[int, PortInfo] = {}
        for record in self._table(SaAttrId.PORT_INFO_RECORD, PortInfoRecord):
            info = infos[record.lid] = PortInfo.parse(record.port_info)  # switches are not looked for
            if info.speed_active:
                able = LinkAbility(info.speed_supported, info.width_supported)
                self.slowest_bps = min(self.slowest_bps, able.mode.rate_bps)
        pkeys: dict[int, set[int]] = {}
        for table in self._table(SaAttrId.PARTITION_TABLE_RECORD, PartitionTableRecord):
            pkeys.setdefault(table.lid, set()).update(pkey for pkey in table.pkeys if pkey)
        scs = {r.lid: r.table for r in self._table(SaAttrId.SL_TO_SC_RECORD, SlToScRecord)}
        vls = {(r.lid, r.port_num): r.table for r in self._table(SaAttrId.SC_TO_VLT_RECORD, ScToVlRecord)}
        none = bytes([NO_CHANNEL] * 32)
        self.ports = {}
        for node in self._table(SaAttrId.NODE_RECORD, NodeRecord):
            about = NodeInfo.parse(node.node_info)
            port = infos.get(node.lid)
            if about.node_type != NODE_HFI or port is None or port.state != PortState.ACTIVE:
                continue
            self.subnet_prefix = port.subnet_prefix
            number = about.local_port_num
            self.ports[about.port_guid] = SaPort(
                guid=about.port_guid,
                lid=node.lid,
                opa_port_num=number,
                description=node.node_description.rstrip(b"\0").decode(errors="replace"),
                carries_ethernet=bool(port.capability_mask3 & CapabilityMask3.ETH_ON_FABRIC_SUPPORTED),
                pkeys=frozenset(pkeys.get(node.lid, ())),
                sl_to_sc=scs.get(node.lid, none),
                sc_to_vl=vls.get((node.lid, number), none),
                vl_mtus=tuple(map(port.mtu_of_vl, range(32))),
            )
        fabrics = self._table(SaAttrId.VF_INFO_RECORD, VfInfoRecord)
        self.fabrics = tuple(sorted(fabrics, key=lambda fabric: fabric.index))
        self.complete = True
        self.readings += 1
        self._changed |= before != (self.ports, self.fabrics, self.slowest_bps, self.complete)
