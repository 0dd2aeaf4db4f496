//! Reading and writing files, with errors that name the file.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// The text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path)
        .map_err(|error| Error::new(format_args!("cannot read {}: {error}", path.display())))
}

/// Writes `contents` to the file at `path`, which is made or replaced.
pub(crate) fn write(path: &Path, contents: &str) -> Result<(), Error> {
    fs::write(path, contents)
        .map_err(|error| Error::new(format_args!("cannot write {}: {error}", path.display())))
}
