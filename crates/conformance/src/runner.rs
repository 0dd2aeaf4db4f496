//! Plays many scenarios at once and writes their traces in order.
//!
//! A few threads play quick scenarios. Scenarios with sleeps mostly wait, so a large number of them
//! is played at the same time. Those with real time are limited by [`Lanes`]. A scenario that
//! cannot be read or played gives a trace with the reason, and never ends the run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::lanes::{Lanes, MAX_LANES};
use crate::scenario::{Pace, Program, Scenario};
use crate::time::TimeKind;
use crate::trace::Trace;
use crate::{PlayError, pool_player, queue_player, scheduled_player};

/// How often a scenario is played again because the machine was too slow.
const MAX_REPLAYS: usize = 200;
/// The largest number of concurrent scenarios with sleeps.
const MAX_SLEEPERS: usize = 96;
/// The time between two starts: the steps before a sleep are time-critical.
const STAGGER: Duration = Duration::from_millis(2);

/// Reads a scenario and plays it.
pub fn play_line(line: &str) -> Trace {
    match parse(line) {
        Ok(scenario) => play(&scenario),
        Err(trace) => trace,
    }
}

/// Parses a scenario.
///
/// # Errors
/// The trace that says what is wrong with it.
pub fn parse(line: &str) -> Result<Scenario, Trace> {
    let value: Value = serde_json::from_str(line)
        .map_err(|why| Trace::Error { id: Value::Null, error: format!("not JSON: {why}") })?;
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    serde_json::from_value(value)
        .map_err(|why| Trace::Error { id, error: format!("not a scenario that can be played: {why}") })
}

/// Plays a scenario, again if the machine was too slow.
pub fn play(scenario: &Scenario) -> Trace {
    replay(scenario, || play_once(scenario, TimeKind::Real))
}

fn replay(scenario: &Scenario, mut once: impl FnMut() -> Result<Trace, PlayError>) -> Trace {
    let error = |error| Trace::Error { id: scenario.id.clone(), error };
    for _ in 0..MAX_REPLAYS {
        match catch_unwind(AssertUnwindSafe(&mut once)) {
            Ok(Ok(trace)) => return trace,
            Ok(Err(PlayError::TooSlow(_))) => {}
            Ok(Err(why)) => return error(why.to_string()),
            Err(_) => return error("the driver panicked".to_owned()),
        }
    }
    error(format!("the machine was too slow {MAX_REPLAYS} times"))
}

fn play_once(scenario: &Scenario, time: TimeKind) -> Result<Trace, PlayError> {
    let id = &scenario.id;
    match &scenario.program {
        Program::Pool { config, steps } => pool_player::play(id, config, steps).map(Trace::Pool),
        Program::Queue { config, steps } => queue_player::play(id, config, steps).map(Trace::Queue),
        Program::Scheduled { config, steps } => {
            scheduled_player::play(id, config, steps, time).map(Trace::Scheduled)
        }
    }
}

/// A scenario and its place in the input.
type Job = (usize, Scenario);

/// Plays the scenarios of `input`, one per line, and writes one trace per line to `output`, in
/// order. Scheduled pools use `time`.
///
/// # Errors
/// An error of reading or writing.
pub fn run(input: impl BufRead + Send, output: impl Write, time: TimeKind) -> io::Result<()> {
    let (quick, quick_jobs) = channel::<Job>();
    let (slow, slow_jobs) = channel::<Job>();
    let (clocked, clocked_jobs) = channel::<Job>();
    let (done, traces) = channel::<(usize, String)>();
    let [quick_jobs, slow_jobs, clocked_jobs] = [quick_jobs, slow_jobs, clocked_jobs].map(Mutex::new);
    let quick_players = thread::available_parallelism().map_or(4, |n| 4 * n.get());
    let lanes = Lanes::default();
    let play_quick = |scenario: &Scenario| {
        let trace = replay(scenario, || play_once(scenario, time));
        lanes.quick_goes();
        trace
    };
    let play_slow = |scenario: &Scenario| replay(scenario, || play_once(scenario, time));
    let play_clocked = |scenario: &Scenario| replay(scenario, || lanes.play(|| play_once(scenario, time)));
    thread::scope(|scope| {
        for _ in 0..quick_players {
            let done = done.clone();
            scope.spawn(|| play_jobs(&quick_jobs, done, play_quick));
        }
        let (slow_jobs, clocked_jobs, lanes) = (&slow_jobs, &clocked_jobs, &lanes);
        let reader = scope.spawn(move || {
            let (mut sleepers, mut watchers) = (0, 0);
            for_each_line(input, |index, line| {
                let job = match parse_bytes(line) {
                    Ok(scenario) => (index, scenario),
                    Err(trace) => return done.send((index, to_line(&trace))).is_ok(),
                };
                match job.1.program.pace(time) {
                    Pace::Quick => {
                        lanes.quick_comes();
                        quick.send(job).is_ok()
                    }
                    Pace::Sleeping => {
                        if sleepers < MAX_SLEEPERS {
                            sleepers += 1;
                            let done = done.clone();
                            scope.spawn(move || play_jobs(slow_jobs, done, play_slow));
                            thread::sleep(STAGGER);
                        }
                        slow.send(job).is_ok()
                    }
                    Pace::Clocked => {
                        if watchers < MAX_LANES {
                            watchers += 1;
                            let done = done.clone();
                            scope.spawn(move || play_jobs(clocked_jobs, done, play_clocked));
                        }
                        clocked.send(job).is_ok()
                    }
                }
            })
        });
        let written = write_in_order(&traces, output);
        drop(traces); // players stop when their traces are no longer needed
        lanes.close();
        let read = reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")));
        written.and(read)
    })
}

fn parse_bytes(line: &[u8]) -> Result<Scenario, Trace> {
    match std::str::from_utf8(line) {
        Ok(line) => parse(line),
        Err(why) => Err(Trace::Error { id: Value::Null, error: format!("not UTF-8: {why}") }),
    }
}

/// Calls `f` with every line that is not blank and its number among those, until `f` returns false.
fn for_each_line(mut input: impl BufRead, mut f: impl FnMut(usize, &[u8]) -> bool) -> io::Result<()> {
    let (mut index, mut line) = (0, Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            if !f(index, line.trim_ascii()) {
                return Ok(());
            }
            index += 1;
        }
        line.clear();
    }
    Ok(())
}

fn play_jobs(jobs: &Mutex<Receiver<Job>>, done: Sender<(usize, String)>, play: impl Fn(&Scenario) -> Trace) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((index, scenario)) = job else { return };
        if done.send((index, to_line(&play(&scenario)))).is_err() {
            return;
        }
    }
}

fn to_line(trace: &Trace) -> String {
    serde_json::to_string(trace).expect("traces are plain JSON")
}

fn write_in_order(traces: &Receiver<(usize, String)>, mut output: impl Write) -> io::Result<()> {
    let (mut next, mut early) = (0, BTreeMap::new());
    loop {
        let (index, line) = match traces.try_recv() {
            Ok(trace) => trace,
            Err(TryRecvError::Disconnected) => return output.flush(),
            Err(TryRecvError::Empty) => {
                output.flush()?; // an interactive user sees each trace at once
                match traces.recv() {
                    Ok(trace) => trace,
                    Err(_) => return output.flush(),
                }
            }
        };
        early.insert(index, line);
        while let Some(line) = early.remove(&next) {
            writeln!(output, "{line}")?;
            next += 1;
        }
    }
}
