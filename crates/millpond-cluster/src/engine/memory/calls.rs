//! The engine's calls on the store.

use super::*;
use crate::engine::check_batch;
use crate::id::SubmitterId;

impl Engine for MemoryEngine {
    fn submit(&self, batch: &[NewTask]) -> EngineResult<Vec<Submitted>> {
        check_batch(batch.len())?;
        Ok(self.with_store(|store, now| batch.iter().map(|task| store.submit(task, now)).collect()))
    }

    fn claim(&self, ask: &Claim) -> EngineResult<Vec<Claimed>> {
        Ok(self.with_store(|store, now| store.claim(ask, now)))
    }

    fn submit_and_claim(
        &self,
        batch: &[NewTask],
        ask: &Claim,
    ) -> EngineResult<(Vec<Submitted>, Vec<Claimed>)> {
        check_batch(batch.len())?;
        Ok(self.with_store(|store, now| {
            let before = store.tasks_readied;
            let answers = batch.iter().map(|task| store.submit(task, now)).collect();
            let claimed = store.claim(ask, now);
            let is_ours = |task: &NewTask| task.delay.is_zero() && task.queue == ask.queue;
            if batch.iter().all(is_ours) && !store.queue(&ask.queue).has_work(true, now) {
                // Every task that became ready is claimed: no feeder needs to be woken.
                store.tasks_readied = before;
            }
            (answers, claimed)
        }))
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        held: &[(Fence, Option<Vec<u8>>)],
    ) -> EngineResult<Vec<Renewed>> {
        check_batch(held.len())?;
        let lease = millis(lease);
        Ok(self.with_store(|store, now| {
            let renew = |(fence, progress): &(Fence, Option<Vec<u8>>)| {
                let progress = progress.as_deref();
                let operation = Operation::Renew { worker, attempt: fence.attempt, lease, progress };
                match store.change(fence.id, &operation, now, None) {
                    Err(_) => Renewed::Lost,
                    Ok(_) if store.records[&fence.id].cancel => Renewed::Cancel,
                    Ok(_) => Renewed::Held,
                }
            };
            held.iter().map(renew).collect()
        }))
    }

    fn settle(&self, settle: &Settle<'_>) -> EngineResult<Vec<bool>> {
        check_batch(settle.reports.len())?;
        Ok(self.with_store(|store, now| {
            settle.reports.iter().map(|report| store.settle_one(settle, report, now)).collect()
        }))
    }

    fn cancel(&self, ids: &[TaskId]) -> EngineResult<Vec<CancelAnswer>> {
        check_batch(ids.len())?;
        Ok(self.with_store(|store, now| {
            let cancel = |id: &TaskId| match store.change(*id, &Operation::Cancel, now, None) {
                _ if !store.records.contains_key(id) => CancelAnswer::Unknown,
                Err(_) => CancelAnswer::AlreadyDone,
                Ok(change) if change.is_end() => CancelAnswer::Cancelled,
                Ok(_) => CancelAnswer::Requested,
            };
            ids.iter().map(cancel).collect()
        }))
    }

    fn fetch(&self, ids: &[TaskId]) -> EngineResult<Vec<Option<Record>>> {
        check_batch(ids.len())?;
        let guarded = self.lock();
        Ok(ids.iter().map(|id| guarded.store.records.get(id).cloned()).collect())
    }

    fn tick(&self, queue: &str, limit: usize) -> EngineResult<Tick> {
        Ok(self.with_store(|store, now| store.tick(queue, limit.min(BATCH_LIMIT), now)))
    }

    fn wait_work(&self, queue: &str, suspects: bool, timeout: Duration) -> EngineResult<()> {
        let deadline = Instant::now() + timeout;
        let mut guarded = self.lock();
        let wakes = guarded.wakes;
        loop {
            let now = self.clock.now();
            let left = deadline.saturating_duration_since(Instant::now());
            let is_woken = guarded.wakes != wakes;
            let queue = guarded.store.queue(queue);
            if queue.has_work(suspects, now) || left.is_zero() || is_woken {
                return Ok(());
            }
            let until_due = |(due, ..): &(Millis, u64, TaskId)| u64::try_from(due - now).unwrap_or(0);
            // A paused queue yields no tasks, even if some are due.
            let first_due = queue.delayed.first().filter(|_| queue.stats.mode != Mode::Paused);
            let wait = first_due.map_or(left, |first| left.min(Duration::from_millis(until_due(first))));
            guarded.work_waiters += 1;
            guarded = self.work.wait_timeout(guarded, wait).unwrap_or_else(PoisonError::into_inner).0;
            guarded.work_waiters -= 1;
        }
    }

    fn wait_notices(&self, cursor: &mut Cursor, timeout: Duration) -> EngineResult<Vec<TaskId>> {
        let deadline = Instant::now() + timeout;
        let mut guarded = self.lock();
        let wakes = guarded.wakes;
        loop {
            let store = &guarded.store;
            let end = store.first_notice + store.notices.len() as u64;
            let from = cursor.at.unwrap_or(end).clamp(store.first_notice, end);
            let left = deadline.saturating_duration_since(Instant::now());
            if from < end || left.is_zero() || guarded.wakes != wakes {
                let skip = usize::try_from(from - store.first_notice).unwrap_or(usize::MAX);
                let ids: Vec<TaskId> = store.notices.iter().skip(skip).take(BATCH_LIMIT).copied().collect();
                cursor.at = Some(from + ids.len() as u64);
                return Ok(ids);
            }
            cursor.at = Some(from);
            guarded.notice_waiters += 1;
            guarded = self.notice.wait_timeout(guarded, left).unwrap_or_else(PoisonError::into_inner).0;
            guarded.notice_waiters -= 1;
        }
    }

    fn wake(&self) {
        self.lock().wakes += 1;
        self.work.notify_all();
        self.notice.notify_all();
    }

    fn queue(&self, queue: &str, change: &QueueChange) -> EngineResult<QueueStats> {
        Ok(self.with_store(|store, now| {
            let of = store.queue(queue);
            of.stats.mode = change.mode.unwrap_or(of.stats.mode);
            of.stats.capacity = change.capacity.unwrap_or(of.stats.capacity);
            of.stats.retention = change.retention.unwrap_or(of.stats.retention);
            let mut stats = of.stats.clone();
            // The head of each class is the oldest of its list.
            let lists = [&store.queues[queue].ready, &store.queues[queue].suspects];
            let head = |class: Priority| lists.map(|list| list.range((class, 0)..).next());
            let heads = Priority::ALL.into_iter().flat_map(head).flatten();
            let oldest = heads.map(|(_, id)| store.records[id].created).min();
            stats.oldest_ready =
                oldest.map(|created| Duration::from_millis(u64::try_from(now - created).unwrap_or(0)));
            stats
        }))
    }

    fn queues(&self) -> EngineResult<Vec<String>> {
        Ok(self.lock().store.queues.keys().cloned().collect())
    }

    fn browse(&self, ask: &Browse) -> EngineResult<Page> {
        let now = self.clock.now();
        let limit = ask.limit.min(BATCH_LIMIT);
        let guarded = self.lock();
        let is_asked = |record: &&Record| {
            record.seq > ask.after_seq
                && ask.queue.as_ref().is_none_or(|queue| *queue == record.queue)
                && ask.state.is_none_or(|state| state == record.state)
                && ask.name.as_ref().is_none_or(|name| *name == record.name)
                && ask.older_than.is_none_or(|age| record.created <= now.saturating_sub(millis(age)))
        };
        let mut found: Vec<&Record> = guarded.store.records.values().filter(is_asked).collect();
        found.sort_unstable_by_key(|record| record.seq);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|record| record.seq);
        Ok(Page { records: found.into_iter().cloned().collect(), next })
    }

    fn retry_dead(&self, letters: &[(TaskId, TaskId)]) -> EngineResult<Vec<Option<Submitted>>> {
        check_batch(letters.len())?;
        Ok(self.with_store(|store, now| {
            let retry = |(id, new_id): &(TaskId, TaskId)| {
                let record = store.records.get(id).filter(|record| record.state == State::Dead)?;
                let task = retry_of(record, *new_id);
                Some(store.submit(&task, now))
            };
            letters.iter().map(retry).collect()
        }))
    }

    fn purge_dead(&self, queue: &str, older_than: Duration) -> EngineResult<usize> {
        Ok(self.with_store(|store, now| {
            let before = now.saturating_sub(millis(older_than));
            let is_old = |id: &TaskId| {
                let record = &store.records[id];
                record.state == State::Dead && record.finished.is_some_and(|finished| finished <= before)
            };
            let Some(of) = store.queues.get(queue) else { return 0 };
            let ids = of.ends.iter().map(|(.., id)| *id);
            let ids: Vec<TaskId> = ids.filter(is_old).take(BATCH_LIMIT).collect();
            ids.iter().for_each(|id| store.purge(*id));
            ids.len()
        }))
    }

    fn delete_queue(&self, queue: &str) -> EngineResult<bool> {
        Ok(self.with_store(|store, _| store.delete_queue(queue)))
    }

    fn beat(&self, row: &WorkerRow) -> EngineResult<()> {
        self.with_store(|store, now| {
            let old = store.workers.get(&row.worker);
            let draining = row.draining || old.is_some_and(|old| old.draining);
            let started = old.map_or(now, |old| old.started);
            store
                .workers
                .insert(row.worker.clone(), WorkerRow { started, seen: now, draining, ..row.clone() });
        });
        Ok(())
    }

    fn orders(&self, worker: &WorkerId) -> EngineResult<Orders> {
        let guarded = self.lock();
        let store = &guarded.store;
        let is_flagged = |id: &TaskId| {
            let record = &store.records[id];
            (record.cancel && record.owner.as_ref() == Some(worker))
                .then_some(Fence { id: *id, attempt: record.attempt })
        };
        let running = store.queues.values().flat_map(|queue| queue.leases.iter().map(|(.., id)| id));
        let cancel = running.filter_map(is_flagged).take(BATCH_LIMIT).collect();
        Ok(Orders { drain: store.workers.get(worker).is_some_and(|row| row.draining), cancel })
    }

    fn order_drain(&self, worker: &WorkerId) -> EngineResult<bool> {
        let mut guarded = self.lock();
        let Some(row) = guarded.store.workers.get_mut(worker) else { return Ok(false) };
        row.draining = true;
        Ok(true)
    }

    fn remove_worker(&self, worker: &WorkerId) -> EngineResult<()> {
        self.lock().store.workers.remove(worker);
        Ok(())
    }

    fn workers(&self) -> EngineResult<Vec<WorkerRow>> {
        Ok(self.lock().store.workers.values().cloned().collect())
    }

    fn set_periodic(&self, queue: &str, name: &str, spec: Option<&PeriodicSpec>) -> EngineResult<bool> {
        Ok(self.with_store(|store, now| {
            let periodics = &mut store.queue(queue).periodics;
            let Some(spec) = spec else { return periodics.remove(name).is_some() };
            if periodics.get(name).is_some_and(|row| row.spec == *spec) {
                return false;
            }
            let next = now.saturating_add(spec.every.period_ms());
            let row = PeriodicRow { name: name.to_owned(), spec: spec.clone(), next, last: None };
            periodics.insert(name.to_owned(), row);
            true
        }))
    }

    fn periodics(&self, queue: &str) -> EngineResult<Vec<PeriodicRow>> {
        let guarded = self.lock();
        Ok(guarded
            .store
            .queues
            .get(queue)
            .map_or_else(Vec::new, |of| of.periodics.values().cloned().collect()))
    }

    fn doctor(&self) -> EngineResult<Vec<Finding>> {
        let detail = "tasks live in this process only and are lost with it".to_owned();
        let durability = Finding { check: "durability".to_owned(), severity: Severity::Warning, detail };
        let (severity, detail) = match self.lock().store.check() {
            Ok(()) => (Severity::Ok, "lists and counts agree".to_owned()),
            Err(error) => (Severity::Error, error),
        };
        Ok(vec![durability, Finding { check: "invariants".to_owned(), severity, detail }])
    }

    fn compact(&self) -> EngineResult<u64> {
        self.lock().store.records.shrink_to_fit();
        Ok(0)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn schema_version(&self) -> EngineResult<u32> {
        Ok(1)
    }
}

/// The task that retries a dead letter. Unique key, delay and deadline apply to the first try only.
pub(crate) fn retry_of(record: &Record, new_id: TaskId) -> NewTask {
    let mut options = record.options.clone();
    options.unique = None;
    NewTask {
        id: new_id,
        queue: record.queue.clone(),
        name: record.name.clone(),
        class: record.class,
        delay: Duration::ZERO,
        deadline: None,
        codec: record.codec,
        args: record.args.clone().unwrap_or_default(),
        options,
        submitter: SubmitterId(0),
        retry_of: Some(record.id),
        over_capacity: true,
    }
}
