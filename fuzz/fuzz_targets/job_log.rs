//! The job log of `millpond run`, as a resumed run reads it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_cli::fuzzing::job_log(data));
