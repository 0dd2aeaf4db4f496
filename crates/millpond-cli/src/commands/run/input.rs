//! Where arguments come from: the command line after `:::`, or a stream of lines or of NUL-separated pieces.
//!
//! A stream is read only as far as arguments are wanted, a buffer at a time, and an argument has a largest size: so
//! endless input needs no more memory than short input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use super::process::{poll_until, readable};
use super::stop::Alarm;

/// What Linux lets one argument of a command be, with the NUL at its end.
const LONGEST: usize = 128 * 1024 - 1;

const BUFFER: usize = 64 * 1024;

/// A source of arguments.
#[derive(Debug)]
pub(super) enum Input {
    Listed(std::vec::IntoIter<OsString>),
    Stream(Stream),
}

/// Bytes, cut into arguments.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    separator: u8,
    buffer: Box<[u8]>,
    /// What is in the buffer and not yet handed out.
    from: usize,
    to: usize,
    /// How many arguments were handed out.
    count: u64,
    name: String,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Argument(Vec<u8>),
    End,
    /// The alarm rang.
    Stopped,
}

impl Input {
    pub(super) fn stream(fd: OwnedFd, separator: u8, name: String) -> Input {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Input::Stream(Stream { file: File::from(fd), separator, buffer, from: 0, to: 0, count: 0, name })
    }

    /// How many there will be, if that is known.
    pub(super) fn total(&self) -> Option<u64> {
        match self {
            Input::Listed(arguments) => Some(arguments.len() as u64),
            Input::Stream(_) => None,
        }
    }

    /// Waits for the next argument, or for the alarm.
    ///
    /// # Errors
    /// One line on what is wrong with the input.
    pub(super) fn next(&mut self, alarm: &Alarm) -> Result<Next, String> {
        match self {
            Input::Listed(arguments) => {
                Ok(arguments.next().map_or(Next::End, |argument| Next::Argument(argument.into_vec())))
            }
            Input::Stream(stream) => stream.next(alarm),
        }
    }
}

impl Stream {
    fn next(&mut self, alarm: &Alarm) -> Result<Next, String> {
        loop {
            match self.piece(alarm)? {
                // A blank line at the end of a list means nothing. With NULs every piece was meant.
                Next::Argument(line) if line.is_empty() && self.separator == b'\n' => {}
                Next::Argument(argument) => {
                    self.count += 1;
                    if argument.contains(&0) {
                        return Err(
                            self.complain("contains a NUL byte; if NULs separate the arguments, add -0")
                        );
                    }
                    return Ok(Next::Argument(argument));
                }
                other => return Ok(other),
            }
        }
    }

    /// What is before the next separator or before the end, without the separator.
    fn piece(&mut self, alarm: &Alarm) -> Result<Next, String> {
        let mut piece = Vec::new();
        let mut began = false;
        loop {
            let ready = &self.buffer[self.from..self.to];
            let end = ready.iter().position(|byte| *byte == self.separator);
            let taken = &ready[..end.unwrap_or(ready.len())];
            began |= !taken.is_empty();
            if piece.len() + taken.len() > LONGEST {
                self.count += 1;
                let hint = if self.separator == 0 {
                    "if lines separate the arguments, leave out -0"
                } else {
                    "no command takes that"
                };
                return Err(self.complain(&format!("is longer than {LONGEST} bytes; {hint}")));
            }
            piece.extend_from_slice(taken);
            if let Some(end) = end {
                self.from += end + 1;
                return Ok(Next::Argument(piece));
            }
            match self.fill(alarm)? {
                Filled::More => {}
                Filled::Stopped => return Ok(Next::Stopped),
                Filled::End if began => return Ok(Next::Argument(piece)),
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

    /// All arguments in `bytes`, and how it ended.
    fn arguments(bytes: Vec<u8>, separator: u8) -> (Vec<String>, Result<Next, String>) {
        let stop = Stop::new().expect("pipes");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        let mut input = Input::stream(reader.into(), separator, "the test".to_owned());
        let mut arguments = Vec::new();
        let end = loop {
            match input.next(stop.intake_alarm()) {
                Ok(Next::Argument(argument)) => arguments.push(String::from_utf8(argument).expect("UTF-8")),
                end => break end,
            }
        };
        drop(input);
        let _ = writing.join().expect("no panic"); // a broken pipe, if we did not read on
        (arguments, end)
    }

    #[test]
    fn lines_are_arguments_and_blank_ones_are_not() {
        let (lines, end) = arguments(b"a b\n\nc\n\n".to_vec(), b'\n');
        assert_eq!((lines, end), (vec!["a b".to_owned(), "c".to_owned()], Ok(Next::End)));
        assert_eq!(arguments(b"a\nb".to_vec(), b'\n').0, ["a", "b"], "the last line needs no end");
        assert_eq!(arguments(Vec::new(), b'\n'), (vec![], Ok(Next::End)));
    }

    #[test]
    fn nuls_separate_anything_else() {
        assert_eq!(arguments(b"a\nb\0\0c\0".to_vec(), 0).0, ["a\nb", "", "c"]);
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
    fn a_forgotten_zero_is_noticed() {
        let (_, end) = arguments(b"a\0b\0".to_vec(), b'\n');
        assert!(end.expect_err("a NUL").ends_with("add -0"));
    }

    #[test]
    fn the_alarm_ends_the_wait_for_input() {
        let stop = Stop::new().expect("pipes");
        let (reader, _writer) = io::pipe().expect("a pipe");
        let mut input = Input::stream(reader.into(), b'\n', "the test".to_owned());
        stop.advance(Step::Draining, Reason::Halt);
        assert_eq!(input.next(stop.intake_alarm()), Ok(Next::Stopped));
        let _ = millpond::interrupt::interrupted();
    }
}
