//! How can tasks use data on my stack, without `Arc` and without `clone`?
//!
//! `scope` returns only after every task started in it has ended, so tasks may borrow.
//!
//! Run it: `cargo run --example borrow`

use std::error::Error;

use millpond::executors;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = executors::fixed(3)?;
    let text = String::from("the mill grinds slowly but the pond is always full of water for the mill");

    // Shared borrows with results: each task reads a part of `text`.
    let words: Vec<&str> = text.split(' ').collect();
    let longest = pool.scope(|scope| {
        let parts: Result<Vec<_>, _> = words
            .chunks(5)
            .map(|part| scope.submit(move || *part.iter().max_by_key(|word| word.len()).unwrap()))
            .collect();
        let parts = parts.map_err(|rejected| rejected.to_string())?;
        let longest = parts.into_iter().map(|handle| handle.join()).collect::<Result<Vec<&str>, _>>();
        longest.map_err(|error| error.to_string())
    })?;
    println!("longest of each five words: {longest:?}");

    // Exclusive borrows: each task changes its own part of `table`.
    let mut table = vec![0_u64; 12];
    pool.scope(|scope| {
        for (start, part) in (0..).step_by(4).zip(table.chunks_mut(4)) {
            scope
                .execute(move || {
                    for (n, cell) in (start..).zip(part) {
                        *cell = n * n;
                    }
                })
                .expect("an unbounded queue refuses nothing while its pool runs");
        }
    });
    println!("squares: {table:?}");
    assert!((0..).zip(&table).all(|(n, cell)| n * n == *cell));
    Ok(())
}
