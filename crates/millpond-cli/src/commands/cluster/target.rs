//! Opens the database that `--on` names.
//!
//! The library creates a missing database. A read-only command must not: a mistyped name would
//! become an empty database without tasks.

use std::path::Path;

use millpond_cluster::{Admin, Cluster, QueueStats};

use super::{Common, failed};
use crate::error::Error;

/// An open database, and the options common to all commands.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) cluster: Cluster,
    pub(super) admin: Admin,
    /// The address as the user gave it.
    pub(super) address: String,
    pub(super) json: bool,
    /// The requested queue.
    pub(super) queue: Option<String>,
}

impl Target {
    pub(super) fn open(common: &Common) -> Result<Target, Error> {
        let address = existing(common)?;
        let cluster = Cluster::open(address).map_err(failed)?;
        let target = Target {
            admin: cluster.admin(),
            cluster,
            address: address.to_owned(),
            json: common.json,
            queue: common.queue.clone(),
        };
        target.check_queue()?;
        Ok(target)
    }

    /// Like [`open`](Self::open), but fails without `--write`.
    pub(super) fn open_to_write(common: &Common, command: &str) -> Result<Target, Error> {
        require_write(common, command)?;
        Target::open(common)
    }

    /// Refuses an unknown queue: it would look empty, and `pause` would create it.
    fn check_queue(&self) -> Result<(), Error> {
        let Some(queue) = &self.queue else { return Ok(()) };
        let names = self.queue_names()?;
        if names.contains(queue) {
            return Ok(());
        }
        Err(Error::new(format_args!("there is no queue '{queue}'; {}", list(&names))))
    }

    fn queue_names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.cluster.engine().queues().map_err(failed)?;
        names.sort();
        Ok(names)
    }

    /// The queues to show, sorted by name.
    pub(super) fn queues(&self) -> Result<Vec<QueueStats>, Error> {
        let mut queues = self.admin.queues().map_err(failed)?;
        queues.retain(|stats| self.queue.as_ref().is_none_or(|queue| *queue == stats.queue));
        queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok(queues)
    }

    /// The queue to change: the requested one, or the only one.
    pub(super) fn one_queue(&self) -> Result<Cluster, Error> {
        if let Some(queue) = &self.queue {
            return Ok(self.cluster.queue(queue));
        }
        let names = self.queue_names()?;
        match &names[..] {
            [queue] => Ok(self.cluster.queue(queue)),
            [] => Err(Error::new("there is no queue yet: nothing was ever submitted")),
            _ => Err(Error::new(format_args!("name a queue with --queue; {}", list(&names)))),
        }
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => "there are none yet".to_owned(),
        [name] => format!("there is only '{name}'"),
        _ => format!("there are {}", names.join(", ")),
    }
}

pub(super) fn require_write(common: &Common, command: &str) -> Result<(), Error> {
    if common.write {
        return Ok(());
    }
    Err(Error::new(format_args!("{command} changes the database; add --write to allow it")))
}

/// The address. It must name a database that outlives the process.
pub(super) fn address(common: &Common) -> Result<&str, Error> {
    let Some(address) = common.on.as_deref() else {
        return Err(Error::new("name the database with --on, such as --on sqlite:jobs.db"));
    };
    if address.split(':').next() == Some("memory") {
        return Err(Error::new(
            "the memory engine exists only inside its process; only `bench` accepts memory:",
        ));
    }
    Ok(address)
}

/// Like [`address`], and requires that the file exists.
pub(super) fn existing(common: &Common) -> Result<&str, Error> {
    let address = address(common)?;
    match file(address) {
        Some(path) if !has_content(path) => Err(Error::new(format_args!(
            "there is no database '{}'; make one with `millpond cluster --on {address} --write init`",
            path.display()
        ))),
        _ => Ok(address),
    }
}

/// The file of an SQLite address.
pub(super) fn file(address: &str) -> Option<&Path> {
    let rest = address.strip_prefix("sqlite:")?;
    let path = rest.split('?').next().filter(|path| !path.is_empty())?;
    Some(Path::new(path))
}

/// Opening an empty file would turn it into a database.
pub(super) fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
