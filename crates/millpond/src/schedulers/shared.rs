//! The shared instances: made on first use, owned by nobody, ended by [`shutdown_now`] or a new factory.

use std::fmt;
use std::future::{self, Future};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::time::Duration;

use super::factory::{self, DefaultFactory, Factory};
use super::immediate::Immediate;
use super::{Disposable, PeriodicTask, Scheduler, SchedulerStats, Worker, defaults};
use crate::config::ConfigError;
use crate::executor::Rejected;
use crate::interrupt::Interrupted;
use crate::panic::catch;
use crate::sync::{Arc, OnceLock, Weak, lock_global};
use crate::task::Task;

/// A scheduler that belongs to everybody: it cannot be disposed of through this handle.
///
/// [`dispose`](Scheduler::dispose) and its graceful forms do nothing, and say that they are done. [`shutdown_now`] ends
/// the instance all the same; this handle then refuses work, and the next call of the accessor gives a new one.
/// Two handles are equal if they are of the same instance.
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
    /// The accessor that gives it.
    accessor: &'static str,
    scheduler: Arc<dyn Scheduler>,
}

impl Shared {
    fn new(accessor: &'static str, scheduler: Arc<dyn Scheduler>) -> Shared {
        Shared { instance: Arc::new(Instance { accessor, scheduler }) }
    }

    fn scheduler(&self) -> &dyn Scheduler {
        &*self.instance.scheduler
    }
}

impl Scheduler for Shared {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.scheduler().schedule_task(task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.scheduler().schedule_task_after(delay, task)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.scheduler().schedule_periodically_task(initial, period, task)
    }

    fn create_worker(&self) -> Worker {
        self.scheduler().create_worker()
    }

    /// Does nothing.
    fn dispose(&self) {}

    /// Does nothing, and says that it is done.
    fn dispose_gracefully(&self, _timeout: Duration) -> Result<bool, Interrupted> {
        Ok(true)
    }

    /// Does nothing, and is ready at once.
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(future::ready(()))
    }

    fn is_disposed(&self) -> bool {
        self.scheduler().is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        SchedulerStats { name: self.instance.accessor.to_owned(), ..self.scheduler().stats() }
    }
}

// Tasks of the immediate scheduler panic through it: a scheduler is whole at every call into user code.
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

/// The shared instances that there are.
#[derive(Default)]
pub(super) struct Instances {
    /// Those of the factory, by kind.
    made: [Option<Shared>; 3],
    /// Those of the default factory for calls at which the factory failed.
    instead: [Option<Shared>; 3],
}

impl Instances {
    const NONE: Instances = Instances { made: [None, None, None], instead: [None, None, None] };

    fn all(&self) -> impl Iterator<Item = &Shared> {
        self.made.iter().chain(&self.instead).flatten()
    }

    fn dispose(&self) {
        for shared in self.all() {
            // A factory may give a scheduler of the user's own: if its end panics the others still have theirs.
            catch(|| shared.scheduler().dispose());
        }
    }

    /// Takes those out that have been disposed of.
    pub(super) fn take_disposed(&mut self) -> Vec<Shared> {
        let all = self.made.iter_mut().chain(&mut self.instead);
        all.filter_map(|place| place.take_if(|shared| shared.is_disposed())).collect()
    }
}

/// What was in force, after something else has taken its place. Nothing of it is touched under our lock.
pub(super) struct Kept {
    factory: Option<Arc<dyn Factory>>,
    instances: Instances,
}

impl Kept {
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
    /// `None`: the default one.
    factory: Option<Arc<dyn Factory>>,
    instances: Instances,
    /// Every scheduler that is or was a shared instance, as long as somebody has it. A factory may give one again,
    /// for the same kind or another, and a snapshot may keep it.
    known: Vec<Weak<dyn Scheduler>>,
    /// Grows with each replacement, so that an instance made meanwhile by the factory before is not kept.
    epoch: u64,
}

static CURRENT: std::sync::Mutex<Current> =
    std::sync::Mutex::new(Current { factory: None, instances: Instances::NONE, known: Vec::new(), epoch: 0 });

impl Current {
    fn knows(&self, shared: &Shared) -> bool {
        let scheduler = Arc::as_ptr(&shared.instance.scheduler);
        let alive = self.known.iter().filter(|known| known.strong_count() > 0);
        alive.map(Weak::as_ptr).any(|known| std::ptr::addr_eq(known, scheduler))
    }

    /// Notes that `shared` is an instance now. Those that are gone are handed out, not to be dropped under the lock.
    fn note(&mut self, shared: &Shared) -> Vec<Weak<dyn Scheduler>> {
        let gone = self.known.extract_if(.., |known| known.strong_count() == 0).collect();
        if !self.knows(shared) {
            self.known.push(Arc::downgrade(&shared.instance.scheduler));
        }
        gone
    }
}

/// Replaces the factory and the instances in one step, and returns what there was.
pub(super) fn replace(factory: Option<Arc<dyn Factory>>, instances: Instances) -> Kept {
    let mut current = lock_global(&CURRENT);
    current.epoch += 1;
    Kept {
        factory: std::mem::replace(&mut current.factory, factory),
        instances: std::mem::replace(&mut current.instances, instances),
    }
}

/// The factory in force.
pub(super) fn factory() -> Arc<dyn Factory> {
    let set = lock_global(&CURRENT).factory.clone();
    set.unwrap_or_else(|| Arc::new(DefaultFactory))
}

/// The shared instance of a kind; made if there is none.
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

/// Keeps what was made, unless there is one by now: then that one counts. `None`: the factory has been replaced.
///
/// What is not kept is disposed of, for nobody else would do that; unless it is, or was, a shared instance itself.
fn keep(kind: Kind, epoch: u64, made: Result<Shared, ConfigError>) -> Option<Shared> {
    let failed = made.is_err();
    let made = match made {
        Ok(made) => made,
        Err(_) => {
            // The factory's failure is not the caller's: it gets an instance from us, as earlier callers did.
            let there = lock_global(&CURRENT).instances.instead[kind as usize].clone();
            there.unwrap_or_else(|| {
                kind.make(&DefaultFactory).expect("the defaults are such that it can be made")
            })
        }
    };
    let mut current = lock_global(&CURRENT);
    let mut gone = Vec::new();
    let kept = (current.epoch == epoch).then(|| {
        let instances = &mut current.instances;
        let place = if failed { &mut instances.instead } else { &mut instances.made };
        let kept = place[kind as usize].get_or_insert_with(|| made.clone()).clone();
        gone = current.note(&kept);
        kept
    });
    let unwanted = !current.knows(&made);
    drop(current);
    drop(gone);
    if unwanted {
        catch(|| made.scheduler().dispose()); // the factory may have given one of the user's own
    }
    kept
}

/// The scheduler that is none: work runs on the calling thread before the call returns, and its panic unwinds to the
/// caller. No hooks, no timing. [`shutdown_now`] does not touch it.
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

/// The shared scheduler with one thread, called `single-N`: for work that must not overlap.
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

/// The shared scheduler for short computations: [`Defaults::pool_size`](super::Defaults::pool_size) threads, called
/// `parallel-N`.
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

/// The shared scheduler for work that blocks, with the figures of [`defaults`]. Its threads are called
/// `boundedElastic-N`, or `loomBoundedElastic-N` if every task has a fresh one.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// assert_eq!(schedulers::bounded_elastic().stats().max_threads, schedulers::defaults().bounded_elastic_size);
/// ```
pub fn bounded_elastic() -> Shared {
    shared(Kind::BoundedElastic)
}

/// Disposes of the shared instances. Handles to them refuse work from then on; the next call of an accessor makes a
/// new one.
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
