//! One VNIC: how it is configured, and what it counts.

use std::sync::Arc;

use offload::gro::{Coalescer, Mix};
use wire::VNIC_HEADER;

use crate::counters::{Drop, Element, Vnic};
use crate::encap::{Refusal, VportConfig, mac_key};
use crate::outputs::PortId;

/// No source of a frame: more than 48 bits.
const NO_SOURCE: u64 = u64::MAX;

pub struct Vport {
    pub config: Arc<VportConfig>,
    /// The last source of a frame that was quiet under this configuration.
    source: u64,
    /// Its HFI port; None while it has none.
    pub port: Option<PortId>,
    pub counters: Vnic,
    /// The same traffic as packets in and packets out or dropped, which must balance: from the host, and to it.
    pub tx_balance: Element,
    pub rx_balance: Element,
    pub(super) coalescer: Coalescer,
    pub in_use: bool,
    /// Do not merge received frames: the host wants each as it was sent, or they go to an app.
    pub unmerged: bool,
}

impl Default for Vport {
    fn default() -> Self {
        Vport {
            config: Arc::default(),
            source: NO_SOURCE,
            port: None,
            counters: Vnic::default(),
            tx_balance: Element::default(),
            rx_balance: Element::default(),
            coalescer: Coalescer::default(),
            in_use: false,
            unmerged: false,
        }
    }
}

impl Vport {
    /// Replace the configuration.
    pub fn configure(&mut self, config: Arc<VportConfig>) {
        self.config = config;
        self.source = NO_SOURCE;
    }

    /// Return the source of this frame if Python is to hear of it.
    #[inline]
    pub(super) fn news(&mut self, frame: &[u8]) -> Option<u64> {
        let source = mac_key(&frame[6..12]);
        if source == self.source {
            return None;
        }
        let quiet = self.config.quiet.as_ref()?;
        if quiet.binary_search(&source).is_ok() {
            self.source = source;
            return None;
        }
        (source & 1 == 0).then_some(source)
    }

    /// Set whether received datagrams are merged. The device must take them (GSO_UDP_L4, Linux 6.2).
    pub fn take_datagrams_merged(&mut self, merged: bool) {
        self.coalescer.datagrams = merged;
    }

    /// Of how many flows is what its host receives.
    pub fn mix(&self) -> Mix {
        self.coalescer.mix()
    }

    pub(super) fn malformed(&mut self, len: usize) {
        self.tx_balance.enter(len);
        self.tx_balance.drop(Drop::VnicTxMalformed);
    }

    /// Count a frame that is not sent. Like the driver, include headers that were already in front of it.
    pub(super) fn refuse(&mut self, refusal: Refusal, len: usize) {
        let counters = &mut self.counters;
        let (field, extra, reason) = match refusal {
            Refusal::State => (&mut counters.tx_drop_state, VNIC_HEADER + 4, Drop::VnicTxState),
            Refusal::Source => (&mut counters.tx_smac_filt, 0, Drop::VnicTxSmac),
            Refusal::NoDlid => (&mut counters.tx_dlid_zero, VNIC_HEADER, Drop::VnicTxDlid),
        };
        *field += 1;
        self.tx_balance.drop(reason);
        counters.tx.attempt(len + extra);
    }

    /// Check so many received frames of one length as the driver does, and count them if they end here.
    #[inline]
    pub(super) fn admits(&mut self, len: usize, frames: u32) -> bool {
        let (counters, many) = (&mut self.counters, u64::from(frames));
        let reason = if !self.config.oper_up {
            counters.rx_drop_state += many;
            Drop::VnicRxState
        } else if len > self.config.longest_frame() {
            counters.rx_oversize += many;
            counters.rx.attempt_many(many, len);
            Drop::VnicRxOversize
        } else if len < 60 {
            counters.rx_runt += many;
            counters.rx.attempt_many(many, len);
            Drop::VnicRxRunt
        } else {
            return true;
        };
        self.rx_balance.drop_many(frames, reason);
        false
    }
}
