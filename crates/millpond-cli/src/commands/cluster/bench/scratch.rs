//! The queue of a bench, and its file if the bench created it. Both are removed at the end.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_cluster::{Cluster, TaskFilter, TaskType};

use super::super::{failed, target};
use crate::error::Error;

/// The queue. The bench refuses an existing one, so it cannot contain other tasks.
pub(super) const QUEUE: &str = "millpond-bench";
/// The only task type in the queue.
pub(super) const ECHO: TaskType<String, u64> = TaskType::new("millpond-bench");

/// What a bench created. Dropping it removes everything and ignores errors.
#[derive(Debug)]
pub(super) struct Scratch {
    /// `None`: already removed.
    cluster: Option<Cluster>,
    file: Option<PathBuf>,
    /// Size of the file before the bench; `None`: the bench created it.
    size: Option<u64>,
}

impl Scratch {
    pub(super) fn open(address: &str) -> Result<Scratch, Error> {
        let file = target::file(address).map(Path::to_owned);
        let size = file.as_deref().map(claim_file).transpose()?.flatten();
        let mut scratch = Scratch { cluster: None, file, size };
        let cluster = Cluster::open(address).inspect_err(|_| scratch.remove_file()).map_err(failed)?;
        // A file that the bench created has no queue yet.
        if size.is_some() && exists(&cluster)? {
            return Err(Error::new(format_args!(
                "there is a queue '{QUEUE}' already: another bench runs, or one was killed; \
                 `bench --clean` removes what it has left"
            )));
        }
        scratch.cluster = Some(cluster.queue(QUEUE));
        Ok(scratch)
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("it is not removed yet")
    }

    /// Removes the queue, and the file if the bench created it. Returns by how many bytes an
    /// existing file has grown.
    pub(super) fn remove(mut self) -> Result<u64, Error> {
        self.clear()
    }

    fn clear(&mut self) -> Result<u64, Error> {
        let Some(cluster) = self.cluster.take() else { return Ok(0) };
        if self.is_private(&cluster) {
            drop(cluster);
            self.remove_file();
            return match self.file.as_ref().filter(|file| file.exists()) {
                Some(file) => Err(Error::new(format_args!("'{}' cannot be removed", file.display()))),
                None => Ok(0),
            };
        }
        let not_removed = |error| {
            Error::new(format_args!("the queue '{QUEUE}' is not removed, use `bench --clean`: {error}"))
        };
        cluster.admin().delete_queue().map_err(not_removed)?;
        // Closing the last connection checkpoints the log into the file.
        drop(cluster);
        let now = self.file.as_ref().and_then(|file| fs::metadata(file).ok()).map_or(0, |file| file.len());
        Ok(self.size.map_or(0, |before| now.saturating_sub(before)))
    }

    /// The bench created the file, and no other process uses it.
    fn is_private(&self, cluster: &Cluster) -> bool {
        self.file.is_some()
            && self.size.is_none()
            && cluster.engine().queues().is_ok_and(|queues| queues.iter().all(|queue| queue == QUEUE))
            && cluster.admin().workers().is_ok_and(|workers| workers.is_empty())
    }

    /// Removes the file if the bench created it.
    fn remove_file(&self) {
        if let (Some(file), None) = (&self.file, self.size) {
            for suffix in ["", "-wal", "-shm"] {
                let mut path = file.clone().into_os_string();
                path.push(suffix);
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Returns the size of an existing file, or creates the file exclusively.
fn claim_file(path: &Path) -> Result<Option<u64>, Error> {
    let mut options = File::options();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::new(format_args!("'{}' cannot be made: {error}", path.display())))
        }
        Err(_) => match fs::metadata(path).map_or(0, |file| file.len()) {
            0 => Err(Error::new(format_args!(
                "'{}' is an empty file, not a database; remove it or name another",
                path.display()
            ))),
            size => Ok(Some(size)),
        },
    }
}

fn exists(cluster: &Cluster) -> Result<bool, Error> {
    Ok(cluster.engine().queues().map_err(failed)?.iter().any(|queue| queue == QUEUE))
}

/// Removes the queue of a killed bench. Returns how many tasks it contained.
pub(super) fn clean(cluster: &Cluster) -> Result<u64, Error> {
    if !exists(cluster)? {
        return Ok(0);
    }
    let cluster = cluster.queue(QUEUE);
    let mut filter = TaskFilter { queue: Some(QUEUE.to_owned()), limit: 500, ..TaskFilter::default() };
    let mut count = 0;
    loop {
        let page = cluster.admin().tasks(&filter).map_err(failed)?;
        if let Some(task) = page.tasks.iter().find(|task| task.name != ECHO.name()) {
            return Err(Error::new(format_args!(
                "the queue '{QUEUE}' is not removed: task {} is not of a bench but of type '{}'",
                task.id, task.name
            )));
        }
        count += page.tasks.len() as u64;
        match page.next {
            Some(next) => filter.after = next,
            None => break,
        }
    }
    cluster.admin().delete_queue().map_err(failed)?;
    Ok(count)
}

/// Catches signals that would end the process before the queue is removed. They end the measurement
/// instead; further ones have no effect.
#[derive(Debug)]
pub(super) struct Signals {
    /// The signal, or 0.
    received: Arc<AtomicUsize>,
}

impl Signals {
    #[cfg(unix)]
    pub(super) fn listen() -> io::Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

        let received = Arc::new(AtomicUsize::new(0));
        let ignored = crate::commands::run::signals::ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0)
        {
            let number = usize::try_from(signal).expect("signals are positive");
            signal_hook::flag::register_usize(signal, Arc::clone(&received), number)?;
        }
        Ok(Signals { received })
    }

    #[cfg(not(unix))]
    pub(super) fn listen() -> io::Result<Signals> {
        Ok(Signals { received: Arc::default() })
    }

    pub(super) fn received(&self) -> Option<u8> {
        // Relaxed: the signal carries no data.
        u8::try_from(self.received.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0)
    }
}
