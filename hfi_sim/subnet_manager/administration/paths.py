"""Paths between ports, and the nodes on them.

Source: opa-fm, sa_PathRecord.c and sa_TraceRecord.c; the InfiniBand architecture, 15.2.5.16 and 15.2.5.17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hfi_sim.base.link_modes import FULL_MODE
from hfi_sim.base.types import PKEY_FULL_MEMBER
from hfi_sim.engine.link.config import MAX_MTU
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import neighbour_of, port_num_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.subnet_manager.administration.scope import SaRequest, gid_of, guid_of
from hfi_sim.subnet_manager.groups import SweepView
from hfi_sim.wire.mad.attributes import SaStatus
from hfi_sim.wire.sa.message import LIFE, MTUS, RATES, is_wanted, mtu_code, rate_code
from hfi_sim.wire.sa.records import TraceRecord
from hfi_sim.wire.sa.records_ib import IbPathRecord
from hfi_sim.wire.sma.node import NodeType

MAX_PATHS: Final = 4096
"""Paths in an answer; the rest is left out."""
_MAX_HOPS: Final = 64
"""Switches that a way is followed over, for its rate."""
_End = HfiPort | SwitchPort0
"""What a path begins or ends at."""
_SCRAMBLED: Final = 0x55555555
_PLAIN: Final = IbPathRecord.mask("dlid", "slid", "sl")


def paths(view: SweepView, question: SaRequest) -> Iterator[IbPathRecord]:
    """Yield the paths that a PathRecord asks for, at most as many between two ports as it wants.

    Raises:  RefusedError: it names no source; a GID that no port has.
    """
    asked = question.message.one(IbPathRecord)
    mask = question.mask
    has = IbPathRecord.names(mask)
    if not has & {"sgid", "slid"}:
        raise RefusedError(SaStatus.INSUFFICIENT_COMPONENTS)
    sources = _ends(view, asked.sgid if "sgid" in has else None, asked.slid if "slid" in has else None)
    targets = _ends(view, asked.dgid if "dgid" in has else None, asked.dlid if "dlid" in has else None)
    most = asked.number_of_paths if "number_of_paths" in has and asked.number_of_paths else 127
    select = IbPathRecord.selects(asked.build(), mask & _PLAIN)
    count = 0
    for source in sources:
        for target in targets:
            between = 0
            for path in _between(source, target):
                if between >= most or count >= MAX_PATHS:
                    break
                if select(path) and _fits(path, asked, has):
                    between += 1
                    count += 1
                    yield path


def _ends(view: SweepView, gid: bytes | None, lid: int | None) -> list[_End]:
    ports: Iterable[_End] = [*view.ports, *(switch.port0 for switch in view.switches)]
    if gid is not None and any(gid):
        guid = guid_of(gid)
        ports = [port for port in ports if port.guid == guid]
        if not ports:
            raise RefusedError(SaStatus.INVALID_GID)
    if lid is not None:
        ports = [port for port in ports if port.lid and lid >> port.lmc == port.lid >> port.lmc]
    return list(ports)


def _between(source: _End, target: _End) -> Iterator[IbPathRecord]:
    """Yield the paths from a port to another: one for each LID of the target, in each partition of both."""
    hfi_ports = [port for port in (source, target) if isinstance(port, HfiPort)]
    mtus = [max(port.vl_mtus, default=0) or MAX_MTU for port in hfi_ports] or [MAX_MTU]
    lids = range(target.lid, target.lid + (1 << target.lmc))
    rates = {lid: rate_code(_rate(source, target, lid)) for lid in lids}
    for pkey in _common(source, target):
        for lid in lids:
            yield IbPathRecord(
                dgid=gid_of(target.guid),
                sgid=gid_of(source.guid),
                dlid=lid & 0xFFFF,
                slid=source.lid & 0xFFFF,
                reversible=True,
                pkey=pkey,
                mtu_selector=2,
                mtu=mtu_code(min(mtus)),
                rate_selector=2,
                rate=rates[lid],
                life_selector=2,
                life=LIFE,
            )


def _rate(source: _End, target: _End, lid: int) -> float:
    """Return the rate of the slowest link on the way to a LID, in bits per second, as far as the tables lead."""
    rates = [port.link.mode.rate_bps for port in (source, target) if isinstance(port, HfiPort) and port.link]
    at = neighbour_of(source) if isinstance(source, HfiPort) else None
    switch = source.switch if isinstance(source, SwitchPort0) else None
    for _ in range(_MAX_HOPS):
        if isinstance(at, SwitchPort):
            switch = at.switch
        if switch is None or not (hops := switch.lft.next_hops(lid)) or hops[0] not in switch.ports:
            break
        leaves = switch.ports[hops[0]]
        at, switch = neighbour_of(leaves), None
        if leaves.link is not None:
            rates.append(leaves.link.mode.rate_bps)
    return min(rates, default=FULL_MODE.rate_bps)


def _common(source: _End, target: _End) -> list[int]:
    """Return the P_Keys that packets from `source` to `target` may bear, one of each partition."""
    found: dict[int, int] = {}
    for pkey in source.pkeys.entries:
        if target.pkeys.admits(pkey):
            partition = pkey & ~PKEY_FULL_MEMBER
            found[partition] = max(found.get(partition, 0), int(pkey))
    return list(found.values())


def _fits(path: IbPathRecord, asked: IbPathRecord, has: set[str]) -> bool:
    if "pkey" in has and (path.pkey ^ asked.pkey) & ~PKEY_FULL_MEMBER:  # a partition, by any of its P_Keys
        return False
    return ("mtu" not in has or is_wanted(path.mtu, asked.mtu_selector, asked.mtu, MTUS)) and (
        "rate" not in has or is_wanted(path.rate, asked.rate_selector, asked.rate, RATES)
    )


def trace(view: SweepView, question: SaRequest) -> Iterator[TraceRecord]:
    """Yield the nodes of the one path that a PathRecord asks for.

    Raises:  RefusedError: no port, or several, fit; the tables lead nowhere.
    """
    asked = question.message.one(IbPathRecord)
    mask = question.mask
    has = IbPathRecord.names(mask)
    sources = _ends(view, asked.sgid if "sgid" in has else None, asked.slid if "slid" in has else None)
    targets = _ends(view, asked.dgid if "dgid" in has else None, asked.dlid if "dlid" in has else None)
    if len(sources) != 1 or len(targets) != 1:
        raise RefusedError(SaStatus.NO_RECORDS if not sources or not targets else SaStatus.INVALID)
    source, target = sources[0], targets[0]
    lid = asked.dlid if "dlid" in has else target.lid
    if not isinstance(source, HfiPort):
        raise RefusedError(SaStatus.NO_RECORDS)
    yield _step(NodeType.HFI, source.hfi.node_guid, 0, source.opa_port_num, 0, source.guid)
    if source is target:
        return
    at = neighbour_of(source)
    for _ in range(len(view.switches) + 1):
        if at is None:
            raise RefusedError(SaStatus.NO_RECORDS)
        if isinstance(at, HfiPort):
            yield _step(NodeType.HFI, at.hfi.node_guid, at.opa_port_num, 0, at.guid, 0)
            return
        switch: Switch = at.switch
        if switch.port0 is target:
            yield _step(
                NodeType.SWITCH, switch.node_guid, port_num_of(at), 0, switch.node_guid, switch.node_guid
            )
            return
        hops = switch.lft.next_hops(lid)
        if not hops or hops[0] not in switch.ports:
            raise RefusedError(SaStatus.NO_RECORDS)
        leaves = switch.ports[hops[0]]
        guid = switch.node_guid
        yield _step(NodeType.SWITCH, guid, port_num_of(at), leaves.port_num, guid, guid)
        at = neighbour_of(leaves)
    raise RefusedError(SaStatus.NO_RECORDS)


def _step(kind: int, node: int, entry: int, leaves: int, entry_guid: int, exit_guid: int) -> TraceRecord:
    return TraceRecord(
        generation=1,
        node_type=kind,
        entry_port=entry,
        exit_port=leaves,
        node_id=node ^ _SCRAMBLED,
        chassis_id=node ^ _SCRAMBLED,
        entry_port_id=entry_guid ^ _SCRAMBLED,
        exit_port_id=exit_guid ^ _SCRAMBLED,
    )
