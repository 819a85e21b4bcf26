//! The processor of a port's frames: the load balancer, or the plain forwarder of the benchmark.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Something that takes frames in place and says what leaves. Each thread of a port is one of its workers.
pub trait Station: Send + Sync + 'static {
    /// The frames that a worker takes without a break.
    type Burst<'a>: Burst
    where
        Self: 'a;

    /// Begin a burst; wait where none may begin, unless `stop` is set.
    fn begin(&self, worker: usize, stop: &AtomicBool) -> Self::Burst<'_>;

    /// Wake waiting workers, because they must stop.
    fn release(&self);

    /// Tell the owner that a thread died.
    fn tell_failure(&self);
}

/// A burst; it ends when it is dropped.
pub trait Burst {
    /// Take one frame; return where it lies that leaves, None where none does.
    fn take(&mut self, frame: &mut [u8]) -> Option<Range<usize>>;
}
