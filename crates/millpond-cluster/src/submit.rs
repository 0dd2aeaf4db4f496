//! Group commit: threads that submit at the same time share one round trip.
//!
//! A thread that finds no sender becomes the sender and sends all pending tasks, at most 500 or
//! 1 MiB. Once its own tasks are answered, it passes the role to a thread that still waits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::{BATCH_LIMIT, Engine, NewTask, Submitted};
use crate::error::EngineError;

const BYTE_LIMIT: usize = 1 << 20;
/// Maximum number of attempts while the engine reports a transient error.
const TRIES: u32 = 3;

/// The answer to one request. It returns the tasks, for those that were refused.
pub(crate) type Answer = (Vec<NewTask>, Result<Vec<Submitted>, EngineError>);

#[derive(Debug)]
pub(crate) struct Combiner {
    engine: Arc<dyn Engine>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<(Vec<NewTask>, Arc<Ticket>)>,
    /// Whether a thread is sending, or has been given the role.
    has_sender: bool,
}

/// Where a thread waits for its answer or for the sender role.
#[derive(Debug, Default)]
struct Ticket {
    news: Mutex<News>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum News {
    #[default]
    None,
    BeSender,
    Answer(Answer),
}

impl Ticket {
    fn tell(&self, news: News) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = news;
        self.changed.notify_one();
    }

    fn wait(&self) -> News {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let is_none = |news: &mut News| matches!(news, News::None);
        let mut news = self.changed.wait_while(news, is_none).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *news)
    }
}

impl Combiner {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Combiner {
        Combiner { engine, queue: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits at most [`BATCH_LIMIT`] tasks. Blocks for one or two round trips.
    pub(crate) fn submit(&self, tasks: Vec<NewTask>) -> Answer {
        if self.engine.is_local() {
            return self.send(tasks);
        }
        let mut queue = self.lock();
        if !queue.has_sender && queue.requests.is_empty() {
            queue.has_sender = true;
            drop(queue);
            let answer = self.send(tasks);
            self.hand_over();
            return answer;
        }
        let ticket = Arc::new(Ticket::default());
        queue.requests.push_back((tasks, Arc::clone(&ticket)));
        drop(queue);
        loop {
            match ticket.wait() {
                News::Answer(answer) => return answer,
                News::BeSender => {
                    self.send_gathered();
                    self.hand_over();
                }
                News::None => unreachable!("a ticket waits for news"),
            }
        }
    }

    /// Sends all pending requests. The first one is that of the calling thread.
    fn send_gathered(&self) {
        let mut requests = Vec::new();
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut queue = self.lock();
        while let Some((tasks, _)) = queue.requests.front() {
            let size: usize = tasks.iter().map(|task| task.args.len()).sum();
            if !batch.is_empty() && (batch.len() + tasks.len() > BATCH_LIMIT || bytes + size > BYTE_LIMIT) {
                break;
            }
            let (tasks, ticket) = queue.requests.pop_front().expect("there is a front");
            bytes += size;
            requests.push((tasks.len(), ticket));
            batch.extend(tasks);
        }
        drop(queue);
        let (batch, result) = self.send(batch);
        let mut batch = batch.into_iter();
        let mut answers = result.as_ref().map(|answers| answers.iter().copied());
        for (len, ticket) in requests {
            let tasks = batch.by_ref().take(len).collect();
            let answer =
                answers.as_mut().map(|answers| answers.take(len).collect()).map_err(|error| error.clone());
            ticket.tell(News::Answer((tasks, answer)));
        }
    }

    fn send(&self, tasks: Vec<NewTask>) -> Answer {
        let mut tries = 1;
        loop {
            match self.engine.submit(&tasks) {
                Err(error) if error.is_transient() && tries < TRIES => {
                    let wait = 50u64 << tries;
                    std::thread::sleep(Duration::from_millis(fastrand::u64(wait / 2..=wait)));
                    tries += 1;
                }
                result => return (tasks, result),
            }
        }
    }

    /// Passes the role to the thread of the first request, if there is one.
    fn hand_over(&self) {
        let mut queue = self.lock();
        match queue.requests.front() {
            Some((_, ticket)) => ticket.tell(News::BeSender),
            None => queue.has_sender = false,
        }
    }
}
