"""What a fabric manager says of a fabric, beside what the fabric is. Pure: records in, rows out.

A fabric manager learns of a change by a trap or at its next sweep: until then its view differs, and each row says how.
It is right not to know what no cable that is up leads to. Nodes are matched by GUID, ports and links by the LIDs that
the fabric manager gives these nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hfi_sim.base.types import PKEY_FULL_MEMBER, PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.sma.facts import Port, port_guid_of, port_num_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort
from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.sa.records import LinkRecord, NodeRecord, PortInfoRecord, SmInfoRecord, VfInfoRecord
from hfi_sim.wire.sma.node import NodeInfo, NodeType
from hfi_sim.wire.sma.port_info import MTU_BYTES, MtuCode, PortInfo
from hfi_sim.wire.sma.tables import SmInfo
from opavnic.state.fm import FmManager, FmNode, FmRow, FmStates, FmView, FmVirtualFabric

TABLES: Final = (
    SaAttrId.NODE_RECORD,
    SaAttrId.PORT_INFO_RECORD,
    SaAttrId.LINK_RECORD,
    SaAttrId.SM_INFO_RECORD,
    SaAttrId.VF_INFO_RECORD,
)
"""The tables of subnet administration that a view is made of."""
_SM_STATES: Final = {0: "not active", 1: "discovering", 2: "standby", 3: "master"}
_NOT_YET: Final = "the fabric manager does not have it yet"
_STILL: Final = "the fabric manager still has it"
_QOS: Final = 1 << 1


def fm_view(
    tables: Mapping[int, Iterable[Any]],
    errors: Mapping[int, str],
    fabric: Fabric,
    asker: HfiPort,
    wanted: Mapping[str, int],
) -> FmView:
    """Return both views side by side; `differs` of a row says what contradicts, empty if nothing does.

    Args:  tables: what subnet administration has answered: records by attribute. errors: why others of TABLES were not
           given. asker: the port that asked: what cables that are up lead to from there is what the fabric manager can
           know. wanted: the P_Keys of the lab's virtual switches, by their names.
    """

    def are_given(*attr_ids: int) -> bool:
        return not errors.keys() & set(attr_ids)

    node_records, port_records, link_records, sm_records, vf_records = (
        list(tables.get(id_, ())) for id_ in TABLES
    )
    has_nodes = are_given(SaAttrId.NODE_RECORD)
    has_ports = are_given(SaAttrId.NODE_RECORD, SaAttrId.PORT_INFO_RECORD)
    has_links = are_given(SaAttrId.NODE_RECORD, SaAttrId.LINK_RECORD)
    reached = _reached(fabric, asker)
    ours = _ends(fabric)
    theirs = {NodeInfo.parse(record.node_info).port_guid: record for record in node_records}
    by_lid = {record.lid: guid for guid, record in theirs.items()}
    managers = [_manager(record, ours, by_lid) for record in sm_records]
    nodes = list(_nodes(ours, theirs, reached)) if has_nodes else []
    ports = list(_ports(port_records, fabric, by_lid, reached)) if has_ports else []
    links = list(_links(link_records, fabric, ours, by_lid, reached)) if has_links else []
    fabrics = list(_fabrics(vf_records, wanted)) if are_given(SaAttrId.VF_INFO_RECORD) else []
    rows: list[FmRow] = [*managers, *nodes, *ports, *links, *fabrics]
    return FmView(
        managers=managers,
        nodes=nodes,
        ports=ports,
        links=links,
        virtual_fabrics=fabrics,
        differences=sum(bool(row.differs) for row in rows),
        errors={SaAttrId.text_of(attr_id): error for attr_id, error in errors.items()},
    )


def _ends(fabric: Fabric) -> dict[int, Port]:
    """Return what has a LID, by its GUID: HFI ports, and switches by their port 0."""
    ends: dict[int, Port] = {int(port.guid): port for port in fabric.hfi_ports()}
    return ends | {int(switch.node_guid): switch.port0 for switch in fabric.switches.values()}


def _reached(fabric: Fabric, asker: HfiPort) -> frozenset[str]:
    """Return the names of the HFI ports and switches that cables that are up lead to from a port."""
    beside: dict[str, set[str]] = {}
    for link in fabric.links:
        if link.up:
            a, b = (_node_of(end.name, fabric) for end in link.ends)
            beside.setdefault(a, set()).add(b)
            beside.setdefault(b, set()).add(a)
    found, ahead = {asker.name}, [asker.name]
    while ahead:
        new = beside.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return frozenset(found)


def _node_of(port: str, fabric: Fabric) -> str:
    """Return the switch of a port, or an HFI's port itself: packets do not pass through an HFI."""
    node = port.rpartition(":")[0]
    return node if node in fabric.switches else port


def _lid(end: Port) -> int:
    return int(end.lid if isinstance(end, HfiPort) else end.switch.lid)


def _name(end: Port) -> str:
    return end.name if isinstance(end, HfiPort) else end.switch.name


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="replace")


def _manager(record: SmInfoRecord, ours: Mapping[int, Port], by_lid: Mapping[int, int]) -> FmManager:
    info = SmInfo.parse(record.sm_info)
    end = ours.get(info.port_guid) or ours.get(by_lid.get(record.lid, 0))
    return FmManager(
        port=_name(end) if end is not None else f"GUID {info.port_guid:#018x}",
        state=_SM_STATES.get(info.state, f"state {info.state}"),
        priority=info.priority,
        lid=record.lid,
        for_s=info.elapsed_time,
        differs="" if end is not None else "no port of this lab",
    )


def _nodes(
    ours: Mapping[int, Port], theirs: Mapping[int, NodeRecord], reached: frozenset[str]
) -> Iterator[FmNode]:
    for guid, end in ours.items():
        record = theirs.get(guid)
        attached = _name(end) in reached
        differs = ""
        if attached != (record is not None):
            differs = _NOT_YET if attached else _STILL
        elif record is not None and record.lid != _lid(end):
            differs = "the LIDs differ"
        yield FmNode(
            name=_name(end),
            kind="HFI port" if isinstance(end, HfiPort) else "switch",
            guid=f"{guid:#018x}",
            attached=attached,
            lid=_lid(end),
            fm_name="" if record is None else _text(record.node_description),
            fm_lid=None if record is None else record.lid,
            differs=differs,
        )
    for guid, record in theirs.items():
        if guid not in ours:
            kind = NodeInfo.parse(record.node_info).node_type
            yield FmNode(
                name="",
                kind="switch" if kind == NodeType.SWITCH else "HFI port",
                guid=f"{guid:#018x}",
                attached=False,
                lid=None,
                fm_name=_text(record.node_description),
                fm_lid=record.lid,
                differs="it is not in this lab",
            )


def _state(state: int) -> str:
    return PortState(state).name if state in set(PortState) else f"state {state}"


def _ports(
    records: Iterable[PortInfoRecord], fabric: Fabric, by_lid: Mapping[int, int], reached: frozenset[str]
) -> Iterator[FmStates]:
    theirs = {
        (by_lid.get(record.lid), record.port_num): PortInfo.parse(record.port_info) for record in records
    }
    cabled = [port for switch in fabric.switches.values() for port in switch.ports.values() if port.link]
    every: list[HfiPort | SwitchPort] = [*fabric.hfi_ports(), *cabled]
    for port in every:
        info = theirs.get((int(port_guid_of(port)), port_num_of(port)))
        # what is down is in no table, and so is what the fabric manager does not reach
        seen = PortState.DOWN if info is None else info.state
        attached = _node_of(port.name, fabric) in reached
        yield FmStates(
            name=port.name,
            state=port.state.name,
            fm_state=_state(seen),
            differs="" if seen == (port.state if attached else PortState.DOWN) else "the states differ",
        )


def _links(
    records: Iterable[LinkRecord],
    fabric: Fabric,
    ours: Mapping[int, Port],
    by_lid: Mapping[int, int],
    reached: frozenset[str],
) -> Iterator[FmStates]:
    theirs = {
        frozenset(
            (
                _place(ours, by_lid, record.from_lid, record.from_port),
                _place(ours, by_lid, record.to_lid, record.to_port),
            )
        )
        for record in records
    }
    known = set()
    for link in fabric.links:
        ends = frozenset(end.name for end in link.ends)
        known.add(ends)
        seen = ends in theirs
        there = link.up and _node_of(link.ends[0].name, fabric) in reached
        differs = "" if there == seen else _NOT_YET if there else _STILL
        yield FmStates(
            name=link.name,
            state="up" if link.up else "down",
            fm_state="there" if seen else "not there",
            differs=differs,
        )
    for ends in sorted(theirs - known, key=sorted):
        yield FmStates(
            name="--".join(sorted(ends)), state="", fm_state="there", differs="it is not in this lab"
        )


def _place(ours: Mapping[int, Port], by_lid: Mapping[int, int], lid: int, port_num: int) -> str:
    """Return the name of a port that the fabric manager names by LID and number."""
    end = ours.get(by_lid.get(lid, 0))
    if end is None:
        return f"LID {lid:#x}:{port_num}"
    return end.name if isinstance(end, HfiPort) else _switch_port(end.switch, port_num)


def _switch_port(switch: Switch, port_num: int) -> str:
    return f"{switch.name}:{port_num}"


def _fabrics(records: Sequence[VfInfoRecord], wanted: Mapping[str, int]) -> Iterator[FmVirtualFabric]:
    users: dict[int, list[str]] = {}
    for name, pkey in wanted.items():
        users.setdefault(pkey | PKEY_FULL_MEMBER, []).append(name)
    for record in records:
        mtu = MTU_BYTES.get(MtuCode(record.mtu)) if record.mtu in set(MtuCode) else None
        yield FmVirtualFabric(
            name=_text(record.name),
            pkey=f"{record.pkey:#06x}",
            sl=record.sl_base,
            mtu=mtu if record.mtu_specified else None,
            qos=bool(record.option_flags & _QOS),
            vesws=users.get(record.pkey | PKEY_FULL_MEMBER, []),
            differs="",
        )
    given = {record.pkey | PKEY_FULL_MEMBER for record in records}
    for pkey, names in users.items():
        if pkey not in given:
            yield FmVirtualFabric(
                name="",
                pkey=f"{pkey:#06x}",
                sl=None,
                mtu=None,
                qos=False,
                vesws=names,
                differs="the fabric manager has no virtual fabric with this P_Key",
            )
