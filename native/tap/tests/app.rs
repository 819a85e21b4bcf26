//! Apps behind vports, in place of devices: what every app can rely on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::app::{Batch, NativeApp, Outlet};
use engine::testing::TwoHosts;
use offload::vnet::{SIZE, VnetHeader};
use tap::carrier::Carrier;
use tap::shared::Shared;

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
    let TwoHosts { engine, vnics, .. } = TwoHosts::default();
    Shared::new(vec![(engine, vnics)]).unwrap()
}

/// Send frames from the first vport, and let everything arrive that comes of them.
fn burst(shared: &Shared, frames: &[Vec<u8>]) {
    shared.input(0, 0, |carrier, now| {
        for frame in frames {
            let mut buffer = frame.clone();
            buffer.resize(frame.len().max(60), 0);
            let Carrier { engine, vnics, .. } = carrier;
            vnics.transmit(engine, now, 0, &VnetHeader::default(), (&mut buffer, frame.len()), None);
        }
    });
    let next = || shared.lock(0).deadline();
    while let Some(due) = next() {
        shared.input(0, due, Carrier::pass);
    }
}

fn kept(shared: &Shared) -> Vec<(usize, usize)> {
    let kept = std::mem::take(&mut shared.lock(0).devices.kept);
    kept.iter().map(|(vport, frame)| (*vport, frame[SIZE..].len())).collect()
}

#[test]
fn app_sees_what_arrived_together_in_one_call_and_its_answers_are_sent() {
    let shared = bed();
    let echo = Arc::new(Echo::default());
    assert!(shared.lock(0).set_app(1, Some(echo.clone())));
    let frames: Vec<_> = [60, 61, 777, 1514].map(|len| frame(1, len)).into();
    shared.input(0, 0, |carrier, now| {
        for frame in &frames {
            let mut buffer = frame.clone();
            let len = frame.len();
            let Carrier { engine, vnics, .. } = carrier;
            vnics.transmit(engine, now, 0, &VnetHeader::default(), (&mut buffer, len), None);
        }
    });
    shared.input(0, 1_000_000, Carrier::pass);
    assert_eq!(echo.seen(), (1, 4));
    shared.input(0, 2_000_000, Carrier::pass);
    assert_eq!(kept(&shared), [(0, 60), (0, 61), (0, 777), (0, 1514)]);
}

#[test]
fn app_comes_and_goes_while_frames_pass() {
    let shared = bed();
    let echo = Arc::new(Echo::default());
    burst(&shared, &[frame(1, 60)]);
    assert!(shared.lock(0).set_app(1, Some(echo.clone())));
    burst(&shared, &[frame(1, 60)]);
    assert!(shared.lock(0).set_app(1, None));
    burst(&shared, &[frame(1, 60)]);
    let vports: Vec<_> = kept(&shared).into_iter().map(|(vport, _)| vport).collect();
    assert_eq!(vports, [1, 0, 1], "the frame between the two others has been sent back");
    assert_eq!(echo.seen(), (1, 1));
    assert_eq!(Arc::strong_count(&echo), 1, "no other reference is left");
    assert!(!shared.lock(0).set_app(7, Some(echo)), "there is no such vport");
}

#[test]
fn apps_that_send_to_each_other_are_run_until_nothing_is_left() {
    let shared = bed();
    let ends = [Arc::new(Echo::default()), Arc::new(Echo::default())];
    for (vport, echo) in ends.iter().enumerate() {
        assert!(shared.lock(0).set_app(vport, Some(echo.clone())));
    }
    burst(&shared, &[frame(9, 60)]);
    assert_eq!(ends.map(|echo| echo.seen()), [(5, 5), (5, 5)]);
    assert!(kept(&shared).is_empty());
}

#[test]
fn many_answers_all_leave() {
    let shared = bed();
    assert!(shared.lock(0).set_app(1, Some(Arc::new(Echo::default()))));
    burst(&shared, &vec![frame(1, 1514); 3000]);
    assert_eq!(kept(&shared).len(), 3000);
}
