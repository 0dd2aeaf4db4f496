//! Runs of a table: a fresh server for each, rounds interleaved over the variants.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bench::machine;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::database;
use crate::load::{Figures, Load};
use crate::plan::{Table, Variant};

/// The time limit for a server to end after SIGTERM. Its graceful shutdown takes 7 s at most.
const PATIENCE: Duration = Duration::from_secs(15);

/// The database file, in a directory that is removed at the end.
pub(crate) struct Database {
    directory: PathBuf,
}

impl Database {
    pub(crate) fn create() -> Result<Database, Box<dyn Error>> {
        let directory = std::env::temp_dir().join(format!("millpond-service-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let database = Database { directory };
        database::create(&database.file())?;
        Ok(database)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("items.db")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // If it cannot be removed, it stays in the directory for temporary files.
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// All runs of one load and one variant.
pub(crate) struct Cell {
    pub(crate) runs: Vec<Figures>,
    /// Milliseconds from SIGTERM until the server's report.
    pub(crate) shutdowns: Vec<f64>,
    /// The last one.
    pub(crate) report: String,
}

/// The results of a table: for each load a cell for each variant.
pub(crate) struct Measured {
    pub(crate) cells: Vec<Vec<Cell>>,
    /// The share of the machine that other processes used.
    pub(crate) others: Option<f64>,
}

pub(crate) fn table(table: &Table, database: &Database) -> Result<Measured, Box<dyn Error>> {
    let empty = |_: &Variant| Cell { runs: Vec::new(), shutdowns: Vec::new(), report: String::new() };
    let mut cells: Vec<Vec<Cell>> =
        table.loads.iter().map(|_| table.variants.iter().map(empty).collect()).collect();
    // All children have been waited for by then, so their time counts as own time.
    let load = || machine::Load::now(std::iter::empty());
    let before = load();
    for round in 0..table.rounds {
        for (row, (label, load)) in cells.iter_mut().zip(&table.loads) {
            // The same requests for all variants, and different ones in each round.
            let load = Load { seed: load.seed + round as u64, ..*load };
            // Every round begins with another variant.
            let count = table.variants.len();
            for index in (0..count).map(|step| (step + round) % count) {
                let variant = &table.variants[index];
                let (title, of) = (table.title, table.rounds);
                eprintln!("{title}, round {} of {of}, {label}: {}", round + 1, variant.label);
                let cell = &mut row[index];
                let server = Server::start(variant, database)?;
                cell.runs.push(generate(&load, server.port)?);
                let (millis, report) = server.terminate()?;
                cell.shutdowns.push(millis);
                cell.report = report;
            }
        }
    }
    let others = before.zip(load()).and_then(|(before, now)| now.others_since(before));
    Ok(Measured { cells, others })
}

fn this_program() -> Result<Command, Box<dyn Error>> {
    Ok(Command::new(std::env::current_exe()?))
}

fn generate(load: &Load, port: u16) -> Result<Figures, Box<dyn Error>> {
    let output = this_program()?.arg("--load").args(load.args(port)).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Figures::parse(&text).ok_or_else(|| format!("the load generator failed: {text:?}"))?)
}

struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Server {
    fn start(variant: &Variant, database: &Database) -> Result<Server, Box<dyn Error>> {
        let mut command = this_program()?;
        command.args(["--serve", variant.backend]).arg(database.file());
        command.args([variant.queue.to_string(), variant.max_queue_time.as_millis().to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut server = Server { child, lines, port: 0 };
        server.port = server.line("listening ")?.parse()?;
        Ok(server)
    }

    /// The rest of the next line, which begins with `word`.
    fn line(&mut self, word: &str) -> Result<String, Box<dyn Error>> {
        let line = self.lines.next().ok_or("the server ended without a word")??;
        Ok(line.strip_prefix(word).ok_or_else(|| format!("the server says {line:?}"))?.to_owned())
    }

    /// Sends SIGTERM. Returns how long the server took, in milliseconds, and its report.
    fn terminate(mut self) -> Result<(f64, String), Box<dyn Error>> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                return Err("the server did not end after SIGTERM".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !status.success() {
            return Err(format!("the server ended with {status}").into());
        }
        let line = self.line("ended ")?;
        let (millis, report) = line.split_once(' ').ok_or("the server's report is incomplete")?;
        Ok((millis.parse()?, report.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only after an error. A process that has ended ignores it.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
