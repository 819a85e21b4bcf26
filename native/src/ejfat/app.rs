//! The load balancer behind a vport of the fast datapath. Load balancers that send to each other come to an end:
//! each pass takes one from the TTL, or a header away.

use crate::app::{Batch, NativeApp, Outlet};
use crate::ejfat::shared::Shared;

impl NativeApp for Shared {
    fn run(&self, batch: &mut Batch, outlet: &mut Outlet<'_>) {
        let mut work = self.lock();
        for mut frame in batch.frames() {
            if let Some(part) = work.take(frame.bytes()) {
                outlet.send(frame, part);
            }
        }
        let has_punts = !work.punts.is_empty();
        drop(work);
        if has_punts {
            self.notice.raise();
        }
    }
}
