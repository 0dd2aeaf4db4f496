//! How do I stop one task: a waiting one, a blocked one, a computing one?
//!
//! Run it: `cargo run --example cancel_and_interrupt`

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use millpond::queue::{BlockingQueue, LinkedBlockingQueue};
use millpond::{JoinError, executors, interrupt};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = executors::fixed(1)?;
    let (started, has_started) = mpsc::channel();
    let (say, said) = mpsc::channel();

    // 1. A blocked task: its `take` fails when the task is interrupted.
    let (began, tell) = (started.clone(), say.clone());
    let blocked = pool.submit(move || {
        let empty: LinkedBlockingQueue<u32> = LinkedBlockingQueue::unbounded();
        began.send(()).unwrap();
        tell.send(format!("take said: {}", empty.take().unwrap_err())).unwrap();
    })?;
    has_started.recv()?;

    // 2. A task that waits behind it: cancelling frees its place in the queue at once.
    let waiting = pool.submit(|| println!("never printed"))?;
    println!("queued before the cancel: {}", pool.queued_count());
    assert!(waiting.cancel(false));
    println!("queued after the cancel:  {}", pool.queued_count());
    assert!(matches!(waiting.join(), Err(JoinError::Cancelled)));

    // `cancel(false)` would let the running task continue; `cancel(true)` interrupts it.
    assert!(blocked.cancel(true));
    println!("{}", said.recv()?);

    // 3. A computing task: it checks its flag regularly.
    let computing = pool.submit(move || {
        started.send(()).unwrap();
        let mut rounds = 0_u64;
        while interrupt::check().is_ok() {
            rounds += 1;
        }
        say.send(format!("stopped after {rounds} rounds")).unwrap();
    })?;
    // A canceller is a separate handle, so that one thread can join and another can cancel.
    let canceller = computing.canceller();
    has_started.recv()?;
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        canceller.cancel(true)
    });
    println!("joined: {}", computing.join().unwrap_err());
    assert!(other.join().unwrap());
    println!("{}", said.recv()?);

    pool.close();
    println!("{pool}");
    Ok(())
}
