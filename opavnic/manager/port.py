"""The port that the manager runs on, as it was read last, and what happened to it since. Sans-IO.

A umad device reports no change of a LID, a P_Key table or the subnet manager: the port is read again and again, and two
readings are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hfi_sim.base.clock import Clock
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PortEvent, PortState
from opavnic.manager.port_files import PortReading
from opavnic.manager.transport import UmadTransport


class ManagerPort:
    """A `vema.em.service.administered_subnet.OwnPort` behind a umad device."""

    def __init__(self, reading: PortReading, clock: Clock) -> None:
        self._take(reading)
        self.mad = UmadTransport(clock, lambda: self.reading)
        self._handlers: list[Callable[[PortEvent], None]] = []
        self._connected = False

    @property
    def state(self) -> PortState:
        """Its logical state; DOWN without a device or a P_Key of the management partition: nothing can be asked."""
        return self.reading.state if self._connected and self.reading.management_pkey else PortState.DOWN

    def _take(self, reading: PortReading) -> None:
        self.reading = reading
        self.name, self.guid = reading.name, reading.guid
        self.lid, self.sm_lid, self.sm_sl = reading.lid, reading.sm_lid, reading.sm_sl
        self.management_pkey = reading.management_pkey

    def subscribe(self, handler: Callable[[PortEvent], None]) -> Callable[[], None]:
        """Call `handler` with what happens to the port; the returned function ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def update(self, reading: PortReading) -> list[str]:
        """Take a new reading; return what has changed, in words."""
        before, state = self.reading, self.state
        if reading == before:
            return []
        self._take(reading)
        self._report(before, state)
        return list(_changes(before, reading))

    def connect(self, write: Callable[[bytes], None], numbers: Sequence[int]) -> None:
        """Go on with a device. Args: numbers: of the agents there, as `UmadTransport.connect` takes them."""
        state, self._connected = self.state, True
        self.mad.connect(write, numbers)
        self._report(self.reading, state)

    def disconnect(self) -> None:
        """Go on without a device: the port counts as down."""
        state, self._connected = self.state, False
        self.mad.disconnect()
        self._report(self.reading, state)

    def _report(self, before: PortReading, state: PortState) -> None:
        for event in _events(before, self.reading, state, self.state):
            for handler in tuple(self._handlers):
                handler(event)


def _events(
    before: PortReading, after: PortReading, state_before: PortState, state: PortState
) -> Iterator[PortEvent]:
    if state is not state_before and PortState.ACTIVE in (state, state_before):
        yield PortEvent.PORT_ACTIVE if state is PortState.ACTIVE else PortEvent.PORT_ERR
    if after.lid != before.lid:
        yield PortEvent.LID_CHANGE
    if (after.sm_lid, after.sm_sl) != (before.sm_lid, before.sm_sl):
        yield PortEvent.SM_CHANGE
    if after.pkeys != before.pkeys:
        yield PortEvent.PKEY_CHANGE


def _changes(before: PortReading, after: PortReading) -> Iterator[str]:
    if after.state is not before.state:
        yield f"the port is {after.state.name}, was {before.state.name}"
    if after.lid != before.lid:
        yield f"LID {after.lid:#x}, was {before.lid:#x}"
    if after.sm_lid != before.sm_lid:
        yield f"subnet manager at LID {after.sm_lid:#x}, was {before.sm_lid:#x}"
    if after.management_pkey != before.management_pkey:
        yield f"P_Key of the management partition {after.management_pkey:#06x}, was {before.management_pkey:#06x}"


def port_trouble(reading: PortReading) -> list[str]:
    """Return what keeps a port from managing a fabric."""
    if reading.state is not PortState.ACTIVE:
        return [f"{reading.name} is {reading.state.name}: it waits for a subnet manager to make it ACTIVE"]
    if not reading.sm_lid:
        return [f"{reading.name} has not heard of a subnet manager"]
    if not reading.management_pkey:
        return [
            f"{reading.name} has no P_Key of the management partition (0xffff or 0x7fff): it can ask nothing; "
            "it has " + (", ".join(f"{pkey:#06x}" for pkey in reading.pkeys if pkey) or "none")
        ]
    if reading.management_pkey != PKEY_FULL_MANAGEMENT:
        return [
            f"{reading.name} is a limited member of the management partition (0x7fff): it may ask the subnet manager, "
            "but ordinary nodes, which are limited members too, do not hear it; the fabric manager has to make it a "
            "full one (0xffff), as it does with nodes of a virtual fabric's <FullMember> in Admin"
        ]
    return []
