//! A team of threads: if one fails, all stop, and the failed thread and the reason are reported.

use std::any::Any;
use std::fmt::{Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Whether the workers are to end.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A worker that panicked, or that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub worker: usize,
    pub reason: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "worker {} failed: {}", self.worker, self.reason)
    }
}

impl std::error::Error for Failure {}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref().copied()).unwrap_or("a panic without a reason").to_owned()
}

/// Do a job; a panic sets `stop` and is returned.
fn guarded<T>(worker: usize, stop: &Stop, job: impl FnOnce(&Stop) -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(|| job(stop))).map_err(|panic| {
        stop.set();
        Failure { worker, reason: reason(&*panic) }
    })
}

/// Run each job on a thread of its own until all have returned; if one fails, `Stop` ends the others.
pub fn run<T, J>(jobs: Vec<J>) -> Result<Vec<T>, Failure>
where
    T: Send,
    J: FnOnce(&Stop) -> T + Send,
{
    let stop = &Stop::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (worker, job) in jobs.into_iter().enumerate() {
            let thread = thread::Builder::new().name(format!("worker {worker}"));
            let started = thread.spawn_scoped(scope, move || guarded(worker, stop, job));
            threads.push(started.map_err(|error| {
                stop.set();
                Failure { worker, reason: error.to_string() }
            }));
        }
        // all are waited for, also after one failed
        let ended: Vec<_> =
            threads.into_iter().map(|thread| thread?.join().expect("its panics are caught")).collect();
        ended.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let jobs = (0..5).map(|number| move |_: &Stop| number * number).collect();
        assert_eq!(run(jobs), Ok(vec![0, 1, 4, 9, 16]));
    }

    #[test]
    fn panic_of_one_ends_all_and_is_reported() {
        let job = |number: usize| {
            move |stop: &Stop| {
                assert_ne!(number, 2, "two is one too many");
                while !stop.is_set() {
                    thread::yield_now();
                }
            }
        };
        let failure = run((0..4).map(job).collect()).unwrap_err();
        assert_eq!(failure.worker, 2);
        assert!(failure.to_string().starts_with("worker 2 failed: ") && failure.reason.contains("too many"));
    }
}
