"""What an engine is to those who drive it and look at it. Sans-IO: inputs and the time in, outputs and a deadline out.

Times are whole nanoseconds (`hfi_sim.instants`). Everything that an engine does has a place in one order: by time, at
one instant by sequence number. An input at an instant comes after everything that was due by then. Elements have
numbers that stay theirs; a change concerns one element, and what is queued elsewhere never notices it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from hfi_sim.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.engine.config import End, PortConfig, SwitchPortConfig
from hfi_sim.engine.outputs import BufferToken, DirectionId, Output, PortId, SwitchId
from hfi_sim.engine.port_errors import PortError
from hfi_sim.link.capture import CaptureConfig, CaptureRing
from hfi_sim.link.config import LinkConfig
from hfi_sim.link.credits import LanesStatus
from hfi_sim.link.rule import FaultRule
from hfi_sim.link.vl_counters import VlCounters
from hfi_sim.link.wire_counters import WireCounters
from hfi_sim.random_stream import RandomStream
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.icrc import Icrc


class Engine(Protocol):
    """Carries every packet of a fabric from HFI port to HFI port."""

    # --- elements, once each -------------------------------------------------------------------------------

    def add_port(self, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> PortId:
        """Add an HFI port, without a cable and DOWN; it counts here."""
        ...

    def add_switch(self, counters: PacketCounters) -> SwitchId:
        """Add a switch, with empty tables and all ports DOWN; it counts here."""
        ...

    def add_port0(
        self, switch: SwitchId, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters
    ) -> PortId:
        """Give a switch its port 0, where packets for the switch itself end, DOWN; it counts here.

        What is addressed to its LID is passed to its host unless the table leads elsewhere, and so is what its table of
        groups sends to port 0, and management packets (SC15) to the permissive LID. What it sends, the switch forwards.
        While it is DOWN, the switch has no place for such packets. Of arrivals at a switch, deadlines heed MADs at
        most: whatever else is for port 0 finds nobody there, and may wait for the next call.
        """
        ...

    def add_link(
        self,
        ends: tuple[End, End],
        config: LinkConfig,
        counters: tuple[PacketCounters, PacketCounters],
        streams: tuple[tuple[RandomStream, RandomStream], tuple[RandomStream, RandomStream]],
    ) -> DirectionId:
        """Lay a cable, and return its first direction; the second is the next number.

        Args:  streams: for each direction, what its faults and its jitter draw from.
        """
        ...

    # --- changes -------------------------------------------------------------------------------------------

    def set_port(self, now: int, port: PortId, config: PortConfig) -> None:
        """Give an HFI port, or port 0 of a switch, a new configuration."""
        ...

    def stall_port(self, now: int, port: PortId, stalled: bool) -> None:
        """Let an HFI port keep what arrives, as if the host were busy, or go on in order."""
        ...

    def set_switch(self, now: int, switch: SwitchId, up: bool) -> None:
        """Switch a switch on or off."""
        ...

    def set_switch_port(self, now: int, switch: SwitchId, port_num: int, config: SwitchPortConfig) -> None:
        """Give a port of a switch a new configuration."""
        ...

    def set_tables(
        self, now: int, switch: SwitchId, lft: LinearTable, mft: Mapping[int, frozenset[int]]
    ) -> None:
        """Swap in new forwarding tables, both at once."""
        ...

    def set_link(self, now: int, direction: DirectionId, config: LinkConfig) -> None:
        """Give both directions of a link a new configuration; what is on its way is lost where the link goes down."""
        ...

    def set_rules(self, now: int, direction: DirectionId, rules: Sequence[FaultRule]) -> None:
        """Replace the faults of one direction."""
        ...

    def observe(self, now: int, direction: DirectionId, on: bool) -> None:
        """Report the packets of one direction, or no more."""
        ...

    def capture_ring(self, config: CaptureConfig) -> CaptureRing:
        """Make a ring for copies of packets, attached to no direction yet."""
        ...

    def attach(self, now: int, direction: DirectionId, ring: CaptureRing, interface: int) -> None:
        """Copy the packets of one direction into a ring that this engine made, once each.

        Args:  interface: what this direction is called there, a number below `CaptureConfig.interfaces`.
        """
        ...

    def detach(self, now: int, direction: DirectionId, ring: CaptureRing) -> None:
        """Copy no more of them; harmless when the ring is not attached there."""
        ...

    # --- packets -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        """Send what may be a packet from an HFI port, or from port 0 of a switch.

        It is one if it is 16B, as long as its Length says, and not too short. Return why the port refused it, or None.
        """
        ...

    def inject(self, now: int, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a complete packet likewise.

        Args:  slid, dlid, pkey: as in the packet; they are not read from it again.
        """
        ...

    def direct(self, now: int, port: PortId, out_port: int, data: bytes) -> Drop | None:
        """Send what may be a packet from port 0 of a switch out of one of its other ports, past the tables.

        Directed routes go so, hop by hop. Return why port 0 refused it, or None; else as `send`.
        """
        ...

    def arrive(self, now: int, direction: DirectionId, records: Sequence[bytes]) -> None:
        """Take packets that have left the engine at the other end of a link (`Left`).

        Args:  direction: from a `BoundaryEnd`. Its rate, latency, queue and faults acted where it begins; here are its
               state and its credits: they are what the receiver behind it has room for.
        """
        ...

    def keep(self, token: BufferToken) -> None:
        """Keep the room of a delivered packet for one more holder."""
        ...

    def release(self, now: int, token: BufferToken) -> None:
        """Release it for one holder; after the last, its credit goes back to the sender."""
        ...

    # --- time and results ----------------------------------------------------------------------------------

    def handle_timeout(self, now: int) -> None:
        """Do everything that is due at `now` or was before."""
        ...

    @property
    def deadline(self) -> int | None:
        """When there is something to do without an input; None: never. 0 while `poll_output` has something to give.

        There is no further output before; what happens inside the fabric until then may wait for the next call.
        """
        ...

    def poll_output(self) -> Output | None:
        """Take the next output; None: there is none."""
        ...

    def step(self, now: int) -> tuple[Sequence[Output], int | None]:
        """Do what is due, and return all outputs and the next deadline: `handle_timeout` and the rest in one call."""
        self.handle_timeout(now)
        outputs = []
        while (output := self.poll_output()) is not None:
            outputs.append(output)
        return outputs, self.deadline

    # --- looking -------------------------------------------------------------------------------------------

    def is_stopped(self, port: PortId) -> bool:
        """Return whether the link has stopped an HFI port for lack of credits."""
        ...

    def is_holding(self, direction: DirectionId) -> bool:
        """Return whether a packet is held back for later ones to overtake."""
        ...

    def lanes(self, direction: DirectionId) -> LanesStatus | None:
        """Return the virtual lanes of a direction as they are now; None on a link without credits."""
        ...

    def vl_counters(self, now: int, direction: DirectionId) -> tuple[VlCounters, ...]:
        """Return the counters of each VL of a direction, as of `now`; index: VL.

        There is one VL, or as many as the link has, or 16 on a link without credits once its port has a table SC2VLt.
        A packet that is counted before there is a table counts for VL 0.
        """
        ...

    def wire_counters(self, now: int, direction: DirectionId) -> WireCounters:
        """Return what a direction counts beside packets and bytes, as of `now`."""
        ...

    def port_errors(self, now: int, end: End) -> Mapping[Drop, PortError]:
        """Return what an HFI port or a port of a switch has dropped, by reason, as of `now`.

        Port 0 of a switch is the end at its own number for what it drops itself, and the end at number 0 of its switch
        for what the switch drops of what it sends, or has no other port for.
        """
        ...

    def forget_errors(self, now: int, end: End, reasons: Iterable[Drop]) -> None:
        """Forget the first packet that a port has dropped for each of these reasons; the numbers stay."""
        ...

    def count(self) -> None:
        """Bring the counters that elements were given up to date, as of the last call with a time."""
        ...


EngineFactory = Callable[[Icrc], Engine]
"""Makes an engine without elements. Args: what checks the packets that HFI ports receive."""
