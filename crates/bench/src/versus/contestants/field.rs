//! The contestants as seen from the process that measures: their names, and the processes that do
//! the work.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::jdk::{self, Classes, Kind};
use super::process::Process;
use super::{Home, Promise};
use crate::workloads::{self, Body, Case, Failure, Outcome};

pub(crate) struct Field {
    /// Millpond is first.
    pub(crate) contestants: Vec<Contestant>,
    /// The version of the JDK, or why it is missing.
    pub(crate) jdk: Result<String, String>,
}

impl Field {
    /// All contestants.
    pub(crate) fn new(quick: bool) -> Field {
        let mut contestants = in_rust();
        let jdk = jdk::version().and_then(|version| Ok((version, Rc::new(Classes::compile(quick)?))));
        let jdk = jdk.map(|(version, classes)| {
            let one = |kind: &'static Kind| {
                let how = How::Jdk(kind, Rc::clone(&classes));
                Contestant::new(kind.name, Home::Jdk, kind.promise, how)
            };
            contestants.extend(jdk::KINDS.iter().map(one));
            version
        });
        Field { contestants, jdk }
    }

    /// Millpond only, each entry followed by the same one of another build of this program.
    pub(crate) fn against(program: &Path) -> Field {
        let pair = |ours: Contestant| {
            let name = &*format!("{} (base)", ours.name).leak();
            let how = How::Other(program.to_owned(), ours.name);
            let base = Contestant::new(name, Home::Rust, ours.promise, how);
            [ours, base]
        };
        let ours = in_rust().into_iter().filter(|one| one.home == Home::Us);
        Field { contestants: ours.flat_map(pair).collect(), jdk: Err("does not take part".into()) }
    }
}

fn in_rust() -> Vec<Contestant> {
    let mut contestants: Vec<Contestant> = Vec::new();
    for super::Entry { name, promise, .. } in super::entries() {
        // A name has several entries if it has pools and queues, or timers.
        if !contestants.iter().any(|one| one.name == name) {
            let home = if name.starts_with(super::US) { Home::Us } else { Home::Rust };
            contestants.push(Contestant::new(name, home, promise, How::Rust));
        }
    }
    contestants
}

/// One row of a table.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) home: Home,
    pub(crate) promise: Promise,
    how: How,
    state: RefCell<State>,
}

enum How {
    /// Another process of this program.
    Rust,
    /// Another build of this program, and the contestant's name there.
    Other(PathBuf, &'static str),
    Jdk(&'static Kind, Rc<Classes>),
}

enum State {
    Resting,
    Working(Process),
    /// It hung or crashed, and is skipped until `rest`.
    Out(String),
}

impl Contestant {
    fn new(name: &'static str, home: Home, promise: Promise, how: How) -> Contestant {
        Contestant { name, home, promise, how, state: RefCell::new(State::Resting) }
    }

    /// Its process id, while it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        if let State::Working(process) = &*self.state.borrow() { Some(process.id()) } else { None }
    }

    /// Does the work of a case once.
    pub(crate) fn run(&self, case: &Case) -> Outcome {
        let name = match &self.how {
            How::Jdk(kind, _) if !kind.keys.contains(&case.key) => return Err(Failure::NotOffered),
            How::Jdk(kind, _) => kind.kind,
            How::Other(_, name) => name,
            How::Rust => self.name,
        };
        self.ask(&format!("{name}\t{}", case.line()))
            .map_err(Failure::Wrong)
            .and_then(|line| workloads::answer(&line))
    }

    /// Ends its process. The next case starts a new one.
    pub(crate) fn rest(&self) {
        *self.state.borrow_mut() = State::Resting;
    }

    fn ask(&self, line: &str) -> Result<String, String> {
        let state = &mut *self.state.borrow_mut();
        if let State::Resting = state {
            *state = Process::start(&mut self.command()?).map_or_else(State::Out, State::Working);
        }
        let answer = match state {
            State::Working(process) => process.ask(line),
            State::Out(why) => return Err(why.clone()),
            State::Resting => unreachable!("it has been started"),
        };
        if let Err(why) = &answer {
            *state = State::Out(why.clone());
        }
        answer
    }

    fn command(&self) -> Result<Command, String> {
        let program = match &self.how {
            How::Jdk(_, classes) => return Ok(classes.command()),
            How::Other(program, _) => program.clone(),
            How::Rust => {
                std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?
            }
        };
        let mut command = Command::new(program);
        // All contestants use the same calibration of the task body.
        command.args(["--serve", &Body::Microsecond.spins().to_string()]);
        Ok(command)
    }
}
