//! Memory for the states of timers: places of one size, 64 to a block.
//!
//! Timers are many, are put in by the thousand and mostly cancelled, in no order. To free a million of their states in random
//! order takes the system's allocator 270 to 310 ns each, more than all else that a cancel does: it looks at the neighbours
//! of what is freed, to join them. Here a bit is set, in a word that 64 states share, and a block whose places are all free
//! goes back to the allocator as a whole. A block that is half empty is filled up before a new one is made.
//!
//! A place has a number, by which it is given back. The slabs belong to the process and not to a pool, because a handle may
//! outlive its pool; there are some of each size, so that threads do not all want the same lock.
//!
//! This file is one of the rooms with `unsafe`. What those who use it must keep to is said at [`give_back`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::brief::Brief;

/// The sizes of places. A state with a closure of two words needs the first, with one of ten the second.
const SIZES: [usize; 2] = [128, 192];
/// So that a place of the first size lies in two lines of a cache, and not in three.
const ALIGNMENT: usize = 64;
/// A word has so many bits.
const PLACES: usize = u64::BITS as usize;
/// Bit n: place n is free.
const ALL_FREE: u64 = u64::MAX;
/// So many slabs for each size.
const SLABS: usize = 8;
/// A list of blocks that is no longer than that is kept when all of them are empty.
const KEPT: usize = 64;

/// A place, and by which number it is given back.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) address: NonNull<u8>,
    pub(super) number: NonZeroU32,
}

/// Which place: of which size, in which slab, which block of it and where in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    size: usize,
    slab: usize,
    block: usize,
    at: usize,
}

const AT_BITS: u32 = PLACES.ilog2();
const SLAB_BITS: u32 = SLABS.ilog2();
const SIZE_BITS: u32 = SIZES.len().ilog2();
const BLOCK_BITS: u32 = u32::BITS - AT_BITS - SLAB_BITS - SIZE_BITS;
/// A slab has fewer blocks than that, and the first number is no block's, so that none is 0. That is 268 million places.
const BLOCKS: usize = (1 << BLOCK_BITS) - 1;

impl Number {
    #[inline]
    fn to_bits(self) -> NonZeroU32 {
        let bits = (self.block + 1) << SIZE_BITS | self.size;
        let bits = (bits << SLAB_BITS | self.slab) << AT_BITS | self.at;
        u32::try_from(bits).ok().and_then(NonZeroU32::new).expect("each part fits, and the first is above 0")
    }

    #[inline]
    fn from_bits(bits: NonZeroU32) -> Number {
        let mut bits = bits.get() as usize;
        let mut part = |room: u32| {
            let part = bits & ((1 << room) - 1);
            bits >>= room;
            part
        };
        let (at, slab, size) = (part(AT_BITS), part(SLAB_BITS), part(SIZE_BITS));
        Number { size, slab, block: bits - 1, at }
    }
}

#[derive(Debug)]
struct Block {
    /// Room for [`PLACES`], unless it is vacant.
    memory: Option<NonNull<u8>>,
    /// Which places are free.
    free: u64,
    /// So many are not.
    used: usize,
    /// It is on the list of those with room, or has been when it was given up.
    listed: bool,
}

/// Places of one size.
#[derive(Debug)]
struct Slab {
    size: usize,
    blocks: Vec<Block>,
    /// The block that places are taken from.
    current: usize,
    /// Blocks that are half empty, and some that have been.
    with_room: Vec<usize>,
    /// Numbers of blocks without memory.
    vacant: Vec<usize>,
}

// SAFETY: what keeps it from being sent is the addresses of the blocks, which it alone has: those whom it gave a place have
// no right to more than that.
unsafe impl Send for Slab {}

impl Slab {
    const fn new(size: usize) -> Slab {
        Slab { size, blocks: Vec::new(), current: 0, with_room: Vec::new(), vacant: Vec::new() }
    }

    const fn layout(&self) -> Layout {
        match Layout::from_size_align(self.size * PLACES, ALIGNMENT) {
            Ok(layout) => layout,
            Err(_) => panic!("some kilobytes are not too much"),
        }
    }

    /// A free place: its address, its block and where in it. `None`: there are no numbers left.
    #[inline]
    fn take(&mut self) -> Option<(NonNull<u8>, usize, usize)> {
        if self.blocks.get(self.current).is_none_or(|block| block.free == 0) {
            self.current = self.next_block()?;
        }
        let block = &mut self.blocks[self.current];
        let at = block.free.trailing_zeros() as usize;
        block.free &= block.free - 1;
        block.used += 1;
        let memory = block.memory.expect("only a block with memory is the current one");
        // SAFETY: there are `PLACES` of this size in the block, and a bit of the word is below that.
        Some((unsafe { memory.byte_add(at * self.size) }, self.current, at))
    }

    /// A block with a free place.
    #[cold]
    fn next_block(&mut self) -> Option<usize> {
        while let Some(number) = self.with_room.pop() {
            let block = &mut self.blocks[number];
            block.listed = false;
            if block.memory.is_some() && block.free != 0 {
                return Some(number);
            }
        }
        let number = self.vacant.pop().unwrap_or(self.blocks.len());
        if number >= BLOCKS {
            return None;
        }
        let layout = self.layout();
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let block = Block { memory: Some(memory), free: ALL_FREE, used: 0, listed: false };
        match self.blocks.get_mut(number) {
            None => self.blocks.push(block),
            // What is on the list with this number means the new block now: there is room in it too.
            Some(vacant) => *vacant = Block { listed: vacant.listed, ..block },
        }
        Some(number)
    }

    /// The place is free again. Returns the memory of its block if that is not needed any more.
    #[inline]
    fn give_back(&mut self, number: usize, at: usize) -> Option<NonNull<u8>> {
        let block = &mut self.blocks[number];
        debug_assert!(block.free >> at & 1 == 0, "a place is given back once");
        block.free |= 1 << at;
        block.used -= 1;
        if block.used == 0 {
            return self.emptied(number);
        }
        if block.used <= PLACES / 2 && !block.listed && number != self.current {
            block.listed = true;
            self.with_room.push(number);
        }
        None
    }

    /// An empty block is not kept, other than the current one.
    #[inline(never)]
    fn emptied(&mut self, number: usize) -> Option<NonNull<u8>> {
        let mut memory = None;
        if number != self.current {
            memory = self.blocks[number].memory.take();
            self.blocks[number].free = 0;
            self.vacant.push(number);
        }
        let all_others_are_vacant = self.vacant.len() + 1 == self.blocks.len();
        if all_others_are_vacant && self.blocks.len() > KEPT && self.blocks[self.current].free == ALL_FREE {
            self.begin_anew();
        }
        memory
    }

    /// No place is used: forgets the numbers of all blocks, and keeps the current one as the first.
    #[cold]
    fn begin_anew(&mut self) {
        let current = self.blocks.swap_remove(self.current);
        *self = Slab { blocks: vec![Block { listed: false, ..current }], ..Slab::new(self.size) };
    }
}

type Row = [Brief<Slab>; SLABS];

static SLAB: [Row; SIZES.len()] =
    [[const { Brief::new(Slab::new(SIZES[0])) }; SLABS], [const { Brief::new(Slab::new(SIZES[1])) }; SLABS]];

thread_local! {
    /// Which of the slabs this thread takes from.
    static MINE: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLABS) // only that they differ matters
    };
}

/// A place for a value of this layout, for whoever takes it alone. `None`: there is none of that size.
#[inline]
pub(super) fn take(layout: Layout) -> Option<Spot> {
    if layout.align() > ALIGNMENT {
        return None;
    }
    let size = SIZES.iter().position(|size| layout.size() <= *size)?;
    let slab = MINE.try_with(Cell::get).unwrap_or(0);
    let (address, block, at) = SLAB[size][slab].lock().take()?;
    Some(Spot { address, number: Number { size, slab, block, at }.to_bits() })
}

/// Gives a place back, for others.
///
/// # Safety
/// The number is of a place that was taken and has not been given back since, and nobody uses its address any more.
#[inline]
pub(super) unsafe fn give_back(number: NonZeroU32) {
    let Number { size, slab, block, at } = Number::from_bits(number);
    let mut slab = SLAB[size][slab].lock();
    let Some(memory) = slab.give_back(block, at) else { return };
    let layout = slab.layout();
    drop(slab);
    // SAFETY: it was allocated with this layout, all of its places are free, and the slab has no longer the address.
    unsafe { dealloc(memory.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tests do with a slab of their own: nobody else gets in between.
    impl Slab {
        fn used(&self) -> usize {
            let with_memory = self.blocks.iter().filter(|block| block.memory.is_some());
            with_memory.map(|block| block.free.count_zeros() as usize).sum()
        }

        fn with_memory(&self) -> usize {
            self.blocks.iter().filter(|block| block.memory.is_some()).count()
        }

        fn put(&mut self, block: usize, at: usize) {
            if let Some(memory) = self.give_back(block, at) {
                // SAFETY: the slab does not need it any more.
                unsafe { dealloc(memory.as_ptr(), self.layout()) };
            }
        }

        /// At the end of a test.
        fn end(mut self) {
            assert_eq!(self.used(), 0);
            let layout = self.layout();
            for memory in self.blocks.iter_mut().filter_map(|block| block.memory.take()) {
                // SAFETY: none of its places is used.
                unsafe { dealloc(memory.as_ptr(), layout) };
            }
        }
    }

    #[test]
    fn a_number_is_what_it_was_made_of() {
        let edges = |most: usize| [0, 1, most / 2, most - 1];
        for (block, at) in edges(BLOCKS).into_iter().flat_map(|block| edges(PLACES).map(|at| (block, at))) {
            for (slab, size) in edges(SLABS).into_iter().flat_map(|slab| [(slab, 0), (slab, SIZES.len() - 1)])
            {
                let number = Number { size, slab, block, at };
                assert_eq!(Number::from_bits(number.to_bits()), number);
            }
        }
    }

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        let mut slab = Slab::new(SIZES[1]);
        let places: Vec<_> = (0..3 * PLACES).map(|_| slab.take().unwrap()).collect();
        let mut addresses: Vec<_> = places.iter().map(|(address, ..)| address.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= SIZES[1]));
        assert!(addresses.iter().all(|address| address.is_multiple_of(ALIGNMENT)));
        for (address, ..) in &places {
            // SAFETY: the place is ours, and has so many bytes.
            unsafe { address.write_bytes(0xA5, SIZES[1]) };
        }
        places.into_iter().for_each(|(_, block, at)| slab.put(block, at));
        slab.end();
    }

    /// Waves in which places are taken and given back in no order: none is given out twice, and memory follows their number.
    #[test]
    fn memory_follows_the_number_of_places_that_are_used() {
        let (waves, most) = if cfg!(miri) { (3, 300) } else { (40, 20_000) };
        let mut random = crate::timer_queue::tests::random(5);
        let mut slab = Slab::new(SIZES[0]);
        let mut used: Vec<(usize, usize)> = Vec::new();
        for _ in 0..waves {
            let (high, low) = (random(most) as usize, random(100) as usize);
            while used.len() < high {
                let (_, block, at) = slab.take().unwrap();
                used.push((block, at));
            }
            assert_eq!(used.iter().collect::<std::collections::HashSet<_>>().len(), used.len());
            while used.len() > low {
                let (block, at) = used.swap_remove(random(used.len() as u64) as usize);
                slab.put(block, at);
            }
            assert_eq!(slab.used(), used.len());
            // Each may be the last in its block; what is half empty or more is used again before a new one is made.
            assert!(slab.with_memory() <= used.len() + 1, "{} blocks for {}", slab.with_memory(), used.len());
        }
        used.drain(..).for_each(|(block, at)| slab.put(block, at));
        assert_eq!(slab.with_memory(), 1, "the current one is kept");
        slab.end();
    }

    #[test]
    fn blocks_that_are_half_empty_are_filled_before_a_new_one_is_made() {
        let mut slab = Slab::new(SIZES[0]);
        let all: Vec<_> = (0..10 * PLACES).map(|_| slab.take().unwrap()).collect();
        let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, _, at)| at % 2 == 0);
        let places = gone.len();
        gone.into_iter().for_each(|(_, block, at)| slab.put(block, at));
        let again: Vec<_> = (0..places).map(|_| slab.take().unwrap()).collect();
        assert_eq!(slab.with_memory(), 10);
        kept.into_iter().chain(again).for_each(|(_, block, at)| slab.put(block, at));
        slab.end();
    }

    #[test]
    fn lists_of_many_blocks_are_forgotten_with_them() {
        let blocks = KEPT + 36;
        let mut slab = Slab::new(SIZES[0]);
        for current_is_last in [true, false] {
            let mut all: Vec<_> = (0..blocks * PLACES).map(|_| slab.take().unwrap()).collect();
            if !current_is_last {
                all.reverse();
            }
            all.into_iter().for_each(|(_, block, at)| slab.put(block, at));
            assert_eq!((slab.blocks.len(), slab.vacant.len(), slab.with_room.len()), (1, 0, 0));
        }
        slab.end();
    }

    #[test]
    fn what_is_too_large_or_too_much_aligned_has_no_place() {
        assert!(take(Layout::from_size_align(SIZES[1] + 1, 8).unwrap()).is_none());
        assert!(take(Layout::from_size_align(8, 2 * ALIGNMENT).unwrap()).is_none());
    }
}
