"""A question to the subnet administration, and what part of the fabric it is about: records are made of that alone.

A tool that asks for the ports of each LID would else have the records of the whole fabric made for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.types import Guid, PortState
from hfi_sim.management.sma.facts import Port, port_guid_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort0
from hfi_sim.subnet_manager.groups import SweepView
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord

End = HfiPort | SwitchPort0
_LID: Final = ("lid", "from_lid")
_PORT_NUM: Final = ("port_num", "from_port", "in_port")
_NODE_GUID: Final = ("node_info.node_guid", "node_guid")
_PORT_GUID: Final = ("node_info.port_guid", "port_guid")


def lid_of(port: Port) -> int:
    """Return the LID that records name a port by: its own, or that of its switch."""
    return port.lid if isinstance(port, HfiPort) else port.switch.lid


@dataclass(frozen=True, slots=True)
class Scope:
    """Ends and ports of a fabric that the components of a question leave, in the order of the fabric."""

    view: SweepView
    """The whole of it."""
    hfi_ports: Sequence[HfiPort]
    switches: Sequence[Switch]
    port_num: int | None = None
    """The number that a port is to have; None: any."""
    block: int | None = None
    """The block of a table that is wanted; None: all."""

    def ends(self) -> Iterator[End]:
        """Yield the ports that are end points: those of HFIs, and port 0 of each switch."""
        for port in self.hfi_ports:
            if self.port_num in (None, port.opa_port_num):
                yield port
        if not self.port_num:
            yield from (switch.port0 for switch in self.switches)

    def ports(self) -> Iterator[Port]:
        """Yield all ports that are not down, port 0 of each switch before its others."""
        for end in self.ends():
            yield end
            if isinstance(end, SwitchPort0) and self.port_num is None:
                yield from (port for port in end.switch.ports.values() if port.state is not PortState.DOWN)
        if self.port_num:
            for switch in self.switches:
                port = switch.ports.get(self.port_num)
                if port is not None and port.state is not PortState.DOWN:
                    yield port

    def blocks(self, count: int) -> Sequence[int]:
        """Return the wanted ones of the first `count` blocks of a table."""
        if self.block is None:
            return range(count)
        return (self.block,) if self.block < count else ()


def scope_of(view: SweepView, kind: type[SaRecord], data: bytes, mask: int) -> Scope:
    """Return the scope of a question. Args:  data: a record as asked for; what it lacks is 0. mask: its components."""
    named = kind.names(mask)
    asked = kind.parse(data[: kind.SIZE].ljust(kind.SIZE, b"\0")) if named else None

    def wanted(*components: str) -> int | None:
        for name in components:
            if name in named:
                outer, _, inner = name.partition(".")
                value = getattr(asked, outer)
                return int(getattr(kind.INSIDE[outer].parse(value), inner) if inner else value)
        return None

    hfi_ports, switches = view.ports, view.switches
    if (lid := wanted(*_LID)) is not None:
        bits = 0xFFFF if kind.IB else 0xFFFFFFFF
        hfi_ports = [port for port in hfi_ports if port.lid & bits == lid]
        switches = [switch for switch in switches if switch.lid & bits == lid]
    if (node_guid := wanted(*_NODE_GUID)) is not None:
        hfi_ports = [port for port in hfi_ports if port.hfi.node_guid == node_guid]
        switches = [switch for switch in switches if switch.node_guid == node_guid]
    if (guid := wanted(*_PORT_GUID)) is not None:
        hfi_ports = [port for port in hfi_ports if port.guid == guid]
        switches = [switch for switch in switches if port_guid_of(switch.port0) == guid]
    return Scope(view, hfi_ports, switches, wanted(*_PORT_NUM), wanted("block"))


SUBNET_PREFIX: Final = 0xFE80000000000000
Answer = Iterable[SaRecord]


@dataclass(frozen=True, slots=True)
class SaRequest:
    """A request and its requester."""

    message: SaMessage
    asker: HfiPort
    """The port that it came from."""
    is_full: bool
    """Whether that is a full member of the management partition: it may speak for other ports."""
    now: float

    @property
    def mask(self) -> int:
        """The component mask."""
        return self.message.sa.component_mask

    @property
    def ib(self) -> bool:
        """Whether records are wanted in InfiniBand's form."""
        return self.message.header.class_version == IB_VERSION

    def may_speak_for(self, port: HfiPort) -> bool:
        """Return whether the asker may change what belongs to a port."""
        return self.is_full or port is self.asker


IB_VERSION: Final = 2


def gid_of(guid: int) -> bytes:
    """Return the GID of a port."""
    return (SUBNET_PREFIX << 64 | guid).to_bytes(16)


def guid_of(gid: bytes) -> Guid | None:
    """Return the GUID that a GID of this subnet names, or None."""
    number = int.from_bytes(gid)
    return Guid(number & 0xFFFFFFFFFFFFFFFF) if number >> 64 == SUBNET_PREFIX else None
