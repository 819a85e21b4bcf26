"""Counters of everything a packet can enter, and the names of all the ways a packet can end.

Conservation: what enters an element leaves it, or is counted in exactly one `Drop`. `balance` says
what is missing; it is zero at rest.

Drop reasons and counters are declared only here. `make generated` derives from them those of the native datapath
(native/engine/src/counters/declared.rs), their types (opavnic/_native.pyi) and the table in docs/reference/faults.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Drop(StrEnum):
    """Why a packet ended at an element. The prefix names it: tx_ and rx_ an HFI port, net_ the network between machines
    of a cluster, link_, sw_, mad_, rc_, vnic_."""

    TX_PORT_DOWN = "tx_port_down"
    """The sending port is not ACTIVE; in INIT and ARMED it sends management packets (SC15) only."""
    TX_MALFORMED = "tx_malformed"
    """The sender did not supply a complete 16B or 9B packet: too short, wrong L2, or wrong Length."""
    TX_SLID = "tx_slid"
    """The SLID does not belong to the sending port; 0xffffff does, on a management packet (SC15)."""
    TX_PKEY = "tx_pkey"
    """The P_Key is not in the sending port's table."""
    TX_DLID = "tx_dlid"
    """The DLID is 0, which is never a destination."""
    TX_MTU = "tx_mtu"
    """The packet is longer than the MTU of its VL, or than any packet."""

    LINK_DOWN = "link_down"
    """The link is down, or has no far end."""
    LINK_FAULT = "link_fault"
    """An injected fault (loss) discarded it."""
    LINK_OVERFLOW = "link_overflow"
    """The queue of the link was full."""
    LINK_HOQ = "link_hoq"
    """At a switch's port, the packet was the first of its VL for longer than the head-of-queue lifetime."""

    NET_LOST = "net_lost"
    """Lost in transit between two machines of a cluster, or on its way to a machine that left."""
    NET_OVERFLOW = "net_overflow"
    """The send queue to another machine of a cluster was full."""

    SW_MALFORMED = "sw_malformed"
    """The packet is too short for a header, or its L2 is neither 16B nor 9B."""
    SW_NO_ROUTE = "sw_no_route"
    """The forwarding table has no entry for the DLID, or the packet is in a forwarding loop."""
    SW_NO_GROUP = "sw_no_group"
    """The multicast group has no other port, or does not include the arrival port; or the packet is in a loop."""
    SW_PORT_DOWN = "sw_port_down"
    """The switch port where it arrived, or where it is to leave, is not ACTIVE, and it is not management (SC15)."""
    SW_PKEY_IN = "sw_pkey_in"
    """The arrival port of the switch enforces partitions, and the P_Key is not one of its neighbour's. Of management
    packets (SC15) only full management (0xffff) is checked.
    """
    SW_PKEY_OUT = "sw_pkey_out"
    """The leaving port of the switch enforces partitions and does not admit the P_Key."""
    SW_SC = "sw_sc"
    """The SCtoSC table of the two switch ports assigns no data service channel."""
    SW_MTU = "sw_mtu"
    """The packet is longer than the MTU of its VL at the leaving port of the switch."""
    SW_DOWN = "sw_down"
    """The switch is off or booting."""

    RX_PORT_DOWN = "rx_port_down"
    """The receiving port is not ACTIVE; in INIT and ARMED it receives management packets (SC15) only."""
    RX_TRUNCATED = "rx_truncated"
    """The packet is shorter than 24 bytes, the shortest packet with header, ICRC and tail."""
    RX_L2 = "rx_l2"
    """The L2 field is neither 16B nor 9B, LT not that of a head flit, or a 9B packet contradicts its head."""
    RX_LENGTH = "rx_length"
    """The Length field does not match the size of the packet."""
    RX_ICRC = "rx_icrc"
    """The ICRC does not match: the packet was damaged in transit."""
    RX_DLID = "rx_dlid"
    """The packet is addressed neither to this port nor to a group that it has joined."""
    RX_PKEY = "rx_pkey"
    """The P_Key does not match any entry in the table of the receiving port."""
    RX_OVERFLOW = "rx_overflow"
    """The host did not read, the buffer of the port was full, and the link has no credits to stop the sender."""
    RX_L4 = "rx_l4"
    """No service on this port accepts this L4 type."""

    MAD_MALFORMED = "mad_malformed"
    """Not a valid management datagram: truncated, or wrong base version."""
    MAD_QP = "mad_qp"
    """The destination queue pair is neither 0 nor 1."""
    MAD_NO_AGENT = "mad_no_agent"
    """No agent is registered for the class, OUI and method."""
    MAD_UNMATCHED = "mad_unmatched"
    """A response without a pending request: it is late, or a duplicate."""
    MAD_UNREAD = "mad_unread"
    """The program that is its agent has too much unread, or the message is longer than one read can be."""

    MAD_SL = "mad_sl"
    """A MAD to be sent on a service level that has no service channel at its port."""
    MAD_ROUTE = "mad_route"
    """The directed route leads nowhere: to a port of another node, or its hop pointer is outside the path."""
    MAD_DENIED = "mad_denied"
    """A subnet management packet without the right to manage: a limited P_Key, or a wrong M_Key."""

    RC_MALFORMED = "rc_malformed"
    """Not a valid packet of the reliable connection service."""

    VNIC_NO_VESW = "vnic_no_vesw"
    """No VNIC on this port belongs to the virtual Ethernet switch (rx_nohandler)."""
    VNIC_RX_STATE = "vnic_rx_state"
    """The VNIC is not operational (rx_drop_state)."""
    VNIC_RX_RUNT = "vnic_rx_runt"
    """The Ethernet frame is shorter than 60 bytes."""
    VNIC_RX_OVERSIZE = "vnic_rx_oversize"
    """The Ethernet frame is longer than the MTU allows."""
    VNIC_RX_HOST = "vnic_rx_host"
    """The host did not take the frame: its queue was full or the device went down (rx_fifo_errors)."""
    VNIC_TX_STATE = "vnic_tx_state"
    """The VNIC is not operational (tx_drop_state)."""
    VNIC_TX_DLID = "vnic_tx_dlid"
    """No destination could be found for the frame (tx_dlid_zero)."""
    VNIC_TX_SMAC = "vnic_tx_smac"
    """The source-MAC filter of the MAC table refused the frame (tx_smac_filt)."""
    VNIC_TX_MALFORMED = "vnic_tx_malformed"
    """The host sent fewer than 14 bytes, or more than a 16B packet can carry."""


@dataclass(slots=True)
class PacketCounters:
    """Packets and bytes through one element (or one direction of a link), and the drops by reason."""

    in_packets: int = 0
    """Packets that entered."""
    in_bytes: int = 0
    """Bytes of these packets."""
    copies: int = 0
    """Packets this element made itself: multicast replicas beyond the first, injected duplicates."""
    out_packets: int = 0
    """Packets that left."""
    out_bytes: int = 0
    """Bytes of these packets."""
    in_flight: int = 0
    """Packets inside the element now, on the wire or in a queue."""
    drops: dict[Drop, int] = field(default_factory=dict)
    """Packets dropped here, by reason."""

    def drop(self, reason: Drop, packets: int = 1) -> None:
        """Count packets dropped for a reason."""
        self.drops[reason] = self.drops.get(reason, 0) + packets

    @property
    def dropped(self) -> int:
        """All packets dropped here."""
        return sum(self.drops.values())

    @property
    def balance(self) -> int:
        """Packets missing from conservation: 0, or a bug."""
        return self.in_packets + self.copies - self.out_packets - self.in_flight - self.dropped


@dataclass(slots=True)
class CongestionCounters:
    """Congestion counters of an HFI port."""

    fecn_received: int = 0
    """Packets received that were marked by a congested switch (FECN)."""
    becn_sent: int = 0
    """Packets sent with BECN, which tells their receiver about the congestion."""
    becn_received: int = 0
    """Packets received with BECN."""
    tx_stops: int = 0
    """How often the link stopped this port for lack of credits."""
