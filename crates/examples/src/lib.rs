//! Programs for real stacks, one file each in `src/bin`, to be read and copied.
//!
//! `tests` starts them and uses them as a client would. This library has no code: it compiles and
//! runs the examples in the pages of the repository, which no published crate contains.

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/service.md")]
    mod service {}
}
