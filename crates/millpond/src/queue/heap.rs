//! A binary heap that survives a panicking comparison: the store of the priority and delay queues.
//!
//! Every operation first finds out what goes where, which is when comparisons run, and then moves, which cannot
//! fail. The order is given to each operation as `before`, which says whether one entry comes out before another; a
//! `before` that contradicts itself gives some order, never a panic of ours.

/// Heaps up to this many slots never give memory back.
const SMALL: usize = 1024;

#[derive(Debug)]
pub(super) struct Heap<E> {
    /// No entry comes before its parent: that of `at` is `(at - 1) / 2`.
    entries: Vec<E>,
}

impl<E> Heap<E> {
    pub(super) fn new() -> Self {
        Heap { entries: Vec::new() }
    }

    pub(super) fn with_capacity(capacity: usize) -> Self {
        Heap { entries: Vec::with_capacity(capacity) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<&E> {
        self.entries.first()
    }

    /// The place of a new entry, which comes `before` some of those here. Place 0 is the head.
    pub(super) fn place_for(&self, mut before: impl FnMut(&E) -> bool) -> usize {
        let mut place = self.entries.len();
        while place > 0 && before(&self.entries[parent(place)]) {
            place = parent(place);
        }
        place
    }

    /// Puts an entry to its place, found by `place_for` since the last change.
    pub(super) fn insert(&mut self, place: usize, entry: E) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > place {
            self.entries.swap(at, parent(at));
            at = parent(at);
        }
    }

    pub(super) fn pop(&mut self, before: impl FnMut(&E, &E) -> bool) -> Option<E> {
        let mut at = self.place_of_last(before);
        let mut moved = self.entries.pop()?;
        if self.entries.is_empty() {
            return Some(moved);
        }
        // The last entry goes to its new place, and what is there and above moves up by one: out comes the head.
        loop {
            std::mem::swap(&mut self.entries[at], &mut moved);
            if at == 0 {
                self.give_back();
                return Some(moved);
            }
            at = parent(at);
        }
    }

    /// Where the last entry belongs once the head is gone.
    fn place_of_last(&self, mut before: impl FnMut(&E, &E) -> bool) -> usize {
        let Some((last, rest)) = self.entries.split_last() else { return 0 };
        let mut hole = 0;
        loop {
            let (left, right) = (2 * hole + 1, 2 * hole + 2);
            if left >= rest.len() {
                return hole;
            }
            let first = if right < rest.len() && before(&rest[right], &rest[left]) { right } else { left };
            if !before(&rest[first], last) {
                return hole;
            }
            hole = first;
        }
    }

    /// The positions of all entries, in the order in which they would be popped.
    ///
    /// What comes next is always a child of what came before, so a heap of candidates is enough.
    fn order(&self, mut before: impl FnMut(&E, &E) -> bool) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.len());
        let mut candidates = Heap::with_capacity(self.len());
        let mut sooner = |a: usize, b: usize| before(&self.entries[a], &self.entries[b]);
        if self.len() > 0 {
            candidates.insert(0, 0);
        }
        while let Some(at) = candidates.pop(|a, b| sooner(*a, *b)) {
            order.push(at);
            for child in [2 * at + 1, 2 * at + 2].into_iter().filter(|child| *child < self.len()) {
                let place = candidates.place_for(|other| sooner(child, *other));
                candidates.insert(place, child);
            }
        }
        order
    }

    /// Shows all entries in the order in which they would be popped.
    pub(super) fn for_each(&self, before: impl FnMut(&E, &E) -> bool, mut see: impl FnMut(&E)) {
        self.order(before).into_iter().for_each(|at| see(&self.entries[at]));
    }

    /// Removes all matches, asked for and returned in the order in which they would be popped.
    pub(super) fn remove_if(
        &mut self,
        before: impl FnMut(&E, &E) -> bool,
        mut matches: impl FnMut(&E) -> bool,
    ) -> Vec<E> {
        let order = self.order(before);
        let doomed: Vec<bool> = order.iter().map(|at| matches(&self.entries[*at])).collect();
        if !doomed.contains(&true) {
            return Vec::new();
        }
        // From here on only moves. What is sorted is a heap.
        let mut slots: Vec<Option<E>> = self.entries.drain(..).map(Some).collect();
        let mut removed = Vec::new();
        for (at, doomed) in order.into_iter().zip(doomed) {
            let entry = slots[at].take().expect("each position comes once");
            if doomed { removed.push(entry) } else { self.entries.push(entry) }
        }
        self.give_back();
        removed
    }

    pub(super) fn take_all(&mut self) -> Vec<E> {
        std::mem::take(&mut self.entries)
    }

    fn give_back(&mut self) {
        let slots = self.entries.capacity();
        if slots > SMALL && self.entries.len() < slots / 8 {
            self.entries.shrink_to((2 * self.entries.len()).max(SMALL));
        }
    }
}

fn parent(at: usize) -> usize {
    (at - 1) / 2
}
