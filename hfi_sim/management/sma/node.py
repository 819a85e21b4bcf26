"""What an agent works on: one HFI port, or a whole switch, and the ports that an attribute modifier names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import FabricError, HfiSimError
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import Port
from hfi_sim.nodes.cable import Link
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.wire.mad.header import MadStatus

ALL_PORTS: Final = 0x100
"""Bit of the modifier of a Set: all ports from the one that it names on get the first block."""

SetLinks = Callable[[Iterable[Link], bool, str], None]
"""Brings links up or down for a requester that has a name; see `Fabric.set_links`."""


class UnansweredError(HfiSimError):
    """There is no response: the link over which it would go is down."""


@dataclass(frozen=True, slots=True)
class AttributeRequest:
    """One attribute of an SMP, or of an Aggregate in it."""

    attr_id: int
    attr_mod: int
    is_set: bool
    data: bytes
    """What was sent; as long as the answer may be."""
    in_port: int
    """The port that it came by."""
    shows_mkey: bool = True
    """Whether the answer may show the M_Key."""
    is_local: bool = False
    """Whether a program on this node asks."""

    @property
    def count(self) -> int:
        """Blocks or ports that the modifier names: its upper byte."""
        return self.attr_mod >> 24

    def blocks(self, size: int, count: int | None = None, step: int | None = None) -> list[bytes]:
        """Return the blocks that were sent. Args: step: bytes from one to the next, if more than `size`.

        Raises:  RefusedError: they do not fit an SMP.
        """
        step = size if step is None else step
        count = max(self.count, 1) if count is None else count
        if (count - 1) * step + size > len(self.data):
            raise RefusedError
        return [self.data[at : at + size] for at in range(0, count * step, step)]


class SmaNode:
    """One HFI port, or a switch with all its ports."""

    def __init__(self, port: HfiPort | SwitchPort0, set_links: SetLinks) -> None:
        self.port = port
        """Where its SMPs end: the HFI's port, or port 0."""
        self.set_links = set_links

    @property
    def switch(self) -> Switch | None:
        """The switch, or None for an HFI."""
        return self.port.switch if isinstance(self.port, SwitchPort0) else None

    def the_switch(self) -> Switch:
        """Return the switch. Raises: RefusedError: an HFI has no such attribute."""
        if self.switch is None:
            raise RefusedError(MadStatus.UNSUPPORTED)
        return self.switch

    def port_at(self, number: int) -> Port:
        """Return a port of the switch, 0 included; of an HFI the one that there is.

        Raises:  RefusedError: there is none with this number.
        """
        switch = self.switch
        if switch is None or number == 0:
            return self.port
        if number not in switch.ports:
            raise RefusedError
        return switch.ports[number]

    def ports(self, question: AttributeRequest, first: int | None = None) -> list[Port]:
        """Return the ports that the modifier names: as many as its upper byte says, from its lowest byte on.

        Raises:  RefusedError: one of them is not there; an HFI was asked for more or less than one.
        """
        if self.switch is None:
            if question.count != 1:
                raise RefusedError
            return [self.port]
        first = question.attr_mod & 0xFF if first is None else first
        return [self.port_at(number) for number in range(first, first + max(question.count, 1))]

    def all_ports(self, question: AttributeRequest) -> list[Port]:
        """Return the ports from the modifier's lowest byte on, for a Set with the bit for all of them."""
        switch = self.switch
        if switch is None:
            return [self.port]
        first = question.attr_mod & 0xFF
        zero: list[Port] = [self.port] if first == 0 else []
        return [*zero, *(port for number, port in switch.ports.items() if number >= max(first, 1))]

    def external(self, number: int) -> SwitchPort:
        """Return a port of the switch that has a cable.

        Raises:  RefusedError: there is none with this number, or this is no switch.
        """
        port = self.the_switch().ports.get(number)
        if port is None:
            raise RefusedError
        return port


def of_ports(
    node: SmaNode,
    question: AttributeRequest,
    size: int,
    read: Callable[[Port], bytes],
    write: Callable[[Port, bytes], None],
    step: int | None = None,
) -> bytes:
    """Answer for a block of each of consecutive ports; with the bit for all ports, a Set gives all the first one."""
    ports = node.ports(question)
    blocks = question.blocks(size, len(ports), step)
    if question.is_set:
        try:
            if question.attr_mod & ALL_PORTS and node.switch is not None:
                for port in node.all_ports(question):
                    write(port, blocks[0])
            else:
                for port, block in zip(ports, blocks, strict=True):
                    write(port, block)
        except FabricError:
            raise RefusedError from None
    return b"".join(read(port).ljust(step or size, b"\0") for port in ports)
