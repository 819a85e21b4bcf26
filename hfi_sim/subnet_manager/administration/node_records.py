"""Records of what each node's own agent says: tables of lanes and channels, buffers, cables, congestion.

They are asked of the agents as a subnet manager asks, without packets: what an SMP would show, a record shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast

from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma import answers
from hfi_sim.management.sma.facts import Port, port_num_of
from hfi_sim.management.sma.node import AttributeRequest as Smp
from hfi_sim.management.sma.node import SmaNode
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort, SwitchPort0
from hfi_sim.subnet_manager.administration.scope import SaRequest, Scope, lid_of
from hfi_sim.wire.mad.attributes import SaStatus, SubnetAttrId
from hfi_sim.wire.mad.header import MAD_SIZE, MadStatus
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records_tables import CableInfoRecord, ScToScRecord, VlArbitrationRecord
from hfi_sim.wire.sma.port_info import PortType

_ONE: Final = 1 << 24
"""In an attribute modifier: one port, or one block."""
_SECTIONS: Final = 4
_PLUG_FIRST: Final = 128
_PLUG_LAST: Final = 255
_READ_AT_ONCE: Final = 64


def _end_of(port: Port) -> HfiPort | SwitchPort0:
    """Return where the agent of a port's node is."""
    return port.switch.port0 if isinstance(port, SwitchPort) else port


def _told(port: Port, attr_id: int, attr_mod: int, size: int) -> bytes | None:
    """Return what the agent of a port's node answers to a Get; None: it has no such thing."""
    node = SmaNode(_end_of(port), _no_links)
    smp = Smp(attr_id=attr_id, attr_mod=attr_mod, is_set=False, data=bytes(MAD_SIZE), in_port=0)
    status, data = answers.answer(node, smp)
    return data[:size].ljust(size, b"\0") if status is MadStatus.OK else None


def _no_links(_links: Iterable[object], _up: bool, _who: str) -> None:
    """Bring no links up or down: a Get does not."""


def told(
    attr_id: SubnetAttrId,
    kind: type[SaRecord],
    ports: Callable[[Scope], Iterable[Port]] = Scope.ports,
    modifier: int = _ONE,
) -> Callable[[Scope], Iterator[SaRecord]]:
    """Return what yields a record of each port whose agent has an attribute: that is the last field of the record.

    Args:  ports: those of a scope that are asked. modifier: of the attribute, beside the number of the port where the
           record has that.
    """
    field, make = kind.HEADER.places[-1], cast("Callable[..., SaRecord]", kind)
    is_numbered = "port_num" in kind.HEADER.names

    def records(scope: Scope) -> Iterator[SaRecord]:
        for port in ports(scope):
            named = {"port_num": port_num_of(port)} if is_numbered else {}
            data = _told(port, attr_id, modifier | named.get("port_num", 0), field.size)
            if data is not None:
                yield make(lid=lid_of(port), **named, **{field.name: data})

    return records


def hfi_ports(scope: Scope) -> Iterable[Port]:
    """Return the ports of HFIs."""
    return scope.hfi_ports


def switch_ends(scope: Scope) -> Iterable[Port]:
    """Return port 0 of each switch."""
    return [switch.port0 for switch in scope.switches]


def switch_ports(scope: Scope) -> Iterable[Port]:
    """Return the ports of switches."""
    return (port for port in scope.ports() if not isinstance(port, HfiPort))


def sc_to_sc(scope: Scope) -> Iterator[SaRecord]:
    """Yield the SC of each SC between any two ports of each switch that are not down."""
    for into in scope.ports():
        if not isinstance(into, SwitchPort):
            continue
        for out in into.switch.ports.values():
            modifier = _ONE | into.port_num << 8 | out.port_num
            if out.link is not None and out.link.up:
                table = _told(into, SubnetAttrId.SC_TO_SC, modifier, 32)
                if table is not None:
                    yield ScToScRecord(
                        lid=lid_of(into), in_port=into.port_num, out_port=out.port_num, table=table
                    )


def vl_arbitration(scope: Scope) -> Iterator[SaRecord]:
    """Yield the sections of each port's VL arbitration table."""
    for port in scope.ports():
        number = port_num_of(port)
        for block in scope.blocks(_SECTIONS):
            elements = _told(port, SubnetAttrId.VL_ARB, _ONE | block << 16 | number, 256)
            if elements is not None:
                yield VlArbitrationRecord(lid=lid_of(port), port_num=number, block=block, elements=elements)


def cables(scope: Scope, question: SaRequest) -> Iterator[SaRecord]:
    """Yield what a request wants to read of each port's cable, 64 bytes a record.

    Raises:  RefusedError: it does not say what, or that is outside of the plug's upper page.
    Source:  opa-fm, sa_CableInfoRecord.c.
    """
    asked = question.message.one(CableInfoRecord)
    if not CableInfoRecord.names(question.mask) >= {"length", "address"}:
        raise RefusedError(SaStatus.INSUFFICIENT_COMPONENTS)
    first, last = asked.address, asked.address + asked.length
    if not _PLUG_FIRST <= first <= last <= _PLUG_LAST:
        raise RefusedError(SaStatus.INVALID)
    for port in scope.ports():
        if isinstance(port, SwitchPort0):
            continue
        number = port_num_of(port)
        for address in range(first, last + 1, _READ_AT_ONCE):
            length = min(last - address, _READ_AT_ONCE - 1)
            modifier = address << 19 | length << 13 | number
            memory = _told(port, SubnetAttrId.CABLE_INFO, modifier, _READ_AT_ONCE)
            if memory is not None:
                yield CableInfoRecord(
                    lid=lid_of(port),
                    port_num=number,
                    length=length,
                    address=address,
                    port_type=PortType.STANDARD,
                    memory=memory,
                )
