//! The log of finished jobs: a line for each, written at once, so that a run can be resumed whatever has ended it.
//!
//! A line is one `write` to a file that is only appended to, made after the job's output has been handed over. So after a
//! `kill -9` the log has no job whose output was lost; at worst a job is missing that was done, and is run again.
//! A line that a full disk or a crash has cut short does not count, and is taken away before the next is written.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;

const HEADER: &str = "job\tstarted\tseconds\tattempts\toutcome\tcommand\n";

/// How long another run may take to let go of the log.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// One job, as the log has it.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) started: SystemTime,
    pub(super) took: Duration,
    pub(super) attempts: u32,
    /// `ok` or what went wrong.
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

/// A log that is open for writing. Nobody else has it open.
#[derive(Debug)]
pub(super) struct JobLog {
    file: File,
    path: PathBuf,
}

impl JobLog {
    /// Begins a new log. One that is there must not be overwritten by mistake, but one without a job may.
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

    /// Opens a log to go on with it, and tells what is in it. One that is not there is begun.
    pub(super) fn resume(path: &Path) -> Result<(JobLog, Past), Error> {
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
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path).map_err(|error| cannot(&error))?;
        if !lock(&file, patience()) {
            return Err(cannot(&"another run is writing to it"));
        }
        Ok(JobLog { file, path: path.to_owned() })
    }

    /// What is in the file, and how many bytes of it are whole lines.
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

/// The lock belongs to all copies of the file, and a child has one until it has become its command. Let it not keep the log.
impl Drop for JobLog {
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Whether nobody else has it. Where files cannot be locked, we go without.
///
/// A run that was killed has left its lock to a child that it was just starting, for as long as that takes. So it is tried
/// again for as long as `wait` says so.
fn lock(file: &File, mut wait: impl FnMut() -> bool) -> bool {
    while let Err(Errno::WOULDBLOCK) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if !wait() {
            return false;
        }
    }
    true
}

/// Lets a moment pass, until there were enough of them.
fn patience() -> impl FnMut() -> bool {
    let begin = Instant::now();
    move || {
        thread::sleep(LOCK_PATIENCE / 20);
        begin.elapsed() < LOCK_PATIENCE
    }
}

/// What an earlier run has done. A few bytes for each job.
#[derive(Debug, Default)]
pub(super) struct Past {
    jobs: HashMap<u64, Done>,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    /// Of the command, escaped as in the log. Another command under the same number is another job.
    command: u64,
    ok: bool,
}

/// What the log knows of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Succeeded,
    Failed,
    /// Its number has another command in the log: the input has changed.
    Different,
    Unknown,
}

impl Past {
    /// The last line of a job counts. A line that cannot be read is no reason to skip a job.
    fn add(&mut self, line: &[u8]) {
        let Ok(line) = str::from_utf8(line) else { return };
        let mut fields = line.splitn(6, '\t');
        let (Some(number), Some(outcome), Some(command)) =
            (fields.next().and_then(|number| number.parse().ok()), fields.nth(3), fields.next())
        else {
            return;
        };
        self.jobs.insert(number, Done { command: hash(command), ok: outcome == OK });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn knows(&self, number: u64, command: &[u8]) -> Known {
        match self.jobs.get(&number) {
            None => Known::Unknown,
            Some(done) if done.command != hash(&escape(command)) => Known::Different,
            Some(Done { ok: true, .. }) => Known::Succeeded,
            Some(Done { ok: false, .. }) => Known::Failed,
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The command in one line and in UTF-8, whatever is in it, and never the same for two commands.
fn escape(command: &[u8]) -> String {
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

    /// The log is cut after each of its bytes in turn: whole lines count, the rest is as if it had never been written.
    #[test]
    fn a_torn_line_never_counts_and_what_follows_it_is_sound() {
        let path = file("torn");
        let commands: [&[u8]; 3] = [b"echo 1", b"echo 2\n", b"echo 3"];
        let outcomes = [OK, "exit 1", OK];
        let lines: Vec<String> = (0..3).map(|at| line(at as u64 + 1, outcomes[at], commands[at])).collect();
        let whole = format!("{HEADER}{}", lines.concat());
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let (mut log, past) = JobLog::resume(&path).unwrap_or_else(|error| panic!("at {cut}: {error:?}"));
            let mut end = HEADER.len();
            for at in 0..3 {
                end += lines[at].len();
                let expected = match (cut >= end, outcomes[at]) {
                    (false, _) => Known::Unknown,
                    (true, OK) => Known::Succeeded,
                    (true, _) => Known::Failed,
                };
                assert_eq!(past.knows(at as u64 + 1, commands[at]), expected, "cut at {cut}, job {}", at + 1);
            }
            log.append(&line(9, OK, b"true")).unwrap();
            drop(log);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(HEADER) && text.ends_with("true\n"), "cut at {cut}: {text}");
            let (_, past) = JobLog::resume(&path).unwrap();
            assert_eq!(past.knows(9, b"true"), Known::Succeeded, "cut at {cut}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// The story of a test that failed once in a while: a child that another thread was starting had the file too, and with
    /// it the lock.
    #[test]
    fn a_log_that_is_closed_is_free_whoever_has_a_copy_of_the_file() {
        let path = file("copied");
        let log = JobLog::create(&path).unwrap();
        let copy = log.file.try_clone().unwrap();
        drop(log);
        let again = JobLog::create(&path).map(drop);
        assert!(again.is_ok(), "{again:?}");
        drop(copy);
        std::fs::remove_file(&path).unwrap();
    }

    /// As after `kill -9`, which unlocks nothing: the last copy of the file does.
    #[test]
    fn a_log_that_somebody_lets_go_of_is_waited_for() {
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
    fn another_command_under_a_number_is_another_job() {
        let mut past = Past::default();
        past.add(line(1, OK, b"echo a").trim_end().as_bytes());
        assert_eq!(past.knows(1, b"echo b"), Known::Different);
        assert_eq!(past.knows(2, b"echo a"), Known::Unknown);
    }

    #[test]
    fn the_last_line_of_a_job_counts() {
        let mut past = Past::default();
        past.add(line(1, "exit 1", b"true").trim_end().as_bytes());
        past.add(line(1, OK, b"true").trim_end().as_bytes());
        assert_eq!(past.knows(1, b"true"), Known::Succeeded);
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
