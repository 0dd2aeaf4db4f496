//! What a pool measures, and how an operator reads it.
//!
//! A histogram answers "how long do tasks wait" and "how long do they run" for every quantile, in
//! fixed memory: [`HistogramSnapshot`].

mod histogram;

pub use histogram::{Bucket, HistogramSnapshot};
