//! The trace, in the format of Chrome's `about:tracing` and Perfetto: a process per scene, a thread
//! per thread.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::record::{Ended, How, Record};
use super::Played;

/// All scenes of all workloads, as JSON.
pub(crate) fn write(played: &[Played]) -> String {
    let scenes =
        played.iter().flat_map(|workload| workload.scenes.iter().map(move |scene| (workload, scene)));
    let mut events = Vec::new();
    for (pid, (workload, record)) in (1..).zip(scenes) {
        let name = format!("{}: {}", workload.name, record.title);
        events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}));
        scene(&mut events, pid, record);
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string()
}

fn scene(events: &mut Vec<Value>, pid: u32, record: &Record) {
    let mut threads: Vec<&str> = record.threads.iter().map(|thread| thread.name.as_str()).collect();
    threads.sort_by_key(|name| (name.len(), *name));
    threads.dedup();
    threads.insert(0, record.caller);
    for (tid, name) in threads.iter().enumerate() {
        events
            .push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}));
    }
    let tid_of = |thread: &str| threads.iter().position(|name| *name == thread).unwrap_or(0);
    for (number, run) in record.runs() {
        let task = &record.tasks[number];
        events.push(json!({
            "ph": "X", "name": format!("task {}", task.label), "cat": "run", "pid": pid, "tid": tid_of(&run.thread),
            "ts": micros(run.begin), "dur": micros(run.end.saturating_sub(run.begin)),
            "args": {
                "admission": task.how.name(), "waited_us": task.wait().map(micros),
                "ended": match run.ended {
                    Ended::Returned => "returned",
                    Ended::Interrupted => "interrupted",
                    Ended::Panicked => "panicked",
                    Ended::StillRunning => "still running",
                },
            },
        }));
    }
    for task in &record.tasks {
        if let Some(blocked) = task.blocked {
            let name = format!("task {} waits for room", task.label);
            let (ts, dur) = (micros(task.arrived), micros(blocked));
            events.push(json!({"ph": "X", "name": name, "cat": "blocked", "pid": pid, "tid": 0, "ts": ts, "dur": dur}));
        }
        if matches!(task.how, How::Rejected | How::Discarded) {
            let name = format!("task {} {}", task.label, task.how.name());
            let ts = micros(task.arrived);
            events.push(
                json!({"ph": "i", "s": "p", "name": name, "cat": "refused", "pid": pid, "tid": 0, "ts": ts}),
            );
        }
    }
    for (name, steps) in [("queue", record.depth()), ("threads", record.sizes())] {
        for (at, value) in steps {
            events
                .push(json!({"ph": "C", "name": name, "pid": pid, "ts": micros(at), "args": {name: value}}));
        }
    }
}

fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e9).round() / 1e3
}
