//! [`Labels`]: a unique label for each pool, even if many pools have the same name.
//!
//! The first pool named `db` gets the label `db`. Each further one gets the smallest free number,
//! such as `db#2`. A name may look like a label, so `db#2` can be in use before a second `db`
//! exists.
//!
//! A label is found in O(log n), amortized: [`Numbers`] tracks the free numbers of a name.

use std::collections::{BTreeMap, BTreeSet};

use crate::sync::Arc;

/// The smallest number of a label.
const FIRST: u64 = 2;

/// The labels in use.
pub(super) struct Labels {
    /// Maps each label to the key of its pool in the registry.
    taken: BTreeMap<Arc<str>, u64>,
    /// The numbers of each name. Present while a pool of that name has a label with a number.
    numbers: BTreeMap<Arc<str>, Numbers>,
}

/// The numbers of a name that are free.
struct Numbers {
    /// The number of pools of the name whose label has a number.
    pools: usize,
    /// All smaller numbers are in use or in `free`.
    next: u64,
    /// Numbers that were given back. Meanwhile a pool with another name may have taken the label.
    free: BTreeSet<u64>,
}

impl Labels {
    pub(super) const fn new() -> Labels {
        Labels { taken: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Takes the name itself as a label, or the name with the smallest number that makes it unique.
    pub(super) fn take(&mut self, name: &Arc<str>, id: u64) -> Arc<str> {
        let mut label = Arc::clone(name);
        if self.taken.contains_key(name) {
            let numbers = self.numbers.entry(Arc::clone(name)).or_insert_with(Numbers::new);
            numbers.take(|number| {
                label = format!("{name}#{number}").into();
                self.taken.contains_key(&label)
            });
        }
        self.taken.insert(Arc::clone(&label), id);
        label
    }

    /// Frees the label of a pool.
    pub(super) fn give_back(&mut self, name: &Arc<str>, label: &Arc<str>) {
        self.taken.remove(label);
        // The label may also be a number of another name, if this pool was named `db#2`.
        let Some((base, number)) = label.rsplit_once('#') else { return };
        if let (Some(numbers), Ok(number)) = (self.numbers.get_mut(base), number.parse()) {
            numbers.give_back(number);
        }
        if name != label && self.numbers.get_mut(name).is_some_and(Numbers::pool_left) {
            self.numbers.remove(name);
        }
    }

    /// Returns the key in the registry of the pool with this label.
    pub(super) fn find(&self, label: &str) -> Option<u64> {
        self.taken.get(label).copied()
    }
}

impl Numbers {
    fn new() -> Numbers {
        Numbers { pools: 0, next: FIRST, free: BTreeSet::new() }
    }

    /// Takes the smallest number for which `is_taken` returns false. Does not check a number again
    /// until it is given back.
    fn take(&mut self, mut is_taken: impl FnMut(u64) -> bool) {
        self.pools += 1;
        while let Some(number) = self.free.pop_first() {
            if !is_taken(number) {
                return;
            }
        }
        while is_taken(self.next) {
            self.next += 1;
        }
        self.next += 1;
    }

    /// Records that the label with this number is free. The number may be wrong: for the label
    /// `db#02` it is 2, although `db#2` may be in use. `take` checks this.
    fn give_back(&mut self, number: u64) {
        if (FIRST..self.next).contains(&number) {
            self.free.insert(number);
        }
    }

    /// Counts a pool that is gone. Returns true if it was the last one.
    fn pool_left(&mut self) -> bool {
        self.pools -= 1;
        self.pools == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::heap::tests::random;

    #[test]
    fn the_labels_of_many_pools_of_one_name_take_one_look_each() {
        const POOLS: u64 = 20_000;
        let (mut numbers, mut looks) = (Numbers::new(), 0);
        let mut taken = BTreeSet::new();
        let mut take = |numbers: &mut Numbers, taken: &mut BTreeSet<u64>| {
            let mut last = 0;
            numbers.take(|number| {
                looks += 1;
                last = number;
                taken.contains(&number)
            });
            taken.insert(last);
            last
        };
        assert!((FIRST..FIRST + POOLS).all(|number| take(&mut numbers, &mut taken) == number));
        let mut random = random(5);
        for _ in 0..POOLS {
            let number = FIRST + random(POOLS);
            taken.remove(&number);
            numbers.give_back(number);
            assert_eq!(take(&mut numbers, &mut taken), number, "the smallest free number");
        }
        assert_eq!(looks, 2 * POOLS);
    }

    /// Compares with a search for the smallest free number, with names that look like labels.
    #[test]
    fn labels_are_the_smallest_free_ones_and_nothing_is_left_in_the_end() {
        const NAMES: [&str; 8] = ["db", "db#2", "db#3", "db#02", "db#+2", "db#2#2", "#2", "db#"];
        let mut random = random(11);
        for _ in 0..200 {
            let mut labels = Labels::new();
            let mut pools: Vec<(Arc<str>, Arc<str>)> = Vec::new();
            for id in 0..random(80) {
                if random(5) < 3 || pools.is_empty() {
                    let name: Arc<str> = NAMES[random(NAMES.len() as u64) as usize].into();
                    let is_free = |label: &String| pools.iter().all(|(_, taken)| **taken != **label);
                    let numbered = (FIRST..).map(|number| format!("{name}#{number}"));
                    let free = std::iter::once(name.to_string()).chain(numbered).find(is_free);
                    let label = labels.take(&name, id);
                    assert_eq!(Some(&*label), free.as_deref());
                    assert_eq!(labels.find(&label), Some(id));
                    pools.push((name, label));
                } else {
                    let (name, label) = pools.swap_remove(random(pools.len() as u64) as usize);
                    labels.give_back(&name, &label);
                    assert_eq!(labels.find(&label), None);
                }
            }
            pools.drain(..).for_each(|(name, label)| labels.give_back(&name, &label));
            assert!(labels.taken.is_empty() && labels.numbers.is_empty());
        }
    }
}
