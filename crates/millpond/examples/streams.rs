//! How do I run one part of a stream on threads that may block, and another on threads that
//! compute?
//!
//! `subscribe_on` moves the stages before it, `publish_on` those after it. Both are bounded: a slow
//! consumer blocks the source, and nothing piles up in between.
//!
//! Run it: `cargo run --features futures --example streams`

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures_core::Stream;
use millpond::reactive::{self, SchedulerFutureExt, StreamOn};
use millpond::schedulers::{self, Scheduler};

/// A blocking source, such as a file reader or a database cursor.
struct Rows {
    left: u32,
}

impl Stream for Rows {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        thread::sleep(Duration::from_millis(2));
        let row = self.left.checked_sub(1);
        self.left = row.unwrap_or_default();
        Poll::Ready(row)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let blocking = schedulers::new_bounded_elastic(4, 1000, "blocking", Duration::from_secs(60))?;
    let cpu = schedulers::new_parallel(2, "cpu")?;

    // "blocking" reads rows, at most 8 ahead; "cpu" makes pages, in order; this thread prints.
    let mut pages = Rows { left: 20 }
        .subscribe_on_buffered(&blocking, 8.try_into()?)
        .publish_on(&cpu)
        .map_on(|row| row.map(|row| format!("page {row}, made on {}", thread_name())));
    let mut count = 0;
    while let Some(page) = reactive::block_on(poll_fn(|context| Pin::new(&mut pages).poll_next(context)))? {
        // The outer error would come from `cpu`, the inner one from `blocking`.
        let page = page??;
        count += 1;
        if count % 10 == 0 {
            println!("{page}, taken on {}", thread_name());
        }
    }
    println!("{count} pages");

    // Without a consumer here: a scheduler consumes the whole stream, and its handle is a future.
    let consumed = Rows { left: 5 }.publish_on(&blocking).for_each(|row| println!("row {row}"))?;
    let report = cpu.spawn_future(async move { consumed.await.map(|()| "all consumed") })?;
    println!("{}", reactive::block_on(report)???);

    // If its scheduler ends, a stream yields the items fetched so far and then an error.
    let mut rows = Rows { left: 1_000_000 }.subscribe_on(&blocking);
    reactive::block_on(poll_fn(|context| Pin::new(&mut rows).poll_next(context)))?;
    blocking.dispose();
    let mut delivered = 1;
    while let Some(row) = reactive::block_on(poll_fn(|context| Pin::new(&mut rows).poll_next(context)))? {
        match row {
            Ok(_) => delivered += 1,
            Err(error) => println!("after {delivered} rows: {error}"),
        }
    }
    Ok(())
}

fn thread_name() -> String {
    thread::current().name().unwrap_or("a thread without a name").to_owned()
}
