//! The costs of each part of a task with a handle: submit, run, join, and its allocation.
//!
//! `cargo run --release -p bench --bin handles [-- ROUNDS]`
//!
//! A round has 1,000 tasks on one worker. The worker is held until all are submitted, and the tasks
//! are joined when all have run. So no part waits for another, and the worker reads memory that the
//! submitter has just written. `taskset -c 0` before the command puts both on one core. A figure is
//! the median of the rounds. Conclusions: docs/performance-lessons.md.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Instant;

use millpond::{TaskHandle, ThreadPoolExecutor, executors};

/// Tasks per round.
const TASKS: u64 = 1000;
/// The size of the state that a handle shares with its task, for a closure of up to two words.
type AsLarge = [u64; 14];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(1000), |rounds| rounds.parse())?;
    let pool = executors::fixed(1)?;
    let mut figures: [Vec<u128>; 4] = Default::default();
    for _ in 0..rounds {
        let [submit, run, join] = round(&pool)?;
        let parts = [submit, run, join, allocations()];
        figures.iter_mut().zip(parts).for_each(|(figure, part)| figure.push(part));
    }
    for (what, mut nanos) in ["submit", "run", "join", "malloc and free"].into_iter().zip(figures) {
        nanos.sort_unstable();
        let each = |nanos: Option<&u128>| nanos.map_or(0, |nanos| nanos / u128::from(TASKS));
        println!("{what}: {} ns, at best {}", each(nanos.get(nanos.len() / 2)), each(nanos.first()));
    }
    pool.close();
    Ok(())
}

/// The times to submit, to run and to join the tasks, in nanoseconds.
fn round(pool: &ThreadPoolExecutor) -> Result<[u128; 3], Box<dyn std::error::Error>> {
    let (held, wait) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let (begun, is_begun) = mpsc::channel();
    pool.execute(move || {
        let _ = ready.send(());
        let _ = wait.recv(); // until the other end is dropped
        let _ = begun.send(Instant::now());
    })?;
    is_ready.recv()?;
    let mut handles: Vec<TaskHandle<()>> = Vec::with_capacity(TASKS as usize);
    let begin = Instant::now();
    for task in 0..TASKS {
        let work = move || {
            black_box(task);
        };
        handles.push(pool.submit(work)?);
    }
    let submitted = begin.elapsed();
    let last = pool.submit(Instant::now)?;
    drop(held);
    let ran = last.join()? - is_begun.recv()?;
    let begin = Instant::now();
    for handle in handles.drain(..) {
        handle.join()?;
    }
    Ok([submitted, ran, begin.elapsed()].map(|time| time.as_nanos()))
}

fn allocations() -> u128 {
    let begin = Instant::now();
    let boxes: Vec<Box<AsLarge>> = (0..TASKS).map(|task| Box::new([task; 14])).collect();
    drop(black_box(boxes));
    begin.elapsed().as_nanos()
}
