//! `scenarios`: writes random scenarios to standard output, the same ones for the same seed.
//!
//! `scenarios --seed S --count N [--kind pool|queue|scheduled]`; without a kind, three of four are
//! for pools and the others for queues.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use conformance::generator::{Kind, scenarios};

const USAGE: &str = "usage: scenarios --seed S --count N [--kind pool|queue|scheduled]";

struct Request {
    seed: u64,
    count: usize,
    kind: Option<Kind>,
}

fn main() -> ExitCode {
    let Some(request) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match write(&request, BufWriter::new(io::stdout().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("scenarios: {why}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Request> {
    let mut request = Request { seed: 1, count: 100, kind: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--seed" => request.seed = value.parse().ok()?,
            "--count" => request.count = value.parse().ok()?,
            "--kind" if value == "pool" => request.kind = Some(Kind::Pool),
            "--kind" if value == "queue" => request.kind = Some(Kind::Queue),
            "--kind" if value == "scheduled" => request.kind = Some(Kind::Scheduled),
            _ => return None,
        }
    }
    Some(request)
}

fn write(request: &Request, mut out: impl Write) -> io::Result<()> {
    let counts = match request.kind {
        None => vec![(Kind::Pool, request.count - request.count / 4), (Kind::Queue, request.count / 4)],
        Some(kind) => vec![(kind, request.count)],
    };
    for scenario in counts.into_iter().flat_map(|(kind, count)| scenarios(request.seed, count, kind)) {
        writeln!(out, "{}", serde_json::to_string(&scenario).expect("scenarios are plain JSON"))?;
    }
    out.flush()
}
