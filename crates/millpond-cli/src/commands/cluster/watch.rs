//! `watch`: shows the queues and their rates repeatedly.
//!
//! On a terminal each view replaces the previous one. In a pipe the views follow each other; with
//! `--json` each is one line. Ctrl-C ends the command.

use std::thread;
use std::time::{Duration, Instant};

use millpond_cluster::QueueStats;
use serde_json::json;

use super::read;
use super::show::{self, Rates};
use super::target::Target;
use crate::error::{Error, Outcome};
use crate::picture::wrapped;
use crate::term::{Colour, Screen};
use crate::{term, units};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The time between two views
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    every: Duration,
    /// End after this many views
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
}

fn pause(text: &str) -> Result<Duration, String> {
    match units::duration(text)? {
        pause if pause >= Duration::from_millis(100) => Ok(pause),
        _ => Err(format!("'{text}' is too short: each view reads the database; use at least 100ms")),
    }
}

pub(super) fn run(target: &Target, args: &Args) -> Result<Outcome, Error> {
    let screen = term::stdout();
    let mut before = Reading::take(target)?;
    let mut lines = 0;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        thread::sleep(args.every);
        let now = Reading::take(target)?;
        let rates = now.rates(&before);
        if target.json {
            term::print(&format!("{}\n", now.json(&rates)))?;
        } else {
            let text = now.text(target, &rates, &screen)?;
            if screen.is_terminal && lines > 0 {
                console::Term::stdout().clear_last_lines(lines).map_err(Error::stdout)?;
            }
            term::print(&text)?;
            lines = text.lines().count();
        }
        before = now;
    }
    Ok(Outcome::Yes)
}

/// The figures at one time.
struct Reading {
    at: Instant,
    queues: Vec<QueueStats>,
}

impl Reading {
    fn take(target: &Target) -> Result<Reading, Error> {
        Ok(Reading { at: Instant::now(), queues: target.queues()? })
    }

    fn rates(&self, before: &Reading) -> Vec<Rates> {
        let seconds = (self.at - before.at).as_secs_f64().max(1e-3);
        let rates = self.queues.iter().map(|stats| {
            let earlier = before.queues.iter().find(|earlier| earlier.queue == stats.queue);
            let (accepted, done) = earlier.map_or((0, 0), |earlier| (earlier.submitted, earlier.ended()));
            let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            Rates { accepted: per_second(stats.submitted, accepted), ended: per_second(stats.ended(), done) }
        });
        rates.collect()
    }

    fn json(&self, rates: &[Rates]) -> serde_json::Value {
        let queues: Vec<_> = self
            .queues
            .iter()
            .zip(rates)
            .map(|(stats, rates)| {
                let mut value = show::queue_json(stats);
                value["accepted_per_second"] = json!(rates.accepted);
                value["ended_per_second"] = json!(rates.ended);
                value
            })
            .collect();
        json!({ "at": show::now(), "queues": queues })
    }

    fn text(&self, target: &Target, rates: &[Rates], screen: &Screen) -> Result<String, Error> {
        let workers = read::worker_rows(target)?;
        let date = show::date(show::now());
        let address = show::end_within(&target.address, screen.width.saturating_sub(date.len() + 2));
        let heading = format!("{address}  {date}");
        let mut text = format!("{}\n\n", screen.paint(Colour::Bold, heading));
        text.push_str(&show::queue_table(&self.queues, Some(rates), screen));
        for line in show::attention(&self.queues, &workers) {
            text.push_str(&wrapped(&line, screen.width, "  "));
        }
        Ok(text)
    }
}
