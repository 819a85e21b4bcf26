"""An HFI port without a fabric: it keeps the packets that VNICs send."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import dlid_of, pkey_of, slid_of


class HfiStub(HfiPort):
    """A port without an engine: what VNICs need of theirs, and no more."""

    def __init__(self, opa_port_num: int = 1) -> None:
        self.opa_port_num = opa_port_num
        self.icrc = Icrc()
        self.sent: list[bytes] = []
        """Whole packets, oldest first."""
        self.refusal: Drop | None = None
        """The result of `send_built`; if it is a Drop, packets are refused."""

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Keep a packet, or refuse it.

        Raises:  ValueError: what was handed over is not what stands in the packet.
        """
        found = slid_of(packet), dlid_of(packet), pkey_of(packet)
        if (slid, dlid, pkey) != found:
            raise ValueError(f"SLID, DLID, P_Key {(slid, dlid, pkey)} handed over, {found} in the packet")
        if self.refusal is None:
            self.sent.append(packet)
        return self.refusal

    def burst(self) -> AbstractContextManager[object]:
        """Do nothing: packets are kept at once."""
        return nullcontext()

    def keep(self, token: BufferToken) -> None:
        """Do nothing: no packet comes from a link here."""

    def release(self, token: BufferToken) -> None:
        """Do nothing: no packet comes from a link here."""
