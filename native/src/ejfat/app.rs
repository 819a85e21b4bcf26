//! The load balancer behind a vport of the fast datapath: what arrives there runs through the pipeline inside the
//! thread's burst, and what leaves is sent before the burst ends.

use std::sync::Arc;

use crate::core::Core;
use crate::ejfat::shared::Shared;
use crate::tap::Devices;
use crate::vnet::{SIZE, VnetHeader};

/// Room behind a frame, so that one that is cut short can still be padded in place.
const ROOM: usize = 64;

/// Frames that arrived, one behind the other.
#[derive(Default)]
struct Inbox {
    arena: Vec<u8>,
    /// Where a frame begins, and its length.
    frames: Vec<(usize, usize)>,
}

impl Inbox {
    fn clear(&mut self) {
        self.arena.clear();
        self.frames.clear();
    }
}

struct App {
    pipeline: Arc<Shared>,
    inbox: Inbox,
    /// The buffers of the inbox that was emptied last.
    spare: Inbox,
}

/// The load balancers of a datapath, by vport.
#[derive(Default)]
pub struct Apps(Vec<Option<App>>);

impl Apps {
    /// Put a pipeline behind a vport, or nothing.
    pub fn set(&mut self, vport: usize, pipeline: Option<Arc<Shared>>) {
        if self.0.len() <= vport {
            self.0.resize_with(vport + 1, || None);
        }
        self.0[vport] =
            pipeline.map(|pipeline| App { pipeline, inbox: Inbox::default(), spare: Inbox::default() });
    }

    /// Take a frame, virtio-net header before it; false where no pipeline stands behind the vport.
    #[inline]
    pub fn take(&mut self, vport: usize, parts: &[&[u8]]) -> bool {
        let Some(Some(app)) = self.0.get_mut(vport) else { return false };
        let inbox = &mut app.inbox;
        let start = inbox.arena.len() + SIZE;
        for part in parts {
            inbox.arena.extend_from_slice(part);
        }
        let len = inbox.arena.len() - start;
        inbox.arena.resize(start + len + ROOM, 0);
        inbox.frames.push((start, len));
        true
    }

    /// Take the pipeline and the frames of the next vport that has any.
    fn next(&mut self) -> Option<(usize, Arc<Shared>, Inbox)> {
        let waits = |app: &Option<App>| app.as_ref().is_some_and(|app| !app.inbox.frames.is_empty());
        let vport = self.0.iter().position(waits)?;
        let app = self.0[vport].as_mut()?;
        let fresh = std::mem::take(&mut app.spare);
        Some((vport, Arc::clone(&app.pipeline), std::mem::replace(&mut app.inbox, fresh)))
    }

    fn give_back(&mut self, vport: usize, mut inbox: Inbox) {
        inbox.clear();
        if let Some(Some(app)) = self.0.get_mut(vport) {
            app.spare = inbox;
        }
    }
}

/// Run what has arrived through the pipelines, and send what leaves, until nothing is left to do.
///
/// That ends also where load balancers send to each other: each pass takes one from the TTL, or a header away.
pub fn run(core: &mut Core, devices: &mut Devices) {
    while let Some((vport, pipeline, mut inbox)) = devices.apps.next() {
        let mut work = pipeline.lock();
        for &(start, len) in &inbox.frames {
            let Some(range) = work.take(&mut inbox.arena[start..start + len]) else { continue };
            if core.is_full() {
                core.flush(devices);
            }
            let end = start + len + ROOM;
            let buffer = &mut inbox.arena[start + range.start..end];
            core.transmit(vport, &VnetHeader::default(), buffer, range.len(), None);
        }
        let has_punts = !work.punts.is_empty();
        drop(work);
        if has_punts {
            pipeline.notice.raise();
        }
        devices.apps.give_back(vport, inbox);
        core.flush(devices);
    }
}
