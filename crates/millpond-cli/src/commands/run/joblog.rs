//! The log of finished jobs, one line each, from which a run can be resumed however it ended.
//!
//! Each line is one `write` in append mode, after the job's output was written. After `kill -9`,
//! the output of all logged jobs is therefore complete; at worst a finished job is missing and runs
//! again. An incomplete line (full disk, crash) is ignored, and removed before the next write.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::past::Past;
use crate::error::Error;

const HEADER: &str = "job\tstarted\tseconds\tattempts\toutcome\tcommand\n";

/// How long to wait for another run that holds the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// One line of the log.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) started: SystemTime,
    pub(super) took: Duration,
    pub(super) attempts: u32,
    /// `ok`, or the kind of failure.
    pub(super) outcome: &'a str,
    pub(super) command: &'a [u8],
}

pub(super) const OK: &str = "ok";

impl Entry<'_> {
    pub(super) fn to_line(&self) -> String {
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!(
            "{}\t{:.3}\t{:.3}\t{}\t{}\t{}\n",
            self.number,
            started.as_secs_f64(),
            self.took.as_secs_f64(),
            self.attempts,
            self.outcome,
            escape(self.command)
        )
    }
}

/// A log that is open for writing, under an exclusive lock.
#[derive(Debug)]
pub(super) struct JobLog {
    file: File,
    path: PathBuf,
}

impl JobLog {
    /// Begins a new log. An existing one with jobs in it is never overwritten.
    pub(super) fn create(path: &Path) -> Result<JobLog, Error> {
        let log = JobLog::open(path)?;
        match log.length()? {
            0 => log.begin(),
            length if length <= HEADER.len() as u64 => Ok(log.go_on()?.0),
            _ => Err(Error::new(format_args!(
                "{} exists; add --resume to go on with it, or remove it",
                path.display()
            ))),
        }
    }

    /// Opens a log to continue it, and reads it. A missing log is created.
    pub(super) fn resume(path: &Path) -> Result<(JobLog, Past), Error> {
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Error::new(format_args!(
                "cannot resume from {}: it is not a regular file; give a file to --joblog",
                path.display()
            )));
        }
        JobLog::open(path)?.go_on()
    }

    fn go_on(self) -> Result<(JobLog, Past), Error> {
        let (past, sound) = self.read()?;
        self.cut(sound)?;
        let log = if sound == 0 { self.begin()? } else { self };
        Ok((log, past))
    }

    fn open(path: &Path) -> Result<JobLog, Error> {
        let cannot = |error: &dyn std::fmt::Display| {
            Error::new(format_args!("cannot open the job log {}: {error}", path.display()))
        };
        // A pipe is opened only for writing: opening it for reading could block.
        let is_regular = path.metadata().map_or(true, |metadata| metadata.is_file());
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(is_regular);
        let file = options.open(path).map_err(|error| cannot(&error))?;
        if !lock(&file, patience()) {
            return Err(cannot(&"another run is writing to it"));
        }
        Ok(JobLog { file, path: path.to_owned() })
    }

    /// Reads the jobs in the file. Also returns the length of its complete lines in bytes.
    fn read(&self) -> Result<(Past, u64), Error> {
        let mut reader = BufReader::new(&self.file);
        let mut past = Past::default();
        let mut sound = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(|error| self.unreadable(error))?;
            if sound == 0 && !HEADER.as_bytes().starts_with(&line) {
                return Err(Error::new(format_args!(
                    "{} is not a job log of millpond run; give another file to --joblog",
                    self.path.display()
                )));
            }
            if line.last() != Some(&b'\n') {
                return Ok((past, sound));
            }
            if sound > 0 {
                past.add(&line[..length - 1]);
            }
            sound += length as u64;
        }
    }

    fn begin(mut self) -> Result<JobLog, Error> {
        self.append(HEADER).map_err(|error| Error::new(self.cannot_write(&error)))?;
        Ok(self)
    }

    fn cut(&self, length: u64) -> Result<(), Error> {
        if self.length()? > length {
            self.file.set_len(length).map_err(|error| Error::new(self.cannot_write(&error)))?;
        }
        Ok(())
    }

    fn length(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(|error| self.unreadable(error))?.len())
    }

    /// Adds a line.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())
    }

    pub(super) fn cannot_write(&self, error: &io::Error) -> String {
        format!("cannot write the job log {}: {error}", self.path.display())
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::new(format_args!("cannot read the job log {}: {error}", self.path.display()))
    }
}

/// All copies of the descriptor share the lock, and a child has a copy until it executes its
/// command. Unlocking explicitly releases the lock at once.
impl Drop for JobLog {
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Locks the file; false if another process holds it. Ignores file systems without locks.
///
/// After a run was killed, a child that it was starting may hold the lock for a short time. So this
/// tries again while `wait` returns true.
fn lock(file: &File, mut wait: impl FnMut() -> bool) -> bool {
    while let Err(Errno::WOULDBLOCK) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if !wait() {
            return false;
        }
    }
    true
}

/// Sleeps between two attempts; false when [`LOCK_PATIENCE`] has elapsed.
fn patience() -> impl FnMut() -> bool {
    let begin = Instant::now();
    move || {
        thread::sleep(LOCK_PATIENCE / 20);
        begin.elapsed() < LOCK_PATIENCE
    }
}

/// The command as one line of UTF-8. Different commands give different lines.
pub(super) fn escape(command: &[u8]) -> String {
    let mut escaped = String::with_capacity(command.len());
    for chunk in command.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => escaped.push_str(r"\\"),
                '\n' => escaped.push_str(r"\n"),
                '\t' => escaped.push_str(r"\t"),
                c if c.is_control() => escaped.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
                c => escaped.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| escaped.push_str(&format!("\\x{byte:02x}")));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("millpond-joblog-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn line(number: u64, outcome: &str, command: &[u8]) -> String {
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        Entry { number, started, took: Duration::from_millis(1500), attempts: 2, outcome, command }.to_line()
    }

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let line = line(3, "exit 1", b"echo 'a\tb\\'\n\xff\x07");
        assert_eq!(line, "3\t1700000000.250\t1.500\t2\texit 1\techo 'a\\tb\\\\'\\n\\xff\\u{7}\n");
        assert_eq!(line.split('\t').count(), HEADER.split('\t').count());
    }

    /// Cuts the log after each of its bytes: complete lines count, the rest does not.
    #[test]
    fn a_torn_line_never_counts_and_what_follows_it_is_sound() {
        let path = file("torn");
        let commands: [&[u8]; 3] = [b"echo 1", b"echo 2\n", b"echo 3"];
        let outcomes = [OK, "exit 1", OK];
        let lines: Vec<String> = (0..3).map(|at| line(at as u64 + 1, outcomes[at], commands[at])).collect();
        let whole = format!("{HEADER}{}", lines.concat());
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let (mut log, mut past) =
                JobLog::resume(&path).unwrap_or_else(|error| panic!("at {cut}: {error:?}"));
            let mut end = HEADER.len();
            for at in 0..3 {
                end += lines[at].len();
                let is_complete = cut >= end;
                let succeeded = is_complete && outcomes[at] == OK;
                assert_eq!(past.take(commands[at], true), succeeded, "cut at {cut}, job {}", at + 1);
            }
            log.append(&line(9, OK, b"true")).unwrap();
            drop(log);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(HEADER) && text.ends_with("true\n"), "cut at {cut}: {text}");
            let (_, mut past) = JobLog::resume(&path).unwrap();
            assert!(past.take(b"true", true), "cut at {cut}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// A child that another thread is starting has a copy of the descriptor, and so the lock.
    #[test]
    fn a_closed_log_is_unlocked_even_if_a_copy_of_the_file_is_open() {
        let path = file("copied");
        let log = JobLog::create(&path).unwrap();
        let copy = log.file.try_clone().unwrap();
        drop(log);
        let again = JobLog::create(&path).map(drop);
        assert!(again.is_ok(), "{again:?}");
        drop(copy);
        std::fs::remove_file(&path).unwrap();
    }

    /// As after `kill -9`: closing the last copy of the descriptor releases the lock.
    #[test]
    fn a_lock_that_is_about_to_be_released_is_waited_for() {
        let path = file("left");
        drop(JobLog::create(&path).unwrap());
        let (mine, other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!lock(&mine, || false));
        let mut other = Some(other);
        assert!(lock(&mine, || other.take().is_some()), "it was tried again");
        assert!(other.is_none());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_is_neither_overwritten_nor_shared_nor_mistaken() {
        let path = file("kept");
        drop(JobLog::create(&path).expect("a new file"));
        let mut first = JobLog::create(&path).expect("no job is in it");
        first.append(&line(1, OK, b"true")).unwrap();
        let told = |result: Result<JobLog, Error>| match result {
            Err(Error::Message(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(told(JobLog::create(&path)).contains("another run is writing to it"));
        drop(first);
        assert!(told(JobLog::create(&path)).contains("add --resume"));
        std::fs::write(&path, "shopping list\n").unwrap();
        assert!(told(JobLog::create(&path)).contains("is not a job log"));
        let error = JobLog::resume(&path).map(|(log, _)| log);
        assert!(told(error).contains("is not a job log"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "shopping list\n");
        std::fs::remove_file(&path).unwrap();
    }
}
