//! The cluster: a connection to an engine and the name of a queue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond::interrupt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::{Admin, Dead};
use crate::builder::{ClusterBuilder, OnFull};
use crate::engine::{
    BATCH_LIMIT, CancelAnswer, Engine, Mode, NewTask, PeriodicSpec, QueueChange, QueueStats, Submitted,
};
use crate::error::{EngineError, OpenError, RemoteError, SubmitError, SubmitReason};
use crate::handle::RemoteHandle;
use crate::hub::{Hub, Place};
use crate::id::{SubmitterId, TaskId};
use crate::periodic::{Every, MissedRuns};
use crate::submit::{Answer, Combiner};
use crate::task_type::{RemoteTask, TaskType};
use crate::worker::{Shared, WorkerBuilder, WorkerStats};

/// Workers of this process, used for cancellation, for running in the caller and for metrics.
#[derive(Debug, Default)]
pub(crate) struct LocalWorkers {
    pub(crate) live: Vec<Weak<Shared>>,
    /// Totals of workers that have ended, by queue: a counter must not fall.
    pub(crate) ended: BTreeMap<String, WorkerStats>,
}

/// What all clones of a cluster, its handles and its workers share.
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) submitter: SubmitterId,
    pub(crate) hub: Arc<Hub>,
    combiner: Combiner,
    on_full: OnFull,
    pub(crate) lease: Duration,
    pub(crate) workers: Mutex<LocalWorkers>,
    notices: Mutex<Option<JoinHandle<()>>>,
}

impl Core {
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        on_full: OnFull,
        lease: Duration,
    ) -> Result<Arc<Core>, OpenError> {
        let hub = Arc::new(Hub::new(Arc::clone(&engine)));
        let notices = hub.start().map_err(OpenError::Thread)?;
        Ok(Arc::new(Core {
            combiner: Combiner::new(Arc::clone(&engine)),
            engine,
            submitter: SubmitterId::fresh(),
            hub,
            on_full,
            lease,
            workers: Mutex::default(),
            notices: Mutex::new(Some(notices)),
        }))
    }

    pub(crate) fn cancel(&self, id: TaskId) -> Result<CancelAnswer, EngineError> {
        let answer = self.engine.cancel(&[id])?[0];
        match answer {
            CancelAnswer::Cancelled => drop(self.hub.look_up(&[id])?),
            // Saves a worker of this process the wait for its next renewal.
            CancelAnswer::Requested => self.local_workers().iter().for_each(|worker| worker.cancel(id)),
            CancelAnswer::AlreadyDone | CancelAnswer::Unknown => {}
        }
        Ok(answer)
    }

    /// The caller drops the handles outside of the lock, because the last one drops a pool.
    fn local_workers(&self) -> Vec<Arc<Shared>> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.live.iter().filter_map(Weak::upgrade).collect()
    }

    /// Statistics of the workers of this process, by queue.
    pub(crate) fn worker_stats(&self) -> BTreeMap<String, WorkerStats> {
        // One lock for both, so that no worker is missed or counted twice.
        let (mut stats, live) = {
            let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            let live: Vec<_> = workers.live.iter().filter_map(Weak::upgrade).collect();
            (workers.ended.clone(), live)
        };
        live.iter().for_each(|worker| *stats.entry(worker.queue.to_string()).or_default() += worker.stats());
        stats
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.hub.close();
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(notices) = notices.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = notices.join();
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// A connection to an engine and the name of a queue. Cheap to clone.
///
/// The [crate](crate) documentation states the guarantees.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) core: Arc<Core>,
    pub(crate) queue: Arc<str>,
}

impl Cluster {
    /// Opens the engine at an address: `sqlite:jobs.db`, `sqlite:jobs.db?durability=relaxed` or
    /// `memory:`.
    ///
    /// # Errors
    /// An [`OpenError`] if the address is invalid or the engine refuses.
    pub fn open(address: &str) -> Result<Cluster, OpenError> {
        ClusterBuilder::default().open(address)
    }

    /// Makes a builder, which sets the queue, its capacity and the policy for a full queue.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// The same connection with another queue.
    pub fn queue(&self, name: &str) -> Cluster {
        Cluster { core: Arc::clone(&self.core), queue: name.into() }
    }

    /// The name of the queue.
    pub fn queue_name(&self) -> &str {
        &self.queue
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.core.engine
    }

    /// Begins a worker: give it handlers and start it.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone())
    }

    /// Submits a task. When this returns `Ok`, the engine has stored it.
    ///
    /// Blocks for one round trip to the engine. Threads that submit at the same time share it.
    ///
    /// # Errors
    /// A [`SubmitError`], which contains the task.
    pub fn submit<A, R>(
        &self,
        task_type: &TaskType<A, R>,
        args: &A,
    ) -> Result<RemoteHandle<R>, SubmitError<Box<RemoteTask<R>>>>
    where
        A: Serialize,
        R: DeserializeOwned,
    {
        self.submit_task(task_type.task(args))
    }

    /// Submits a task that has options.
    ///
    /// # Errors
    /// A [`SubmitError`], which contains the task. Submitting it again is safe, because it keeps
    /// its id.
    pub fn submit_task<R: DeserializeOwned>(
        &self,
        task: RemoteTask<R>,
    ) -> Result<RemoteHandle<R>, SubmitError<Box<RemoteTask<R>>>> {
        let new = match task.encode(&self.queue, self.core.submitter) {
            Ok(new) => new,
            Err(reason) => return Err(SubmitError { reason, task: Box::new(task) }),
        };
        let place = self.core.hub.register(new.id, false);
        let (id, result) = (new.id, self.submit_one(new, task.name()));
        match result {
            Ok(other) if other == id => Ok(self.accepted(id, place)),
            Ok(other) => {
                self.core.hub.unregister(id, &place.0);
                let handle = self.accepted(other, self.core.hub.register(other, true));
                // It may have ended already: look it up now instead of at the next poll.
                let _ = self.core.hub.look_up(&[other]);
                Ok(handle)
            }
            Err(reason) => {
                self.core.hub.unregister(id, &place.0);
                Err(SubmitError { reason, task: Box::new(task) })
            }
        }
    }

    fn accepted<R>(&self, id: TaskId, place: Place) -> RemoteHandle<R> {
        place.0.accept();
        RemoteHandle::new(id, place, Arc::clone(&self.core))
    }

    /// Returns the id of the stored task: this one, or the one that holds its unique key.
    fn submit_one(&self, mut new: NewTask, name: &str) -> Result<TaskId, SubmitReason> {
        let id = new.id;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let (mut tasks, answers) = self.submit_now(vec![new]);
            let answer = answers.map_err(SubmitReason::Engine)?[0];
            new = tasks.pop().expect("the task comes back");
            let (waiting, capacity) = match answer {
                Submitted::New => return Ok(id),
                Submitted::Known(state) => {
                    if state.is_end() {
                        let _ = self.core.hub.look_up(&[id]);
                    }
                    return Ok(id);
                }
                Submitted::Duplicate(other) => return Ok(other),
                Submitted::Closed => return Err(SubmitReason::Shutdown),
                Submitted::Full { waiting, capacity } => (waiting, capacity),
            };
            let full = SubmitReason::Saturated { waiting, capacity };
            match self.core.on_full {
                OnFull::Abort => return Err(full),
                OnFull::Block(limit) => {
                    if limit.is_some_and(|limit| begin.elapsed() >= limit) {
                        return Err(full);
                    }
                    interrupt::sleep(pause).map_err(|_| SubmitReason::Interrupted)?;
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                OnFull::CallerRuns => {
                    let workers = self.core.local_workers();
                    let worker = workers.iter().find(|worker| worker.can_run(&self.queue, name));
                    let Some(worker) = worker else { return Err(full) };
                    new.over_capacity = true;
                    let (_, answers) = self.core.combiner.submit(vec![new]);
                    answers.map_err(SubmitReason::Engine)?;
                    worker.run_here(id);
                    return Ok(id);
                }
            }
        }
    }

    /// If the engine is in this process and a worker is idle, this thread also claims: waking the
    /// feeder would take longer than the rest of the round trip. Not while other handles wait,
    /// because then workers are hardly ever idle.
    fn submit_now(&self, tasks: Vec<NewTask>) -> Answer {
        if self.core.engine.is_local() && self.core.hub.awaits_one() {
            let workers = self.core.local_workers();
            let mut ours = workers.iter().filter(|worker| worker.queue == self.queue);
            if let Some(answers) = ours.find_map(|worker| worker.submit_if_idle(&tasks)) {
                return (tasks, Ok(answers));
            }
        }
        self.core.combiner.submit(tasks)
    }

    /// Submits many tasks, 500 per round trip.
    ///
    /// # Errors
    /// The handles of the accepted tasks, and the other tasks. The policy for a full queue does not
    /// apply: tasks that find no room are returned.
    #[allow(clippy::type_complexity, reason = "handles and refused tasks, both with their type")]
    pub fn submit_all<A, R>(
        &self,
        task_type: &TaskType<A, R>,
        batch: impl IntoIterator<Item = A>,
    ) -> Result<Vec<RemoteHandle<R>>, (Vec<RemoteHandle<R>>, SubmitError<Vec<RemoteTask<R>>>)>
    where
        A: Serialize,
        R: DeserializeOwned,
    {
        self.submit_tasks(batch.into_iter().map(|args| task_type.task(&args)))
    }

    /// Submits many tasks that have options, 500 per round trip.
    ///
    /// # Errors
    /// As [`submit_all`](Self::submit_all).
    #[allow(clippy::type_complexity, reason = "handles and refused tasks, both with their type")]
    pub fn submit_tasks<R: DeserializeOwned>(
        &self,
        tasks: impl IntoIterator<Item = RemoteTask<R>>,
    ) -> Result<Vec<RemoteHandle<R>>, (Vec<RemoteHandle<R>>, SubmitError<Vec<RemoteTask<R>>>)> {
        let tasks: Vec<RemoteTask<R>> = tasks.into_iter().collect();
        let mut handles = Vec::with_capacity(tasks.len());
        let mut refused = Vec::new();
        let mut why = None;
        for chunk in tasks.chunks(BATCH_LIMIT) {
            let mut batch = Vec::with_capacity(chunk.len());
            for task in chunk {
                match task.encode(&self.queue, self.core.submitter) {
                    Ok(new) => batch.push((task, self.core.hub.register(new.id, false), new)),
                    Err(reason) => {
                        why.get_or_insert(reason);
                        refused.push(task.clone());
                    }
                }
            }
            let (tasks, new): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|(task, place, new)| ((task, place), new)).unzip();
            let (_, answers) = self.core.combiner.submit(new);
            let answers = answers
                .map_or_else(|error| vec![Err(error); tasks.len()], |all| all.into_iter().map(Ok).collect());
            for ((task, place), answer) in tasks.into_iter().zip(answers) {
                match self.settle_submit(task.task_id(), place, answer) {
                    Ok(handle) => handles.push(handle),
                    Err(reason) => {
                        why.get_or_insert(reason);
                        refused.push(task.clone());
                    }
                }
            }
        }
        match why {
            None => Ok(handles),
            Some(reason) => Err((handles, SubmitError { reason, task: refused })),
        }
    }

    fn settle_submit<R>(
        &self,
        id: TaskId,
        place: Place,
        answer: Result<Submitted, EngineError>,
    ) -> Result<RemoteHandle<R>, SubmitReason> {
        let reason = match answer {
            Ok(Submitted::New) => return Ok(self.accepted(id, place)),
            Ok(Submitted::Known(_)) => {
                let handle = self.accepted(id, place);
                let _ = self.core.hub.look_up(&[id]);
                return Ok(handle);
            }
            Ok(Submitted::Duplicate(other)) => {
                self.core.hub.unregister(id, &place.0);
                return Ok(self.accepted(other, self.core.hub.register(other, true)));
            }
            Ok(Submitted::Full { waiting, capacity }) => SubmitReason::Saturated { waiting, capacity },
            Ok(Submitted::Closed) => SubmitReason::Shutdown,
            Err(error) => SubmitReason::Engine(error),
        };
        self.core.hub.unregister(id, &place.0);
        Err(reason)
    }

    /// Finds a task by its id: after a restart, or from another process.
    ///
    /// # Errors
    /// [`RemoteError::ResultGone`] if there is no record of it, [`RemoteError::Engine`] if the
    /// engine fails.
    pub fn find<A, R: DeserializeOwned>(
        &self,
        _task_type: &TaskType<A, R>,
        id: TaskId,
    ) -> Result<RemoteHandle<R>, RemoteError> {
        let handle = self.accepted(id, self.core.hub.register(id, true));
        if self.core.hub.look_up(&[id])? == 0 { Ok(handle) } else { Err(RemoteError::ResultGone(id)) }
    }

    /// Submits a task periodically, from any worker, without a leader. The first run is one period
    /// from now. Repeating the call after a restart changes nothing. Returns whether the schedule
    /// is new or changed.
    ///
    /// # Errors
    /// An [`EngineError`] if the period is zero, the arguments cannot be encoded or the engine
    /// fails.
    pub fn periodic<A: Serialize, R>(
        &self,
        name: &str,
        every: Every,
        task_type: &TaskType<A, R>,
        args: &A,
    ) -> Result<bool, EngineError> {
        self.periodic_with(name, every, MissedRuns::One, task_type.task(args))
    }

    /// Like [`periodic`](Self::periodic), with options and a policy for missed runs.
    ///
    /// # Errors
    /// As [`periodic`](Self::periodic).
    pub fn periodic_with<R>(
        &self,
        name: &str,
        every: Every,
        missed: MissedRuns,
        task: RemoteTask<R>,
    ) -> Result<bool, EngineError> {
        let refuse = |what: String| EngineError::new(crate::error::Certainty::Permanent, what);
        if every.period_ms() == 0 {
            return Err(refuse(format!("the period of '{name}' is less than a millisecond")));
        }
        let new = task.encode(&self.queue, self.core.submitter);
        let new = new.map_err(|reason| refuse(SubmitError { reason, task: () }.to_string()))?;
        let spec = PeriodicSpec {
            every,
            missed,
            task: new.name,
            args: new.args,
            class: new.class,
            options: new.options,
        };
        self.core.engine.set_periodic(&self.queue, name, Some(&spec))
    }

    /// Removes a schedule; runs that were already submitted remain. Returns whether it existed.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn remove_periodic(&self, name: &str) -> Result<bool, EngineError> {
        self.core.engine.set_periodic(&self.queue, name, None)
    }

    /// Pauses the queue: workers get no more tasks until [`resume`](Self::resume). Tasks are still
    /// accepted.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn pause(&self) -> Result<QueueStats, EngineError> {
        self.set_mode(Mode::Paused)
    }

    /// Reopens a queue that was paused or closed.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn resume(&self) -> Result<QueueStats, EngineError> {
        self.set_mode(Mode::Open)
    }

    /// Closes the queue: no more tasks are accepted, and those already stored still run.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn close(&self) -> Result<QueueStats, EngineError> {
        self.set_mode(Mode::Closed)
    }

    fn set_mode(&self, mode: Mode) -> Result<QueueStats, EngineError> {
        self.core.engine.queue(&self.queue, &QueueChange { mode: Some(mode), ..QueueChange::default() })
    }

    /// State and counters of the queue.
    ///
    /// # Errors
    /// An [`EngineError`] if the engine fails.
    pub fn stats(&self) -> Result<QueueStats, EngineError> {
        self.core.engine.queue(&self.queue, &QueueChange::default())
    }

    /// Waits until no task is ready, delayed or running. Returns false on timeout.
    ///
    /// # Errors
    /// [`RemoteError::Interrupted`] or [`RemoteError::Engine`].
    pub fn await_drained(&self, timeout: Duration) -> Result<bool, RemoteError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let stats = self.stats()?;
            if stats.ready + stats.delayed + stats.running == 0 {
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            interrupt::sleep(Duration::from_millis(20)).map_err(|_| RemoteError::Interrupted)?;
        }
    }

    /// The dead letters of the queue.
    pub fn dead(&self) -> Dead {
        Dead::new(self.clone())
    }

    /// The administration interface: queues, tasks, workers, checks.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("queue", &self.queue).field("engine", &self.core.engine).finish()
    }
}
