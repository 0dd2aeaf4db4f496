//! Plays many scenarios at once and hands out their traces in order.
//!
//! Quick scenarios are played by a few threads. Those that sleep mostly wait, so many of them are played at
//! the same time. A scenario that cannot be read or played gives a trace that says why; nothing in it can end
//! the run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::scenario::{Program, Scenario};
use crate::trace::Trace;
use crate::{PlayError, pool_player, queue_player};

/// How often a scenario is played again because the machine was too slow for its times.
const MAX_REPLAYS: usize = 200;
/// How many scenarios with sleeps are played at once.
const MAX_SLEEPERS: usize = 96;
/// Sleepers start this far apart: their steps before the sleep are in a hurry.
const STAGGER: Duration = Duration::from_millis(2);

/// Reads a scenario and plays it.
pub fn play_line(line: &str) -> Trace {
    match parse(line) {
        Ok(scenario) => play(&scenario),
        Err(trace) => trace,
    }
}

/// Reads a scenario.
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

/// Plays a scenario, again and again if the clock spoils it.
pub fn play(scenario: &Scenario) -> Trace {
    let error = |error| Trace::Error { id: scenario.id.clone(), error };
    for _ in 0..MAX_REPLAYS {
        match catch_unwind(AssertUnwindSafe(|| play_once(scenario))) {
            Ok(Ok(trace)) => return trace,
            Ok(Err(PlayError::TooSlow(_))) => {}
            Ok(Err(why)) => return error(why.to_string()),
            Err(_) => return error("the driver panicked".to_owned()),
        }
    }
    error(format!("the machine was too slow {MAX_REPLAYS} times"))
}

fn play_once(scenario: &Scenario) -> Result<Trace, PlayError> {
    let id = &scenario.id;
    match &scenario.program {
        Program::Pool { config, steps } => pool_player::play(id, config, steps).map(Trace::Pool),
        Program::Queue { config, steps } => queue_player::play(id, config, steps).map(Trace::Queue),
        Program::Scheduled => Err(PlayError::failed("scheduled pools are not played yet")),
    }
}

/// A scenario or what is wrong with it, and its place in the input.
type Job = (usize, Result<Scenario, Trace>);

/// Plays the scenarios of `input`, one per line, and writes one trace per line to `output`, in order.
///
/// # Errors
/// What reading or writing gave.
pub fn run(input: impl BufRead + Send, output: impl Write) -> io::Result<()> {
    let (quick, quick_jobs) = channel::<Job>();
    let (slow, slow_jobs) = channel::<Job>();
    let (done, traces) = channel::<(usize, String)>();
    let (quick_jobs, slow_jobs) = (Mutex::new(quick_jobs), Mutex::new(slow_jobs));
    let quick_players = thread::available_parallelism().map_or(4, |n| 4 * n.get());
    thread::scope(|scope| {
        for _ in 0..quick_players {
            let done = done.clone();
            scope.spawn(|| play_jobs(&quick_jobs, done));
        }
        let slow_jobs = &slow_jobs;
        let reader = scope.spawn(move || {
            let mut sleepers = 0;
            for_each_line(input, |index, line| {
                let job = parse_bytes(line);
                if !job.as_ref().is_ok_and(|scenario| scenario.program.sleeps()) {
                    return quick.send((index, job)).is_ok();
                }
                if sleepers < MAX_SLEEPERS {
                    sleepers += 1;
                    let done = done.clone();
                    scope.spawn(move || play_jobs(slow_jobs, done));
                    thread::sleep(STAGGER);
                }
                slow.send((index, job)).is_ok()
            })
        });
        let written = write_in_order(&traces, output);
        drop(traces); // players stop when nobody wants their traces any more
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

/// Calls `f` with every line that is not blank and its number among those, until `f` says false.
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

fn play_jobs(jobs: &Mutex<Receiver<Job>>, done: Sender<(usize, String)>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((index, job)) = job else { return };
        let trace = job.map_or_else(|trace| trace, |scenario| play(&scenario));
        let line = serde_json::to_string(&trace).expect("traces are plain JSON");
        if done.send((index, line)).is_err() {
            return;
        }
    }
}

fn write_in_order(traces: &Receiver<(usize, String)>, mut output: impl Write) -> io::Result<()> {
    let (mut next, mut early) = (0, BTreeMap::new());
    loop {
        let (index, line) = match traces.try_recv() {
            Ok(trace) => trace,
            Err(TryRecvError::Disconnected) => return output.flush(),
            Err(TryRecvError::Empty) => {
                output.flush()?; // whoever plays step by step sees a trace as soon as there is one
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
