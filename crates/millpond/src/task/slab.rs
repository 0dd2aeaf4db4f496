//! Memory for the states of timers: places of one size, 64 to a block.
//!
//! Timers are many, are put in by the thousand and mostly cancelled, in no order. To free a million of their states in random
//! order takes the system's allocator 270 to 310 ns each, more than all else that a cancel does: it looks at the neighbours
//! of what is freed, to join them. Here a bit is set, in a word that 64 states share, and a block whose places are all free
//! goes back to the allocator as a whole. A block that is half empty is filled up before a new one is made.
//!
//! A thread has the free places of one block in its hand, of each size: it takes them without a lock, and puts back into its hand
//! what it gives back of that block. So a timer that is set and soon cancelled, again and again, costs no exchange here. What is
//! in a hand counts as used for all others; a thread that ends gives it back.
//!
//! A place has a number, by which it is given back. The slabs belong to the process and not to a pool, because a handle may
//! outlive its pool; there are some of each size, so that threads do not all want the same lock.
//!
//! With [`PLAIN_ALLOC`], under Miri and sanitizers, each place is an allocation of its own: a use after
//! it was given back is then a use after free.
//!
//! This file is one of the rooms with `unsafe`. What those who use it must keep to is said at [`give_back`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::PLAIN_ALLOC;
use crate::sync::SpinLock;

/// The sizes of places. A cell with a closure of one word needs the first, of two words the second,
/// of four the third, of twelve the last. The first two are exact, because timers are many.
const SIZES: [usize; 4] = [96, 104, 128, 192];
/// Of a block: a cache line, so that as few cells as possible lie in three lines.
const BLOCK_ALIGNMENT: usize = 64;
/// Of a place.
const ALIGNMENT: usize = 8;
const _: () = assert!(SIZES[0].is_multiple_of(ALIGNMENT) && SIZES[1].is_multiple_of(ALIGNMENT));
const _: () = assert!(SIZES[2].is_multiple_of(ALIGNMENT) && SIZES[3].is_multiple_of(ALIGNMENT));
/// A word has so many bits.
const PLACES: usize = u64::BITS as usize;
/// Bit n: place n is free.
const ALL_FREE: u64 = u64::MAX;
/// So many slabs for each size.
const SLABS: usize = 8;
/// Lists that are no longer than that are not cut. A thread keeps an empty block at hand only if it is one of these.
const KEPT: usize = if cfg!(miri) { 1 } else { 64 };

/// A place, and by which number it is given back.
#[derive(Debug)]
pub(super) struct SlabSlot {
    address: NonNull<u8>,
    number: NonZeroU32,
}

impl SlabSlot {
    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(super) fn into_number(self) -> NonZeroU32 {
        self.number
    }

    /// # Safety
    /// A slot with this number and this address was taken, and turned into its number by `into_number`.
    pub(super) unsafe fn from_number(number: NonZeroU32, address: *mut u8) -> SlabSlot {
        // SAFETY: the address of a slot is not null.
        SlabSlot { address: unsafe { NonNull::new_unchecked(address) }, number }
    }
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
/// A slab has fewer blocks than that, and the first number is no block's, so that none is 0. That is 134 million places.
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
    /// Which places are free. Those in a hand are not.
    free: u64,
    /// So many are not.
    used: u32,
    /// It is on the list of those with room.
    listed: bool,
}

impl Block {
    const VACANT: Block = Block { memory: None, free: 0, used: 0, listed: false };
}

/// Places of one size.
#[derive(Debug)]
struct Slab {
    size: usize,
    /// The last one is not vacant.
    blocks: Vec<Block>,
    /// Blocks that are half empty, and some that have been.
    with_room: Vec<usize>,
    /// Blocks that are vacant, and some that have been.
    vacant: Vec<usize>,
}

/// Free places of one block, which are ours alone.
#[derive(Debug, Clone, Copy)]
struct Handful {
    /// Where the block begins. It is there as long as one of its places is not free, and these are not, for all others.
    memory: NonNull<u8>,
    /// The number of its first place.
    first: NonZeroU32,
    /// Bit n: place n is ours. There is at least one.
    places: u64,
}

// SAFETY: what keeps it from being sent is the addresses of the blocks, which it alone has: those whom it gave a place have
// no right to more than that.
unsafe impl Send for Slab {}

impl Slab {
    const fn new(size: usize) -> Slab {
        Slab { size, blocks: Vec::new(), with_room: Vec::new(), vacant: Vec::new() }
    }

    const fn layout(&self) -> Layout {
        match Layout::from_size_align(self.size * PLACES, BLOCK_ALIGNMENT) {
            Ok(layout) => layout,
            Err(_) => panic!("some kilobytes are not too much"),
        }
    }

    /// All free places of a block that has some: which block, where it begins, and which places. `None`: there are no numbers
    /// left.
    fn take(&mut self) -> Option<(usize, NonNull<u8>, u64)> {
        let number = self.next_block()?;
        let block = &mut self.blocks[number];
        let memory = block.memory.expect("only a block with memory has free places");
        block.used = u64::BITS;
        Some((number, memory, std::mem::take(&mut block.free)))
    }

    /// A block with a free place.
    fn next_block(&mut self) -> Option<usize> {
        while let Some(number) = self.with_room.pop() {
            let block = self.blocks.get_mut(number);
            if block.is_some_and(|block| std::mem::take(&mut block.listed) && block.free != 0) {
                return Some(number);
            }
        }
        let number = self.vacant_number();
        if number >= BLOCKS {
            return None;
        }
        let layout = self.layout();
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let block = Block { memory: Some(memory), free: ALL_FREE, used: 0, listed: false };
        match self.blocks.get_mut(number) {
            None => self.blocks.push(block),
            Some(vacant) => *vacant = block,
        }
        Some(number)
    }

    fn vacant_number(&mut self) -> usize {
        let blocks = &self.blocks;
        let mut listed = std::iter::from_fn(|| self.vacant.pop());
        let vacant = listed.find(|number| blocks.get(*number).is_some_and(|block| block.memory.is_none()));
        vacant.unwrap_or(blocks.len())
    }

    /// These places are free again, `count` of them. Returns the memory of their block if that is not needed any more.
    #[inline]
    fn give_back(&mut self, number: usize, places: u64, count: u32) -> Option<NonNull<u8>> {
        let block = &mut self.blocks[number];
        debug_assert!(block.free & places == 0, "a place is given back once");
        block.free |= places;
        block.used -= count;
        if block.used == 0 {
            return self.emptied(number);
        }
        if block.used <= u64::BITS / 2 && !block.listed {
            block.listed = true;
            self.with_room.push(number);
        }
        None
    }

    /// An empty block is not kept.
    #[inline(never)]
    fn emptied(&mut self, number: usize) -> Option<NonNull<u8>> {
        let memory = std::mem::replace(&mut self.blocks[number], Block::VACANT).memory;
        self.vacant.push(number);
        self.blocks.truncate(
            self.blocks.iter().rposition(|block| block.memory.is_some()).map_or(0, |last| last + 1),
        );
        if self.blocks.len() + KEPT < self.blocks.capacity() / 4 {
            self.cut();
        }
        memory
    }

    /// Gives the memory of the lists back that is not needed any more.
    #[cold]
    fn cut(&mut self) {
        self.blocks.shrink_to(2 * self.blocks.len());
        let of_those = |is_one: fn(&Block) -> bool| {
            let blocks = self.blocks.iter().enumerate();
            blocks.filter(|(_, block)| is_one(block)).map(|(number, _)| number).collect()
        };
        self.with_room = of_those(|block| block.listed);
        self.vacant = of_those(|block| block.memory.is_none());
    }
}

/// For each size some.
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

/// What a thread has in its hand: of each size a handful, or nothing.
struct Hands {
    /// Which of the slabs it takes from.
    slab: Cell<Option<usize>>,
    of_size: [Cell<Option<Handful>>; SIZES.len()],
}

/// The hands of a thread: when it ends they are opened.
struct Mine(Hands);

thread_local! {
    static MINE: Mine = const { Mine(Hands::empty()) };
}

impl Hands {
    const fn empty() -> Hands {
        Hands { slab: Cell::new(None), of_size: [const { Cell::new(None) }; SIZES.len()] }
    }

    #[inline]
    fn take(&self, slabs: &Slabs, size: usize) -> Option<SlabSlot> {
        let hand = &self.of_size[size];
        let Handful { memory, first, places } = match hand.get() {
            Some(handful) => handful,
            None => self.fetch(slabs, size)?,
        };
        let at = places.trailing_zeros();
        let left = places & (places - 1);
        // Nothing is kept of a block of which nothing is left: it may be freed, and its number be that of another one.
        hand.set((left != 0).then_some(Handful { memory, first, places: left }));
        // SAFETY: there are `PLACES` of this size in the block, and a bit of the word is below that.
        let address = unsafe { memory.byte_add(at as usize * SIZES[size]) };
        Some(SlabSlot { address, number: first | at })
    }

    #[cold]
    fn fetch(&self, slabs: &Slabs, size: usize) -> Option<Handful> {
        let slab = self.slab();
        let (block, memory, places) = slabs[size][slab].lock().take()?;
        Some(Handful { memory, first: Number { size, slab, block, at: 0 }.to_bits(), places })
    }

    /// # Safety
    /// As for [`give_back`](self::give_back), and the place was taken from these slabs.
    #[inline]
    unsafe fn give_back(&self, slabs: &Slabs, number: NonZeroU32) {
        let Number { size, slab, block, at } = Number::from_bits(number);
        let hand = &self.of_size[size];
        match hand.get() {
            Some(Handful { memory, first, places }) if first | at as u32 == number => {
                debug_assert!(places >> at & 1 == 0, "a place is given back once");
                let places = places | 1 << at;
                hand.set(Some(Handful { memory, first, places }));
                if block >= KEPT && places == ALL_FREE {
                    self.open(slabs); // lest the lists stay as long as they are for its sake
                }
            }
            // SAFETY: the caller says so.
            _ => unsafe { put(&slabs[size][slab], block, 1 << at, 1) },
        }
    }

    /// Gives all back that is at hand.
    fn open(&self, slabs: &Slabs) {
        for Handful { first, places, .. } in self.of_size.iter().filter_map(Cell::take) {
            let Number { size, slab, block, .. } = Number::from_bits(first);
            // SAFETY: they are ours, from this slab, and nobody uses them.
            unsafe { put(&slabs[size][slab], block, places, places.count_ones()) };
        }
    }

    #[inline]
    fn slab(&self) -> usize {
        self.slab.get().unwrap_or_else(|| {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let slab = NEXT.fetch_add(1, Ordering::Relaxed) % SLABS; // only that they differ matters
            self.slab.set(Some(slab));
            slab
        })
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.open(&ALL);
    }
}

/// Calls `f` with the hands of this thread; if it has none any more, for it ends, with some for this once.
#[inline]
fn with_hands<R>(f: impl Fn(&Hands) -> R) -> R {
    MINE.try_with(|mine| f(&mine.0)).unwrap_or_else(|_| f(&Mine(Hands::empty()).0))
}

/// A place for a value of this layout, for whoever takes it alone. `None`: there is none of that size.
#[inline]
pub(super) fn take(layout: Layout) -> Option<SlabSlot> {
    if layout.align() > ALIGNMENT {
        return None;
    }
    let size = SIZES.iter().position(|size| layout.size() <= *size)?;
    if PLAIN_ALLOC {
        return Some(take_plain(size));
    }
    with_hands(|hands| hands.take(&ALL, size))
}

/// Gives a place back, for others.
///
#[inline]
pub(super) fn give_back(slot: SlabSlot) {
    let SlabSlot { address, number } = slot;
    if PLAIN_ALLOC {
        // SAFETY: the caller says so, and `take` makes no other places.
        return unsafe { give_back_plain(number, address.as_ptr()) };
    }
    // SAFETY: the caller says so, and there are no other slabs.
    with_hands(|hands| unsafe { hands.give_back(&ALL, number) });
}

/// A place that is an allocation of its own. Its number tells its size.
#[cold]
fn take_plain(size: usize) -> SlabSlot {
    let layout = plain_layout(size);
    // SAFETY: the layout is not empty.
    let address = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    SlabSlot { address, number: Number { size, slab: 0, block: 0, at: 0 }.to_bits() }
}

/// # Safety
/// As for [`give_back`], and the place was made by [`take_plain`].
#[cold]
unsafe fn give_back_plain(number: NonZeroU32, address: *mut u8) {
    // SAFETY: it was allocated with this layout, and nobody uses it any more.
    unsafe { dealloc(address, plain_layout(Number::from_bits(number).size)) };
}

const fn plain_layout(size: usize) -> Layout {
    match Layout::from_size_align(SIZES[size], ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("a place is small"),
    }
}

/// Gives places of a block back to their slab: so many.
///
/// # Safety
/// They were taken from there and have not been given back since, and nobody uses their addresses any more.
#[inline]
unsafe fn put(slab: &SpinLock<Slab>, block: usize, places: u64, count: u32) {
    let mut slab = slab.lock();
    let Some(memory) = slab.give_back(block, places, count) else { return };
    let layout = slab.layout();
    drop(slab);
    // SAFETY: it was allocated with this layout, all of its places are free, and the slab has no longer the address.
    unsafe { dealloc(memory.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashSet;

    /// Hands and slabs that nobody else has. All hands are in one slab, so that they meet.
    struct Own {
        slabs: Slabs,
        hands: Vec<Hands>,
    }

    const SMALL: usize = 0;
    const LARGE: usize = SIZES.len() - 1;

    impl Own {
        fn new(hands: usize) -> Own {
            let hand = || Hands { slab: Cell::new(Some(3)), ..Hands::empty() };
            Own { slabs: no_slabs(), hands: (0..hands).map(|_| hand()).collect() }
        }

        fn take(&self, hand: usize, size: usize) -> SlabSlot {
            self.hands[hand].take(&self.slabs, size).expect("there are numbers enough")
        }

        fn put(&self, hand: usize, spot: &SlabSlot) {
            // SAFETY: tests take from here, and give back once what they do not use any more.
            unsafe { self.hands[hand].give_back(&self.slabs, spot.number) };
        }

        fn slab(&self, size: usize) -> crate::sync::SpinLockGuard<'_, Slab> {
            self.slabs[size][3].lock()
        }

        /// Blocks that have memory.
        fn blocks(&self, size: usize) -> usize {
            self.slab(size).blocks.iter().filter(|block| block.memory.is_some()).count()
        }

        /// Places that are not free, those in a hand included.
        fn used(&self, size: usize) -> usize {
            self.slab(size).blocks.iter().map(|block| block.used as usize).sum()
        }

        /// All hands are opened: nothing is left if nothing is used.
        fn end(&self) {
            self.hands.iter().for_each(|hands| hands.open(&self.slabs));
            for size in 0..SIZES.len() {
                assert_eq!((self.used(size), self.blocks(size)), (0, 0));
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
        let own = Own::new(1);
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let spots: Vec<_> = (0..3 * PLACES).map(|_| own.take(0, size)).collect();
            let mut addresses: Vec<_> = spots.iter().map(|spot| spot.address.addr().get()).collect();
            addresses.sort_unstable();
            assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= bytes));
            assert!(addresses.iter().all(|address| address.is_multiple_of(ALIGNMENT)));
            for spot in &spots {
                // SAFETY: the place is ours, and has this many bytes.
                unsafe { spot.address.write_bytes(0xA5, bytes) };
            }
            spots.iter().for_each(|spot| own.put(0, spot));
        }
        own.end();
    }

    /// Waves in which places are taken and given back by several hands in no order: none is given out twice, and memory follows
    /// their number.
    #[test]
    fn memory_follows_the_number_of_places_that_are_used() {
        const HANDS: usize = 3;
        let (waves, most) = if cfg!(miri) { (3, 300) } else { (40, 20_000) };
        let mut random = crate::time::heap::tests::random(5);
        let own = Own::new(HANDS);
        let mut used: Vec<SlabSlot> = Vec::new();
        for _ in 0..waves {
            let (high, low) = (random(most) as usize, random(100) as usize);
            while used.len() < high {
                used.push(own.take(random(HANDS as u64) as usize, SMALL));
            }
            let numbers: HashSet<_> = used.iter().map(|spot| spot.number).collect();
            let addresses: HashSet<_> = used.iter().map(|spot| spot.address).collect();
            assert_eq!((numbers.len(), addresses.len()), (used.len(), used.len()));
            while used.len() > low {
                let spot = used.swap_remove(random(used.len() as u64) as usize);
                own.put(random(HANDS as u64) as usize, &spot);
            }
            let at_hand: u32 = own
                .hands
                .iter()
                .filter_map(|hands| hands.of_size[SMALL].get())
                .fold(0, |sum, hand| sum + hand.places.count_ones());
            assert_eq!(own.used(SMALL), used.len() + at_hand as usize);
            // Each may be the last in its block; what is half empty or more is used again before a new one is made.
            let blocks = own.blocks(SMALL);
            assert!(blocks <= used.len() + HANDS, "{blocks} blocks for {}", used.len());
        }
        used.iter().for_each(|spot| own.put(0, spot));
        own.end();
    }

    #[test]
    fn what_is_set_and_soon_cancelled_stays_at_hand() {
        let own = Own::new(1);
        let first = own.take(0, SMALL);
        own.put(0, &first);
        for _ in 0..1000 {
            let guard = own.slab(SMALL); // who wanted the lock would wait for ever
            let again = own.take(0, SMALL);
            assert_eq!((again.address, again.number), (first.address, first.number));
            own.put(0, &again);
            drop(guard);
        }
        own.end();
    }

    /// A hand that remembered such a block would give out places in memory that is not there any more.
    #[test]
    fn a_hand_forgets_a_block_of_which_it_has_nothing_left() {
        let own = Own::new(2);
        let all: Vec<_> = (0..PLACES).map(|_| own.take(0, SMALL)).collect();
        all.iter().for_each(|spot| own.put(1, spot));
        assert_eq!(own.blocks(SMALL), 0, "it is freed");
        let other = own.take(1, SMALL);
        assert_eq!(other.number, all[0].number, "the number is used again");
        own.put(0, &other);
        assert!(own.hands[0].of_size[SMALL].get().is_none());
        own.end();
    }

    #[test]
    fn blocks_that_are_half_empty_are_filled_before_a_new_one_is_made() {
        let own = Own::new(1);
        let all: Vec<_> = (0..10 * PLACES).map(|_| own.take(0, SMALL)).collect();
        let at = |spot: &SlabSlot| Number::from_bits(spot.number).at;
        let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|spot| at(spot) % 2 == 0);
        gone.iter().for_each(|spot| own.put(0, spot));
        let again: Vec<_> = gone.iter().map(|_| own.take(0, SMALL)).collect();
        assert_eq!(own.blocks(SMALL), 10);
        kept.iter().chain(&again).for_each(|spot| own.put(0, spot));
        own.end();
    }

    #[test]
    fn lists_of_many_blocks_are_forgotten_with_them() {
        let own = Own::new(1);
        for last_first in [true, false] {
            let mut all: Vec<_> = (0..20 * KEPT * PLACES - 1).map(|_| own.take(0, SMALL)).collect();
            if last_first {
                all.reverse();
            }
            all.iter().for_each(|spot| own.put(0, spot));
            let slab = own.slab(SMALL);
            assert_eq!(slab.blocks.len(), 0);
            assert!(slab.blocks.capacity() + slab.vacant.capacity() + slab.with_room.capacity() < 20 * KEPT);
        }
        own.end();
    }

    #[test]
    fn what_is_too_large_or_too_much_aligned_has_no_place() {
        assert!(take(Layout::from_size_align(SIZES[LARGE] + 1, 8).unwrap()).is_none());
        assert!(take(Layout::from_size_align(8, 2 * ALIGNMENT).unwrap()).is_none());
    }
}
