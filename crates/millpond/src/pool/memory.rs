//! Memory for the segments of queues: leaves of 8 KiB, cut from fields of a megabyte, for all pools of the process.
//!
//! Memory that is new to a process costs more than all that is done with it: the system clears and maps it when it is first
//! written, in 2 to 3 µs for 4 KiB on a virtual machine, and that is 20 ns for each task that waits there. So the first field is
//! kept: it holds the queues of a day without a rush, thirty thousand tasks of two words. All others go back to the allocator
//! when they are empty, each by itself, whatever else lies between them; but while much is in use one empty field is kept, lest
//! a queue whose length wavers around the end of a field ask the system again and again. Leaves are taken from the first field
//! that has one, so that the later ones become empty.
//!
//! Of the later fields Linux is asked for several leaves at once, before they are written: to be told page by page, by a fault for
//! each, takes it twice as long.
//!
//! To ask Linux for huge pages was tried. A field that is one takes 0.35 µs for 4 KiB, and a task 8 to 13 ns instead of 25 to
//! 35. But where the host of a virtual machine takes free memory away, and has to bring it back in small pages, it takes 7 ms
//! at once, and a task 100 ns. Timers have no part in it: a hundred thousand of them were put in a tenth slower, for an
//! allocator may keep what was freed where this file gives it back.
//!
//! This file is one of the rooms with `unsafe`. What those who use it must keep to is said at [`give_back`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

#[cfg(not(loom))]
use crate::brief::Brief;

/// The size of a leaf, in bytes, and its alignment.
pub(super) const LEAF: usize = 8192;

/// So many leaves has a field, of which one is for the field itself.
const LEAVES: usize = if cfg!(miri) { 8 } else { 128 };
const FIELD: usize = LEAVES * LEAF;
/// With no more than so many leaves in use no empty field is kept, but the first.
const CALM: usize = LEAVES / 2;
/// So many leaves are asked for at once: 64 KiB, for which the system takes some 10 µs.
const AT_ONCE: usize = 8;
const WORD: usize = u64::BITS as usize;
const WORDS: usize = LEAVES.div_ceil(WORD);

/// What lies at the beginning of a field.
#[derive(Debug)]
struct Field {
    /// Bit n of word m: leaf 64 * m + n is free.
    free: [u64; WORDS],
    /// So many are not, besides that of the field itself.
    used: usize,
    /// From this leaf on none has been given out yet, nor been asked for.
    untouched: usize,
    /// Which field of the ground it is.
    index: usize,
}

impl Field {
    const LAYOUT: Layout = match Layout::from_size_align(FIELD, FIELD) {
        Ok(layout) => layout,
        Err(_) => panic!("a megabyte is not too much"),
    };

    /// A new field, all of whose leaves are free.
    fn new() -> NonNull<Field> {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc(Self::LAYOUT) });
        let field = memory.unwrap_or_else(|| handle_alloc_error(Self::LAYOUT)).cast::<Field>();
        let mut free = [0; WORDS];
        (1..LEAVES).for_each(|leaf| free[leaf / WORD] |= 1 << (leaf % WORD));
        // SAFETY: the memory is ours, large enough, and aligned to more than is needed.
        unsafe { field.write(Field { free, used: 0, untouched: 1, index: 0 }) };
        field
    }

    /// # Safety
    /// It was made by `new`, and nobody has a leaf of it nor the field itself.
    unsafe fn free(field: NonNull<Field>) {
        // SAFETY: it was allocated so.
        unsafe { dealloc(field.cast().as_ptr(), Self::LAYOUT) };
    }

    /// Takes the first free leaf, as a number.
    fn take(&mut self) -> Option<usize> {
        let word = self.free.iter().position(|word| *word != 0)?;
        let bit = self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        self.used += 1;
        Some(word * WORD + bit)
    }

    /// How many leaves are to be asked for, beginning with this one, which has just been taken. None of the first field: that
    /// is kept, and a process with a small queue is to have no more memory than it needs.
    fn ahead_of(&mut self, leaf: usize) -> usize {
        if leaf < self.untouched || self.index == 0 {
            return 0;
        }
        let leaves = AT_ONCE.min(LEAVES - leaf);
        self.untouched = leaf + leaves;
        leaves
    }

    fn put(&mut self, leaf: usize) {
        debug_assert!(self.free[leaf / WORD] >> (leaf % WORD) & 1 == 0, "a leaf is given back once");
        self.free[leaf / WORD] |= 1 << (leaf % WORD);
        self.used -= 1;
    }
}

/// A leaf for whoever has taken it, and how many are to be asked for from there on.
#[derive(Debug, Clone, Copy)]
struct Taken {
    leaf: NonNull<u8>,
    ask_for: usize,
}

/// All fields.
#[derive(Debug)]
struct Ground {
    /// The first is there for good.
    fields: Vec<NonNull<Field>>,
    /// No field before that has a free leaf.
    with_room: usize,
    /// Leaves in use.
    used: usize,
    /// Fields without a leaf in use, other than the first.
    empty: usize,
}

// SAFETY: what keeps it from being sent is the addresses of the fields, which it alone has: those whom it gave a leaf have no
// right to more than that.
unsafe impl Send for Ground {}

impl Ground {
    const fn new() -> Ground {
        Ground { fields: Vec::new(), with_room: 0, used: 0, empty: 0 }
    }

    fn field(&mut self, index: usize) -> Option<&mut Field> {
        // SAFETY: the fields are there as long as they are on the list, and nobody else has a reference to what lies at their
        // beginning: it is borrowed with `self`.
        self.fields.get_mut(index).map(|field| unsafe { field.as_mut() })
    }

    /// A free leaf, for whoever takes it alone. `None`: a field is needed first.
    fn take(&mut self) -> Option<Taken> {
        loop {
            let index = self.with_room;
            let field = self.field(index)?;
            if let Some(leaf) = field.take() {
                let was_empty = field.used == 1 && index > 0;
                let ask_for = field.ahead_of(leaf);
                self.empty -= usize::from(was_empty);
                self.used += 1;
                // SAFETY: a free leaf is one of the field.
                let leaf = unsafe { self.fields[index].cast::<u8>().byte_add(leaf * LEAF) };
                return Some(Taken { leaf, ask_for });
            }
            self.with_room += 1;
        }
    }

    fn add(&mut self, mut field: NonNull<Field>) {
        let index = self.fields.len();
        // SAFETY: it is new, and nobody else's.
        unsafe { field.as_mut().index = index };
        self.fields.push(field);
        self.empty += usize::from(index > 0);
        self.with_room = self.with_room.min(index);
    }

    /// The leaf is free again.
    ///
    /// # Safety
    /// It was taken from here, and has not been given back since.
    unsafe fn put(&mut self, leaf: NonNull<u8>) {
        let within = leaf.addr().get() % FIELD;
        // SAFETY: a field begins where its alignment says, and is there as long as a leaf of it is in use. Nobody else has a
        // reference to what lies there.
        let field = unsafe { leaf.byte_sub(within).cast::<Field>().as_mut() };
        field.put(within / LEAF);
        self.used -= 1;
        self.empty += usize::from(field.used == 0 && field.index > 0);
        self.with_room = self.with_room.min(field.index);
    }

    /// Takes an empty field off the list, if there are more of them than are of use. It is the caller's, to be freed.
    fn surplus(&mut self) -> Option<NonNull<Field>> {
        let spare = usize::from(self.used > CALM);
        if self.empty <= spare {
            return None;
        }
        let mut from_the_last = (1..self.fields.len()).rev();
        let index = from_the_last.find(|index| self.field(*index).is_some_and(|field| field.used == 0))?;
        let field = self.fields.swap_remove(index);
        if let Some(moved) = self.field(index) {
            moved.index = index;
        }
        self.empty -= 1;
        self.with_room = self.with_room.min(index);
        Some(field)
    }
}

#[cfg(not(loom))]
static GROUND: Brief<Ground> = Brief::new(Ground::new());

/// A leaf for whoever takes it alone. What lies there is not initialized.
#[cfg(not(loom))]
pub(super) fn take() -> NonNull<u8> {
    loop {
        let taken = GROUND.lock().take();
        if let Some(Taken { leaf, ask_for }) = taken {
            if ask_for > 0 {
                // SAFETY: they are all of one field, which is there as long as the leaf is in use.
                unsafe { system::ask_for(leaf, ask_for * LEAF) };
            }
            return leaf;
        }
        let field = Field::new(); // without the lock, for the system may take its time
        GROUND.lock().add(field);
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod system {
    use std::ffi::{c_int, c_void};
    use std::ptr::NonNull;

    /// To have the pages as if something had been written there, without a change of what is there. Since Linux 5.14.
    const POPULATE_WRITE: c_int = 23;

    unsafe extern "C" {
        fn madvise(begin: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    /// Asks for the memory before it is written. If the system does not want to, it comes when it is written.
    ///
    /// # Safety
    /// There are so many bytes, though others may use some of them.
    pub(super) unsafe fn ask_for(begin: NonNull<u8>, length: usize) {
        // SAFETY: it is the system's function of this name. The memory is there, and what is in it does not change.
        unsafe { madvise(begin.as_ptr().cast(), length, POPULATE_WRITE) };
    }
}

#[cfg(not(any(loom, all(target_os = "linux", not(miri)))))]
mod system {
    /// # Safety
    /// None is needed: here nobody can be asked.
    pub(super) unsafe fn ask_for(_: std::ptr::NonNull<u8>, _: usize) {}
}

/// Gives a leaf back, for others.
///
/// # Safety
/// It was taken and has not been given back since, and nobody uses it any more.
#[cfg(not(loom))]
pub(super) unsafe fn give_back(leaf: NonNull<u8>) {
    let mut ground = GROUND.lock();
    // SAFETY: there is one ground, and the caller says the rest.
    unsafe { ground.put(leaf) };
    while let Some(field) = ground.surplus() {
        drop(ground); // as above
        // SAFETY: none of its leaves is in use, and it is off the list.
        unsafe { Field::free(field) };
        ground = GROUND.lock();
    }
}

/// In models each leaf is by itself: nothing must be left from one run to the next.
#[cfg(loom)]
pub(super) fn take() -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc(LEAF_ALONE) }).unwrap_or_else(|| handle_alloc_error(LEAF_ALONE))
}

/// # Safety
/// It was taken and has not been given back since, and nobody uses it any more.
#[cfg(loom)]
pub(super) unsafe fn give_back(leaf: NonNull<u8>) {
    // SAFETY: it was allocated so.
    unsafe { dealloc(leaf.as_ptr(), LEAF_ALONE) };
}

#[cfg(loom)]
const LEAF_ALONE: Layout = match Layout::from_size_align(LEAF, LEAF) {
    Ok(layout) => layout,
    Err(_) => panic!("some kilobytes are not too much"),
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::timer_queue::tests::random;

    /// What tests do with a ground of their own: nobody else gets in between.
    #[derive(Debug)]
    struct Own {
        ground: Ground,
        /// Fields that were made so far.
        made: usize,
        /// Leaves that were to be asked for.
        asked_for: usize,
    }

    impl Own {
        fn new() -> Own {
            Own { ground: Ground::new(), made: 0, asked_for: 0 }
        }

        fn take(&mut self) -> NonNull<u8> {
            let taken = self.ground.take().unwrap_or_else(|| {
                self.ground.add(Field::new());
                self.made += 1;
                self.ground.take().expect("a new field has leaves")
            });
            self.asked_for += taken.ask_for;
            taken.leaf
        }

        fn put(&mut self, leaf: NonNull<u8>) {
            // SAFETY: it was taken from here, and tests have each leaf in one place.
            unsafe { self.ground.put(leaf) };
            while let Some(field) = self.ground.surplus() {
                // SAFETY: it is off the list, and none of its leaves is in use.
                unsafe { Field::free(field) };
            }
        }

        fn fields(&self) -> usize {
            self.ground.fields.len()
        }

        /// So many fields are needed for so many leaves, at the least.
        fn needed(leaves: usize) -> usize {
            leaves.div_ceil(LEAVES - 1)
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            for field in self.ground.fields.drain(..) {
                // SAFETY: nobody uses it any more.
                unsafe { Field::free(field) };
            }
        }
    }

    #[test]
    fn leaves_are_aligned_and_do_not_overlap() {
        let mut own = Own::new();
        let leaves: Vec<_> = (0..3 * LEAVES).map(|_| own.take()).collect();
        for leaf in &leaves {
            // SAFETY: the leaf is ours, and has so many bytes.
            unsafe { leaf.write_bytes(0xA5, LEAF) };
        }
        let mut addresses: Vec<_> = leaves.iter().map(|leaf| leaf.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.iter().all(|address| address.is_multiple_of(LEAF)));
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= LEAF));
        assert_eq!(
            (own.fields(), own.made),
            (Own::needed(leaves.len()), own.fields()),
            "all are made use of"
        );
        leaves.into_iter().for_each(|leaf| own.put(leaf));
        assert_eq!(own.fields(), 1, "what is written there does not harm the fields");
    }

    #[test]
    fn each_leaf_of_the_later_fields_is_asked_for_once() {
        let mut own = Own::new();
        let first: Vec<_> = (1..LEAVES).map(|_| own.take()).collect();
        assert_eq!(own.asked_for, 0, "the first field is small change");
        let mut later = vec![own.take()];
        assert_eq!(own.asked_for, AT_ONCE.min(LEAVES - 1));
        later.extend((2..LEAVES).map(|_| own.take()));
        assert_eq!((own.asked_for, own.made), (LEAVES - 1, 2), "all, and none of a field that is not there");
        later.drain(1..).for_each(|leaf| own.put(leaf));
        later.extend((2..LEAVES).map(|_| own.take()));
        assert_eq!((own.asked_for, own.made), (LEAVES - 1, 2), "what is there is not asked for again");
        first.into_iter().chain(later).for_each(|leaf| own.put(leaf));
    }

    /// Page faults of the calling thread so far.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("every Linux tells");
        let after_the_name = stat.rsplit(')').next().expect("there is a last part");
        after_the_name.split_whitespace().nth(7).and_then(|faults| faults.parse().ok()).expect("a number")
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn what_was_asked_for_is_there_when_it_is_written() {
        const PAGE: usize = 4096;
        const LENGTH: usize = AT_ONCE * LEAF;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("every Linux tells");
        let mut version = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        if (version.next(), version.next()) < (Some(5), Some(14)) {
            return println!("SKIPPED: Linux {} cannot be asked", release.trim());
        }
        // So much is new to the process: no allocator has it in stock.
        let layout = Layout::from_size_align(64 << 20, LEAF).unwrap();
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc(layout) }).expect("there is memory");
        let write_from = |at: usize| {
            let before = faults();
            for page in (at..at + LENGTH).step_by(PAGE) {
                // SAFETY: it is ours, and there are more bytes than that.
                unsafe { memory.byte_add(page).write_volatile(1) };
            }
            faults() - before
        };
        // SAFETY: as above.
        unsafe { system::ask_for(memory, LENGTH) };
        faults(); // the first look has faults of its own
        let (asked_for, not_asked_for) = (write_from(0), write_from(32 << 20));
        // SAFETY: it was allocated so, and nobody uses it.
        unsafe { dealloc(memory.as_ptr(), layout) };
        let pages = (LENGTH / PAGE) as u64;
        if not_asked_for < pages {
            return println!(
                "SKIPPED: here memory comes in larger pages, {not_asked_for} for {LENGTH} bytes"
            );
        }
        assert!(asked_for < pages / 2, "{asked_for} faults for {pages} pages");
    }

    /// Waves in which leaves are taken and given back in no order: none is given out twice, and memory follows their number.
    #[test]
    fn memory_follows_the_number_of_leaves_in_use() {
        let (waves, most) = if cfg!(miri) { (4, 40) } else { (40, 20 * LEAVES) };
        let mut random = random(7);
        let mut own = Own::new();
        let mut used = Vec::new();
        for _ in 0..waves {
            let high = random(most as u64) as usize;
            while used.len() < high {
                used.push(own.take());
            }
            assert_eq!(used.iter().collect::<std::collections::HashSet<_>>().len(), used.len());
            let low = random(1 + used.len() as u64 / 2) as usize;
            while used.len() > low {
                own.put(used.swap_remove(random(used.len() as u64) as usize));
            }
            // Each may be the last in its field; and one empty field may be kept.
            assert!(own.fields() <= 2 + used.len(), "{} fields for {} leaves", own.fields(), used.len());
            let in_fields: usize =
                (0..own.fields()).filter_map(|index| Some(own.ground.field(index)?.used)).sum();
            assert_eq!((own.ground.used, in_fields), (used.len(), used.len()));
        }
        used.drain(..).for_each(|leaf| own.put(leaf));
        assert_eq!((own.fields(), own.ground.used, own.ground.empty), (1, 0, 0), "the first is kept");
    }

    #[test]
    fn a_queue_first_in_first_out_gives_its_fields_back_one_by_one() {
        let mut own = Own::new();
        let leaves: Vec<_> = (0..6 * LEAVES).map(|_| own.take()).collect();
        for (gone, leaf) in leaves.iter().enumerate() {
            own.put(*leaf);
            let left = leaves.len() - gone - 1;
            // The first is kept, and one more; and two may be in use in part, one at each end of the queue.
            assert!(own.fields() <= Own::needed(left) + 3, "{} fields for {left} leaves", own.fields());
        }
        assert_eq!(own.fields(), 1);
    }

    #[test]
    fn who_wavers_around_the_end_of_a_field_does_not_ask_the_system_again_and_again() {
        let mut own = Own::new();
        let mut leaves: Vec<_> = (0..2 * (LEAVES - 1)).map(|_| own.take()).collect();
        assert_eq!((own.fields(), own.made), (2, 2), "both are full");
        for _ in 0..10 {
            (0..3).for_each(|_| leaves.push(own.take()));
            leaves.drain(leaves.len() - 3..).for_each(|leaf| own.put(leaf));
        }
        assert_eq!((own.fields(), own.made), (3, 3));
        leaves.drain(CALM..).for_each(|leaf| own.put(leaf));
        assert_eq!(own.fields(), 1, "with few leaves in use no empty field is kept");
        leaves.drain(..).for_each(|leaf| own.put(leaf));
    }

    #[test]
    fn threads_have_their_leaves_for_themselves() {
        const EACH: usize = if cfg!(miri) { 10 } else { LEAVES };
        std::thread::scope(|s| {
            for mark in 1..=3_u8 {
                s.spawn(move || {
                    for _ in 0..if cfg!(miri) { 1 } else { 20 } {
                        let leaves: Vec<_> = (0..EACH).map(|_| take()).collect();
                        for leaf in &leaves {
                            // SAFETY: the leaf is ours, and has so many bytes.
                            unsafe { leaf.write_bytes(mark, LEAF) };
                        }
                        for leaf in leaves {
                            // SAFETY: it is still ours, all of it has been written, and we forget it.
                            unsafe {
                                assert_eq!((leaf.read(), leaf.byte_add(LEAF - 1).read()), (mark, mark));
                                give_back(leaf);
                            }
                        }
                    }
                });
            }
        });
    }
}
