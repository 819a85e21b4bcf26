"""Verify that every agent is configured as desired: read everything from all agents, and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import Mad
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import MAX_VPORTS, EthLinkStatus
from vema.em.core.dialogue import PORT, request_for
from vema.em.core.state import SCAN_GAP, Desired, MacList, Port, Vport
from vema.em.core.steps import Step
from vema.em.desired.desired import EmConfig
from vema.em.desired.mac_tables import ENTRY, SECTIONS, MemberTable, section_range
from vema.em.desired.plan import class_port_info, differences, is_power_on, port_info
from vema.em.desired.ports import Roster
from vema.em.desired.ranges import ALL

AT_ONCE: Final = 32
"""Number of ports verified concurrently."""
RETRIES: Final = 12
_RANGE: Final = MacEntries.HEADER.codec
_PAGE: Final = IfaceMacs.HEADER.codec


@dataclass(frozen=True, slots=True)
class Difference:
    """One deviation from the desired state."""

    port: str
    vport_num: int | None
    what: str

    def __str__(self) -> str:
        where = self.port if self.vport_num is None else f"{self.port} vport {self.vport_num}"
        return f"{where}: {self.what}" if where else self.what


Asker = Callable[..., Awaitable[Mad | None]]
"""Sends a request to an agent, with a number of retries; returns the response, or None."""


async def verify(
    desired: Desired, ports: Iterable[Port], asker: Asker, groups: dict[int, frozenset[int]]
) -> list[Difference]:
    """Return every difference between the actual and the desired state of the agents.

    Args:  groups: the members of each multicast group according to the subnet manager.
    """
    found: list[Difference] = []
    slots = asyncio.Semaphore(AT_ONCE)

    async def look(port: Port) -> None:
        async with slots:
            try:
                async for difference in _verify_port(desired, port, asker):
                    found.append(difference)
            except (AgentError, WireError) as error:
                found.append(Difference(port.facts.name, None, str(error)))

    ports = list(ports)
    found += _absent(desired.config, ports)
    await asyncio.gather(*(look(port) for port in ports if port.in_service))
    for vesw in desired.vesws.values():
        there = groups.get(vesw.plan.mlid, frozenset())
        if there != vesw.guids:
            whose = f"virtual switch {vesw.plan.section.name!r} ({vesw.plan.section.id})"
            group = f"the group {vesw.plan.mlid:#x} of {whose}" if vesw.plan.mlid else f"the group of {whose}"
            what = f"{group} has {len(there)} members, {len(vesw.guids)} are wanted"
            found.append(Difference("", None, what))
    return sorted(found, key=lambda item: (item.port, -1 if item.vport_num is None else item.vport_num))


def _absent(config: EmConfig, ports: Iterable[Port]) -> Iterator[Difference]:
    """Yield the members named in a configuration that are not in service."""
    here = Roster(port.facts for port in ports if port.in_service)
    met = Roster(port.facts for port in ports)
    for vesw in config.vesws:
        for name in () if vesw.members == ALL else vesw.members:
            if here.find(name) is None:
                port = met.find(name)
                where = name if port is None else port.name
                yield Difference(
                    where, None, f"is away, a member of virtual switch {vesw.name!r} ({vesw.id})"
                )


async def _ask(asker: Asker, port: Port, num: int, step: Step, data: bytes = b"") -> bytes:
    request = request_for(port, num, step, data)
    response = await asker(request, retries=RETRIES)
    if response is None:
        raise AgentError(f"attribute {step.attr_id:#06x}: no response")
    return request.answered_by(response)


async def _verify_port(desired: Desired, port: Port, asker: Asker) -> AsyncIterator[Difference]:
    name = port.facts.name
    if port.isolated:
        yield Difference(name, None, f"isolated: {port.isolated}")
    seen = ClassPortInfo.parse(await _ask(asker, port, PORT, Step.IDENTIFY))
    for line in differences(class_port_info(desired.config, desired.sink_lid, seen), seen):
        yield Difference(name, None, f"ClassPortInfo {line}")
    wanted = {vesw_id for vesw_id, vesw in desired.vesws.items() if port.facts.guid in vesw.guids}
    for vesw_id in wanted - {vport.vesw_id for vport in port.vports.values()}:
        yield Difference(name, None, f"has no vport on virtual switch {vesw_id}")
    absent = 0
    for num in range(1, MAX_VPORTS + 1):
        info = VeswPortInfo.parse(await _ask(asker, port, num, Step.READ))
        vport = port.vports.get(num)
        if vport is None and info.eth_link_status not in tuple(EthLinkStatus):
            absent += 1
            if absent >= SCAN_GAP and num > max(port.vports, default=0):
                break
            continue
        absent = 0
        async for difference in _verify_vport(desired, port, num, vport, info, asker):
            yield difference


async def _verify_vport(
    desired: Desired, port: Port, num: int, vport: Vport | None, info: VeswPortInfo, asker: Asker
) -> AsyncIterator[Difference]:
    name = port.facts.name
    vesw = None if vport is None else desired.vesws.get(vport.vesw_id)
    if vport is None or vesw is None:
        if not is_power_on(info):
            yield Difference(name, num, f"is on virtual switch {info.vesw_id}, but is not a vport of the EM")
        return
    for line in differences(port_info(vesw.plan, port.facts, info), info):
        yield Difference(name, num, f"VeswPortInfo {line}")
    if vesw.plan.learns:
        async for difference in _verify_lists(port, num, vport, info, asker):
            yield difference
    async for difference in _verify_table(port, num, vesw.table_for(port.facts.guid), info, asker):
        yield difference


async def _verify_lists(
    port: Port, num: int, vport: Vport, info: VeswPortInfo, asker: Asker
) -> AsyncIterator[Difference]:
    # the lists of a netdev that is down may change without notice until it is opened
    for step, macs in ((Step.UNICAST, vport.unicast), (Step.MULTICAST, vport.multicast)):
        same = await _same_list(port, num, step, macs, asker)
        if not same and info.eth_link_status == EthLinkStatus.UP:
            yield Difference(
                port.facts.name,
                num,
                f"has an address list (attribute {step.attr_id:#06x}) that the EM does not know",
            )


async def _verify_table(
    port: Port, num: int, table: MemberTable, info: VeswPortInfo, asker: Asker
) -> AsyncIterator[Difference]:
    name = port.facts.name
    held: dict[bytes, int] = {}
    for index in range(SECTIONS):
        first, count = section_range(index)
        data = await _ask(asker, port, num, Step.AUDIT, _RANGE.pack(first, count, 0))
        for entry in MacEntries.parse(data).entries:
            if entry is not None:
                if entry.mac in held:
                    yield Difference(name, num, f"MAC table has {entry.mac.hex(':')} twice")
                held[entry.mac] = entry.dlid
    should = {
        mac: dlid_sd >> 8
        for section in table.sections
        for mac, _, dlid_sd in ENTRY.iter_unpack(section)
        if any(mac)
    }
    for mac in sorted(should.keys() | held.keys()):
        if held.get(mac) != should.get(mac):
            lids = [
                f"{lid:#x}" if lid is not None else "no entry" for lid in (held.get(mac), should.get(mac))
            ]
            yield Difference(name, num, f"MAC table {mac.hex(':')}: {lids[0]} -> {lids[1]}")
    if info.mac_tbl_digest != table.digest:
        yield Difference(name, num, f"MAC table digest {info.mac_tbl_digest:#x} -> {table.digest:#x}")


async def _same_list(port: Port, num: int, step: Step, macs: MacList, asker: Asker) -> bool:
    held: list[bytes] = []
    while True:
        page = IfaceMacs.parse(await _ask(asker, port, num, step, _PAGE.pack(len(held), 0, 0, 0)))
        held += page.macs
        if not page.macs or len(held) >= page.total:
            return tuple(held) == macs.macs
