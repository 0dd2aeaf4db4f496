//! Programs for real stacks, one file each in `src/bin`, to be read and copied.
//!
//! `tests` starts them and uses them as a client would. This library has no code: it compiles and
//! runs the example of the repository's README, which is not part of any published crate.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
