"""Linux's own hfi1 as an HFI that is asked and set by MADs: in a kernel, of which this process is the neighbour."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PortState
from hfi_sim.management.sma.hfi_port import SM_START
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, Lrh16B, l4_of
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import parse_fm_payload
from hfi_sim.wire.mad.header import TID, Method
from hfi_sim.wire.sma.port_info import PortInfo, PortStateInfo
from hfi_sim.wire.sma.tables import BufferControl
from opavnic.conformance.asked_hfi import (
    LID,
    NEIGHBOUR_PORT,
    SMP_BEHIND,
    SMP_DATA,
    SWITCH_GUID,
    SWITCH_LID,
    AskedHfi,
    build_smp,
    packet_of,
    question_behind,
)
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic.kernel.hfi1_port import ARM, FM_TAIL
from opavnic.kernel.process import KernelProcess
from opavnic.kernel.wire import IDLE, LINK, NEIGHBOUR, PhysicalLink, WireKind, build_frame, parse_frame

_STATES: Final = build_smp(Method.GET, SubnetAttrId.PORT_STATE_INFO, 1 << 24 | 1)
_PATIENCE_S: Final = 10.0
_SILENCE_S: Final = 0.5
_TRIES: Final = 4


class Hfi1(AskedHfi):
    """Linux's own, in a kernel of which this is the neighbour."""

    def __init__(self, process: KernelProcess) -> None:
        """Take a kernel that runs, and wait until its link is up.

        Raises:  KernelError: it has ended, or its link does not come up.
        """
        super().__init__()
        self.process = process
        self.icrc = Icrc()
        self._state = 0
        self._heard: list[bytes] = []
        self.lid = LID
        self.take: Callable[[bytes], None] = self.hear
        """Takes each frame of the kernel."""
        self._tell_link(PhysicalLink.LINK_UP)
        self.await_link()

    def _tell_link(self, state: PhysicalLink) -> None:
        body = LINK.build(
            **NEIGHBOUR, guid=SWITCH_GUID, port=NEIGHBOUR_PORT, type=1, state=state, lni=1 << 23
        )
        self.process.send(build_frame(WireKind.LINK, body))

    def _receive(self, end: float) -> bool:
        frame = self.process.receive(max(0.0, end - time.monotonic()))
        if frame is not None:
            self.take(frame)
        return frame is not None

    def hear(self, frame: bytes) -> None:
        """Take what a frame says of the link, and MADs."""
        found = parse_frame(frame)
        if found is None:
            return
        if found.kind == WireKind.LINK and len(found.body) == LINK.size:
            self._state = LINK.parse(found.body).state
        elif found.kind == WireKind.PACKET and l4_of(found.body) == L4.FM:
            _, mad = parse_fm_payload(found.body[Lrh16B.SIZE : -FM_TAIL])
            self._heard.append(mad)

    def await_link(self) -> None:
        """Wait for it, and for an answer. Raises KernelError: there is none within seconds."""
        end = time.monotonic() + _PATIENCE_S
        while self._state == PhysicalLink.LINK_UP and self._receive(time.monotonic() + _SILENCE_S):
            pass
        while self._state != PhysicalLink.LINK_UP or self.ask(SMP_BEHIND, PKEY_FULL_MANAGEMENT) is None:
            if time.monotonic() > end:
                raise KernelError(f"the link of hfi1 is not up after {_PATIENCE_S:g} s")
            if self._state != PhysicalLink.LINK_UP:
                self._receive(end)

    def _ask(self, mad: bytes, pkey: int) -> bytes | None:
        behind = question_behind(mad)
        for _ in range(_TRIES):  # while Linux renews its list of GIDs, it cannot answer
            self._heard.clear()
            self._send(mad, pkey)
            self._send(behind, PKEY_FULL_MANAGEMENT)
            end = time.monotonic() + _SILENCE_S
            while self._state == PhysicalLink.LINK_UP and (self._receive(end) or time.monotonic() < end):
                if any(heard[TID] == behind[TID] for heard in self._heard):
                    return self._answer(mad)
            if self._state != PhysicalLink.LINK_UP or self._answer(mad) is not None:
                break
        return self._answer(mad)

    def request(self, lid: int, mad: bytes) -> bytes | None:
        """Send a request to an agent at the HFI's LID and return its response; None: there is none."""
        return self.ask(mad, PKEY_FULL_MANAGEMENT) if lid == self.lid else None

    def _answer(self, mad: bytes) -> bytes | None:
        return next((heard for heard in self._heard if heard[TID] == mad[TID]), None)

    def _send(self, mad: bytes, pkey: int) -> None:
        self.process.send(build_frame(WireKind.PACKET, packet_of(mad, pkey, self.icrc)))

    def pull_cable(self) -> None:
        """See `AskedHfi`; the driver lets the HFI poll then."""
        self._tell_link(PhysicalLink.OFFLINE)
        end = time.monotonic() + _PATIENCE_S
        while self._state != PhysicalLink.POLLING and time.monotonic() < end:
            self._receive(end)

    def arm_neighbour(self) -> None:
        """See `AskedHfi`; wait until the driver has seen it, in seconds at most."""
        self.process.send(build_frame(WireKind.IDLE, IDLE.build(message=ARM)))
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            answer = self.ask(_STATES, PKEY_FULL_MANAGEMENT)
            if answer is not None and PortStateInfo.parse(answer[SMP_DATA:]).neighbor_normal:
                break


@contextmanager
def hfi1(name: str = "", host: str = "") -> Iterator[Hfi1]:
    """Start the newest kernel that has hfi1.

    Args:    name: of the kernel, where it is another one. host: with one, it runs programs of this machine.
    Raises:  KernelError: none is built, or it does not come up.
    """
    with KernelProcess(find_kernel(name, HFI1), host, driver=HFI1) as process:
        process.await_ready()
        yield Hfi1(process)


def activate(hfi: AskedHfi, lid: int = LID) -> None:
    """Bring the port to ACTIVE, with a LID and buffers for its VLs."""
    one = 1 << 24 | 1

    def change(modifier: int, **changes: Any) -> None:
        shown = hfi.ask(build_smp(Method.GET, SubnetAttrId.PORT_INFO, one), PKEY_FULL_MANAGEMENT)
        if shown is None:
            raise KernelError("the HFI does not answer")
        info = PortInfo.parse(shown[SMP_DATA : SMP_DATA + PortInfo.SIZE])
        wanted = replace(info, **{"state": 0, "physical_state": 0, **changes})
        hfi.ask(build_smp(Method.SET, SubnetAttrId.PORT_INFO, modifier, wanted.build()), PKEY_FULL_MANAGEMENT)

    change(one, lid=lid, master_sm_lid=SWITCH_LID)
    vls = ({"dedicated": 64, "shared": 0x200},) * 8 + ({"dedicated": 0, "shared": 0},) * 24
    shared = BufferControl(0, 0x400, vls).build()
    hfi.ask(build_smp(Method.SET, SubnetAttrId.BUFFER_CONTROL, one, shared), PKEY_FULL_MANAGEMENT)
    change(one | SM_START, state=PortState.ARMED)
    hfi.arm_neighbour()
    change(one, state=PortState.ACTIVE)
