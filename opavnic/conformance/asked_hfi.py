"""An HFI that is asked and set by MADs over its cable: a simulated one, or Linux's own hfi1 on a virtual one.

Both have the same GUID, and the same neighbour: port 7 of a switch. What is sent to both is the same, byte for byte,
but for transaction ids.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Final

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import (
    LID_PERMISSIVE,
    PKEY_FULL_MANAGEMENT,
    SC_MANAGEMENT,
    CapabilityMask3,
    Lid,
    PortState,
)
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.sending import QP_GSI, QP_SMI
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.attributes import PmAttrId, SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MAD_SIZE, SMP_CLASSES, TID, MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from opavnic.kernel.process import GUID

LID: Final = 0xC001
"""The HFI's, in comparisons of performance management: with it, hfi1 speaks 16B."""
SWITCH_LID: Final = 0xC000
NEIGHBOUR_PORT: Final = 7
SWITCH_GUID: Final = 0x0011750102000001
_ONE_HOP: Final = 1 << 8 | 1
_PATH: Final = bytes([0, NEIGHBOUR_PORT]).ljust(64, b"\0")


def build_smp(
    method: int, attr_id: int, attr_mod: int, data: bytes = b"", *, mkey: int = 0, class_version: int = 0x80
) -> bytes:
    """Return an SMP of the neighbour, with transaction id 0, as long as its data let it be."""
    head = MadHeader(
        mgmt_class=MadClass.SUBN_DIRECTED,
        class_version=class_version,
        method=method,
        class_specific=_ONE_HOP,
        tid=0,
        attr_id=attr_id,
        attr_mod=attr_mod,
    )
    return head.build() + DirectedHeader(mkey=mkey, initial_path=_PATH).build() + data


def build_pm(
    method: int, attr_id: int, attr_mod: int, data: bytes = b"", *, class_version: int = 0x80
) -> bytes:
    """Return a request of performance management, with transaction id 0, as long as its data let it be."""
    head = MadHeader(
        mgmt_class=MadClass.PERFORMANCE,
        class_version=class_version,
        method=method,
        tid=0,
        attr_id=attr_id,
        attr_mod=attr_mod,
    )
    return head.build() + data


def with_tid(mad: bytes, tid: int) -> bytes:
    """Return a MAD under another transaction id."""
    return mad[: TID.start] + tid.to_bytes(TID.stop - TID.start) + mad[TID.stop :]


def packet_of(mad: bytes, pkey: int, icrc: Icrc) -> bytes:
    """Return the packet in which the neighbour sends a MAD, filled up to its size."""
    is_smp = mad[1] in SMP_CLASSES
    where = (LID_PERMISSIVE, LID_PERMISSIVE, SC_MANAGEMENT) if is_smp else (SWITCH_LID, LID, 0)
    qp = QP_SMI if is_smp else QP_GSI
    return build_fm_packet(*where, pkey, qp, qp, mad.ljust(MAD_SIZE, b"\0"), icrc)


_BEHIND: Final = (1 << 64) - 1
"""Transaction id of the question behind another one."""
SMP_BEHIND: Final = with_tid(build_smp(Method.GET, SubnetAttrId.NODE_INFO, 0), _BEHIND)
_PM_BEHIND: Final = with_tid(build_pm(Method.GET, PmAttrId.CLASS_PORT_INFO, 0), _BEHIND)


SMP_DATA: Final = MadHeader.SIZE + DirectedHeader.SIZE
"""Where the data of an SMP on a directed route begin."""


def question_behind(mad: bytes) -> bytes:
    """Return what is sent behind a MAD: its answer says that none to the MAD comes any more."""
    return SMP_BEHIND if mad[1] in SMP_CLASSES else _PM_BEHIND


class AskedHfi(ABC):
    """See the module."""

    def __init__(self) -> None:
        self._tids = itertools.count(1)

    def ask(self, mad: bytes, pkey: int) -> bytes | None:
        """Send a MAD, filled up to its size; return the response with transaction id 0, or None: there is none."""
        answer = self._ask(with_tid(mad.ljust(MadHeader.SIZE, b"\0"), next(self._tids)), pkey)
        return None if answer is None else with_tid(answer, 0)

    @abstractmethod
    def _ask(self, mad: bytes, pkey: int) -> bytes | None:
        """Send a MAD, and the question behind it; return the response to the first."""

    @abstractmethod
    def arm_neighbour(self) -> None:
        """Let the neighbour be ARMED, which a port awaits before it is ACTIVE."""

    @abstractmethod
    def pull_cable(self) -> None:
        """Take the link down, and wait until the HFI has seen it."""

    @abstractmethod
    def await_link(self) -> None:
        """Wait until the link, which a request has taken down, is up again."""


class SimulatedHfi(AskedHfi):
    """Ours, without a subnet manager; nothing takes time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self._fabric = Fabric(self.clock, seed=1, engine=PythonEngine)
        (self.port,) = self._fabric.add_hfi("hfi1_0", guid=GUID).ports.values()
        self.port.hfi.description = "(none)"  # a kernel without a name
        self.port.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)  # opa_vnic does
        self._switch = self._fabric.add_switch("switch", ports=NEIGHBOUR_PORT, guid=SWITCH_GUID)
        self._fabric.connect(self.port, self._switch.ports[NEIGHBOUR_PORT])
        self._switch.program({LID: NEIGHBOUR_PORT}, {})
        self._heard: list[MadRequest] = []
        self._switch.port0.mad.give_rest_to(self._heard.append)
        self._switch.port0.set_lid(Lid(SWITCH_LID))

    def _ask(self, mad: bytes, pkey: int) -> bytes | None:
        self._heard.clear()
        for sent, by in ((mad, pkey), (question_behind(mad), PKEY_FULL_MANAGEMENT)):
            self._switch.port0.direct(packet_of(sent, by, self._fabric.icrc), NEIGHBOUR_PORT)
        self.clock.advance(0.001)
        return next((heard.mad for heard in self._heard if heard.mad[TID] == mad[TID]), None)

    def arm_neighbour(self) -> None:
        self._switch.ports[NEIGHBOUR_PORT].state = PortState.ACTIVE

    def pull_cable(self) -> None:
        self._fabric.set_links(self._fabric.links, False, by="pulled")

    def await_link(self) -> None:
        self.clock.advance(1.0)
