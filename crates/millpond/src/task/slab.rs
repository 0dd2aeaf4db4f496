//! Memory for the cells of timers: slots of a few sizes, 64 to a block.
//!
//! Timers are created by the thousand and mostly cancelled, in random order. For a million cells in
//! random order, freeing takes a system allocator about 300 ns each, more than the rest of a
//! cancel. In the slab a free slot is one bit. A block whose slots are all free is returned to the
//! allocator as a whole. Blocks that are half empty are refilled before a new block is allocated.
//!
//! Each thread caches the free slots of one block per size, and takes and returns these slots
//! without a lock. So a timer that is set and soon cancelled, repeatedly, costs no atomic operation
//! here. Cached slots count as used. A thread returns them when it exits.
//!
//! The slabs belong to the process and not to a pool, because a handle may outlive its pool. There
//! are several slabs per size to reduce contention on their locks.
//!
//! With [`PLAIN_ALLOC`], under Miri and sanitizers, each slot is a separate allocation. So using a
//! returned slot is detected as a use after free.
//!
//! # Invariants
//!
//! 1. A [`SlabSlot`], and each bit of a [`Cached`], is the only right to its slot. A slot whose bit
//!    is set in `Block::free` belongs to the slab. So each slot has exactly one owner.
//! 2. The memory of a block is allocated with `block_layout` and lives until all its slots belong
//!    to the slab.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::PLAIN_ALLOC;
use crate::sync::SpinLock;

/// The sizes of slots, in bytes. A cell with a closure of one word needs the first, of two words
/// the second, of four the third, of twelve the last. The first two are exact, because they are
/// frequent.
const SIZES: [usize; 4] = [96, 104, 128, 192];
/// The alignment of a block: a cache line, so that few cells span three lines.
const BLOCK_ALIGNMENT: usize = 64;
/// The alignment of a slot.
const ALIGNMENT: usize = 8;
const _: () = assert!(SIZES[0].is_multiple_of(ALIGNMENT) && SIZES[1].is_multiple_of(ALIGNMENT));
const _: () = assert!(SIZES[2].is_multiple_of(ALIGNMENT) && SIZES[3].is_multiple_of(ALIGNMENT));
/// Slots per block: one per bit of a word.
const SLOTS: usize = u64::BITS as usize;
/// Bit n is set if slot n is free.
const ALL_FREE: u64 = u64::MAX;
/// Slabs per size.
const SLABS: usize = 8;
/// Lists up to this length are not shrunk. A thread caches an empty block only below this index.
const KEPT: usize = if cfg!(miri) { 1 } else { 64 };

/// A slot of the slab, which belongs to the holder of this value. Its memory is uninitialised.
#[derive(Debug)]
#[must_use = "a slot that is dropped is never used again"]
pub(super) struct SlabSlot {
    address: NonNull<u8>,
    number: NonZeroU32,
}

impl SlabSlot {
    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Turns the slot into a number, from which it can be restored.
    pub(super) fn into_number(self) -> NonZeroU32 {
        self.number
    }

    /// Restores a slot.
    ///
    /// # Safety
    /// The slot had this address, was turned into this number, and has not been restored since.
    pub(super) unsafe fn from_number(number: NonZeroU32, address: NonNull<u8>) -> SlabSlot {
        SlabSlot { address, number }
    }
}

/// The location of a slot: its size class, slab, block in the slab and index in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    size: usize,
    slab: usize,
    block: usize,
    at: usize,
}

const AT_BITS: u32 = SLOTS.ilog2();
const SLAB_BITS: u32 = SLABS.ilog2();
const SIZE_BITS: u32 = SIZES.len().ilog2();
const BLOCK_BITS: u32 = u32::BITS - AT_BITS - SLAB_BITS - SIZE_BITS;
/// The maximum number of blocks of a slab: 134 million slots. One less than the maximum, so that no
/// number is 0.
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
        let mut part = |width: u32| {
            let part = bits & ((1 << width) - 1);
            bits >>= width;
            part
        };
        let (at, slab, size) = (part(AT_BITS), part(SLAB_BITS), part(SIZE_BITS));
        Number { size, slab, block: bits - 1, at }
    }
}

/// Memory for [`SLOTS`] slots.
#[derive(Debug)]
struct BlockMemory(NonNull<u8>);

// SAFETY: this is the address of an allocation, which any thread may use or free. (1) defines which
// thread accesses which part.
unsafe impl Send for BlockMemory {}

#[derive(Debug)]
struct Block {
    /// `None` while the block is vacant.
    memory: Option<BlockMemory>,
    /// The slots that belong to the slab (1).
    free: u64,
    /// The number of other slots.
    used: u32,
    /// True if the block is in `with_room`.
    listed: bool,
}

impl Block {
    const VACANT: Block = Block { memory: None, free: 0, used: 0, listed: false };
}

/// Slots of one size.
#[derive(Debug)]
struct Slab {
    size: usize,
    /// The last block is not vacant.
    blocks: Vec<Block>,
    /// Blocks that are at least half empty, and some that no longer are.
    with_room: Vec<usize>,
    /// Vacant blocks, and some that no longer are.
    vacant: Vec<usize>,
}

/// Free slots of one block that a thread owns (1).
#[derive(Debug)]
struct Cached {
    /// The start of the block. The block exists, because not all of its slots are free (2).
    memory: NonNull<u8>,
    /// The number of the first slot of the block.
    first: NonZeroU32,
    /// Bit n stands for slot n. At least one bit is set.
    slots: u64,
}

const fn layout(size: usize, align: usize) -> Layout {
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => panic!("a block has some kilobytes"),
    }
}

const fn block_layout(size: usize) -> Layout {
    layout(size * SLOTS, BLOCK_ALIGNMENT)
}

const fn plain_layout(size: usize) -> Layout {
    layout(SIZES[size], ALIGNMENT)
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no size in `SIZES` is zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Slab {
    const fn new(size: usize) -> Slab {
        Slab { size, blocks: Vec::new(), with_room: Vec::new(), vacant: Vec::new() }
    }

    /// Takes all free slots of a block. Returns the block's index, its start, and the slots. `None`
    /// if no block numbers are left.
    fn take(&mut self) -> Option<(usize, NonNull<u8>, u64)> {
        let index = self.block_with_room()?;
        let block = &mut self.blocks[index];
        let memory = block.memory.as_ref().expect("only a block with memory has free slots").0;
        block.used = u64::BITS;
        Some((index, memory, std::mem::take(&mut block.free)))
    }

    /// Returns the index of a block with a free slot.
    fn block_with_room(&mut self) -> Option<usize> {
        while let Some(index) = self.with_room.pop() {
            let block = self.blocks.get_mut(index);
            if block.is_some_and(|block| std::mem::take(&mut block.listed) && block.free != 0) {
                return Some(index);
            }
        }
        let index = self.vacant_index();
        if index >= BLOCKS {
            return None;
        }
        let memory = Some(BlockMemory(allocate(block_layout(self.size))));
        let block = Block { memory, free: ALL_FREE, used: 0, listed: false };
        match self.blocks.get_mut(index) {
            None => self.blocks.push(block),
            Some(vacant) => *vacant = block,
        }
        Some(index)
    }

    fn vacant_index(&mut self) -> usize {
        let blocks = &self.blocks;
        let mut listed = std::iter::from_fn(|| self.vacant.pop());
        let vacant = listed.find(|index| blocks.get(*index).is_some_and(|block| block.memory.is_none()));
        vacant.unwrap_or(blocks.len())
    }

    /// Takes `count` slots back. Returns the memory of the block if all its slots are free.
    #[inline]
    fn give_back(&mut self, index: usize, slots: u64, count: u32) -> Option<BlockMemory> {
        let block = &mut self.blocks[index];
        debug_assert!(block.free & slots == 0, "a slot is given back once");
        block.free |= slots;
        block.used -= count;
        if block.used == 0 {
            return self.vacate(index);
        }
        if block.used <= u64::BITS / 2 && !block.listed {
            block.listed = true;
            self.with_room.push(index);
        }
        None
    }

    /// Makes an empty block vacant.
    #[inline(never)]
    fn vacate(&mut self, index: usize) -> Option<BlockMemory> {
        let memory = std::mem::replace(&mut self.blocks[index], Block::VACANT).memory;
        self.vacant.push(index);
        let used = self.blocks.iter().rposition(|block| block.memory.is_some()).map_or(0, |last| last + 1);
        self.blocks.truncate(used);
        if self.blocks.len() + KEPT < self.blocks.capacity() / 4 {
            self.shrink();
        }
        memory
    }

    /// Frees unused memory of the lists.
    #[cold]
    fn shrink(&mut self) {
        self.blocks.shrink_to(2 * self.blocks.len());
        let indices = |is_one: fn(&Block) -> bool| {
            let blocks = self.blocks.iter().enumerate();
            blocks.filter(|(_, block)| is_one(block)).map(|(index, _)| index).collect()
        };
        self.with_room = indices(|block| block.listed);
        self.vacant = indices(|block| block.memory.is_none());
    }
}

/// Several slabs for each size.
type Slabs = [[SpinLock<Slab>; SLABS]; SIZES.len()];

static ALL: Slabs = no_slabs();

const fn no_slabs() -> Slabs {
    [
        [const { SpinLock::new(Slab::new(SIZES[0])) }; SLABS],
        [const { SpinLock::new(Slab::new(SIZES[1])) }; SLABS],
        [const { SpinLock::new(Slab::new(SIZES[2])) }; SLABS],
        [const { SpinLock::new(Slab::new(SIZES[3])) }; SLABS],
    ]
}

/// The slots that a thread caches, of each size.
struct Cache {
    /// The slab from which the thread takes slots.
    slab: Cell<Option<usize>>,
    of_size: [Cell<Option<Cached>>; SIZES.len()],
}

/// The cache of a thread, returned to [`ALL`] when it is dropped.
struct ThreadCache(Cache);

thread_local! {
    static CACHE: ThreadCache = const { ThreadCache(Cache::empty()) };
}

impl Cache {
    const fn empty() -> Cache {
        Cache { slab: Cell::new(None), of_size: [const { Cell::new(None) }; SIZES.len()] }
    }

    #[inline]
    fn take(&self, slabs: &Slabs, size: usize) -> Option<SlabSlot> {
        let cache = &self.of_size[size];
        let mut cached = match cache.take() {
            Some(cached) => cached,
            None => self.fetch(slabs, size)?,
        };
        let at = cached.slots.trailing_zeros();
        cached.slots &= cached.slots - 1;
        // SAFETY: a block has `SLOTS` slots of this size, and `at` is below that.
        let address = unsafe { cached.memory.byte_add(at as usize * SIZES[size]) };
        let number = cached.first | at;
        // A block without a cached slot may be freed and its number reused, so it must not stay
        // cached.
        cache.set(Some(cached).filter(|cached| cached.slots != 0));
        Some(SlabSlot { address, number })
    }

    #[cold]
    fn fetch(&self, slabs: &Slabs, size: usize) -> Option<Cached> {
        let slab = self.slab();
        let (block, memory, slots) = slabs[size][slab].lock().take()?;
        Some(Cached { memory, first: Number { size, slab, block, at: 0 }.to_bits(), slots })
    }

    /// Returns a slot to these slabs.
    #[inline]
    fn give_back(&self, slabs: &Slabs, slot: SlabSlot) {
        let Number { size, slab, block, at } = Number::from_bits(slot.number);
        let cache = &self.of_size[size];
        match cache.take() {
            Some(mut cached) if cached.first | at as u32 == slot.number => {
                debug_assert!(cached.slots >> at & 1 == 0, "a slot is given back once");
                cached.slots |= 1 << at;
                let is_empty = cached.slots == ALL_FREE;
                cache.set(Some(cached));
                if block >= KEPT && is_empty {
                    self.flush(slabs); // a block with a high index keeps the lists long
                }
            }
            other => {
                cache.set(other);
                give_back_to(&slabs[size][slab], block, 1 << at, 1);
            }
        }
    }

    /// Returns all cached slots to their slabs.
    fn flush(&self, slabs: &Slabs) {
        for Cached { first, slots, .. } in self.of_size.iter().filter_map(Cell::take) {
            let Number { size, slab, block, .. } = Number::from_bits(first);
            give_back_to(&slabs[size][slab], block, slots, slots.count_ones());
        }
    }

    #[inline]
    fn slab(&self) -> usize {
        self.slab.get().unwrap_or_else(|| {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let slab = NEXT.fetch_add(1, Ordering::Relaxed) % SLABS; // only spreads threads
            self.slab.set(Some(slab));
            slab
        })
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        self.0.flush(&ALL);
    }
}

/// Calls `f` with the cache of this thread, or with a temporary one if the thread is exiting.
#[inline]
fn with_cache<R>(f: impl FnOnce(&Cache) -> R) -> R {
    let mut f = Some(f);
    let mut call = |cache: &Cache| f.take().map(|f| f(cache));
    let called = CACHE.try_with(|cache| call(&cache.0)).ok().flatten();
    called.or_else(|| call(&ThreadCache(Cache::empty()).0)).expect("`f` is called once")
}

/// Takes a slot for a value of this layout. Returns `None` if no size fits.
#[inline]
pub(super) fn take(layout: Layout) -> Option<SlabSlot> {
    if layout.align() > ALIGNMENT {
        return None;
    }
    let size = SIZES.iter().position(|size| layout.size() <= *size)?;
    if PLAIN_ALLOC {
        let number = Number { size, slab: 0, block: 0, at: 0 }.to_bits(); // encodes only the size
        return Some(SlabSlot { address: allocate(plain_layout(size)), number });
    }
    with_cache(|cache| cache.take(&ALL, size))
}

/// Returns a slot.
#[inline]
pub(super) fn give_back(slot: SlabSlot) {
    if PLAIN_ALLOC {
        let layout = plain_layout(Number::from_bits(slot.number).size);
        // SAFETY: `take` allocated it with this layout, and by (1) `slot` was the only right to it.
        return unsafe { dealloc(slot.address.as_ptr(), layout) };
    }
    with_cache(|cache| cache.give_back(&ALL, slot));
}

/// Returns `count` slots of a block to their slab.
#[inline]
fn give_back_to(slab: &SpinLock<Slab>, block: usize, slots: u64, count: u32) {
    let mut slab = slab.lock();
    let Some(BlockMemory(memory)) = slab.give_back(block, slots, count) else { return };
    let layout = block_layout(slab.size);
    drop(slab);
    // SAFETY: (2): the block was allocated with this layout. All its slots belong to the slab,
    // which has dropped the address.
    unsafe { dealloc(memory.as_ptr(), layout) };
}

#[cfg(test)]
mod tests;
