//! The web service, as seen by its clients: deadlines, overload, metrics, SIGTERM.
#![cfg(unix)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use support::{Folder, Program, Signal, wait_until};

struct Service {
    program: Program,
    address: String,
    _folder: Folder,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Service {
    fn start(settings: &[(&str, &str)]) -> Service {
        let folder = Folder::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_axum_sqlite"));
        command.env("LISTEN", "127.0.0.1:0").env("DB_FILE", folder.0.join("items.db"));
        let mut program = Program::start(command.envs(settings.iter().copied()));
        let line = program.line();
        let address = line.strip_prefix("listening on ").expect("the first line is the address").to_owned();
        Service { program, address, _folder: folder }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> Answer {
        answer(self.send("GET", path, ""))
    }

    /// The value of this sample of `/metrics`.
    fn metric(&self, sample: &str) -> u64 {
        let text = self.get("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(sample));
        value.unwrap_or_else(|| panic!("no {sample} in {text}")).trim().parse().unwrap()
    }

    /// A time metric of the database's pool, from `/metrics`.
    fn seconds(&self, name: &str) -> f64 {
        let (text, sample) = (self.get("/metrics").body, format!("{name}{{pool=\"db\"}} "));
        let value = text.lines().find_map(|line| line.strip_prefix(sample.as_str()));
        value.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().unwrap()
    }
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

const ACTIVE: &str = r#"millpond_pool_threads{pool="db",state="active"}"#;
const QUEUED: &str = r#"millpond_pool_queued_tasks{pool="db"}"#;
const CANCELLED: &str = r#"millpond_pool_tasks_total{pool="db",outcome="cancelled"}"#;
const REJECTED: &str = r#"millpond_pool_rejected_tasks_total{pool="db",reason="saturated"}"#;
const MAXIMUM: &str = r#"millpond_pool_max_threads{pool="db"}"#;
const CAPACITY: &str = r#"millpond_pool_queue_capacity_tasks{pool="db"}"#;
const RAN: &str = r#"millpond_pool_run_seconds_count{pool="db"}"#;
/// A query that takes a minute or more.
const SLOW: &str = "/report/10000000000";
/// Longer than any test.
const NO_DEADLINE: (&str, &str) = ("DEADLINE_MS", "3600000");

#[test]
fn item_is_added_found_and_announced_by_async_code() {
    let mut service = Service::start(&[NO_DEADLINE]);
    let added = answer(service.send("POST", "/items", "a cup"));
    assert_eq!((added.status, added.body.trim()), (201, "1"));
    assert_eq!(service.program.line(), "item 1 was added");
    let found = service.get("/items/1");
    assert_eq!((found.status, found.body.trim()), (200, "a cup"));
    assert_eq!(service.get("/items/2").status, 404);
    service.program.signal(Signal::TERM);
    let (_, _, log) = service.program.end();
    let line = log.lines().find(|line| line.contains("added an item")).expect("the log tells it");
    assert!(
        line.contains("request{method=POST path=\"/items\"}"),
        "the task has the span of its request: {line}"
    );
}

#[test]
fn query_ends_with_its_deadline() {
    let service = Service::start(&[("DEADLINE_MS", "50"), ("DB_THREADS", "1")]);
    assert_eq!(service.get(SLOW).status, 504);
    wait_until("the only thread is free", || service.metric(ACTIVE) == 0);
    assert_eq!(service.metric(CANCELLED), 1);
    wait_until("the thread serves others in time", || service.get("/report/10").body.trim() == "10");
}

#[test]
fn query_ends_when_its_client_goes_away() {
    let service = Service::start(&[NO_DEADLINE, ("DB_THREADS", "1")]);
    let client = service.send("GET", SLOW, "");
    wait_until("the query runs", || service.metric(ACTIVE) == 1);
    drop(client);
    wait_until("the query has been cancelled", || service.metric(ACTIVE) == 0);
}

#[test]
fn request_that_does_not_fit_is_refused_at_once() {
    let service = Service::start(&[NO_DEADLINE, ("DB_THREADS", "1"), ("DB_QUEUE", "1")]);
    let runs = service.send("GET", SLOW, "");
    wait_until("the query runs", || service.metric(ACTIVE) == 1);
    let waits = service.send("GET", "/report/10", "");
    wait_until("a query waits", || service.metric(QUEUED) == 1);
    let refused = service.get("/items/1");
    assert_eq!(refused.status, 503);
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(service.metric(REJECTED), 1);
    assert_eq!([ACTIVE, MAXIMUM, QUEUED, CAPACITY].map(|sample| service.metric(sample)), [1; 4]);
    wait_until("waiting is seen", || {
        service.seconds("millpond_pool_oldest_wait_seconds") > 0.1
            && service.seconds("millpond_pool_longest_running_seconds") > 0.1
    });
    drop(runs); // frees the thread
    assert_eq!(answer(waits).body.trim(), "10");
    wait_until("both have been timed", || service.metric(RAN) == 2);
    assert!(service.seconds("millpond_pool_wait_seconds_sum") > 0.1);
    service.program.signal(Signal::TERM);
    let (_, _, log) = service.program.end();
    assert!(log.contains("saturated"), "the log tells of the refusal: {log}");
}

#[test]
fn sigterm_lets_running_requests_end() {
    let service = Service::start(&[("DEADLINE_MS", "2000")]);
    let running = service.send("GET", SLOW, "");
    wait_until("the query runs", || service.metric(ACTIVE) == 1);
    service.program.signal(Signal::TERM);
    let answered = thread::spawn(move || answer(running));
    let (status, output, errors) = service.program.end();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(answered.join().unwrap().status, 504, "it is answered, at its deadline");
    assert!(output.contains("ended: ") && output.contains("Terminated"), "{output}");
}
