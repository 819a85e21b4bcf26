//! Made by `make generated` from hfi_sim/base/counters.py, opavnic/vnic/counters.py; do not edit.

use crate::counters::Tally;

/// Why a packet ended at an element. The prefix names it: tx_ and rx_ an HFI port, net_ the network between
/// machines of a cluster, link_, sw_, mad_, rc_, vnic_.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    /// The sending port is not ACTIVE; in INIT and ARMED it sends management packets (SC15) only.
    TxPortDown,
    /// The sender did not supply a complete 16B or 9B packet: too short, wrong L2, or wrong Length.
    TxMalformed,
    /// The SLID does not belong to the sending port; 0xffffff does, on a management packet (SC15).
    TxSlid,
    /// The P_Key is not in the sending port's table.
    TxPkey,
    /// The DLID is 0, which is never a destination.
    TxDlid,
    /// The packet is longer than the MTU of its VL, or than any packet.
    TxMtu,
    /// The link is down, or has no far end.
    LinkDown,
    /// An injected fault (loss) discarded it.
    LinkFault,
    /// The queue of the link was full.
    LinkOverflow,
    /// At a switch's port, the packet was the first of its VL for longer than the head-of-queue lifetime.
    LinkHoq,
    /// Lost in transit between two machines of a cluster, or on its way to a machine that left.
    NetLost,
    /// The send queue to another machine of a cluster was full.
    NetOverflow,
    /// The packet is too short for a header, or its L2 is neither 16B nor 9B.
    SwMalformed,
    /// The forwarding table has no entry for the DLID, or the packet is in a forwarding loop.
    SwNoRoute,
    /// The multicast group has no other port, or does not include the arrival port; or the packet is in a
    /// loop.
    SwNoGroup,
    /// The switch port where it arrived, or where it is to leave, is not ACTIVE, and it is not management
    /// (SC15).
    SwPortDown,
    /// The arrival port of the switch enforces partitions, and the P_Key is not one of its neighbour's. Of
    /// management packets (SC15) only full management (0xffff) is checked.
    SwPkeyIn,
    /// The leaving port of the switch enforces partitions and does not admit the P_Key.
    SwPkeyOut,
    /// The SCtoSC table of the two switch ports assigns no data service channel.
    SwSc,
    /// The packet is longer than the MTU of its VL at the leaving port of the switch.
    SwMtu,
    /// The switch is off or booting.
    SwDown,
    /// The receiving port is not ACTIVE; in INIT and ARMED it receives management packets (SC15) only.
    RxPortDown,
    /// The packet is shorter than 24 bytes, the shortest packet with header, ICRC and tail.
    RxTruncated,
    /// The L2 field is neither 16B nor 9B, LT not that of a head flit, or a 9B packet contradicts its head.
    RxL2,
    /// The Length field does not match the size of the packet.
    RxLength,
    /// The ICRC does not match: the packet was damaged in transit.
    RxIcrc,
    /// The packet is addressed neither to this port nor to a group that it has joined.
    RxDlid,
    /// The P_Key does not match any entry in the table of the receiving port.
    RxPkey,
    /// The host did not read, the buffer of the port was full, and the link has no credits to stop the
    /// sender.
    RxOverflow,
    /// No service on this port accepts this L4 type.
    RxL4,
    /// Not a valid management datagram: truncated, or wrong base version.
    MadMalformed,
    /// The destination queue pair is neither 0 nor 1.
    MadQp,
    /// No agent is registered for the class, OUI and method.
    MadNoAgent,
    /// A response without a pending request: it is late, or a duplicate.
    MadUnmatched,
    /// The program that is its agent has too much unread, or the message is longer than one read can be.
    MadUnread,
    /// A MAD to be sent on a service level that has no service channel at its port.
    MadSl,
    /// The directed route leads nowhere: to a port of another node, or its hop pointer is outside the path.
    MadRoute,
    /// A subnet management packet without the right to manage: a limited P_Key, or a wrong M_Key.
    MadDenied,
    /// Not a valid packet of the reliable connection service.
    RcMalformed,
    /// No VNIC on this port belongs to the virtual Ethernet switch (rx_nohandler).
    VnicNoVesw,
    /// The VNIC is not operational (rx_drop_state).
    VnicRxState,
    /// The Ethernet frame is shorter than 60 bytes.
    VnicRxRunt,
    /// The Ethernet frame is longer than the MTU allows.
    VnicRxOversize,
    /// The host did not take the frame: its queue was full or the device went down (rx_fifo_errors).
    VnicRxHost,
    /// The VNIC is not operational (tx_drop_state).
    VnicTxState,
    /// No destination could be found for the frame (tx_dlid_zero).
    VnicTxDlid,
    /// The source-MAC filter of the MAC table refused the frame (tx_smac_filt).
    VnicTxSmac,
    /// The host sent fewer than 14 bytes, or more than a 16B packet can carry.
    VnicTxMalformed,
}

/// Their names, by number.
pub const DROP_NAMES: [&str; 48] = [
    "tx_port_down",
    "tx_malformed",
    "tx_slid",
    "tx_pkey",
    "tx_dlid",
    "tx_mtu",
    "link_down",
    "link_fault",
    "link_overflow",
    "link_hoq",
    "net_lost",
    "net_overflow",
    "sw_malformed",
    "sw_no_route",
    "sw_no_group",
    "sw_port_down",
    "sw_pkey_in",
    "sw_pkey_out",
    "sw_sc",
    "sw_mtu",
    "sw_down",
    "rx_port_down",
    "rx_truncated",
    "rx_l2",
    "rx_length",
    "rx_icrc",
    "rx_dlid",
    "rx_pkey",
    "rx_overflow",
    "rx_l4",
    "mad_malformed",
    "mad_qp",
    "mad_no_agent",
    "mad_unmatched",
    "mad_unread",
    "mad_sl",
    "mad_route",
    "mad_denied",
    "rc_malformed",
    "vnic_no_vesw",
    "vnic_rx_state",
    "vnic_rx_runt",
    "vnic_rx_oversize",
    "vnic_rx_host",
    "vnic_tx_state",
    "vnic_tx_dlid",
    "vnic_tx_smac",
    "vnic_tx_malformed",
];

/// Packets and bytes through one element (or one direction of a link), and the drops by reason.
///
/// A packet passes a dozen of these. The numbers that it changes lie in one cache line of each, which
/// matters with many vports.
#[repr(align(64))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Packets that entered.
    pub in_packets: u64,
    /// Bytes of these packets.
    pub in_bytes: u64,
    /// Packets this element made itself: multicast replicas beyond the first, injected duplicates.
    pub copies: u64,
    /// Packets that left.
    pub out_packets: u64,
    /// Bytes of these packets.
    pub out_bytes: u64,
    /// Packets dropped here, by reason.
    pub drops: Tally<{ DROP_NAMES.len() }>,
}

impl Element {
    /// The single numbers, with their names.
    #[rustfmt::skip]
    pub fn numbers(&self) -> [(&'static str, u64); 5] {
        [
            ("in_packets", self.in_packets),
            ("in_bytes", self.in_bytes),
            ("copies", self.copies),
            ("out_packets", self.out_packets),
            ("out_bytes", self.out_bytes),
        ]
    }
}

/// Frames of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames with any outcome.
    pub packets: u64,
    /// Bytes of these frames, including FCS.
    pub bytes: u64,
    /// Good frames to one address.
    pub unicast: u64,
    /// Good frames to a group or to all.
    pub mcastbcast: u64,
    /// Good frames without a VLAN tag.
    pub untagged: u64,
    /// Good frames with a VLAN tag.
    pub vlan: u64,
    /// Frames of each size class, with any outcome.
    pub sizes: [u64; 7],
}

impl Traffic {
    /// The single numbers, with their names.
    #[rustfmt::skip]
    pub fn numbers(&self) -> [(&'static str, u64); 6] {
        [
            ("packets", self.packets),
            ("bytes", self.bytes),
            ("unicast", self.unicast),
            ("mcastbcast", self.mcastbcast),
            ("untagged", self.untagged),
            ("vlan", self.vlan),
        ]
    }
}

/// All counters of one VNIC. They are never cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vnic {
    /// From the host.
    pub tx: Traffic,
    /// From the fabric.
    pub rx: Traffic,
    /// The HFI had no room for the packet. This counter of the driver stays 0.
    pub tx_fifo_errors: u64,
    /// The HFI port did not send the packet.
    pub tx_carrier_errors: u64,
    /// No destination was found for the frame.
    pub tx_dlid_zero: u64,
    /// The VNIC was not operational.
    pub tx_drop_state: u64,
    /// The source entries of the MAC table refused the frame. The driver has the counter, but no such filter.
    pub tx_smac_filt: u64,
    /// The host did not take the frame.
    pub rx_fifo_errors: u64,
    /// No VNIC of the port is on the virtual Ethernet switch of the packet.
    pub rx_nohandler: u64,
    /// The VNIC was not operational.
    pub rx_drop_state: u64,
    /// The frame is longer than the MTU allows.
    pub rx_oversize: u64,
    /// The frame is shorter than 60 bytes.
    pub rx_runt: u64,
    /// Frames that the native datapath cut from a larger frame of the host, less one for each larger frame.
    pub tx_cut: u64,
    /// Frames that the native datapath merged into a larger frame for the host, less one for each larger
    /// frame.
    pub rx_merged: u64,
}

impl Vnic {
    /// The single numbers, with their names.
    #[rustfmt::skip]
    pub fn numbers(&self) -> [(&'static str, u64); 12] {
        [
            ("tx_fifo_errors", self.tx_fifo_errors),
            ("tx_carrier_errors", self.tx_carrier_errors),
            ("tx_dlid_zero", self.tx_dlid_zero),
            ("tx_drop_state", self.tx_drop_state),
            ("tx_smac_filt", self.tx_smac_filt),
            ("rx_fifo_errors", self.rx_fifo_errors),
            ("rx_nohandler", self.rx_nohandler),
            ("rx_drop_state", self.rx_drop_state),
            ("rx_oversize", self.rx_oversize),
            ("rx_runt", self.rx_runt),
            ("tx_cut", self.tx_cut),
            ("rx_merged", self.rx_merged),
        ]
    }
}
