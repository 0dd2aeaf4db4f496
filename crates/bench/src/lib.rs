//! What the measurements share.

pub mod machine;
