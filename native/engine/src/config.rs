//! The configuration of ports, always replaced as a whole.

use crate::link::config::{Egress, ScToSc};
use crate::outputs::{PortId, SwitchId};

/// The number of a port of a switch, from 1.
pub type PortNum = u16;

/// Logical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    #[default]
    Down,
    Init,
    Armed,
    Active,
}

/// A port of a switch as an engine sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchPortConfig {
    pub state: PortState,
    pub egress: Egress,
    /// P_Keys that a packet which comes in may bear, in ascending order; None: any. Of subnet management only what bears
    /// full management is asked.
    pub pkeys_in: Option<Box<[u16]>>,
    /// P_Keys that a packet which leaves may bear, unless it is of subnet management; None: any.
    pub pkeys_out: Option<Box<[u16]>>,
    /// The service channel on which a packet that entered here leaves, by its output port.
    pub sc_to_sc: Box<[(PortNum, ScToSc)]>,
}

/// An HFI port as an engine sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    pub state: PortState,
    pub lid: u32,
    /// It has 2^lmc LIDs.
    pub lmc: u32,
    /// P_Keys that a packet which leaves may bear.
    sendable: Box<[u16]>,
    /// P_Keys that a packet which enters may bear.
    admitted: Box<[u16]>,
    /// The groups that it has joined.
    groups: Box<[u32]>,
    /// It takes packets to any group: the switches lead here only what it has joined.
    pub any_group: bool,
    pub egress: Egress,
}

impl SwitchPortConfig {
    /// A port in this state without rules of its own.
    pub fn plain(state: PortState) -> Self {
        SwitchPortConfig { state, ..SwitchPortConfig::default() }
    }
}

pub fn sorted<T: Ord>(mut values: Vec<T>) -> Box<[T]> {
    values.sort_unstable();
    values.into()
}

impl PortConfig {
    pub fn new(
        state: PortState,
        lid: u32,
        lmc: u32,
        sendable: Vec<u16>,
        admitted: Vec<u16>,
        groups: Vec<u32>,
    ) -> Self {
        PortConfig {
            state,
            lid,
            lmc,
            sendable: sorted(sendable),
            admitted: sorted(admitted),
            groups: sorted(groups),
            any_group: false,
            egress: Egress::default(),
        }
    }

    /// Whether a LID is one of the port's.
    #[inline]
    pub fn has_lid(&self, lid: u32) -> bool {
        (lid ^ self.lid).checked_shr(self.lmc).unwrap_or(0) == 0
    }

    #[inline]
    pub fn has_joined(&self, group: u32) -> bool {
        self.any_group || self.groups.binary_search(&group).is_ok()
    }

    #[inline]
    pub fn may_send(&self, pkey: u16) -> bool {
        self.sendable.binary_search(&pkey).is_ok()
    }

    #[inline]
    pub fn admits(&self, pkey: u16) -> bool {
        self.admitted.binary_search(&pkey).is_ok()
    }
}

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Hfi(PortId),
    Switch(SwitchId, PortNum),
    /// At a port on another machine: packets to it are outputs, packets from it are inputs.
    Boundary,
}
