//! A closure in place: `FnOnce() + Send`, type-erased, without a box if it has at most five words.
//!
//! A box that one thread makes and another frees costs as much as everything else that a pool does for a small task, so the
//! closure itself travels: from the submitter's stack into the queue's memory, and from there to the worker. What makes
//! that possible is that a Rust value may be moved by copying its bytes. This file is one of the rooms with
//! `unsafe`: it keeps the bytes, and next to them what can be done with them.

use std::mem::MaybeUninit;

/// The words that a closure may have to be kept in place.
pub(super) const WORDS: usize = 5;

pub(super) type Word = MaybeUninit<usize>;

/// A closure that is called at most once.
pub(super) struct Closure {
    /// What can be done with the closure that the words hold.
    pub(super) verbs: &'static VTable,
    /// The first `verbs.words` of them hold a value of the type that `verbs` belongs to.
    pub(super) words: [Word; WORDS],
}

/// What can be done with a closure of one type. Aligned to eight, so that its address has three bits to spare.
#[repr(align(8))]
pub(super) struct VTable {
    /// The words that the closure takes.
    pub(super) words: usize,
    /// Moves the closure out of where it lies, and calls it.
    ///
    /// # Safety
    /// A closure of this type lies there, aligned to a word. It does not any more afterwards.
    call: unsafe fn(*mut Word),
    /// Drops the closure where it lies.
    ///
    /// # Safety
    /// As `call`.
    drop: unsafe fn(*mut Word),
}

/// An F can be kept in place.
pub(super) const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<[Word; WORDS]>() && align_of::<F>() <= align_of::<Word>()
}

impl VTable {
    pub(super) const fn of<F: FnOnce() + Send + 'static>() -> &'static VTable {
        const {
            &VTable {
                words: size_of::<F>().div_ceil(size_of::<Word>()),
                call: call::<F>,
                drop: drop_there::<F>,
            }
        }
    }
}

// SAFETY: `new` takes only closures that are `Send`.
unsafe impl Send for Closure {}
// SAFETY: a shared reference gives no access to the closure: calling and dropping it take `self`.
unsafe impl Sync for Closure {}

impl Closure {
    pub(super) fn new<F: FnOnce() + Send + 'static>(f: F) -> Closure {
        if fits::<F>() { Closure::in_place(f) } else { Closure::in_place(Box::new(f)) }
    }

    fn in_place<F: FnOnce() + Send + 'static>(f: F) -> Closure {
        assert!(fits::<F>());
        let mut words = [Word::uninit(); WORDS];
        // SAFETY: F fits.
        unsafe { words.as_mut_ptr().cast::<F>().write(f) };
        Closure { verbs: VTable::of::<F>(), words }
    }

    /// It has been called: nothing is left of it.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        std::ptr::eq(self.verbs, &SPENT)
    }

    /// Calls the closure, where it lies. A second call does nothing.
    #[inline]
    pub(super) fn call(&mut self) {
        let verbs = std::mem::replace(&mut self.verbs, &SPENT);
        // SAFETY: the words hold the closure that `verbs` belongs to. It is used up only here, for from now on nobody
        // knows of it: `SPENT` belongs to nothing at all.
        unsafe { (verbs.call)(self.words.as_mut_ptr()) }
    }
}

/// The verbs of a closure that has been called.
static SPENT: VTable = VTable { words: 0, call: nothing, drop: nothing };

fn nothing(_: *mut Word) {}

impl Drop for Closure {
    #[inline]
    fn drop(&mut self) {
        // Most have been called, and to look costs less than a call that does nothing.
        if !self.is_spent() {
            // SAFETY: the words hold the closure that `verbs` belongs to, and nobody uses it after this.
            unsafe { (self.verbs.drop)(self.words.as_mut_ptr()) }
        }
    }
}

/// # Safety
/// As [`VTable::call`].
unsafe fn call<F: FnOnce()>(closure: *mut Word) {
    // SAFETY: the caller says that an F lies there, and does not use it again.
    let f = unsafe { closure.cast::<F>().read() };
    f();
}

/// # Safety
/// As [`VTable::drop`].
unsafe fn drop_there<F>(closure: *mut Word) {
    // SAFETY: the caller says that an F lies there, and does not use it again.
    unsafe { closure.cast::<F>().drop_in_place() }
}

const _: () = assert!(align_of::<[Word; WORDS]>() == align_of::<usize>() && align_of::<VTable>() == 8);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A closure that captures `N` words and a counter, to which it adds their sum.
    fn adds<const N: usize>(to: &Arc<AtomicUsize>) -> Closure {
        let to = Arc::clone(to);
        let words = [1_usize; N];
        Closure::new(move || {
            to.fetch_add(words.iter().sum(), Ordering::Relaxed);
        })
    }

    #[test]
    fn closures_of_all_sizes_are_called_once_and_dropped_once() {
        let sum = Arc::new(AtomicUsize::new(0));
        for mut f in [adds::<0>(&sum), adds::<1>(&sum), adds::<4>(&sum), adds::<5>(&sum), adds::<64>(&sum)] {
            f.call();
            f.call();
        }
        assert_eq!(sum.load(Ordering::Relaxed), 1 + 4 + 5 + 64, "each has run once");
        drop([adds::<0>(&sum), adds::<4>(&sum), adds::<5>(&sum), adds::<64>(&sum)]);
        assert_eq!(sum.load(Ordering::Relaxed), 74, "a closure that is dropped does not run");
        assert_eq!(Arc::strong_count(&sum), 1, "what was captured has been dropped");
    }

    #[test]
    fn five_words_are_kept_in_place_and_six_in_a_box() {
        let sum = Arc::new(AtomicUsize::new(0));
        assert_eq!(adds::<4>(&sum).verbs.words, 5);
        assert_eq!(adds::<5>(&sum).verbs.words, 1);
    }

    #[test]
    fn a_coarsely_aligned_capture_is_aligned() {
        #[repr(align(64))]
        struct Line(u8);
        let line = Line(7);
        Closure::new(move || {
            assert_eq!(std::ptr::from_ref(&line).addr() % 64, 0);
            assert_eq!(line.0, 7);
        })
        .call();
    }

    #[test]
    fn a_panic_drops_what_was_captured() {
        let captured = Arc::new(());
        let mut f = Closure::new({
            let captured = Arc::clone(&captured);
            move || {
                let _captured = captured;
                std::panic::resume_unwind(Box::new("as asked"));
            }
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call())).is_err());
        assert_eq!(Arc::strong_count(&captured), 1);
    }
}
