//! The load balancer as an app behind a vport of the datapath. Load balancers that send to each other stop at some
//! point, because each pass decrements the TTL or removes a header.

use engine::app::{Batch, NativeApp, Outlet};

use crate::shared::Shared;

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
