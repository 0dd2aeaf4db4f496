//! Reads and writes files, with errors that name the file.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// The text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path)
        .map_err(|error| Error::new(format_args!("cannot read {}: {error}", path.display())))
}

/// Writes `contents` to the file at `path`. Creates or replaces it.
pub(crate) fn write(path: &Path, contents: &str) -> Result<(), Error> {
    fs::write(path, contents)
        .map_err(|error| Error::new(format_args!("cannot write {}: {error}", path.display())))
}

/// Checks whether a file can be written at `path`, for commands that take long before they write.
pub(crate) fn check_place(path: &Path) -> Result<(), Error> {
    let cannot = |why: std::fmt::Arguments<'_>| {
        Err(Error::new(format_args!("cannot write {}: {why}", path.display())))
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        _ if path.is_dir() => cannot(format_args!("it is a directory; name a file in it")),
        Some(parent) if !parent.is_dir() => {
            cannot(format_args!("there is no directory {}; make it first", parent.display()))
        }
        _ => Ok(()),
    }
}
