//! Pools are built and dropped while another thread lists them: no memory is kept, no pool is lost,
//! and no user destructor runs on the listing thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use millpond::{ThreadPoolExecutor, registry};

use crate::counting;
use crate::support::{Gate, LONG, eventually, in_a_process_of_its_own};

#[test]
fn pools_built_and_dropped_while_another_thread_lists_them_leave_nothing_behind() {
    let name = "registry::pools_built_and_dropped_while_another_thread_lists_them_leave_nothing_behind";
    in_a_process_of_its_own(name, build_drop_and_list);
}

fn build_drop_and_list() {
    const BUILDERS: usize = 8;
    const EACH: usize = 1250;
    let round = |each: usize| {
        let (stop, seen) = (Gate::new(), AtomicUsize::new(0));
        thread::scope(|s| {
            let kept = ThreadPoolExecutor::builder().name("kept").build().unwrap();
            let builders: Vec<_> = (0..BUILDERS)
                .map(|_| {
                    s.spawn(move || {
                        for number in 0..each {
                            let builder = ThreadPoolExecutor::builder().name("short-lived");
                            let pool = builder.build().unwrap();
                            if number % 50 == 0 {
                                pool.submit(|| {}).unwrap().join().unwrap();
                            }
                            assert_eq!(
                                registry::find(pool.label()),
                                Some(pool.downgrade()),
                                "no entry is lost"
                            );
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                while !stop.is_open() {
                    for pool in registry::pools() {
                        let snapshot = pool.snapshot();
                        seen.fetch_add(usize::from(snapshot.is_some()), Ordering::Relaxed);
                    }
                }
            });
            builders.into_iter().for_each(|builder| builder.join().unwrap());
            eventually(|| seen.load(Ordering::Relaxed) > 0); // on a busy machine only the kept pool
            drop(kept);
            stop.open();
        });
        eventually(|| registry::pools().is_empty());
    };
    round(50); // what is made once
    let before = counting::live();
    round(EACH);
    // Exiting threads keep some memory until they are gone.
    eventually(|| counting::live() <= before + 16);
}

/// Reports the thread on which it is dropped.
struct Dropped(std::sync::mpsc::Sender<thread::ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

#[test]
fn no_destructor_of_a_user_runs_on_the_thread_that_looks() {
    let (send, drops) = std::sync::mpsc::channel();
    let stop = Gate::new();
    let observer = thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.is_open() {
                registry::pools().iter().for_each(|pool| _ = pool.snapshot());
            }
        }
    });
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    for _ in 0..rounds {
        let policy = Dropped(send.clone());
        let pool = ThreadPoolExecutor::builder()
            .rejected_execution_handler(move |task, _: &ThreadPoolExecutor| {
                let _ = &policy;
                drop(task);
                Ok(())
            })
            .build()
            .unwrap();
        drop(pool);
    }
    let observing = observer.thread().id();
    (0..rounds).for_each(|_| assert_ne!(drops.recv_timeout(LONG).unwrap(), observing));
    stop.open();
    observer.join().unwrap();
}
