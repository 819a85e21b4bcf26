"""Counters of everything a packet can enter, and the names of all the ways a packet can end.

The conservation law: what enters an element leaves it, or is counted in exactly one `Drop`. `balance` says
what is missing; it is zero at rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Drop(StrEnum):
    """Why a packet ended here. The prefix names the element: tx_/rx_ an HFI port, link_, sw_, mad_, vnic_."""

    TX_PORT_DOWN = "tx_port_down"
    """The sending port is not ACTIVE."""
    TX_MALFORMED = "tx_malformed"
    """What the sender handed over is no complete 16B packet: too short, wrong L2, Length that disagrees."""
    TX_SLID = "tx_slid"
    """The SLID is not one of the sending port's."""
    TX_PKEY = "tx_pkey"
    """The P_Key is not in the sending port's table."""
    TX_DLID = "tx_dlid"
    """The DLID is 0, which is never a destination."""
    TX_MTU = "tx_mtu"
    """Longer than the port's packet limit."""

    LINK_DOWN = "link_down"
    """The link is down, or has no far end."""
    LINK_FAULT = "link_fault"
    """An injected fault (loss) took it."""
    LINK_OVERFLOW = "link_overflow"
    """The queue of the link was full."""

    SW_MALFORMED = "sw_malformed"
    """Too short to hold a 16B header, or another L2."""
    SW_NO_ROUTE = "sw_no_route"
    """The forwarding table has no entry for the DLID."""
    SW_NO_GROUP = "sw_no_group"
    """The multicast table has no port for the DLID but the one it came from."""
    SW_PORT_DOWN = "sw_port_down"
    """The switch port to send from, or that it came in by, is not ACTIVE."""
    SW_DOWN = "sw_down"
    """The switch is switched off or booting."""

    RX_PORT_DOWN = "rx_port_down"
    """The receiving port is not ACTIVE."""
    RX_TRUNCATED = "rx_truncated"
    """Shorter than the shortest packet: header, ICRC and tail (24 bytes)."""
    RX_L2 = "rx_l2"
    """The L2 field does not say 16B, or LT does not say head flit."""
    RX_LENGTH = "rx_length"
    """The Length field disagrees with the number of bytes."""
    RX_ICRC = "rx_icrc"
    """The ICRC does not match: damaged on the way."""
    RX_DLID = "rx_dlid"
    """Addressed neither to this port nor to a group it has joined."""
    RX_PKEY = "rx_pkey"
    """The P_Key matches no entry of the receiving port's table."""
    RX_OVERFLOW = "rx_overflow"
    """The host took nothing, the buffer of the port was full, and the link has no credits to stop the sender."""
    RX_L4 = "rx_l4"
    """Nothing on this port takes this L4 type."""

    MAD_MALFORMED = "mad_malformed"
    """No management datagram: truncated, or a wrong base version."""
    MAD_QP = "mad_qp"
    """Sent to a queue pair that is neither 0 nor 1."""
    MAD_NO_AGENT = "mad_no_agent"
    """No agent is registered for the class, OUI and method."""
    MAD_UNMATCHED = "mad_unmatched"
    """A response to no request that is waiting: late, or a duplicate."""

    RC_MALFORMED = "rc_malformed"
    """No packet of the reliable connection service."""

    VNIC_NO_VESW = "vnic_no_vesw"
    """No VNIC on this port belongs to the virtual Ethernet switch (the driver: rx_nohandler)."""
    VNIC_RX_STATE = "vnic_rx_state"
    """The VNIC is not operational (rx_drop_state)."""
    VNIC_RX_RUNT = "vnic_rx_runt"
    """The Ethernet frame is shorter than 60 bytes."""
    VNIC_RX_OVERSIZE = "vnic_rx_oversize"
    """The Ethernet frame is longer than the MTU allows."""
    VNIC_RX_HOST = "vnic_rx_host"
    """The host did not take the frame: its queue was full or the device went down (rx_fifo)."""
    VNIC_TX_STATE = "vnic_tx_state"
    """The VNIC is not operational (tx_drop_state)."""
    VNIC_TX_DLID = "vnic_tx_dlid"
    """No destination could be found for the frame (tx_dlid_zero)."""
    VNIC_TX_SMAC = "vnic_tx_smac"
    """The source-MAC filter of the MAC table refused the frame (tx_smac_filt)."""
    VNIC_TX_MALFORMED = "vnic_tx_malformed"
    """The host handed over fewer than 14 bytes, or more than a 16B packet can carry."""


@dataclass(slots=True)
class PacketCounters:
    """Packets and bytes through one element (or one direction of a link), and the drops by reason."""

    in_packets: int = 0
    in_bytes: int = 0
    copies: int = 0
    """Packets this element made itself: multicast replicas beyond the first, injected duplicates."""
    out_packets: int = 0
    out_bytes: int = 0
    in_flight: int = 0
    """Packets inside the element now, on the wire or in a queue."""
    drops: dict[Drop, int] = field(default_factory=dict)

    def drop(self, reason: Drop, packets: int = 1) -> None:
        """Count `packets` that ended here because of `reason`."""
        self.drops[reason] = self.drops.get(reason, 0) + packets

    @property
    def dropped(self) -> int:
        """All packets that ended here."""
        return sum(self.drops.values())

    @property
    def balance(self) -> int:
        """What the conservation law misses: 0, or a bug."""
        return self.in_packets + self.copies - self.out_packets - self.in_flight - self.dropped
