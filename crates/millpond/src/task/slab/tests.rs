//! Tests of the slab, each on slabs of its own. Miri runs them too.

use super::*;

use std::collections::HashSet;

/// Slabs and caches that no other test uses. All caches share one slab, so that they interact.
struct Own {
    slabs: Slabs,
    caches: Vec<Cache>,
}

const SMALL: usize = 0;
const LARGE: usize = SIZES.len() - 1;

impl Own {
    fn new(caches: usize) -> Own {
        let cache = || Cache { slab: Cell::new(Some(3)), ..Cache::empty() };
        Own { slabs: no_slabs(), caches: (0..caches).map(|_| cache()).collect() }
    }

    fn take(&self, cache: usize, size: usize) -> SlabSlot {
        self.caches[cache].take(&self.slabs, size).expect("there are enough numbers")
    }

    fn put(&self, cache: usize, slot: SlabSlot) {
        self.caches[cache].give_back(&self.slabs, slot);
    }

    fn slab(&self, size: usize) -> crate::sync::SpinLockGuard<'_, Slab> {
        self.slabs[size][3].lock()
    }

    /// Returns the number of blocks that have memory.
    fn blocks(&self, size: usize) -> usize {
        self.slab(size).blocks.iter().filter(|block| block.memory.is_some()).count()
    }

    /// Returns the number of slots that are not free, including cached ones.
    fn used(&self, size: usize) -> usize {
        self.slab(size).blocks.iter().map(|block| block.used as usize).sum()
    }

    /// Returns the number of small slots in a cache.
    fn cached(&self, cache: usize) -> u32 {
        let cell = &self.caches[cache].of_size[SMALL];
        let cached = cell.take();
        let count = cached.as_ref().map_or(0, |cached| cached.slots.count_ones());
        cell.set(cached);
        count
    }

    /// Flushes all caches and checks that nothing is left if nothing is used.
    fn end(&self) {
        self.caches.iter().for_each(|cache| cache.flush(&self.slabs));
        for size in 0..SIZES.len() {
            assert_eq!((self.used(size), self.blocks(size)), (0, 0));
        }
    }
}

#[test]
fn a_number_keeps_its_parts() {
    let edges = |most: usize| [0, 1, most / 2, most - 1];
    for (block, at) in edges(BLOCKS).into_iter().flat_map(|block| edges(SLOTS).map(|at| (block, at))) {
        for (slab, size) in edges(SLABS).into_iter().flat_map(|slab| [(slab, 0), (slab, LARGE)]) {
            let number = Number { size, slab, block, at };
            assert_eq!(Number::from_bits(number.to_bits()), number);
        }
    }
}

#[test]
fn slots_do_not_overlap_and_are_aligned() {
    let own = Own::new(1);
    for (size, bytes) in SIZES.into_iter().enumerate() {
        let slots: Vec<_> = (0..3 * SLOTS).map(|_| own.take(0, size)).collect();
        let mut addresses: Vec<_> = slots.iter().map(|slot| slot.address.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= bytes));
        assert!(addresses.iter().all(|address| address.is_multiple_of(ALIGNMENT)));
        for slot in &slots {
            // SAFETY: (1): the slot is ours, and has this many bytes.
            unsafe { slot.address.write_bytes(0xA5, bytes) };
        }
        slots.into_iter().for_each(|slot| own.put(0, slot));
    }
    own.end();
}

/// Several caches take and return slots in random order, in waves. No slot is handed out twice, and
/// the amount of memory follows the number of slots.
#[test]
fn memory_follows_the_number_of_used_slots() {
    const CACHES: usize = 3;
    let (waves, most) = if cfg!(miri) { (3, 300) } else { (40, 20_000) };
    let mut random = crate::time::heap::tests::random(5);
    let own = Own::new(CACHES);
    let mut used: Vec<SlabSlot> = Vec::new();
    for _ in 0..waves {
        let (high, low) = (random(most) as usize, random(100) as usize);
        while used.len() < high {
            used.push(own.take(random(CACHES as u64) as usize, SMALL));
        }
        let numbers: HashSet<_> = used.iter().map(|slot| slot.number).collect();
        let addresses: HashSet<_> = used.iter().map(|slot| slot.address).collect();
        assert_eq!((numbers.len(), addresses.len()), (used.len(), used.len()));
        while used.len() > low {
            let slot = used.swap_remove(random(used.len() as u64) as usize);
            own.put(random(CACHES as u64) as usize, slot);
        }
        let cached: u32 = (0..CACHES).map(|cache| own.cached(cache)).sum();
        assert_eq!(own.used(SMALL), used.len() + cached as usize);
        // Each slot may be the last one of its block. Half-empty blocks are filled up first.
        let blocks = own.blocks(SMALL);
        assert!(blocks <= used.len() + CACHES, "{blocks} blocks for {}", used.len());
    }
    used.into_iter().for_each(|slot| own.put(0, slot));
    own.end();
}

#[test]
fn a_slot_that_is_returned_at_once_stays_cached() {
    let own = Own::new(1);
    let first = own.take(0, SMALL);
    let expected = (first.address, first.number);
    own.put(0, first);
    for _ in 0..1000 {
        let guard = own.slab(SMALL); // a thread that wanted the lock would deadlock
        let again = own.take(0, SMALL);
        assert_eq!((again.address, again.number), expected);
        own.put(0, again);
        drop(guard);
    }
    own.end();
}

/// A cache that kept such a block would hand out slots in freed memory.
#[test]
fn a_cache_forgets_a_block_of_which_it_has_no_slot() {
    let own = Own::new(2);
    let all: Vec<_> = (0..SLOTS).map(|_| own.take(0, SMALL)).collect();
    let first = all[0].number;
    all.into_iter().for_each(|slot| own.put(1, slot));
    assert_eq!(own.blocks(SMALL), 0, "it is freed");
    let other = own.take(1, SMALL);
    assert_eq!(other.number, first, "the number is used again");
    own.put(0, other);
    assert_eq!(own.cached(0), 0);
    own.end();
}

#[test]
fn blocks_that_are_half_empty_are_filled_before_a_new_one_is_allocated() {
    let own = Own::new(1);
    let all: Vec<_> = (0..10 * SLOTS).map(|_| own.take(0, SMALL)).collect();
    let at = |slot: &SlabSlot| Number::from_bits(slot.number).at;
    let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|slot| at(slot) % 2 == 0);
    let count = gone.len();
    gone.into_iter().for_each(|slot| own.put(0, slot));
    let again: Vec<_> = (0..count).map(|_| own.take(0, SMALL)).collect();
    assert_eq!(own.blocks(SMALL), 10);
    kept.into_iter().chain(again).for_each(|slot| own.put(0, slot));
    own.end();
}

#[test]
fn lists_of_many_blocks_shrink_with_them() {
    let own = Own::new(1);
    for last_first in [true, false] {
        let mut all: Vec<_> = (0..20 * KEPT * SLOTS - 1).map(|_| own.take(0, SMALL)).collect();
        if last_first {
            all.reverse();
        }
        all.into_iter().for_each(|slot| own.put(0, slot));
        let slab = own.slab(SMALL);
        assert_eq!(slab.blocks.len(), 0);
        assert!(slab.blocks.capacity() + slab.vacant.capacity() + slab.with_room.capacity() < 20 * KEPT);
    }
    own.end();
}

#[test]
fn a_layout_that_is_too_large_or_too_aligned_has_no_slot() {
    assert!(take(Layout::from_size_align(SIZES[LARGE] + 1, 8).unwrap()).is_none());
    assert!(take(Layout::from_size_align(8, 2 * ALIGNMENT).unwrap()).is_none());
}
