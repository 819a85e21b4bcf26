//! An allocator that counts, so that a test can say that nothing was allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Allocations of the calling thread so far.
pub fn count() -> usize {
    ALLOCATIONS.with(Cell::get)
}

struct Counting;

// SAFETY: the system's allocator, whose promises are kept, does all the work; counting allocates nothing
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller promises what the system's allocator asks for: a layout that is not empty
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `pointer` came from `alloc`, so from the system's, with this layout
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
