"""Adapters on one demultiplexer, with netdevs in memory; what they send and report is kept."""

from __future__ import annotations

from hfi_sim.base.clock import Clock
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.packet import seal_packet
from opavnic.conformance.vector_setup import HfiStub
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.demux import VnicDemux
from vema.agent.vnic import Vnic
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState, TrapOpcode, VportNum

ICRC = Icrc()
PEER_LID = 9
PEER = Lmac(0x301, 5, PEER_LID).build()
BROADCAST = b"\xff" * 6


def config(vesw_id: int = 5, **values: object) -> VeswPortInfo:
    """Return a configuration that forwards."""
    given = {
        "fabric_id": 0x301, "vesw_id": vesw_id, "pkey": 0x8005, "u_mcast_dlid": 0xF00000, "eth_mtu": 1500,
        "encap_slid": 2, "config_state": ConfigState.FORWARDING, "base_mac": Lmac(0x301, 5, 2).build(),
    }  # fmt: skip
    return VeswPortInfo(**(given | values))  # type: ignore[arg-type]


def eth(
    dest: bytes = PEER, source: bytes = b"\x02\0\0\0\0\1", size: int = 60, kind: bytes = b"\x88\xb5"
) -> bytes:
    """Return an Ethernet frame."""
    return (dest + source + kind).ljust(size, b"\x5a")


def packet(frame: bytes, vesw_id: int = 5) -> bytes:
    """Return the packet that carries `frame` to a virtual switch."""
    header = bytes(8) + b"\x78" + bytes(9) + vesw_id.to_bytes(2, "little")
    return seal_packet(header + frame, ICRC)


def netdev_of(adapter: Adapter) -> MemoryNetdev:
    """Return the netdev of a VNIC whose host is in memory."""
    assert isinstance(adapter.netdev, MemoryNetdev)
    return adapter.netdev


class VnicBench:
    """One HFI port without its fabric."""

    def __init__(
        self, *, driver_quirks: bool = False, smac_filter: bool = True, clock: Clock | None = None
    ) -> None:
        self.demux = VnicDemux(driver_quirks=driver_quirks)
        self.hfi = HfiStub()
        self.reports: list[tuple[int, TrapOpcode]] = []
        self._driver_quirks = driver_quirks
        self._smac_filter = smac_filter
        self._clock = clock

    def add(self, vport_num: int = 1, info: VeswPortInfo | None = None) -> tuple[Adapter, MemoryNetdev]:
        """Add a VNIC; with `info`, configured and opened."""
        netdev = MemoryNetdev(f"veth{vport_num}")
        adapter = Adapter(
            VportNum(vport_num),
            netdev,
            self.hfi,
            demux=self.demux,
            report=self._report,
            driver_quirks=self._driver_quirks,
            smac_filter=self._smac_filter,
            clock=self._clock,
        )
        if info is not None:
            adapter.apply(info)
            assert netdev.open() == 0
            self.reports.clear()
        return adapter, netdev

    @property
    def sent(self) -> list[bytes]:
        """Header and frame of every packet, without pad, ICRC and tail."""
        return [packet[: -5 - (packet[-1] & 7)] for packet in self.hfi.sent]

    def _report(self, vnic: Vnic, opcode: TrapOpcode) -> None:
        self.reports.append((vnic.vport_num, opcode))


def assert_law(adapter: Adapter) -> None:
    """Assert that every frame left the VNIC or was counted in one drop."""
    assert adapter.tx.balance == 0
    assert adapter.rx.balance == 0
