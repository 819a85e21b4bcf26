//! Made by `make generated` from hfi_sim/wire/lrh16b.py, hfi_sim/wire/packet.py; do not edit.

/// The 16B header. Source: seed 000, the packet table, quad words 0 and 1.
pub mod lrh16b {
    use crate::{Field, Split};

    /// Bytes of the header.
    pub const SIZE: usize = 16;
    pub const L2_16B: u32 = 2;
    pub const L2_9B: u32 = 3;
    pub const LT_HEAD: u32 = 1;
    /// The bits that may change on the way.
    pub const MAY_CHANGE: [u8; SIZE] = [0, 0, 0, 0x80, 0, 0, 0xf0, 0x11, 0, 0, 0, 0, 0, 0, 0xff, 0];
    /// source LID
    pub const SLID: Split = Split { low: Field::new(0, 20), high: Field::new(72, 4) };
    /// destination LID
    pub const DLID: Split = Split { low: Field::new(32, 20), high: Field::new(76, 4) };
    /// whole packet in 8-byte units: header, L4, payload, pad, ICRC, tail
    pub const LENGTH_QW: Field = Field::new(20, 11);
    /// backward explicit congestion notification
    pub const BECN: Field = Field::new(31, 1);
    /// service channel
    pub const SC: Field = Field::new(52, 5);
    /// routing control
    pub const RC: Field = Field::new(57, 3);
    /// forward explicit congestion notification
    pub const FECN: Field = Field::new(60, 1);
    /// packet format: 2 is 16B, 3 the head of a 9B packet
    pub const L2: Field = Field::new(61, 2);
    /// link transfer: 1 is a head flit
    pub const LT: Field = Field::new(63, 1);
    /// what follows the header: 0x78 Ethernet, 0x08 management
    pub const L4: Field = Field::new(64, 8);
    /// partition key; bit 15 says full member
    pub const PKEY: Field = Field::new(80, 16);
    /// spreads flows over paths; a VNIC uses the low 8 bits
    pub const ENTROPY: Field = Field::new(96, 16);
    /// age of the packet
    pub const AGE: Field = Field::new(112, 8);
    /// 0; given on as received
    pub const RESERVED: Field = Field::new(120, 8);
}

/// The Ethernet L4 header. Source: seed 000, the packet table, quad word 2.
pub mod ethernet_l4 {
    use crate::Field;

    /// Bytes of the header.
    pub const SIZE: usize = 4;
    /// virtual Ethernet switch id, 12 bits used
    pub const VESW_ID: Field = Field::new(16, 16);
    /// 0; given on as received
    pub const RESERVED: Field = Field::new(0, 16);
}

/// The trailer. Source: seed 000, the packet table, the last quad word.
pub mod trailer {
    use crate::Field;

    /// Bytes of the header.
    pub const SIZE: usize = 5;
    /// checksum over what must not change on the way
    pub const ICRC: Field = Field::new(0, 32);
    /// number of pad bytes, 0 to 7
    pub const TAIL: Field = Field::new(32, 6);
    /// link transfer: 01 is a tail flit; a receiver also takes 00
    pub const LT: Field = Field::new(38, 2);
}

/// L4 types, from hfi_sim/wire/lrh16b.py.
pub mod l4 {
    /// management: FM header and MAD
    pub const FM: u8 = 0x08;
    /// InfiniBand, no global route header
    pub const IB_LOCAL: u8 = 0x09;
    /// InfiniBand with global route header
    pub const IB_GLOBAL: u8 = 0x0a;
    /// Ethernet of a virtual switch
    pub const ETHERNET: u8 = 0x78;
    /// encapsulated Ethernet of another kind
    pub const EEPH: u8 = 0x79;
    /// this project's reliable connections
    pub const VENDOR_RC: u8 = 0x7a;
}
