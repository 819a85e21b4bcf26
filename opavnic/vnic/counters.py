"""The counters of a VNIC, with the driver's rules, and the attributes by which the Ethernet Manager reads them.

Source: the public driver's hfi1_vnic_update_tx_counters(), hfi1_vnic_update_rx_counters() and
update_len_counters(); names and order under ethtool: vnic_get_strings().

Counters are declared only here. `make generated` derives from them those of the native datapath
(native/engine/src/counters/declared.rs) and their types (opavnic/_native.pyi). Those of `VnicTraffic` are shown by
all that show a lab.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from opavnic.base.state import BYTES, PACKETS, Counter, StateModel, counters_of
from opavnic.vnic.flow import VLAN_TPIDS
from vema.attributes.counters import ErrorCounters, SummaryCounters

if TYPE_CHECKING:
    from hfi_sim.base.counters import PacketCounters


FCS_SIZE: Final = 4
"""Bytes of frame check sequence, which byte counters include."""

SIZE_NAMES: Final = ("64", "65_127", "128_255", "256_511", "512_1023", "1024_1518", "1519_max")
"""Size classes in bytes with FCS."""
SIZE_LIMITS: Final = (61, 124, 252, 508, 1020, 1515)
"""Where each class after the first begins, in bytes without FCS."""


_Frame = bytes  # the counter `bytes` hides the type


@dataclass(slots=True)
class TrafficCounters:
    """Frames of one direction."""

    packets: int = 0
    """Frames with any outcome."""
    bytes: int = 0
    """Bytes of these frames, including FCS."""
    unicast: int = 0
    """Good frames to one address."""
    mcastbcast: int = 0
    """Good frames to a group or to all."""
    untagged: int = 0
    """Good frames without a VLAN tag."""
    vlan: int = 0
    """Good frames with a VLAN tag."""
    sizes: list[int] = field(default_factory=lambda: [0] * len(SIZE_NAMES))
    """Frames of each size class, with any outcome."""

    def count_attempt(self, length: int) -> None:
        """Count a frame of `length` bytes without FCS, before its outcome is known."""
        self.packets += 1
        self.bytes += length + FCS_SIZE
        self.sizes[bisect_right(SIZE_LIMITS, length)] += 1

    def count_good(self, frame: _Frame) -> None:
        """Count a whole frame, which is sent or delivered, by its size, kind and tag."""
        length = len(frame)
        self.packets += 1
        self.bytes += length + FCS_SIZE
        self.sizes[bisect_right(SIZE_LIMITS, length)] += 1
        if frame[0] & 1:
            self.mcastbcast += 1
        else:
            self.unicast += 1
        if frame[12:14] in VLAN_TPIDS:
            self.vlan += 1
        else:
            self.untagged += 1


@dataclass(slots=True)
class VnicCounters:
    """All counters of one VNIC. They are never cleared."""

    tx: TrafficCounters = field(default_factory=TrafficCounters)
    """From the host."""
    rx: TrafficCounters = field(default_factory=TrafficCounters)
    """From the fabric."""
    tx_fifo_errors: int = 0
    """The HFI had no room for the packet. This counter of the driver stays 0."""
    tx_carrier_errors: int = 0
    """The HFI port did not send the packet."""
    tx_dlid_zero: int = 0
    """No destination was found for the frame."""
    tx_drop_state: int = 0
    """The VNIC was not operational."""
    tx_smac_filt: int = 0
    """The source entries of the MAC table refused the frame. The driver has the counter, but no such filter."""
    rx_fifo_errors: int = 0
    """The host did not take the frame."""
    rx_nohandler: int = 0
    """No VNIC of the port is on the virtual Ethernet switch of the packet."""
    rx_drop_state: int = 0
    """The VNIC was not operational."""
    rx_oversize: int = 0
    """The frame is longer than the MTU allows."""
    rx_runt: int = 0
    """The frame is shorter than 60 bytes."""
    tx_cut: int = 0
    """Frames that the native datapath cut from a larger frame of the host, less one for each larger frame."""
    rx_merged: int = 0
    """Frames that the native datapath merged into a larger frame for the host, less one for each larger frame."""

    @property
    def tx_errors(self) -> int:
        """Frames that were not sent, by the driver's reasons."""
        return self.tx_fifo_errors + self.tx_carrier_errors + self.tx_drop_state + self.tx_dlid_zero

    @property
    def rx_errors(self) -> int:
        """Frames that were not delivered."""
        return self.rx_fifo_errors + self.rx_nohandler + self.rx_drop_state + self.rx_oversize + self.rx_runt

    def ethtool_stats(self) -> dict[str, int]:
        """Return all counters under the driver's names, in the driver's order."""
        stats = {
            "rx_packets": self.rx.packets,
            "tx_packets": self.tx.packets,
            "rx_bytes": self.rx.bytes,
            "tx_bytes": self.tx.bytes,
            "rx_errors": self.rx_errors,
            "tx_errors": self.tx_errors,
            "rx_dropped": self.rx_errors,
            "tx_dropped": self.tx_errors,
        }
        for way, traffic in (("tx", self.tx), ("rx", self.rx)):
            stats |= group_of(way, traffic, smallest="64_size")
        return stats | {
            "rx_fifo_errors": self.rx_fifo_errors,
            "rx_length_errors": self.rx_oversize + self.rx_runt,
            "tx_fifo_errors": self.tx_fifo_errors,
            "tx_carrier_errors": self.tx_carrier_errors,
            "tx_dlid_zero": self.tx_dlid_zero,
            "tx_drop_state": self.tx_drop_state,
            "rx_drop_state": self.rx_drop_state,
            "rx_oversize": self.rx_oversize,
            "rx_runt": self.rx_runt,
        }


def group_of(way: str, traffic: TrafficCounters, *, smallest: str = SIZE_NAMES[0]) -> dict[str, Any]:
    """Return the counts of one direction by kind and size. Args: smallest: what the first size is called."""
    names = ("unicast", "mcastbcast", "untagged", "vlan", smallest, *SIZE_NAMES[1:])
    counts = (traffic.unicast, traffic.mcastbcast, traffic.untagged, traffic.vlan, *traffic.sizes)
    return {f"{way}_{name}": count for name, count in zip(names, counts, strict=True)}


class VnicTraffic(StateModel):
    """The counters of a VNIC that status, rates, `top`, metrics and the web view show. Bytes are without FCS."""

    tx_packets: Annotated[int, Counter(PACKETS, "Frames that a VNIC sent.")]
    tx_bytes: Annotated[int, Counter(BYTES, "Bytes of the frames that a VNIC sent, without FCS.")]
    rx_packets: Annotated[int, Counter(PACKETS, "Frames that a VNIC delivered to its host.")]
    rx_bytes: Annotated[
        int, Counter(BYTES, "Bytes of the frames that a VNIC delivered to its host, without FCS.")
    ]
    drops: Annotated[int, Counter(PACKETS, "Frames that a VNIC dropped, in both directions.")]


def traffic_of(tx: PacketCounters, rx: PacketCounters, counters: VnicCounters | None) -> dict[str, int]:
    """Return the fields of `VnicTraffic`; one with the name of a counter of `VnicCounters` is that counter.

    Args:  tx, rx: the frames of the VNIC. counters: of its adapter; None while it has none.
    """
    frames = {
        "tx_packets": tx.out_packets,
        "tx_bytes": tx.out_bytes,
        "rx_packets": rx.out_packets,
        "rx_bytes": rx.out_bytes,
        "drops": tx.dropped + rx.dropped,
    }
    if len(frames) < len(VnicTraffic.model_fields):
        frames |= {
            name: getattr(counters, name, 0) for name in counters_of(VnicTraffic) if name not in frames
        }
    return frames


def summary_of(counters: VnicCounters, vport_num: int, vesw_id: int, opa_port_num: int) -> SummaryCounters:
    """Return attribute 0x0020 of a vport."""
    return SummaryCounters(
        vport_num=vport_num,
        vesw_id=vesw_id,
        opa_port_num=opa_port_num,
        tx_errors=counters.tx_errors,
        rx_errors=counters.rx_errors,
        tx_packets=counters.tx.packets,
        rx_packets=counters.rx.packets,
        tx_bytes=counters.tx.bytes,
        rx_bytes=counters.rx.bytes,
        **group_of("tx", counters.tx),
        **group_of("rx", counters.rx),
    )


def errors_of(counters: VnicCounters, vport_num: int, vesw_id: int, opa_port_num: int) -> ErrorCounters:
    """Return attribute 0x0022 of a vport."""
    return ErrorCounters(
        vport_num=vport_num,
        vesw_id=vesw_id,
        opa_port_num=opa_port_num,
        tx_errors=counters.tx_errors,
        rx_errors=counters.rx_errors,
        tx_smac_filt=counters.tx_smac_filt,
        tx_dlid_zero=counters.tx_dlid_zero,
        tx_logic=counters.tx_fifo_errors + counters.tx_carrier_errors,
        tx_drop_state=counters.tx_drop_state,
        rx_bad_veswid=counters.rx_nohandler,
        rx_runt=counters.rx_runt,
        rx_oversize=counters.rx_oversize,
        rx_drop_state=counters.rx_drop_state,
        rx_logic=counters.rx_fifo_errors,
    )
