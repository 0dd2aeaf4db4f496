//! The shared schedulers, created on first use and ended by [`shutdown_now`] or a new factory.
//!
//! Schedulers and factories may be user code. They are called and dropped without the lock held.

use std::fmt;
use std::future::{self, Future};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::time::Duration;

use super::defaults::defaults;
use super::factory::{self, DefaultFactory, Factory};
use super::immediate::Immediate;
use super::scheduler::{Scheduler, SchedulerId};
use super::stats::SchedulerStats;
use super::worker::Worker;
use crate::config::ConfigError;
use crate::interrupt::Interrupted;
use crate::monitor::PoolRef;
use crate::panic::catch;
use crate::sync::{Arc, OnceLock, Weak, lock_global};

/// A process-wide shared scheduler. This handle cannot dispose of it.
///
/// [`dispose`](Scheduler::dispose) and its graceful forms do nothing and report success.
/// [`shutdown_now`] ends the instance. This handle then refuses work, and the next call of the
/// accessor returns a new instance. Two handles are equal if they belong to the same instance.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// let shared = schedulers::single();
/// shared.dispose();
/// assert!(!shared.is_disposed());
/// assert_eq!(shared, schedulers::single());
/// assert_eq!(shared.to_string(), "schedulers::single()");
/// ```
#[derive(Clone)]
pub struct Shared {
    instance: Arc<Instance>,
}

struct Instance {
    /// The name of the accessor function.
    accessor: &'static str,
    scheduler: Arc<dyn Scheduler>,
    id: Option<SchedulerId>,
}

impl Shared {
    fn new(accessor: &'static str, scheduler: Arc<dyn Scheduler>) -> Shared {
        let id = scheduler.scheduler_id();
        Shared { instance: Arc::new(Instance { accessor, scheduler, id }) }
    }

    fn scheduler(&self) -> &dyn Scheduler {
        &*self.instance.scheduler
    }
}

impl Scheduler for Shared {
    forward_scheduling!(|it| it.scheduler());

    fn create_worker(&self) -> Worker {
        self.scheduler().create_worker()
    }

    /// Does nothing.
    fn dispose(&self) {}

    /// Does nothing and reports success.
    fn dispose_gracefully(&self, _timeout: Duration) -> Result<bool, Interrupted> {
        Ok(true)
    }

    /// Does nothing and is ready at once.
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(future::ready(()))
    }

    fn is_disposed(&self) -> bool {
        self.scheduler().is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        SchedulerStats { name: self.instance.accessor.to_owned(), ..self.scheduler().stats() }
    }

    fn pool_ref(&self) -> Option<PoolRef> {
        self.scheduler().pool_ref()
    }
}

// A panic of a task on the immediate scheduler unwinds through it. That is safe, because no
// scheduler calls user code in the middle of a state change.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl PartialEq for Shared {
    fn eq(&self, other: &Shared) -> bool {
        Arc::ptr_eq(&self.instance, &other.instance)
    }
}

impl Eq for Shared {}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.instance.accessor)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.stats()).finish()
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Single,
    Parallel,
    BoundedElastic,
}

impl Kind {
    fn accessor(self) -> &'static str {
        match self {
            Kind::Single => "schedulers::single()",
            Kind::Parallel => "schedulers::parallel()",
            Kind::BoundedElastic => "schedulers::bounded_elastic()",
        }
    }

    fn make(self, factory: &dyn Factory) -> Result<Shared, ConfigError> {
        let defaults = defaults();
        let scheduler = factory::call(|| match self {
            Kind::Single => factory.new_single("single"),
            Kind::Parallel => factory.new_parallel(defaults.pool_size, "parallel"),
            Kind::BoundedElastic => factory.new_bounded_elastic(
                defaults.bounded_elastic_size,
                defaults.bounded_elastic_queue_size,
                if defaults.bounded_elastic_on_virtual_threads {
                    "loomBoundedElastic"
                } else {
                    "boundedElastic"
                },
                defaults.bounded_elastic_ttl,
            ),
        })?;
        Ok(Shared::new(self.accessor(), scheduler))
    }
}

/// The current shared instances.
#[derive(Default)]
pub(super) struct Instances {
    /// Created by the factory; one entry per kind.
    made: [Option<Shared>; 3],
    /// Created by the default factory, because the factory failed.
    fallback: [Option<Shared>; 3],
}

impl Instances {
    const NONE: Instances = Instances { made: [None, None, None], fallback: [None, None, None] };

    fn all(&self) -> impl Iterator<Item = &Shared> {
        self.made.iter().chain(&self.fallback).flatten()
    }

    fn dispose(&self) {
        for shared in self.all() {
            // May be user code: a panic must not prevent the disposal of the others.
            catch(|| shared.scheduler().dispose());
        }
    }

    /// Takes out the instances that are disposed.
    pub(super) fn take_disposed(&mut self) -> Vec<Shared> {
        let all = self.made.iter_mut().chain(&mut self.fallback);
        all.filter_map(|place| place.take_if(|shared| shared.is_disposed())).collect()
    }
}

/// The factory and the instances that were in force before a replacement.
pub(super) struct Replaced {
    factory: Option<Arc<dyn Factory>>,
    instances: Instances,
}

impl Replaced {
    pub(super) fn into_parts(self) -> (Option<Arc<dyn Factory>>, Instances) {
        (self.factory, self.instances)
    }

    pub(super) fn dispose(&self) {
        self.instances.dispose();
    }

    pub(super) fn is_disposed(&self) -> bool {
        self.instances.all().all(Scheduler::is_disposed)
    }
}

struct Current {
    /// `None` means the default factory.
    factory: Option<Arc<dyn Factory>>,
    instances: Instances,
    /// Every living scheduler that is or was a shared instance. A factory may return one again, for
    /// the same kind or another, and a snapshot may keep one.
    known: Vec<Known>,
    /// Increases with each replacement. An instance from an earlier factory is then not kept.
    epoch: u64,
}

/// A scheduler, which is recognised by other handles to it, too, while this one is alive.
struct Known {
    scheduler: Weak<dyn Scheduler>,
    id: Option<SchedulerId>,
}

impl Known {
    fn is_alive(&self) -> bool {
        self.scheduler.strong_count() > 0
    }

    /// By the same `Arc`.
    fn has(&self, shared: &Instance) -> bool {
        std::ptr::addr_eq(self.scheduler.as_ptr(), Arc::as_ptr(&shared.scheduler))
    }

    /// By any handle.
    fn is(&self, shared: &Instance) -> bool {
        self.has(shared) || (self.id.is_some() && self.id == shared.id)
    }
}

static CURRENT: std::sync::Mutex<Current> =
    std::sync::Mutex::new(Current { factory: None, instances: Instances::NONE, known: Vec::new(), epoch: 0 });

impl Current {
    fn knows(&self, shared: &Shared) -> bool {
        self.known.iter().any(|known| known.is_alive() && known.is(&shared.instance))
    }

    /// Records `shared` as an instance. Returns dead references, which the caller must drop without
    /// the lock.
    fn note(&mut self, shared: &Shared) -> Vec<Known> {
        let gone = self.known.extract_if(.., |known| !known.is_alive()).collect();
        if !self.known.iter().any(|known| known.has(&shared.instance)) {
            let Instance { scheduler, id, .. } = &*shared.instance;
            self.known.push(Known { scheduler: Arc::downgrade(scheduler), id: *id });
        }
        gone
    }
}

/// Replaces the factory and the instances in one step. Returns the previous ones.
pub(super) fn replace(factory: Option<Arc<dyn Factory>>, instances: Instances) -> Replaced {
    let mut current = lock_global(&CURRENT);
    current.epoch += 1;
    Replaced {
        factory: std::mem::replace(&mut current.factory, factory),
        instances: std::mem::replace(&mut current.instances, instances),
    }
}

/// Returns the factory in force.
pub(super) fn factory() -> Arc<dyn Factory> {
    let set = lock_global(&CURRENT).factory.clone();
    set.unwrap_or_else(|| Arc::new(DefaultFactory))
}

/// Returns the shared instance of a kind. Creates it if there is none.
fn shared(kind: Kind) -> Shared {
    loop {
        let current = lock_global(&CURRENT);
        if let Some(shared) = &current.instances.made[kind as usize] {
            return shared.clone();
        }
        let (epoch, factory) = (current.epoch, current.factory.clone());
        drop(current);
        let made = kind.make(factory.as_deref().unwrap_or(&DefaultFactory));
        if let Some(shared) = keep(kind, epoch, made) {
            return shared;
        }
    }
}

/// Stores the created instance, unless another thread has stored one first. Returns the stored
/// instance, or `None` if the factory has been replaced.
///
/// Disposes of an instance that is not stored, unless it is or was a shared instance itself.
fn keep(kind: Kind, epoch: u64, made: Result<Shared, ConfigError>) -> Option<Shared> {
    let failed = made.is_err();
    let made = match made {
        Ok(made) => made,
        Err(_) => {
            // The caller did not choose the factory, so it gets a fallback, the same one as earlier
            // callers.
            let there = lock_global(&CURRENT).instances.fallback[kind as usize].clone();
            there.unwrap_or_else(|| kind.make(&DefaultFactory).expect("the defaults are valid"))
        }
    };
    let mut current = lock_global(&CURRENT);
    let mut gone = Vec::new();
    let kept = (current.epoch == epoch).then(|| {
        let instances = &mut current.instances;
        let place = if failed { &mut instances.fallback } else { &mut instances.made };
        let kept = place[kind as usize].get_or_insert_with(|| made.clone()).clone();
        gone = current.note(&kept);
        kept
    });
    let unused = !current.knows(&made);
    drop(current);
    drop(gone);
    if unused {
        catch(|| made.scheduler().dispose()); // may be user code
    }
    kept
}

/// Returns the scheduler without threads. Work runs on the calling thread before the call returns,
/// and a panic unwinds to the caller. It has no hooks and no timing, and [`shutdown_now`] does not
/// end it.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
///
/// let done = schedulers::immediate().schedule(|| println!("right here"))?;
/// assert!(done.is_disposed());
/// # Ok::<(), millpond::Rejected>(())
/// ```
pub fn immediate() -> Shared {
    static IMMEDIATE: OnceLock<Shared> = OnceLock::new();
    let make = || Shared::new("schedulers::immediate()", Arc::new(Immediate::default()));
    IMMEDIATE.get_or_init(make).clone()
}

/// Returns the shared scheduler with one thread, named `single-N`, for work that must not overlap.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// let task = schedulers::single().schedule(|| println!("one at a time"))?;
/// assert!(task.wait(Duration::MAX)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn single() -> Shared {
    shared(Kind::Single)
}

/// Returns the shared scheduler for short computations. It has
/// [`Defaults::pool_size`](super::Defaults::pool_size) threads, named `parallel-N`.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// assert_eq!(schedulers::parallel().stats().max_threads, schedulers::defaults().pool_size);
/// ```
pub fn parallel() -> Shared {
    shared(Kind::Parallel)
}

/// Returns the shared scheduler for work that blocks, with the sizes of [`defaults`]. Its threads
/// are named `boundedElastic-N`, or `loomBoundedElastic-N` if every task has a new one.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// let most = schedulers::defaults().bounded_elastic_size;
/// assert_eq!(schedulers::bounded_elastic().stats().max_threads, most);
/// ```
pub fn bounded_elastic() -> Shared {
    shared(Kind::BoundedElastic)
}

/// Disposes of the shared instances. Does not block. Handles to them refuse work from now on. The
/// next call of an accessor creates a new instance.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// let old = schedulers::parallel();
/// schedulers::shutdown_now();
/// assert!(old.is_disposed());
/// assert!(!schedulers::parallel().is_disposed());
/// ```
pub fn shutdown_now() {
    let mut current = lock_global(&CURRENT);
    current.epoch += 1;
    let instances = std::mem::take(&mut current.instances);
    drop(current);
    instances.dispose();
}
