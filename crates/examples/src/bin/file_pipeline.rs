//! Counts the lines of all files below a folder: in parallel, with ordered output, stopped by
//! Ctrl-C.
//!
//! - At most [`WINDOW`] files are in the pipeline at a time.
//! - Results are printed in the order of the files, regardless of the order of completion.
//! - Ctrl-C stops between two reads. The output is then a prefix of the complete output.
//!
//! ```sh
//! cargo run -p examples --bin file_pipeline -- .
//! ```
//!
//! In a crate of your own: `cargo add millpond signal-hook`.

use std::collections::VecDeque;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use millpond::interrupt::{self, Interrupted, Interrupter};
use millpond::{JoinError, TaskHandle, ThreadPoolExecutor, executors};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const THREADS: usize = 4;
/// Maximum number of files that are waiting, being counted, or counted but not printed yet.
///
/// The queue of the pool has this capacity, so no task is ever rejected. A window of `THREADS +
/// queue` would be too large: a handle resolves before its worker is free again.
const WINDOW: usize = 32;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| ".".into());
    interrupt_on_signal(interrupt::current())?;
    let pool = executors::bounded(THREADS, THREADS, WINDOW)?;
    let printed = print_in_order(&pool, walk(PathBuf::from(folder)));
    // After a complete run nothing is left to wait for. After Ctrl-C this interrupts running tasks.
    let report = pool.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5));
    match printed {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted: {}, {} files not read", report.outcome, report.never_run.len());
            Ok(ExitCode::from(130))
        }
        Err(error) => Err(error),
    }
}

/// An entry of the window: a file and the handle of its count.
type Counted = (PathBuf, TaskHandle<io::Result<u64>>);

fn print_in_order(
    pool: &ThreadPoolExecutor,
    paths: impl Iterator<Item = PathBuf>,
) -> Result<(), Box<dyn Error>> {
    let mut window: VecDeque<Counted> = VecDeque::with_capacity(WINDOW);
    for path in paths {
        if window.len() == WINDOW {
            window.pop_front().map_or(Ok(()), print_when_done)?;
        }
        let task = {
            let path = path.clone();
            move || count_lines(&path)
        };
        window.push_back((path, pool.submit(task)?));
    }
    window.into_iter().try_for_each(print_when_done)
}

fn print_when_done((path, handle): Counted) -> Result<(), Box<dyn Error>> {
    interrupt::check()?; // joining a finished task does not check the flag
    match handle.join() {
        Ok(Ok(lines)) => println!("{lines:>8} {}", path.display()),
        Ok(Err(error)) => eprintln!("{}: {error}", path.display()), // and continue
        Err(JoinError::Interrupted) => return Err(Interrupted.into()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Reads in pieces and checks the interrupt flag between them.
fn count_lines(path: &Path) -> io::Result<u64> {
    let (mut file, mut piece, mut lines) = (File::open(path)?, vec![0; 1 << 16], 0);
    loop {
        interrupt::check()?;
        match file.read(&mut piece)? {
            0 => return Ok(lines),
            length => lines += piece[..length].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

/// All regular files below a folder, sorted by name. Reports and skips unreadable folders.
fn walk(folder: PathBuf) -> impl Iterator<Item = PathBuf> {
    let mut pending = vec![folder];
    std::iter::from_fn(move || {
        loop {
            let path = pending.pop()?;
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() => return Some(path),
                Ok(found) if found.is_dir() => pending.extend(entries(&path)),
                Ok(_) => {}
                Err(error) => eprintln!("{}: {error}", path.display()),
            }
        }
    })
}

/// The entries of a folder, in descending order of their names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    let mut paths: Vec<PathBuf> = read.unwrap_or_else(|error| {
        eprintln!("{}: {error}", folder.display());
        Vec::new()
    });
    paths.sort_by(|a, b| b.cmp(a));
    paths
}

/// A signal handler cannot wake a thread that blocks in `join`. An ordinary thread can.
fn interrupt_on_signal(main: Interrupter) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            main.interrupt();
        }
    });
    Ok(())
}
