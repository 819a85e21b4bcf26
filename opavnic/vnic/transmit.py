"""The transmit path of a VNIC, from host to HFI port: pad, encapsulate, seal, count. Sans-IO.

Source: the public driver's opa_netdev_start_xmit(), hfi1_netdev_start_xmit(), hfi1_vnic_update_tx_counters().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import Netdev
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.packet import seal_packet
from opavnic.vnic.counters import VnicCounters
from opavnic.vnic.encap import HEADER_SIZE, MAX_FRAME, MIN_FRAME, Forwarding
from opavnic.vnic.flow import flow_hash

_ETH_HEADER: Final = 14
_METADATA: Final = 4
"""Bytes that the driver prepends to the header before it passes a frame to hfi1; drops there count them too."""


class Transmitter:
    """The sending half of one VNIC."""

    def __init__(
        self,
        netdev: Netdev,
        port: HfiPort,
        counters: VnicCounters,
        conservation: PacketCounters,
        forwarding: Forwarding,
        *,
        smac_filter: bool,
        hash_shift: int = 0,
        heard: Callable[[MacAddr], None],
    ) -> None:
        """Send the frames of `netdev` through `port`.

        Args:  conservation: counts the frames sent to the port or dropped here. smac_filter: refuse to send from
               addresses that are not source entries of the MAC table, once it has any. hash_shift: low bits of a
               flow's hash that are left out of its entropy. heard: told of the source of a frame that is sent, unless
               it is `quiet`.
        """
        self.quiet: frozenset[MacAddr] | None = None
        """Sources that `heard` is not told of; None: it is told of none."""
        self._heard = heard
        self.forwarding = forwarding
        """The configuration snapshot in use."""
        self.smac_filter = smac_filter
        self.hash_shift = hash_shift
        """Low bits of a flow's hash that are left out of its entropy."""
        self._netdev = netdev
        self._port = port
        self._icrc = port.icrc
        self._counters = counters
        self._conservation = conservation

    def start_xmit(self, frame: bytes) -> None:
        """Send a frame of the host, or count why it is dropped."""
        conservation = self._conservation
        size = len(frame)
        conservation.in_packets += 1
        conservation.in_bytes += size
        if size < MIN_FRAME:
            if size < _ETH_HEADER:
                conservation.drop(Drop.VNIC_TX_MALFORMED)
                return
            frame = frame.ljust(MIN_FRAME, b"\0")
        elif size > MAX_FRAME:
            conservation.drop(Drop.VNIC_TX_MALFORMED)
            return
        self.send_frame(frame, flow_hash(frame) >> self.hash_shift)

    def send_frame(self, frame: bytes, flow_hash: int) -> None:
        """Send a padded frame whose flow hash is known; the caller has counted it as received.

        Args:  frame: 60 to 16351 bytes, without FCS. flow_hash: up to 32 bits.
        """
        conservation = self._conservation
        counters = self._counters
        netdev = self._netdev
        if netdev.dormant or not netdev.carrier:
            counters.tx_drop_state += 1
            self._refuse(Drop.VNIC_TX_STATE, len(frame) + HEADER_SIZE + _METADATA)
            return
        forwarding = self.forwarding
        sources = forwarding.sources
        if sources is not None and self.smac_filter and not sources.admits(frame[6:12]):
            counters.tx_smac_filt += 1
            self._refuse(Drop.VNIC_TX_SMAC, len(frame))
            return
        quiet = self.quiet
        if quiet is not None and frame[6:12] not in quiet and not frame[6] & 1:
            self._heard(MacAddr(frame[6:12]))
        built = forwarding.encap(frame, flow_hash)
        if built is None:
            counters.tx_dlid_zero += 1
            self._refuse(Drop.VNIC_TX_DLID, len(frame) + HEADER_SIZE)
            return
        header, dlid = built
        conservation.out_packets += 1
        conservation.out_bytes += len(frame)
        packet = seal_packet(header + frame, self._icrc)
        if self._port.send_built(packet, forwarding.slid, dlid, forwarding.pkey) is None:
            counters.tx.count_good(frame)
        else:  # the port has counted the drop
            counters.tx_carrier_errors += 1
            counters.tx.count_attempt(len(frame))

    def _refuse(self, reason: Drop, counted_len: int) -> None:
        self._conservation.drop(reason)
        self._counters.tx.count_attempt(counted_len)
