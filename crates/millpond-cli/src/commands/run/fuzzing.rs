//! Invariants of the parsers of `run`, for the fuzz targets.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::past::Past;
use super::template::{Arguments, Job, Template};
use super::{habits, joblog};

/// The input: two options, then words that end with a NUL byte.
pub(crate) fn run(data: &[u8]) {
    let [options, text @ ..] = data else { return };
    let (shell, batched) = (options & 1 != 0, options & 2 != 0);
    let words: Vec<OsString> =
        text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    let line: Vec<OsString> =
        [OsString::from("millpond"), OsString::from("run")].into_iter().chain(words.clone()).collect();
    crate::cli::is_valid(&line);
    if habits::check_words(&words, shell).is_err() {
        return;
    }
    match Template::new(&words, shell, batched) {
        Ok(template) => check(&template, batched),
        Err(message) => assert!(!message.is_empty()),
    }
}

fn check(template: &Template, batched: bool) {
    let evil = batch(&[b"$(id)'\"`id`; id #\\\n", b"-x/../y.z"], batched);
    let plain = batch(&[b"a", b"b"], batched);
    let expand = |arguments: &Arguments| template.expand(&Job { arguments, number: 7, slot: 3 });
    let (one, other) = (expand(&evil), expand(&plain));
    assert!(!one.is_empty() && one.len() == other.len(), "arguments must not change the number of words");
    // The text for a shell must not depend on the arguments.
    if one.len() > 3 && one[0] == "sh" && one[1] == "-c" && one[3] == "sh" && template.program_is_fixed {
        assert!(one[2] == other[2] || one[2].as_encoded_bytes().starts_with(b"$(id)"), "{one:?}");
    }
    let shown = template.show(&Job { arguments: &evil, number: 7, slot: 3 });
    let again = template.show(&Job { arguments: &evil, number: 7, slot: 4 });
    assert_eq!(shown, again, "the shown command does not depend on the slot");
}

fn batch(list: &[&[u8]], batched: bool) -> Arguments {
    let mut arguments = Arguments::one(list[0].to_vec());
    if batched {
        list[1..].iter().for_each(|argument| arguments.push(argument));
    }
    arguments
}

/// A command that is in the log as finished is skipped exactly once.
pub(crate) fn job_log(data: &[u8]) {
    let mut past = Past::default();
    data.split(|byte| *byte == b'\n').for_each(|line| past.add(line));
    let escaped = joblog::escape(data);
    assert!(!escaped.contains(['\n', '\t']), "{escaped:?}");
    let mut past = Past::default();
    past.add(format!("1\t0\t0\t1\tok\t{escaped}").as_bytes());
    assert!(past.take(data, true) && !past.take(data, true));
}
