//! Reads arguments: from the command line after `:::`, or from a stream of items that end with a
//! newline or another byte.
//!
//! A stream is read only as far as arguments are needed, one buffer at a time, and an argument has
//! a maximum length. So endless input needs no more memory than short input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use super::stop::Alarm;
use super::template::Arguments;
use super::wait::{poll_until, readable};

/// Linux limits one argument of a command to this length, plus a final NUL.
const LONGEST: usize = 128 * 1024 - 1;

/// Maximum total size of a job's arguments; the default of xargs. A longer single argument is
/// passed alone.
const LONGEST_BATCH: usize = 128 * 1024;

const BUFFER: usize = 64 * 1024;

/// A source of arguments, handed out in batches.
#[derive(Debug)]
pub(super) struct Input {
    source: Source,
    /// Arguments per job.
    batch: u32,
    /// Already read, but too long for the last batch.
    left_over: Option<Vec<u8>>,
    /// An error that occurred after the arguments of the last batch.
    error: Option<String>,
}

#[derive(Debug)]
enum Source {
    Listed(std::vec::IntoIter<OsString>),
    Stream(Stream),
}

/// Bytes, split into arguments.
#[derive(Debug)]
struct Stream {
    file: File,
    separator: u8,
    buffer: Box<[u8]>,
    /// `buffer[from..to]` is not yet handed out.
    from: usize,
    to: usize,
    /// Number of arguments handed out, for messages.
    count: u64,
    name: String,
}

/// The next element of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    Some(T),
    End,
    /// The alarm rang.
    Stopped,
}

impl Input {
    pub(super) fn stream(fd: OwnedFd, separator: u8, name: String, batch: u32) -> Input {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let stream = Stream { file: File::from(fd), separator, buffer, from: 0, to: 0, count: 0, name };
        Input { source: Source::Stream(stream), batch, left_over: None, error: None }
    }

    pub(super) fn listed(arguments: Vec<OsString>, batch: u32) -> Input {
        let source = Source::Listed(arguments.into_iter());
        Input { source, batch, left_over: None, error: None }
    }

    /// The number of jobs, if it is known. Long arguments may make a few more.
    pub(super) fn total(&self) -> Option<u64> {
        match &self.source {
            Source::Listed(arguments) => Some((arguments.len() as u64).div_ceil(u64::from(self.batch))),
            Source::Stream(_) => None,
        }
    }

    /// Waits for the arguments of the next job, or for the alarm.
    ///
    /// # Errors
    /// One line that says what is wrong with the input.
    pub(super) fn next(&mut self, alarm: &Alarm) -> Result<Next<Arguments>, String> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut arguments = match self.next_argument(alarm)? {
            Next::Some(argument) => Arguments::one(argument),
            Next::End => return Ok(Next::End),
            Next::Stopped => return Ok(Next::Stopped),
        };
        for _ in 1..self.batch {
            match self.next_argument(alarm) {
                Ok(Next::Some(argument)) if arguments.len() + argument.len() < LONGEST_BATCH => {
                    arguments.push(&argument);
                }
                Ok(Next::Some(argument)) => {
                    self.left_over = Some(argument);
                    break;
                }
                Ok(Next::End) => break,
                Ok(Next::Stopped) => return Ok(Next::Stopped),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok(Next::Some(arguments))
    }

    fn next_argument(&mut self, alarm: &Alarm) -> Result<Next<Vec<u8>>, String> {
        if let Some(argument) = self.left_over.take() {
            return Ok(Next::Some(argument));
        }
        match &mut self.source {
            Source::Listed(arguments) => {
                Ok(arguments.next().map_or(Next::End, |argument| Next::Some(argument.into_vec())))
            }
            Source::Stream(stream) => stream.next(alarm),
        }
    }
}

impl Stream {
    fn next(&mut self, alarm: &Alarm) -> Result<Next<Vec<u8>>, String> {
        loop {
            match self.piece(alarm)? {
                // Empty lines are usually unintended. Empty items with other separators are
                // intended.
                Next::Some(line) if line.is_empty() && self.separator == b'\n' => {}
                Next::Some(argument) => {
                    self.count += 1;
                    if argument.contains(&0) {
                        return Err(
                            self.complain("contains a NUL byte; if NULs separate the arguments, add -0")
                        );
                    }
                    return Ok(Next::Some(argument));
                }
                other => return Ok(other),
            }
        }
    }

    /// The bytes before the next separator or the end, without the separator.
    fn piece(&mut self, alarm: &Alarm) -> Result<Next<Vec<u8>>, String> {
        let mut piece = Vec::new();
        let mut began = false;
        loop {
            let ready = &self.buffer[self.from..self.to];
            let end = ready.iter().position(|byte| *byte == self.separator);
            let taken = &ready[..end.unwrap_or(ready.len())];
            began |= !taken.is_empty();
            if piece.len() + taken.len() > LONGEST {
                self.count += 1;
                let hint = match self.separator {
                    b'\n' => "no command takes that",
                    _ => "if lines separate the arguments, leave out -0 or -d",
                };
                return Err(self.complain(&format!("is longer than {LONGEST} bytes; {hint}")));
            }
            piece.extend_from_slice(taken);
            if let Some(end) = end {
                self.from += end + 1;
                return Ok(Next::Some(piece));
            }
            match self.fill(alarm)? {
                Filled::More => {}
                Filled::Stopped => return Ok(Next::Stopped),
                Filled::End if began => return Ok(Next::Some(piece)),
                Filled::End => return Ok(Next::End),
            }
        }
    }

    fn fill(&mut self, alarm: &Alarm) -> Result<Filled, String> {
        (self.from, self.to) = (0, 0);
        self.read(alarm).map_err(|error| format!("cannot read {}: {error}", self.name))
    }

    fn read(&mut self, alarm: &Alarm) -> io::Result<Filled> {
        loop {
            let mut fds = [readable(alarm.as_fd()), readable(self.file.as_fd())];
            poll_until(&mut fds, None)?;
            if !fds[0].revents().is_empty() {
                return Ok(Filled::Stopped);
            }
            match self.file.read(&mut self.buffer) {
                Ok(0) => return Ok(Filled::End),
                Ok(length) => {
                    self.to = length;
                    return Ok(Filled::More);
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn complain(&self, what: &str) -> String {
        format!("argument {} of {} {what}", self.count, self.name)
    }
}

enum Filled {
    More,
    End,
    Stopped,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::commands::run::stop::{Reason, Step, Stop};

    /// All batches in `bytes`, and how the input ended.
    fn batches(bytes: Vec<u8>, separator: u8, batch: u32) -> (Vec<String>, Result<Next<Arguments>, String>) {
        let stop = Stop::new().expect("pipes");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        let mut input = Input::stream(reader.into(), separator, "the test".to_owned(), batch);
        let mut batches = Vec::new();
        let end = loop {
            match input.next(stop.intake_alarm()) {
                Ok(Next::Some(batch)) => batches.push(String::from_utf8(batch.joined()).expect("UTF-8")),
                end => break end,
            }
        };
        drop(input);
        let _ = writing.join().expect("no panic"); // a broken pipe, if the input was not read to its end
        (batches, end)
    }

    fn arguments(bytes: Vec<u8>, separator: u8) -> (Vec<String>, Result<Next<Arguments>, String>) {
        batches(bytes, separator, 1)
    }

    #[test]
    fn lines_are_arguments_and_blank_ones_are_not() {
        let (lines, end) = arguments(b"a b\n\nc\n\n".to_vec(), b'\n');
        assert_eq!((lines, end), (vec!["a b".to_owned(), "c".to_owned()], Ok(Next::End)));
        assert_eq!(arguments(b"a\nb".to_vec(), b'\n').0, ["a", "b"], "the last line needs no end");
        assert_eq!(arguments(Vec::new(), b'\n'), (vec![], Ok(Next::End)));
    }

    #[test]
    fn other_separators_keep_empty_pieces() {
        assert_eq!(arguments(b"a\nb\0\0c\0".to_vec(), 0).0, ["a\nb", "", "c"]);
        assert_eq!(arguments(b"a,,b\n".to_vec(), b',').0, ["a", "", "b\n"]);
    }

    #[test]
    fn batches_are_full_but_for_the_last() {
        let (found, end) = batches(b"a\nb\nc\nd\ne\n".to_vec(), b'\n', 2);
        assert_eq!((found, end), (vec!["a b".to_owned(), "c d".to_owned(), "e".to_owned()], Ok(Next::End)));
    }

    #[test]
    fn a_batch_is_never_too_long_for_a_command_line() {
        let long = "x".repeat(50_000);
        let (found, _) = batches(format!("{long}\n").repeat(5).into_bytes(), b'\n', 10);
        assert_eq!(found.iter().map(String::len).collect::<Vec<_>>(), [100_001, 100_001, 50_000]);
    }

    #[test]
    fn arguments_before_a_bad_one_are_handed_out_first() {
        let (found, end) = batches(b"a\nb\nc\0d\n".to_vec(), b'\n', 10);
        assert_eq!(found, ["a b"]);
        assert!(end.expect_err("a NUL").starts_with("argument 3 of the test contains a NUL byte"));
    }

    #[test]
    fn an_argument_may_be_longer_than_the_buffer_but_not_endless() {
        let long = "x".repeat(LONGEST);
        let (lines, end) = arguments(format!("a\n{long}\nb\n").into_bytes(), b'\n');
        assert!(lines == ["a", &long, "b"]);
        assert_eq!(end, Ok(Next::End));
        let (lines, end) = arguments(format!("a\n{long}x\nb\n").into_bytes(), b'\n');
        assert_eq!(lines, ["a"]);
        assert!(end.expect_err("too long").starts_with("argument 2 of the test is longer than 131071 bytes"));
    }

    #[test]
    fn a_missing_null_option_is_noticed() {
        let (_, end) = arguments(b"a\0b\0".to_vec(), b'\n');
        assert!(end.expect_err("a NUL").ends_with("add -0"));
    }

    #[test]
    fn the_alarm_ends_the_wait_for_input() {
        let stop = Stop::new().expect("pipes");
        let (reader, _writer) = io::pipe().expect("a pipe");
        let mut input = Input::stream(reader.into(), b'\n', "the test".to_owned(), 1);
        stop.advance(Step::Draining, Reason::Halt);
        assert_eq!(input.next(stop.intake_alarm()), Ok(Next::Stopped));
        let _ = millpond::interrupt::interrupted();
    }
}
