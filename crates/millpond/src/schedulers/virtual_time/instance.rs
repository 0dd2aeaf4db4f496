//! [`Instance`]: one virtual-time scheduler as its user sees it, with its name, its end and its
//! figures.

use crate::schedulers::end::{Lifecycle, Phase};
use crate::schedulers::stats::Counters;
use crate::sync::{Arc, Mutex};

/// One of the schedulers that share a queue and a time.
pub(super) struct Instance {
    name: Arc<str>,
    /// True for the instance that owns the time. Its end and its figures include all other
    /// instances.
    is_root: bool,
    lifecycle: Lifecycle,
    /// Locked only under the lock of the core.
    counters: Mutex<Counters>,
}

impl Instance {
    pub(super) fn new(name: Arc<str>, is_root: bool) -> Arc<Instance> {
        let lifecycle = Lifecycle::default();
        Arc::new(Instance { name, is_root, lifecycle, counters: Mutex::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    pub(super) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    pub(super) fn phase(&self) -> Phase {
        self.lifecycle.phase()
    }

    /// Returns the counters. Requires the lock of the core.
    pub(super) fn counters(&self) -> Counters {
        *self.counters.lock()
    }

    /// Changes the counters. Requires the lock of the core.
    pub(super) fn count(&self, change: impl Fn(&mut Counters)) {
        change(&mut self.counters.lock());
    }
}
