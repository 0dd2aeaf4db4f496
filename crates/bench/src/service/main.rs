//! A web service over SQLite under overload: millpond compared with `spawn_blocking`, in its usual
//! and in a careful form. `cargo run --release -p bench --features service --bin service`.
//!
//! This process measures nothing itself. For every run it starts a fresh server and a load
//! generator, both of them this program. Results go to stdout, progress to stderr.

mod args;
mod backend;
mod database;
mod load;
mod plan;
mod report;
mod run;
mod server;

use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((first, rest)) if first == "--serve" => server::main(rest),
        Some((first, rest)) if first == "--load" => load::main(rest),
        _ => measure(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("service: {problem}");
            ExitCode::from(2)
        }
    }
}

fn measure(args: &[String]) -> Result<(), Box<dyn Error>> {
    let options = match args::parse(args)? {
        Some(options) => options,
        None => {
            print!("{}", args::USAGE);
            return Ok(());
        }
    };
    println!("machine: {}\ndate: {}\n", bench::machine::description(), bench::machine::date());
    let database = run::Database::create()?;
    for table in plan::tables(&options) {
        let measured = run::table(&table, &database)?;
        println!("{}", report::table(&table, &measured));
    }
    Ok(())
}
