//! What a template becomes for one job.

use super::*;

fn template(words: &[&str], batched: bool) -> Result<Template, String> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    Template::new(&words, false, batched)
}

fn expanded_with(words: &[&str], arguments: &Arguments) -> Vec<String> {
    let template = template(words, true).expect("a sound template");
    let job = Job { arguments, number: 7, slot: 3 };
    template.expand(&job).into_iter().map(|word| word.into_string().expect("UTF-8")).collect()
}

fn expanded(words: &[&str], argument: &str) -> Vec<String> {
    let template = template(words, false).expect("a sound template");
    let arguments = Arguments::one(argument.as_bytes().to_vec());
    let job = Job { arguments: &arguments, number: 7, slot: 3 };
    template.expand(&job).into_iter().map(|word| word.into_string().expect("UTF-8")).collect()
}

#[test]
fn every_placeholder_gives_its_part_of_the_argument() {
    let words = ["run", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"];
    assert_eq!(
        expanded(&words, "in/a b.tar.gz"),
        ["run", "in/a b.tar.gz", "in/a b.tar", "a b.tar.gz", "in", "a b.tar", "7", "3"]
    );
}

#[test]
fn a_placeholder_may_stand_anywhere_in_a_word_and_more_than_once() {
    assert_eq!(expanded(&["{}", "x{}y{#}", "{{}}"], "a"), ["a", "xay7", "{a}"]);
}

#[test]
fn braces_without_a_placeholder_are_text() {
    assert_eq!(
        expanded(&["awk", "{print}", "{}", "{x}", "{", "}"], "a"),
        ["awk", "{print}", "a", "{x}", "{", "}"]
    );
}

#[test]
fn without_a_placeholder_the_argument_comes_last() {
    assert_eq!(expanded(&["echo", "-n"], "a b"), ["echo", "-n", "a b"]);
    assert_eq!(expanded(&["echo", "{#}"], "a b"), ["echo", "7"]);
    assert_eq!(expanded(&["echo"], ""), ["echo", ""]);
}

#[test]
fn several_arguments_become_several_words() {
    let mut arguments = Arguments::one(b"a.x".to_vec());
    arguments.push(b"");
    arguments.push(b"c d.y");
    assert_eq!(expanded_with(&["echo"], &arguments), ["echo", "a.x", "", "c d.y"]);
    assert_eq!(expanded_with(&["cp", "{.}", "to-{#}"], &arguments), ["cp", "a", "", "c d", "to-7"]);
    let error = template(&["cp", "x{}"], true).expect_err("one word cannot be three");
    assert!(error.starts_with("with -n a placeholder must be a word of its own"), "{error}");
}

#[test]
fn the_shown_command_can_be_typed_and_does_not_depend_on_the_slot() {
    let template = template(&["echo", "{}", "it's", "{%}", ""], false).expect("a sound template");
    let arguments = Arguments::one(b"a b".to_vec());
    let shown = template.show(&Job { arguments: &arguments, number: 1, slot: 4 });
    assert_eq!(String::from_utf8(shown).unwrap(), r"echo 'a b' 'it'\''s' '{%}' ''");
}
