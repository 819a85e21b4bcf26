//! Which virtual lane of a link sends next: two priorities, and within each the bytes in proportion to weights.
//!
//! A lane that has nothing to send, or no credits, is passed over and saves up nothing: its turn is not kept for it.
//! Source and differences: hfi_sim/link/arbiter.py.

use super::config::{FlowControl, MAX_VLS};

/// One direction of a link. It is told what was sent, and asked what to send. Sets of VLs are bits.
#[derive(Debug)]
pub struct Arbiter {
    weights: Vec<u32>,
    high: u16,
    limit: Option<u64>,
    high_run: u64,
    /// Bytes over weight, of each VL: the one with the least is next.
    served: [f64; MAX_VLS],
    /// What the VL that was served last had, in the low and the high table: one that wakes up begins there.
    level: [f64; 2],
}

impl Arbiter {
    pub fn new(flow: &FlowControl) -> Self {
        Arbiter {
            weights: flow.weights.clone(),
            high: flow.high,
            limit: flow.high_limit_bytes,
            high_run: 0,
            served: [0.0; MAX_VLS],
            level: [0.0; 2],
        }
    }

    fn is_high(&self, vl: usize) -> bool {
        self.high >> vl & 1 == 1
    }

    /// Note that a VL can send now and could not before.
    pub fn woke(&mut self, vl: usize) {
        self.served[vl] = self.served[vl].max(self.level[usize::from(self.is_high(vl))]);
    }

    /// Return which of these VLs, at least one, sends its next packet.
    pub fn choose(&self, ready: u16) -> usize {
        let (high, low) = (ready & self.high, ready & !self.high);
        let low_is_due = low != 0 && self.limit.is_some_and(|limit| self.high_run > limit);
        let candidates = if high == 0 || low_is_due { low } else { high };
        let mut best = candidates.trailing_zeros() as usize;
        for vl in best + 1..MAX_VLS {
            if candidates >> vl & 1 == 1 && self.served[vl] < self.served[best] {
                best = vl;
            }
        }
        best
    }

    /// Note that a VL has sent `size` bytes.
    pub fn sent(&mut self, vl: usize, size: u64) {
        let is_high = self.is_high(vl);
        self.high_run = if is_high { self.high_run + size } else { 0 };
        self.level[usize::from(is_high)] = self.served[vl];
        self.served[vl] += size as f64 / f64::from(self.weights[vl]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arbiter(weights: &[u32], high: u16, high_limit_bytes: Option<u64>) -> Arbiter {
        Arbiter::new(&FlowControl {
            buffer_bytes: 1 << 16,
            sc_to_vl: [0; 32],
            fecn_bytes: 1 << 15,
            weights: weights.to_vec(),
            high,
            high_limit_bytes,
        })
    }

    fn sent_bytes(arbiter: &mut Arbiter, sizes: &[u64], packets: usize) -> Vec<u64> {
        let mut bytes = vec![0; sizes.len()];
        for _ in 0..packets {
            let vl = arbiter.choose((1 << sizes.len()) - 1);
            arbiter.sent(vl, sizes[vl]);
            bytes[vl] += sizes[vl];
        }
        bytes
    }

    #[test]
    fn bytes_are_shared_by_weight_whatever_the_sizes() {
        let bytes = sent_bytes(&mut arbiter(&[1, 3], 0, None), &[200, 1000], 8000);
        assert!((bytes[1] as f64 / bytes[0] as f64 - 3.0).abs() < 0.01, "{bytes:?}");
    }

    #[test]
    fn high_priority_starves_the_others_unless_limited() {
        assert_eq!(sent_bytes(&mut arbiter(&[1, 1], 2, None), &[100, 100], 50), [0, 5000]);
        assert_eq!(sent_bytes(&mut arbiter(&[1, 1], 2, Some(399)), &[100, 100], 50), [1000, 4000]);
    }

    #[test]
    fn lane_that_wakes_up_has_saved_nothing() {
        let mut arbiter = arbiter(&[1, 1], 0, None);
        for _ in 0..100 {
            arbiter.sent(0, 1000);
        }
        arbiter.woke(1);
        assert_eq!(arbiter.choose(0b11), 1);
        arbiter.sent(1, 2000);
        assert_eq!(arbiter.choose(0b11), 0);
    }
}
