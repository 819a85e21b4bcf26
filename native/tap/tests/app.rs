//! Apps behind vports, in place of devices: what every app can rely on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::app::{Batch, NativeApp, Outlet};
use engine::core::Options;
use engine::testing::{assert_balance, two_hosts};
use offload::vnet::{SIZE, VnetHeader};
use tap::worker::{Shared, State};

/// The byte that holds the remaining passes of a frame.
const LEFT: usize = 14;

/// Returns a frame to its sender while it has passes left.
#[derive(Default)]
struct Echo {
    calls: AtomicUsize,
    frames: AtomicUsize,
}

impl NativeApp for Echo {
    fn run(&self, batch: &mut Batch, outlet: &mut Outlet<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        for mut frame in batch.frames() {
            self.frames.fetch_add(1, Ordering::Relaxed);
            let bytes = frame.bytes();
            let len = bytes.len();
            if bytes[LEFT] > 0 {
                bytes[LEFT] -= 1;
                bytes[..12].rotate_left(6);
                outlet.send(frame, 0..len);
            }
        }
    }
}

impl Echo {
    fn seen(&self) -> (usize, usize) {
        (self.calls.load(Ordering::Relaxed), self.frames.load(Ordering::Relaxed))
    }
}

/// A frame from the first vport to the second.
fn frame(passes: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0x06, 0x2c, 0, 2, 0, 0, 0x06, 0x2c, 0, 1, 0, 0, 0x88, 0xb5, passes];
    frame.resize(len, 0x5a);
    frame
}

fn bed() -> Arc<Shared> {
    Shared::new(two_hosts(Options { icrc: true, merge: true, enforce: true })).unwrap()
}

fn burst(state: &mut State, frames: &[Vec<u8>]) {
    for frame in frames {
        let mut buffer = frame.clone();
        buffer.resize(frame.len().max(60), 0);
        state.core.transmit(0, &VnetHeader::default(), &mut buffer, frame.len(), None);
    }
    state.end_burst();
}

#[test]
fn app_sees_a_burst_in_one_call_and_its_answers_leave_with_it() {
    let shared = bed();
    let state = &mut *shared.lock();
    let echo = Arc::new(Echo::default());
    assert!(state.set_app(1, Some(echo.clone())));
    let frames: Vec<_> = [60, 61, 777, 1514].map(|len| frame(1, len)).into();
    burst(state, &frames);
    assert_eq!(echo.seen(), (1, 4));
    let back: Vec<_> =
        state.devices.kept.iter().map(|(vport, frame)| (*vport, frame[SIZE..].len())).collect();
    assert_eq!(back, [(0, 60), (0, 61), (0, 777), (0, 1514)]);
    assert_balance(&state.core);
}

#[test]
fn app_comes_and_goes_while_frames_pass() {
    let shared = bed();
    let state = &mut *shared.lock();
    let echo = Arc::new(Echo::default());
    burst(state, &[frame(1, 60)]);
    assert!(state.set_app(1, Some(echo.clone())));
    burst(state, &[frame(1, 60)]);
    assert!(state.set_app(1, None));
    burst(state, &[frame(1, 60)]);
    let vports: Vec<_> = state.devices.kept.iter().map(|(vport, _)| *vport).collect();
    assert_eq!(vports, [1, 0, 1], "the frame between the two others has been sent back");
    assert_eq!(echo.seen(), (1, 1));
    assert_eq!(Arc::strong_count(&echo), 1, "nobody else holds it any more");
    assert!(!state.set_app(7, Some(echo)), "there is no such vport");
}

#[test]
fn apps_that_send_to_each_other_are_run_until_nothing_is_left() {
    let shared = bed();
    let state = &mut *shared.lock();
    let ends = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    for (vport, echo) in ends.iter().enumerate() {
        assert!(state.set_app(vport, Some(echo.clone())));
    }
    burst(state, &[frame(9, 60), frame(0, 60)]);
    assert_eq!(ends.map(|echo| echo.seen()), [(5, 5), (5, 6)]);
    assert!(state.devices.kept.is_empty());
    assert_balance(&state.core);
}

#[test]
fn answers_that_fill_the_arena_more_than_once_all_leave() {
    let shared = bed();
    let state = &mut *shared.lock();
    assert!(state.set_app(1, Some(Arc::new(Echo::default()))));
    let frames = vec![frame(1, 1514); 2000];
    for frame in &frames {
        if state.core.is_full() {
            state.core.flush(&mut state.devices);
        }
        let mut buffer = frame.clone();
        state.core.transmit(0, &VnetHeader::default(), &mut buffer, frame.len(), None);
    }
    state.end_burst();
    assert_eq!(state.devices.kept.len(), frames.len());
    assert_balance(&state.core);
}
