//! The load generator: a process with one thread, open loop, Poisson arrivals, keep-alive
//! connections.
//!
//! A request is sent at its due time on an idle connection, regardless of the earlier ones. Its
//! latency counts from the due time, so a server that stalls cannot hide it.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::database::{IDS, Query};

/// The time before the requests that count.
const WARM_UP: Duration = Duration::from_secs(1);
const WARM_UP_RATE: f64 = 100.0;
/// The time limit for the last answers. A server answers within its deadline, even if late.
const PATIENCE: Duration = Duration::from_secs(3);

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) query: Query,
    /// The share of slow queries.
    pub(crate) slow: f64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

impl Load {
    /// The arguments that the generator parses.
    pub(crate) fn args(&self, port: u16) -> Vec<String> {
        let Load { connections, rate, query, slow, seconds, seed } = self;
        let query = query.name();
        [format!("{port} {connections} {rate} {query} {slow} {seconds} {seed}")]
            .iter()
            .flat_map(|line| line.split(' '))
            .map(str::to_owned)
            .collect()
    }

    fn parse(args: &[String]) -> Option<(u16, Load)> {
        let [port, connections, rate, query, slow, seconds, seed] = args else { return None };
        let query = Query::ALL.into_iter().find(|known| known.name() == query)?;
        let load = Load {
            connections: connections.parse().ok()?,
            rate: rate.parse().ok()?,
            query,
            slow: slow.parse().ok()?,
            seconds: seconds.parse().ok()?,
            seed: seed.parse().ok()?,
        };
        Some((port.parse().ok()?, load))
    }
}

/// The results of a run. Times are in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Sent or due. Requests that found no idle connection are counted in `unsent`, too.
    pub(crate) requests: f64,
    pub(crate) unsent: f64,
    pub(crate) found: f64,
    pub(crate) busy: f64,
    pub(crate) too_late: f64,
    /// Any other status, a broken connection, or no answer.
    pub(crate) failed: f64,
    /// Latencies of the answers with status 200, and of the rejections.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) busy_p50: f64,
    /// Processor time of the server.
    pub(crate) cpu_micros: f64,
    pub(crate) switches: f64,
    pub(crate) resident: f64,
    pub(crate) threads: f64,
}

impl Figures {
    fn fields(&mut self) -> [&mut f64; 13] {
        let Figures {
            requests,
            unsent,
            found,
            busy,
            too_late,
            failed,
            p50,
            p99,
            busy_p50,
            cpu_micros,
            switches,
            resident,
            threads,
        } = self;
        [
            requests, unsent, found, busy, too_late, failed, p50, p99, busy_p50, cpu_micros, switches,
            resident, threads,
        ]
    }

    fn to_line(mut self) -> String {
        self.fields().map(|field| field.to_string()).join(" ")
    }

    pub(crate) fn parse(line: &str) -> Option<Figures> {
        let mut figures = Figures::default();
        let mut words = line.split_whitespace();
        for field in figures.fields() {
            *field = words.next()?.parse().ok()?;
        }
        Some(figures)
    }
}

/// Arguments: those of [`Load::args`]. Prints the figures.
pub(crate) fn main(args: &[String]) -> Result<(), Box<dyn Error>> {
    let (port, load) = Load::parse(args).ok_or("--load needs other arguments")?;
    let mut generator = Generator::new(port, &load)?;
    generator.phase(WARM_UP_RATE, WARM_UP)?;
    let before = metrics(port)?;
    let mut answers = generator.phase(load.rate, Duration::from_secs_f64(load.seconds))?;
    let after = metrics(port)?;
    println!("{}", summary(&mut answers, before, after).to_line());
    Ok(())
}

/// The first four words of the server's metrics.
fn metrics(port: u16) -> Result<[f64; 4], Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").ok_or("no metrics")?.1;
    let mut words = body.split_whitespace().map(str::parse);
    let mut next = || words.next().ok_or("too few metrics");
    Ok([next()??, next()??, next()??, next()??])
}

/// The answers of a phase.
#[derive(Default)]
struct Answers {
    /// Status and latency; status 0: the connection broke, or no answer came.
    all: Vec<(u16, Duration)>,
    unsent: usize,
}

fn summary(answers: &mut Answers, before: [f64; 4], after: [f64; 4]) -> Figures {
    answers.all.sort_by_key(|(_, latency)| *latency);
    let of = |status: u16| -> Vec<f64> {
        let latencies = answers.all.iter().filter(|(one, _)| *one == status);
        latencies.map(|(_, latency)| latency.as_secs_f64() * 1000.0).collect()
    };
    let percentile = |sorted: &[f64], share: f64| {
        sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied()
    };
    let (found, busy, too_late) = (of(200), of(503), of(504));
    let known = found.len() + busy.len() + too_late.len();
    let count = |number: usize| number as f64;
    let median = |sorted: &[f64]| percentile(sorted, 0.5).unwrap_or(f64::NAN);
    Figures {
        requests: count(answers.all.len() + answers.unsent),
        unsent: count(answers.unsent),
        found: count(found.len()),
        busy: count(busy.len()),
        too_late: count(too_late.len()),
        failed: count(answers.all.len() - known),
        p50: median(&found),
        p99: percentile(&found, 0.99).unwrap_or(f64::NAN),
        busy_p50: median(&busy),
        cpu_micros: (after[0] - before[0]) / 1000.0,
        switches: after[1] - before[1],
        resident: after[2],
        threads: after[3],
    }
}

/// SplitMix64: every variant gets the same requests.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A random number from 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

struct Connection {
    stream: TcpStream,
    /// When the request was due whose answer is awaited.
    due: Option<Instant>,
    input: Vec<u8>,
}

struct Generator {
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    epoll: Epoll,
    timer: TimerFd,
    random: Random,
    query: Query,
    slow: f64,
    port: u16,
}

/// Marks the timer among the events. Other events have the index of a connection.
const TIMER: u64 = u64::MAX;

impl Generator {
    fn new(port: u16, load: &Load) -> Result<Generator, Box<dyn Error>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let mut generator = Generator {
            connections: Vec::new(),
            idle: (0..load.connections).collect(),
            epoll,
            timer,
            random: Random(load.seed),
            query: load.query,
            slow: load.slow,
            port,
        };
        for index in 0..load.connections {
            let connection = generator.connect(index)?;
            generator.connections.push(connection);
        }
        Ok(generator)
    }

    fn connect(&self, index: usize) -> Result<Connection, Box<dyn Error>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
        Ok(Connection { stream, due: None, input: Vec::new() })
    }

    /// Sends requests for `length`, and waits for their answers.
    fn phase(&mut self, rate: f64, length: Duration) -> Result<Answers, Box<dyn Error>> {
        let mut answers = Answers::default();
        let begin = Instant::now();
        let end = begin + length;
        let mut due = begin + self.gap(rate);
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let now = Instant::now();
            while due <= now && due < end {
                self.send(due, &mut answers)?;
                due += self.gap(rate);
            }
            let is_waiting = self.idle.len() < self.connections.len();
            if due >= end && (!is_waiting || now > end + PATIENCE) {
                break;
            }
            let wait = due.min(end + PATIENCE).saturating_duration_since(now).max(Duration::from_nanos(1));
            let alarm = Expiration::OneShot(TimeSpec::from_duration(wait));
            self.timer.set(alarm, TimerSetTimeFlags::empty())?;
            let count = self.epoll.wait(&mut events, 1000_u16)?;
            for event in &events[..count] {
                match event.data() {
                    TIMER => self.timer.wait()?,
                    index => self.receive(index as usize, &mut answers)?,
                }
            }
        }
        for index in 0..self.connections.len() {
            self.give_up(index, &mut answers)?;
        }
        Ok(answers)
    }

    /// The time until the next arrival: exponentially distributed.
    fn gap(&mut self, rate: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.random.share()).ln() / rate)
    }

    fn send(&mut self, due: Instant, answers: &mut Answers) -> Result<(), Box<dyn Error>> {
        // The choice does not depend on whether there is a connection, so every variant gets the
        // same requests.
        let query = if self.random.share() < self.slow { Query::Slow } else { self.query };
        let id = 1 + self.random.next() % u64::from(IDS);
        let Some(index) = self.idle.pop_front() else {
            answers.unsent += 1;
            return Ok(());
        };
        let connection = &mut self.connections[index];
        let request = format!("GET /{}/{id} HTTP/1.1\r\nhost: x\r\n\r\n", query.name());
        connection.due = Some(due);
        // The socket's buffer is empty, so the request fits. An error shows when the answer is
        // read.
        _ = connection.stream.write_all(request.as_bytes());
        Ok(())
    }

    fn receive(&mut self, index: usize, answers: &mut Answers) -> Result<(), Box<dyn Error>> {
        let connection = &mut self.connections[index];
        let mut buffer = [0; 4096];
        match connection.stream.read(&mut buffer) {
            Ok(0) => return self.broken(index, answers),
            Ok(count) => connection.input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return self.broken(index, answers),
        }
        if let Some(status) = whole_answer(&connection.input) {
            connection.input.clear();
            if let Some(due) = connection.due.take() {
                answers.all.push((status, due.elapsed()));
                self.idle.push_back(index);
            }
        }
        Ok(())
    }

    /// Replaces a connection. The awaited answer counts as failed.
    fn broken(&mut self, index: usize, answers: &mut Answers) -> Result<(), Box<dyn Error>> {
        let awaited = self.connections[index].due.take();
        // The old connection leaves the list of events with its file descriptor.
        self.connections[index] = self.connect(index)?;
        if let Some(due) = awaited {
            answers.all.push((0, due.elapsed()));
            self.idle.push_back(index);
        }
        Ok(())
    }

    /// Stops waiting on a connection.
    fn give_up(&mut self, index: usize, answers: &mut Answers) -> Result<(), Box<dyn Error>> {
        if self.connections[index].due.is_some() { self.broken(index, answers) } else { Ok(()) }
    }
}

/// The status of an answer that has arrived completely.
fn whole_answer(input: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(input).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if body.len() < length.unwrap_or(0) {
        return None;
    }
    head.split_whitespace().nth(1)?.parse().ok()
}
