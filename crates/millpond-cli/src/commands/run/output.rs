//! Stores the output of a job: in memory while it is small, then in blocks of a temporary file.
//!
//! All jobs share the file. It has no name, and its blocks are reused. So a run needs one open file
//! and a few bytes of memory per block, however many large outputs are waiting.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// The part of one output that is kept in memory, and the size of a block in the file.
const BLOCK: usize = 64 * 1024;

/// The temporary file. It is created when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Spool {
    file: OnceLock<File>,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// Blocks that can be reused.
    free: Vec<u32>,
    /// Number of blocks in the file.
    count: u32,
}

impl Spool {
    fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        // If two workers get here at once, the second file is closed, which deletes it.
        let file = nameless_file()?;
        Ok(self.file.get_or_init(|| file))
    }

    fn store(&self, bytes: &[u8]) -> io::Result<u32> {
        let file = self.file()?;
        let block = {
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.free.pop().unwrap_or_else(|| {
                blocks.count += 1;
                blocks.count - 1
            })
        };
        file.write_all_at(bytes, offset(block)).inspect_err(|_| self.release(&[block]))?;
        Ok(block)
    }

    fn load(&self, block: u32, bytes: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(bytes, offset(block))
    }

    fn release(&self, freed: &[u32]) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.free.extend_from_slice(freed);
    }
}

fn offset(block: u32) -> u64 {
    u64::from(block) * BLOCK as u64
}

/// A file without a name: invisible to other processes, deleted with this one.
fn nameless_file() -> io::Result<File> {
    let directory = std::env::temp_dir();
    let process = std::process::id();
    let mut number = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
    loop {
        let path = directory.join(format!("millpond-{process}-{number}"));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            Err(error) => return Err(error),
        }
    }
}

/// One stream of one job, complete.
#[derive(Debug)]
pub(super) struct Output {
    spool: Arc<Spool>,
    /// Full blocks in the spool; the last one has `last_length` bytes.
    blocks: Vec<u32>,
    last_length: usize,
    /// The bytes after the blocks; fewer than a block.
    tail: Vec<u8>,
}

impl Output {
    pub(super) fn new(spool: &Arc<Spool>) -> Output {
        Output { spool: Arc::clone(spool), blocks: Vec::new(), last_length: BLOCK, tail: Vec::new() }
    }

    /// Adds `bytes`.
    ///
    /// # Errors
    /// That of the temporary file.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.tail.len() + bytes.len() >= BLOCK {
            let (fits, rest) = bytes.split_at(BLOCK - self.tail.len());
            self.tail.extend_from_slice(fits);
            self.blocks.push(self.spool.store(&self.tail)?);
            self.tail.clear();
            bytes = rest;
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }

    /// Drops the contents, because the job runs again.
    pub(super) fn clear(&mut self) {
        self.spool.release(&self.blocks);
        self.blocks.clear();
        self.tail.clear();
    }

    /// Bytes of memory in use.
    pub(super) fn in_memory(&self) -> usize {
        self.tail.capacity()
    }

    /// Moves the contents into the file. Nothing may be added afterwards.
    pub(super) fn put_aside(&mut self) -> io::Result<()> {
        if !self.tail.is_empty() {
            self.blocks.push(self.spool.store(&self.tail)?);
            self.last_length = self.tail.len();
        }
        self.tail = Vec::new();
        Ok(())
    }

    /// Writes the contents. Distinguishes errors of reading the file from errors of writing.
    pub(super) fn write_to(&self, sink: &mut impl Write) -> Result<(), Failure> {
        let mut buffer = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let length = if index + 1 == self.blocks.len() { self.last_length } else { BLOCK };
            buffer.resize(length, 0);
            self.spool.load(*block, &mut buffer).map_err(Failure::Spool)?;
            sink.write_all(&buffer).map_err(Failure::Sink)?;
        }
        sink.write_all(&self.tail).map_err(Failure::Sink)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tail.is_empty()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The error of [`Output::write_to`].
#[derive(Debug)]
pub(super) enum Failure {
    Spool(io::Error),
    Sink(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize, seed: usize) -> Vec<u8> {
        (0..length).map(|at| ((at * 31 + seed) % 251) as u8).collect()
    }

    fn whole(output: &Output) -> Vec<u8> {
        let mut whole = Vec::new();
        output.write_to(&mut whole).expect("readable");
        whole
    }

    #[test]
    fn output_is_unchanged_however_it_is_cut() {
        let spool = Arc::new(Spool::default());
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7] {
            for cut in [1000, BLOCK - 1, BLOCK, 3 * BLOCK] {
                let expected = bytes(length, cut);
                let mut output = Output::new(&spool);
                expected.chunks(cut).for_each(|piece| output.push(piece).expect("room"));
                assert!(output.tail.len() < BLOCK);
                assert!(whole(&output) == expected, "{length} in pieces of {cut}");
                output.put_aside().expect("room");
                assert_eq!(output.in_memory(), 0);
                assert!(whole(&output) == expected, "{length} in pieces of {cut}, put aside");
                assert_eq!(output.is_empty(), length == 0);
            }
        }
    }

    #[test]
    fn blocks_are_reused() {
        let spool = Arc::new(Spool::default());
        for seed in 0..20 {
            let mut one = Output::new(&spool);
            let mut other = Output::new(&spool);
            one.push(&bytes(3 * BLOCK, seed)).expect("room");
            other.push(&bytes(2 * BLOCK + 1, seed + 1)).expect("room");
            assert!(whole(&one) == bytes(3 * BLOCK, seed));
            assert!(whole(&other) == bytes(2 * BLOCK + 1, seed + 1));
        }
        assert_eq!(spool.blocks.lock().unwrap().count, 5);
    }

    #[test]
    fn small_output_needs_no_file() {
        let spool = Arc::new(Spool::default());
        Output::new(&spool).push(b"hello").expect("memory is enough");
        assert!(spool.file.get().is_none());
    }
}
