"""The interface of an engine. Sans-IO: inputs and the time go in, outputs and a deadline come out.

Times are whole nanoseconds (`hfi_sim.base.clock`). Everything in an engine happens in one order: by time, and at the
same instant by sequence number. An input at an instant comes after everything that was due by then. Elements keep
their numbers, which are never given again; a change concerns one element and does not disturb what is queued at others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.config import End, PortConfig, SwitchPortConfig
from hfi_sim.engine.events.outputs import BufferToken, DirectionId, Output, PortId, SwitchId
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.vl_counters import VlCounters, WireCounters
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import SIZE

NOTHING_NOTED: Final = b""


class PortError(NamedTuple):
    """What a port has dropped for one reason."""

    packets: int
    first: bytes
    """The first 16 bytes, or all of a shorter packet, of the first packet since the last `forget`; empty: none."""


class PortErrors:
    """The drops of one port, or of one port of a switch, as a performance agent reports them.

    An element counts its drops for conservation; a switch has one counter for all its ports. Here each port counts them
    again, and keeps the header of the first packet until it is cleared. Only drops cost anything.
    """

    def __init__(self) -> None:
        self._by_reason: dict[Drop, PortError] = {}

    def note(self, reason: Drop, packet: bytes) -> None:
        """Note a packet that the port drops."""
        packets, first = self._by_reason.get(reason, (0, NOTHING_NOTED))
        self._by_reason[reason] = PortError(packets + 1, first or packet[:SIZE])

    def all(self) -> Mapping[Drop, PortError]:
        """Return what was dropped, by reason."""
        return dict(self._by_reason)

    def forget(self, reasons: Iterable[Drop]) -> None:
        """Forget the first packet dropped for each of these reasons; the next one takes its place."""
        for reason in reasons:
            if (error := self._by_reason.get(reason)) is not None:
                self._by_reason[reason] = error._replace(first=NOTHING_NOTED)


class Engine(Protocol):
    """Carries every packet of a fabric from HFI port to HFI port."""

    # --- elements, once each -------------------------------------------------------------------------------

    def add_port(self, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> PortId:
        """Add an HFI port, without a cable and DOWN; it counts into the given counters."""
        ...

    def add_switch(self, counters: PacketCounters) -> SwitchId:
        """Add a switch, with empty tables and all ports DOWN; it counts into the given counters."""
        ...

    def add_port0(
        self, switch: SwitchId, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters
    ) -> PortId:
        """Give a switch its port 0, DOWN, where packets for the switch itself end; it counts into the given counters.

        Port 0 receives packets for its LID unless the forwarding table leads elsewhere, multicast packets that the
        multicast table sends to port 0, and management packets (SC15) to the permissive LID. The switch forwards
        what port 0 sends. While port 0 is DOWN, the switch drops packets for it. `deadline` covers MADs to port 0 at
        most: other packets for it have no receiver and may wait for the next call.
        """
        ...

    def add_link(
        self,
        ends: tuple[End, End],
        configs: tuple[LinkConfig, LinkConfig],
        counters: tuple[PacketCounters, PacketCounters],
        streams: tuple[tuple[RandomStream, RandomStream], tuple[RandomStream, RandomStream]],
    ) -> DirectionId:
        """Add a cable that is up and return the number of its first direction; the second has the next number.

        Args:  configs, counters: of each direction. streams: of each, the random stream of its faults and its jitter.
        """
        ...

    # --- changes -------------------------------------------------------------------------------------------

    def set_port(self, now: int, port: PortId, config: PortConfig) -> None:
        """Replace the configuration of an HFI port, or of port 0 of a switch."""
        ...

    def stall_port(self, now: int, port: PortId, stalled: bool) -> None:
        """Make an HFI port keep what arrives, as if the host were busy, or deliver it in order again."""
        ...

    def forget(self, now: int, ports: Sequence[PortId], directions: Sequence[DirectionId]) -> None:
        """Let go of HFI ports and of directions that are down for good, and of what they have counted.

        Their numbers are not given again: what still names one of them reaches no other element, and changes nothing.
        """
        ...

    def set_switch(self, now: int, switch: SwitchId, up: bool) -> None:
        """Switch a switch on or off."""
        ...

    def set_switch_port(self, now: int, switch: SwitchId, port_num: int, config: SwitchPortConfig) -> None:
        """Replace the configuration of a port of a switch."""
        ...

    def set_tables(
        self, now: int, switch: SwitchId, lft: LinearTable, mft: Mapping[int, frozenset[int]]
    ) -> None:
        """Replace the forwarding tables, both at once."""
        ...

    def set_link(self, now: int, direction: DirectionId, config: LinkConfig, up: bool = True) -> None:
        """Replace the configuration of one direction of a link; when it goes down, packets in transit are lost."""
        ...

    def set_rules(self, now: int, direction: DirectionId, rules: Sequence[FaultRule]) -> None:
        """Replace the faults of one direction."""
        ...

    def observe(self, now: int, direction: DirectionId, on: bool) -> None:
        """Start or stop reporting the packets of one direction."""
        ...

    def capture_ring(self, config: CaptureConfig) -> CaptureRing:
        """Make a ring for copies of packets, attached to no direction yet."""
        ...

    def attach(self, now: int, direction: DirectionId, ring: CaptureRing, interface: int) -> None:
        """Copy the packets of one direction into a ring of this engine, once each.

        Args:  interface: the number of this direction in the capture, below `CaptureConfig.interfaces`.
        """
        ...

    def detach(self, now: int, direction: DirectionId, ring: CaptureRing) -> None:
        """Stop copying them; harmless if the ring is not attached there."""
        ...

    # --- packets -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        """Send bytes from an HFI port, or from port 0 of a switch, if they are a packet.

        They are one if they are 16B, as long as their Length says, and not too short. Return why the port refused
        them, or None.
        """
        ...

    def inject(self, now: int, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a complete packet, as `send` does.

        Args:  slid, dlid, pkey: as in the packet; they are not read from it again.
        """
        ...

    def direct(self, now: int, port: PortId, out_port: int, data: bytes) -> Drop | None:
        """Send bytes from port 0 of a switch out of one of its other ports, past the tables.

        This is how directed routes travel, hop by hop. Return why port 0 refused them, or None, as for `send`.
        """
        ...

    def arrive(self, now: int, direction: DirectionId, records: Sequence[bytes]) -> None:
        """Receive packets that have left another engine at its end of a link (`Departed`).

        Args:  direction: from a `BoundaryEnd`. Its rate, latency, queue and faults have acted in the sending
               engine; here only its state and its credits apply, which are the room of the receiver behind it.
        """
        ...

    def keep(self, token: BufferToken) -> None:
        """Keep the room of a delivered packet for one more holder."""
        ...

    def release(self, now: int, token: BufferToken) -> None:
        """Release the room for one holder; after the last, its credit goes back to the sender."""
        ...

    # --- time and results ----------------------------------------------------------------------------------

    def handle_timeout(self, now: int) -> None:
        """Do everything that is due at `now` or was before."""
        ...

    @property
    def deadline(self) -> int | None:
        """Time of the next work without an input; None: never. 0 while `poll_output` has something to return.

        There is no further output before then; events inside the fabric until then may wait for the next call.
        """
        ...

    def poll_output(self) -> Output | None:
        """Take the next output; None: there is none."""
        ...

    def step(self, now: int) -> Sequence[Output]:
        """Do what is due, and return all outputs."""
        self.handle_timeout(now)
        outputs = []
        while (output := self.poll_output()) is not None:
            outputs.append(output)
        return outputs

    # --- queries -------------------------------------------------------------------------------------------

    def is_stopped(self, port: PortId) -> bool:
        """Return whether the link has stopped an HFI port for lack of credits."""
        ...

    def is_holding(self, direction: DirectionId) -> bool:
        """Return whether a packet is held back for later ones to overtake."""
        ...

    def lanes(self, direction: DirectionId) -> LanesStatus | None:
        """Return the current state of the virtual lanes of a direction; None on a link without credits."""
        ...

    def waiting_on(self, direction: DirectionId, sc: int) -> int:
        """Return the bytes that wait for credits on the VL of a service channel; 0 on a link without credits."""
        ...

    def vl_counters(self, now: int, direction: DirectionId) -> tuple[VlCounters, ...]:
        """Return the counters of each VL of a direction, as of `now`; index: VL.

        There is one VL, or as many as the link has, or 16 on a link without credits once its port has an SC2VLt
        table. Packets counted before there is a table count for VL 0.
        """
        ...

    def wire_counters(self, now: int, direction: DirectionId) -> WireCounters:
        """Return what a direction counts in addition to packets and bytes, as of `now`."""
        ...

    def port_errors(self, now: int, end: End) -> Mapping[Drop, PortError]:
        """Return what an HFI port or a port of a switch has dropped, by reason, as of `now`.

        For port 0 of a switch, `HfiEnd` with its own number gives its own drops; `SwitchEnd` with port 0 gives the
        switch's drops of packets that port 0 sent or that have no other port.
        """
        ...

    def forget_errors(self, now: int, end: End, reasons: Iterable[Drop]) -> None:
        """Forget the first packet that a port has dropped for each of these reasons; the numbers stay."""
        ...

    def count(self) -> None:
        """Bring the counters that elements were given up to date, as of the last call with a time."""
        ...


EngineFactory = Callable[[Icrc], Engine]
"""Makes an engine without elements. Args: the ICRC check for packets that HFI ports receive."""
