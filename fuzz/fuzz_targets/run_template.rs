//! The command line of `millpond run`: options, words, placeholders, shell quoting.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_cli::fuzzing::run(data));
