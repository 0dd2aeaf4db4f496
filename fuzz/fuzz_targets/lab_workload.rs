//! The workload files of `millpond lab`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| millpond_cli::fuzzing::workload(text));
