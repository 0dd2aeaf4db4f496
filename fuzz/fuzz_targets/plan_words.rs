//! The phrases of `millpond plan`: arrivals, durations, pools.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| millpond_cli::fuzzing::plan(text));
