//! Apps: programs of this process that stand behind a vport in the place of a device.
//!
//! The frames of a vport are gathered into a batch, and its app sees the whole batch in one call. What the app sends
//! has left before the thread's burst ends. So an app costs a frame two copies, and a batch one virtual call.

use std::ops::Range;
use std::sync::Arc;

use crate::core::{Core, Host};
use crate::vnet::{SIZE, VnetHeader};

/// Zeros behind every frame of a batch: room to pad a short frame where it lies.
const ROOM: usize = 64;

/// A program that takes the frames of a vport, and sends others from there.
///
/// It may be attached to several vports, and shared with Python: whatever changes inside it is behind a lock of its
/// own. What it counts is its own affair, too; the vport counts the frames to and from it as those of any device.
pub trait NativeApp: Send + Sync {
    /// Take the frames that arrived since the last call, and send what leaves through `outlet`.
    ///
    /// The thread calls this in every burst in which frames arrived, once more for frames that apps sent to each
    /// other, and so on until none is left. An app must see to it that this ends: an answer to every answer never
    /// does.
    fn run(&self, batch: &mut Batch, outlet: &mut Outlet<'_>);
}

/// Frames that arrived at a vport, in order.
#[derive(Default)]
pub struct Batch {
    /// For each frame its virtio-net header, its bytes, and room.
    arena: Vec<u8>,
    lengths: Vec<usize>,
}

impl Batch {
    #[inline]
    fn push(&mut self, parts: &[&[u8]]) {
        let start = self.arena.len() + SIZE;
        for part in parts {
            self.arena.extend_from_slice(part);
        }
        let len = self.arena.len() - start;
        self.arena.resize(start + len + ROOM, 0);
        self.lengths.push(len);
    }

    fn clear(&mut self) {
        self.arena.clear();
        self.lengths.clear();
    }

    /// Return the frames one after the other, to be read and changed in place.
    pub fn frames(&mut self) -> impl Iterator<Item = Frame<'_>> {
        let mut rest = &mut self.arena[..];
        self.lengths.iter().map(move |&len| {
            let (frame, behind) = std::mem::take(&mut rest).split_at_mut(SIZE + len + ROOM);
            rest = behind;
            Frame { buffer: &mut frame[SIZE..], len }
        })
    }
}

/// One frame of a batch.
pub struct Frame<'a> {
    /// The frame, and room.
    buffer: &'a mut [u8],
    len: usize,
}

impl Frame<'_> {
    /// The bytes of the frame, without FCS.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// Sends frames from the vport of an app.
pub struct Outlet<'a> {
    core: &'a mut Core,
    host: &'a mut dyn Host,
    vport: usize,
}

impl<'a> Outlet<'a> {
    pub fn new(core: &'a mut Core, host: &'a mut dyn Host, vport: usize) -> Self {
        Outlet { core, host, vport }
    }

    /// Send the bytes of `frame` that lie in `part`, as one frame.
    #[inline]
    pub fn send(&mut self, frame: Frame<'_>, part: Range<usize>) {
        if self.core.is_full() {
            self.core.flush(self.host);
        }
        let buffer = &mut frame.buffer[part.start..];
        self.core.transmit(self.vport, &VnetHeader::default(), buffer, part.len(), None);
    }
}

struct Attached {
    app: Arc<dyn NativeApp>,
    inbox: Batch,
    /// The buffers of the batch that was run last.
    spare: Batch,
}

/// The apps of a datapath, by vport.
#[derive(Default)]
pub struct Apps(Vec<Option<Attached>>);

impl Apps {
    /// Put an app behind a vport, or nothing. Frames that the one before it has not seen are gone.
    pub fn set(&mut self, vport: usize, app: Option<Arc<dyn NativeApp>>) {
        if self.0.len() <= vport {
            if app.is_none() {
                return;
            }
            self.0.resize_with(vport + 1, || None);
        }
        self.0[vport] = app.map(|app| Attached { app, inbox: Batch::default(), spare: Batch::default() });
    }

    /// Take a frame, virtio-net header before it; false where no app stands behind the vport.
    #[inline]
    pub fn take(&mut self, vport: usize, parts: &[&[u8]]) -> bool {
        let Some(Some(attached)) = self.0.get_mut(vport) else { return false };
        attached.inbox.push(parts);
        true
    }

    /// Take the app and the frames of the next vport that has any.
    pub fn next_batch(&mut self) -> Option<(usize, Arc<dyn NativeApp>, Batch)> {
        let waits = |slot: &Option<Attached>| slot.as_ref().is_some_and(|it| !it.inbox.lengths.is_empty());
        let vport = self.0.iter().position(waits)?;
        let attached = self.0[vport].as_mut()?;
        let fresh = std::mem::take(&mut attached.spare);
        Some((vport, Arc::clone(&attached.app), std::mem::replace(&mut attached.inbox, fresh)))
    }

    /// Keep the buffers of a batch that was run for the one after the next.
    pub fn give_back(&mut self, vport: usize, mut batch: Batch) {
        batch.clear();
        if let Some(Some(attached)) = self.0.get_mut(vport) {
            attached.spare = batch;
        }
    }
}
