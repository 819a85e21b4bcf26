//! Counters with the reference's names and rules. They hold what was counted since Python last took them.

/// Why a packet ended; the names are those of the reference's `Drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    TxPortDown,
    TxMalformed,
    TxSlid,
    TxPkey,
    TxDlid,
    TxMtu,
    LinkDown,
    LinkFault,
    LinkOverflow,
    SwMalformed,
    SwNoRoute,
    SwNoGroup,
    SwPortDown,
    SwDown,
    RxPortDown,
    RxTruncated,
    RxL2,
    RxLength,
    RxIcrc,
    RxDlid,
    RxPkey,
    RxL4,
    VnicNoVesw,
    VnicRxState,
    VnicRxRunt,
    VnicRxOversize,
    VnicRxHost,
    VnicTxState,
    VnicTxDlid,
    VnicTxSmac,
    VnicTxMalformed,
}

pub const DROP_NAMES: [&str; 31] = [
    "tx_port_down",
    "tx_malformed",
    "tx_slid",
    "tx_pkey",
    "tx_dlid",
    "tx_mtu",
    "link_down",
    "link_fault",
    "link_overflow",
    "sw_malformed",
    "sw_no_route",
    "sw_no_group",
    "sw_port_down",
    "sw_down",
    "rx_port_down",
    "rx_truncated",
    "rx_l2",
    "rx_length",
    "rx_icrc",
    "rx_dlid",
    "rx_pkey",
    "rx_l4",
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

/// Packets and bytes through one element, as hfi_sim's PacketCounters. A packet passes a dozen of these: what it
/// changes of each lies in one cache line, which counts where there are many vports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Element {
    pub in_packets: u64,
    pub in_bytes: u64,
    pub copies: u64,
    pub out_packets: u64,
    pub out_bytes: u64,
    pub drops: [u64; DROP_NAMES.len()],
}

impl Element {
    #[inline]
    pub fn enter(&mut self, bytes: usize) {
        self.enter_many(1, bytes as u64);
    }

    #[inline]
    pub fn leave(&mut self, bytes: usize) {
        self.leave_many(1, bytes as u64);
    }

    #[inline]
    pub fn enter_many(&mut self, packets: u64, bytes: u64) {
        self.in_packets += packets;
        self.in_bytes += bytes;
    }

    #[inline]
    pub fn leave_many(&mut self, packets: u64, bytes: u64) {
        self.out_packets += packets;
        self.out_bytes += bytes;
    }

    #[inline]
    pub fn drop(&mut self, reason: Drop) {
        self.drops[reason as usize] += 1;
    }

    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// One direction of a VNIC: packets, bytes, then the driver's group of eleven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub packets: u64,
    pub bytes: u64,
    pub unicast: u64,
    pub mcastbcast: u64,
    pub untagged: u64,
    pub vlan: u64,
    /// 64, 65-127, 128-255, 256-511, 512-1023, 1024-1518, 1519 and more; bytes with FCS.
    pub sizes: [u64; 7],
}

impl Group {
    /// Count an attempt: every packet, whatever becomes of it. `len`: bytes without FCS.
    #[inline]
    pub fn attempt(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64 + 4;
        let bin = match len {
            ..=60 => 0,
            61..=123 => 1,
            124..=251 => 2,
            252..=507 => 3,
            508..=1019 => 4,
            1020..=1514 => 5,
            _ => 6,
        };
        self.sizes[bin] += 1;
    }

    /// Count what kind of frame a good packet held.
    #[inline]
    pub fn kind(&mut self, multicast: bool, tagged: bool) {
        self.kinds(multicast, tagged, 1);
    }

    /// Count what kind of frame each of `packets` good packets held.
    #[inline]
    pub fn kinds(&mut self, multicast: bool, tagged: bool, packets: u64) {
        *(if multicast { &mut self.mcastbcast } else { &mut self.unicast }) += packets;
        *(if tagged { &mut self.vlan } else { &mut self.untagged }) += packets;
    }
}

/// Counters of one VNIC, as the driver keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vnic {
    pub tx: Group,
    pub rx: Group,
    pub tx_dlid_zero: u64,
    pub tx_drop_state: u64,
    pub tx_smac_filt: u64,
    pub tx_carrier_errors: u64,
    pub rx_drop_state: u64,
    pub rx_nohandler: u64,
    pub rx_oversize: u64,
    pub rx_runt: u64,
    pub rx_fifo: u64,
    /// Frames that the host never saw one by one: cut from larger ones on the way in, merged on the way out.
    pub tx_cut: u64,
    pub rx_merged: u64,
}

/// What one fault has done to packets that enter a link at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCount {
    pub seen: u64,
    pub hits: u64,
}
