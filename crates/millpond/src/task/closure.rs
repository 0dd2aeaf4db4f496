//! [`Closure`]: a type-erased `FnOnce() + Send`, stored in place if it has at most five words.
//!
//! A box that one thread allocates and another frees costs as much as everything else that a pool
//! does for a small task. So the closure itself is moved: from the stack of the submitter into the
//! memory of the queue, and from there to the worker. A Rust value may be moved by copying its
//! bytes.
//!
//! # Invariants
//!
//! 1. The first `vtable.words` words hold a value of the type that the vtable was made for, aligned
//!    to a word. The vtable of a spent closure has no words and belongs to no type.
//! 2. That type is `FnOnce() + Send + 'static`.

use std::mem::MaybeUninit;

/// The largest closure that is stored in place, in words.
pub(super) const WORDS: usize = 5;

pub(super) type Word = MaybeUninit<usize>;

/// A closure that is called at most once.
pub(super) struct Closure {
    vtable: &'static VTable,
    words: [Word; WORDS],
}

/// The operations on a closure of one type. Aligned to eight bytes, so its address has three spare
/// bits.
#[repr(align(8))]
pub(super) struct VTable {
    words: usize,
    /// Moves the closure out of this address and calls it.
    ///
    /// # Safety
    /// The address is aligned to a word and holds a closure of the type that the vtable belongs to,
    /// which is not used again.
    call: unsafe fn(*mut Word),
    /// Drops the closure at this address.
    ///
    /// # Safety
    /// As for `call`.
    drop: unsafe fn(*mut Word),
}

/// Returns true if an `F` can be stored in place.
pub(super) const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<[Word; WORDS]>() && align_of::<F>() <= align_of::<Word>()
}

impl VTable {
    pub(super) const fn of<F: FnOnce() + Send + 'static>() -> &'static VTable {
        const {
            &VTable {
                words: size_of::<F>().div_ceil(size_of::<Word>()),
                // SAFETY: the contract of `call`: an `F` is there, which is not used again.
                call: |closure| unsafe { closure.cast::<F>().read() }(),
                // SAFETY: as above.
                drop: |closure| unsafe { closure.cast::<F>().drop_in_place() },
            }
        }
    }

    /// Returns the number of words that the closure takes.
    #[inline]
    pub(super) const fn words(&self) -> usize {
        self.words
    }
}

/// The vtable of a closure that has been called.
static SPENT: VTable = VTable { words: 0, call: |_| {}, drop: |_| {} };

// SAFETY: (2).
unsafe impl Send for Closure {}
// SAFETY: `&Closure` gives no access to the value: calling it takes `&mut self`.
unsafe impl Sync for Closure {}

impl Closure {
    pub(super) fn new<F: FnOnce() + Send + 'static>(f: F) -> Closure {
        if fits::<F>() { Closure::in_place(f) } else { Closure::in_place(Box::new(f)) }
    }

    fn in_place<F: FnOnce() + Send + 'static>(f: F) -> Closure {
        assert!(fits::<F>());
        let mut words = [Word::uninit(); WORDS];
        // SAFETY: `F` fits into the words, and needs no more alignment than they have.
        unsafe { words.as_mut_ptr().cast::<F>().write(f) };
        Closure { vtable: VTable::of::<F>(), words }
    }

    /// Returns a closure whose value has been moved away.
    pub(super) const fn spent() -> Closure {
        Closure { vtable: &SPENT, words: [Word::uninit(); WORDS] }
    }

    /// Returns true if the closure has been called or moved away.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        std::ptr::eq(self.vtable, &SPENT)
    }

    /// Returns the number of words that the closure takes.
    #[inline]
    pub(super) fn words(&self) -> usize {
        self.vtable.words
    }

    /// Moves the value out. Returns the vtable, and the words that contain the value.
    #[inline]
    pub(super) fn take(&mut self) -> (&'static VTable, &[Word]) {
        let vtable = std::mem::replace(&mut self.vtable, &SPENT);
        (vtable, &self.words[..vtable.words])
    }

    /// Moves a value into a spent closure, from the first `vtable.words()` words of `from`.
    ///
    /// These words hold a value as (1) requires, which is not used there again.
    #[inline]
    pub(super) unsafe fn fill(&mut self, vtable: &'static VTable, from: *const Word) {
        debug_assert!(self.is_spent());
        // SAFETY: requires the words from the contract; (1) bounds their number by `WORDS`.
        unsafe { copy_words(from, self.words.as_mut_ptr(), vtable.words) };
        self.vtable = vtable;
    }

    /// Calls the closure where it is. A second call does nothing.
    #[inline]
    pub(super) fn call(&mut self) {
        let vtable = std::mem::replace(&mut self.vtable, &SPENT);
        // SAFETY: (1), and the closure is spent from here on.
        unsafe { (vtable.call)(self.words.as_mut_ptr()) }
    }
}

impl Drop for Closure {
    #[inline]
    fn drop(&mut self) {
        // Most closures have been called, and this check is cheaper than an empty call.
        if !self.is_spent() {
            // SAFETY: (1), and nothing uses the closure after its drop.
            unsafe { (self.vtable.drop)(self.words.as_mut_ptr()) }
        }
    }
}

/// Copies `words` words, at most `WORDS`. Like the function of std, but inlined.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(super) unsafe fn copy_words(from: *const Word, to: *mut Word, words: usize) {
    debug_assert!(words <= WORDS);
    // SAFETY: requires `words` words from the contract; together these copies cover exactly them.
    unsafe {
        if words >= 4 {
            from.copy_to_nonoverlapping(to, 4);
            if words > 4 {
                to.add(4).write(from.add(4).read());
            }
            return;
        }
        if words & 2 != 0 {
            from.copy_to_nonoverlapping(to, 2);
        }
        if words & 1 != 0 {
            to.add(words - 1).write(from.add(words - 1).read());
        }
    }
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
        assert_eq!(adds::<4>(&sum).words(), 5);
        assert_eq!(adds::<5>(&sum).words(), 1);
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
