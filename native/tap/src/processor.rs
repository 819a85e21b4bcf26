//! Which processor a thread runs on.

use std::io;
use std::mem::{size_of, zeroed};

/// Keep the calling thread on one of the processors that it may use: the `number`th, or counted on from the first again.
///
/// The kernel often puts threads that wake each other on one processor, even if another one is idle.
pub fn stay_on(number: usize) -> io::Result<()> {
    // SAFETY: a set of processors is plain bits; none is set
    let (mut usable, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { (zeroed(), zeroed()) };
    // SAFETY: the kernel writes no more than the size that it is told
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut usable) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every number is below the size of a set
    let is_usable = |processor: &usize| unsafe { libc::CPU_ISSET(*processor, &usable) };
    let processors: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(is_usable).collect();
    let Some(processor) = processors.get(number % processors.len().max(1)) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    // SAFETY: as above
    unsafe { libc::CPU_SET(*processor, &mut one) };
    // SAFETY: the kernel reads no more than the size that it is told
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_stays_on_one_processor() {
        std::thread::spawn(|| {
            for number in [0, 1, 1_000_003] {
                // one is left after the first
                stay_on(number).unwrap();
                assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            }
        })
        .join()
        .unwrap();
    }
}
