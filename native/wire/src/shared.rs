//! Reference-counted bytes with facts about them: one allocation behind one word.
//!
//! They begin with a pair of cache lines, which processors fetch together. Who needs what is known and the first bytes gets
//! them at once, and nothing of its neighbours in memory, which may be at work elsewhere.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;
use std::process::abort;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::near::LINE;

/// Where all of it begins: at a multiple of this.
const PAIR: usize = 2 * LINE;

/// What stands before the bytes.
#[repr(C)]
struct Head<K> {
    holders: AtomicUsize,
    len: usize,
    known: K,
}

/// A counted reference to bytes of a fixed number, and to a `K` beside them; the last one to be dropped frees both.
pub struct Shared<K: Copy> {
    head: NonNull<Head<K>>,
    owned: PhantomData<Head<K>>,
}

// SAFETY: holders count atomically, and only one that is alone writes
unsafe impl<K: Copy + Send + Sync> Send for Shared<K> {}
// SAFETY: as above
unsafe impl<K: Copy + Send + Sync> Sync for Shared<K> {}

impl<K: Copy> Shared<K> {
    fn layout(len: usize) -> Layout {
        let size = size_of::<Head<K>>().checked_add(len).expect("it fits into memory");
        let align = PAIR.max(align_of::<Head<K>>());
        Layout::from_size_align(size, align).expect("it fits into memory")
    }

    /// Make so many bytes, all 0, with one reference.
    pub fn new(known: K, len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has the size of a head at least
        let Some(head) = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<Head<K>>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: it was allocated for a head, with its alignment, and has no other reference
        unsafe { head.write(Head { holders: AtomicUsize::new(1), len, known }) };
        Shared { head, owned: PhantomData }
    }

    #[inline]
    fn head(&self) -> &Head<K> {
        // SAFETY: it lives as long as any reference, and is written only through `alone`, which borrows the only
        // reference
        unsafe { self.head.as_ref() }
    }

    /// Where the bytes begin.
    #[inline]
    fn start(&self) -> *mut u8 {
        // SAFETY: the bytes follow the head in one allocation
        unsafe { self.head.as_ptr().add(1).cast() }
    }

    /// Where all of it begins; nothing is read.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.head.as_ptr().cast()
    }

    #[inline]
    pub fn known(&self) -> K {
        self.head().known
    }

    /// How many bytes there are.
    #[inline]
    pub fn size(&self) -> usize {
        self.head().len
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated there, all of which are initialized; written as the head is
        unsafe { slice::from_raw_parts(self.start(), self.size()) }
    }

    #[inline]
    pub fn is_alone(&self) -> bool {
        // Acquire: all accesses by former holders happen before a write by this one
        self.head().holders.load(Ordering::Acquire) == 1
    }

    /// Return mutable access to all of it, if this is the only reference.
    #[inline]
    pub fn alone(&mut self) -> Option<(&mut K, &mut [u8])> {
        if !self.is_alone() {
            return None;
        }
        let (len, start) = (self.size(), self.start());
        // SAFETY: this is the only reference, and it cannot be cloned while it is borrowed; `known` and the bytes do
        // not overlap
        unsafe { Some((&mut (*self.head.as_ptr()).known, slice::from_raw_parts_mut(start, len))) }
    }
}

impl<K: Copy> Shared<K> {
    /// Free it, for its last holder. Buffers are kept: this is seldom.
    #[cold]
    #[inline(never)]
    fn free(&mut self) {
        fence(Ordering::Acquire); // accesses by other holders happen before this
        let layout = Self::layout(self.size());
        // SAFETY: it was allocated with this layout, and no reference is left; neither a `K`, which is `Copy`, nor the
        // rest has anything to drop
        unsafe { dealloc(self.head.as_ptr().cast(), layout) };
    }
}

impl<K: Copy> Clone for Shared<K> {
    #[inline]
    fn clone(&self) -> Self {
        // relaxed: the caller has a reference already
        if self.head().holders.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            abort(); // references have leaked: the count must not wrap around
        }
        Shared { head: self.head, owned: PhantomData }
    }
}

impl<K: Copy> Drop for Shared<K> {
    #[inline]
    fn drop(&mut self) {
        if self.head().holders.fetch_sub(1, Ordering::Release) == 1 {
            self.free();
        }
    }
}

impl<K: Copy + Debug> Debug for Shared<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("known", &self.known()).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begins_with_a_pair_of_lines_and_is_zero() {
        for len in [0, 1, 31, 32, 33, 2048, 1 << 20] {
            let made = Shared::new(7u32, len);
            assert_eq!(made.address() as usize % PAIR, 0);
            assert_eq!((made.known(), made.size(), made.bytes()), (7, len, &*vec![0; len]));
        }
    }

    #[test]
    fn only_who_is_alone_changes_it() {
        let mut first = Shared::new(1u32, 100);
        let second = first.clone();
        assert!(first.alone().is_none() && !second.is_alone());
        drop(second);
        let (known, bytes) = first.alone().expect("the only reference");
        *known = 2;
        bytes.fill(3);
        let mut second = first.clone();
        assert_eq!((second.known(), second.bytes()), (2, &[3; 100][..]));
        drop(first);
        assert!(second.alone().is_some());
    }

    #[test]
    fn threads_share_and_the_last_one_frees() {
        let shared = Shared::new(5u32, 1000);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let own = shared.clone();
                std::thread::spawn(move || {
                    (0..1000).for_each(|_| assert_eq!(own.clone().bytes().len(), 1000));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        assert!(shared.is_alone());
    }
}
