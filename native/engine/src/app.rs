//! Apps: programs of this process that stand behind a vport in the place of a device.
//!
//! Frames for a vport are collected in a batch, which its app processes in one call; everything the app sends leaves
//! before the burst of the thread ends. The price is one virtual call per batch and two copies per frame.

use std::ops::Range;
use std::sync::Arc;

use offload::vnet::{SIZE, VnetHeader};

use crate::api::Engine;
use crate::vnics::Vnics;

/// Zeroed bytes after every frame of a batch, so that a short frame can be padded in place.
const ROOM: usize = 64;

/// A program that receives the frames of a vport and can send frames from it.
///
/// An app may be attached to several vports and shared with Python, so it guards its state with its own lock. It also
/// keeps its own counters; the vport counts the frames it exchanges with an app just as it does for a device.
pub trait NativeApp: Send + Sync {
    /// Process the frames that arrived since the last call, and send frames through `outlet`.
    ///
    /// The thread calls this in every burst that brought frames, and again for frames that apps sent to each other,
    /// until none are left. An app must make sure that this ends, for instance by decrementing a TTL: two apps that
    /// answer every frame with a frame would keep the thread busy forever.
    fn run(&self, batch: &mut Batch, outlet: &mut Outlet<'_>);
}

/// Frames received at a vport, in order of arrival.
#[derive(Default)]
pub struct Batch {
    /// For each frame: virtio-net header, bytes, room.
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

    /// Iterate over the frames, which may be modified in place.
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
    /// The frame and its room.
    buffer: &'a mut [u8],
    len: usize,
}

impl Frame<'_> {
    /// The Ethernet frame, without FCS.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// Sends frames from the vport of an app.
pub struct Outlet<'a> {
    pub engine: &'a mut Engine,
    pub vnics: &'a mut Vnics,
    pub now: u64,
    pub vport: usize,
}

impl Outlet<'_> {
    /// Send the given part of a frame's bytes as a frame.
    #[inline]
    pub fn send(&mut self, frame: Frame<'_>, part: Range<usize>) {
        let buffer = &mut frame.buffer[part.start..];
        let header = VnetHeader::default();
        self.vnics.transmit(self.engine, self.now, self.vport, &header, (buffer, part.len()), None);
    }
}

struct Attached {
    app: Arc<dyn NativeApp>,
    inbox: Batch,
    /// The buffers of the previous batch, for reuse.
    spare: Batch,
}

/// The apps of a datapath, by vport.
#[derive(Default)]
pub struct Apps(Vec<Option<Attached>>);

impl Apps {
    /// Set or clear the app of a vport. Frames that the previous app has not processed are discarded.
    pub fn set(&mut self, vport: usize, app: Option<Arc<dyn NativeApp>>) {
        if self.0.len() <= vport {
            if app.is_none() {
                return;
            }
            self.0.resize_with(vport + 1, || None);
        }
        self.0[vport] = app.map(|app| Attached { app, inbox: Batch::default(), spare: Batch::default() });
    }

    /// Take the app of a vport away. Frames that it has not processed are discarded.
    pub fn take_app(&mut self, vport: usize) -> Option<Arc<dyn NativeApp>> {
        self.0.get_mut(vport)?.take().map(|attached| attached.app)
    }

    /// Queue a frame, preceded by its virtio-net header; return false if the vport has no app.
    #[inline]
    pub fn take(&mut self, vport: usize, parts: &[&[u8]]) -> bool {
        let Some(Some(attached)) = self.0.get_mut(vport) else { return false };
        attached.inbox.push(parts);
        true
    }

    /// Return the next vport with queued frames, with its app and these frames.
    pub fn next_batch(&mut self) -> Option<(usize, Arc<dyn NativeApp>, Batch)> {
        let waits = |slot: &Option<Attached>| slot.as_ref().is_some_and(|it| !it.inbox.lengths.is_empty());
        let vport = self.0.iter().position(waits)?;
        let attached = self.0[vport].as_mut()?;
        let fresh = std::mem::take(&mut attached.spare);
        Some((vport, Arc::clone(&attached.app), std::mem::replace(&mut attached.inbox, fresh)))
    }

    /// Return a processed batch, so that its buffers are used again.
    pub fn give_back(&mut self, vport: usize, mut batch: Batch) {
        batch.clear();
        if let Some(Some(attached)) = self.0.get_mut(vport) {
            attached.spare = batch;
        }
    }
}
