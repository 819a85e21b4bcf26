"""The receive path of a VNIC, from HFI port to host: check, decapsulate, count. Sans-IO.

Source: the public driver's hfi1_vnic_bypass_rcv(), hfi1_vnic_decap_skb(), hfi1_vnic_update_rx_counters().
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.netdev.base import Netdev
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from opavnic.vnic.counters import VnicCounters
from opavnic.vnic.encap import HEADER_SIZE, MIN_FRAME

_VLAN_ETH_HEADER: Final = 18


class Receiver:
    """The receiving half of one VNIC."""

    def __init__(
        self, netdev: Netdev, port: HfiPort, counters: VnicCounters, conservation: PacketCounters
    ) -> None:
        """Deliver frames from `port` to `netdev`; `conservation` counts the packets delivered or dropped here."""
        self._netdev = netdev
        self._port = port
        self._counters = counters
        self._conservation = conservation
        self._backlog: deque[tuple[bytes, BufferToken]] = deque()
        """Packets that the host has no room for yet; each still occupies the buffer of the port."""

    def receive(self, packet: bytes, token: BufferToken | None = None) -> None:
        """Deliver the frame in a packet to the host, queue the packet if it may wait, or count why it is dropped.

        Args:    packet: header, frame, pad, ICRC and tail. The header is not checked again. token: the room that it
                 occupies in the buffer of the port, on a link with credits; a packet without it does not wait.
        """
        conservation = self._conservation
        conservation.in_packets += 1
        conservation.in_bytes += len(packet)
        if self._backlog:
            self.go_on()
        if token is not None and self._netdev.rx_stopped:
            self._port.keep(token)
            conservation.in_flight += 1
            self._backlog.append((packet, token))
            return
        self._take(packet)

    def go_on(self) -> None:
        """Deliver queued packets in order while the host has room."""
        while self._backlog and not self._netdev.rx_stopped:
            packet, token = self._backlog.popleft()
            self._conservation.in_flight -= 1
            self._take(packet)
            self._port.release(token)

    def drop_backlog(self) -> None:
        """Count all queued packets as dropped: the host will no longer take them."""
        backlog, self._backlog = self._backlog, deque()
        for _, token in backlog:
            self._conservation.in_flight -= 1
            self._conservation.drop(Drop.VNIC_RX_STATE)
            self._counters.rx_drop_state += 1
            self._port.release(token)

    def _take(self, packet: bytes) -> None:
        conservation = self._conservation
        netdev = self._netdev
        counters = self._counters
        if netdev.dormant or not netdev.carrier:
            counters.rx_drop_state += 1
            conservation.drop(Drop.VNIC_RX_STATE)
            return
        end = len(packet) - TRAILER_SIZE - (packet[-1] & PAD_COUNT_MASK)
        length = end - HEADER_SIZE
        if length > netdev.mtu + _VLAN_ETH_HEADER:
            counters.rx_oversize += 1
            counters.rx.count_attempt(length)
            conservation.drop(Drop.VNIC_RX_OVERSIZE)
            return
        if length < MIN_FRAME:
            counters.rx_runt += 1
            # the driver does not strip the header if less than a header is left
            counters.rx.count_attempt(length if length >= 0 else max(end, 0))
            conservation.drop(Drop.VNIC_RX_RUNT)
            return
        frame = packet[HEADER_SIZE:end]
        if not netdev.receive(frame):
            counters.rx_fifo_errors += 1
            conservation.drop(Drop.VNIC_RX_HOST)
            return
        counters.rx.count_good(frame)
        conservation.out_packets += 1
        conservation.out_bytes += length

    def count_no_handler(self) -> None:
        """Count a packet for a virtual switch without a VNIC on this port; the port drops it."""
        self._counters.rx_nohandler += 1
