//! Prefetching of bytes that another processor has in its cache.
//!
//! A load or a store of such a line takes as long as the work on a whole packet. Asked for ahead, many come at a time. It
//! changes nothing but how long the work takes, and does nothing where the processor has no instruction for it.

/// Bytes that processors move at a time.
pub const LINE: usize = 64;

/// Prefetch a line for reading.
#[inline(always)]
pub fn read_soon<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads and writes nothing, at any address
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetch a line for writing: other processors give it up.
#[inline(always)]
pub fn write_soon<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads and writes nothing, at any address; processors that do not know it take it for no operation
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
