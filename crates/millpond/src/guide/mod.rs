//! The guides: how to choose a pool, run it in a service, and move code here.
//!
//! | guide | answers |
//! |---|---|
//! | [`choosing`] | which kind of pool, how many threads, which queue, which policy? |
//! | [`service`] | overload, deadlines, shutdown, metrics; what to do when something is wrong |
//! | [`metrics`] | which pool is in trouble, and why? Export, alerts, changes while it runs |
//! | [`coming_from_java`] | what is the name of …, and what differs? |
//! | [`coming_from_reactor`] | the same for schedulers |
//! | [`coming_from_tokio`] | from `spawn_blocking`, `rayon`, `threadpool` and channels |
//! | [`deviations`] | every difference from the JDK and Reactor, with its reason |
//! | [`platforms`] | platforms, Rust versions, semantic versioning, features |
//! | [`unsafe_code`] | the unsafe code, for reviewers |
//! | [`virtual_threads`] | why there are none |
//!
//! The texts are those of the folder `docs` in the repository.
//!
//! # Programs
//!
//! The guides name files that are in the repository, but not in this crate:
//!
//! | file | path in the repository |
//! |---|---|
//! | the example programs, such as `axum_sqlite.rs` | `crates/examples/src/bin` |
//! | the Grafana board | `docs/grafana/millpond.json` |
//! | the alert rules and their tests | `docs/alerts` |

// The pages link to each other by file name. The definitions in front of each page win over its
// own, so that the links lead to modules here.
macro_rules! guides {
    ($($(#[$summary:meta])* $name:ident = $file:literal;)*) => {$(
        $(#[$summary])*
        ///
        /// [choosing]: crate::guide::choosing
        /// [service]: crate::guide::service
        /// [metrics]: crate::guide::metrics
        /// [deviations]: crate::guide::deviations
        /// [platforms]: crate::guide::platforms
        /// [virtual threads]: crate::guide::virtual_threads
        /// [Java]: crate::guide::coming_from_java
        /// [Reactor]: crate::guide::coming_from_reactor
        /// [plan]: https://docs.rs/crate/millpond-cli
        /// [axum]: crate::guide#programs
        /// [examples]: crate::guide#programs
        /// [file pipeline]: crate::guide#programs
        /// [worker state]: crate::guide#programs
        /// [board]: crate::guide#programs
        /// [rules]: crate::guide#programs
        /// [rule tests]: crate::guide#programs
        ///
        #[doc = include_str!($file)]
        pub mod $name {}
    )*};
}

guides! {
    /// Kinds of pool, sizes, queues and policies.
    choosing = "choosing.md";
    /// Overload, deadlines, shutdown and metrics in a service.
    service = "service.md";
    /// Metrics of every pool: questions, names, alerts, and changes while it runs.
    metrics = "metrics.md";
    /// The names of `java.util.concurrent`, and what differs.
    coming_from_java = "coming-from-java.md";
    /// The names of Project Reactor's schedulers, and what differs.
    coming_from_reactor = "coming-from-reactor.md";
    /// From `spawn_blocking`, `rayon`, `threadpool` and plain threads.
    coming_from_tokio = "coming-from-tokio.md";
    /// Every difference from the JDK and Reactor, with its reason.
    deviations = "deviations.md";
    /// Platforms, Rust versions, semantic versioning and features.
    platforms = "platforms.md";
    /// Unsafe code, for reviewers: purposes, risks, rules and checks.
    unsafe_code = "unsafe.md";
    /// Why there are no virtual threads.
    virtual_threads = "virtual-threads.md";
}
