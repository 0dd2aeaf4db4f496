//! Sources of arguments, and the commands built from them.

use super::*;

#[test]
fn every_placeholder_stands_for_its_part() {
    let words = ["-k", "--", "printf", "%s|%s|%s|%s|%s|%s\\n", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}"];
    let ran = run(&words, "in/a b.tar.gz\nplain\n");
    assert_eq!(ran.stdout, "in/a b.tar.gz|in/a b.tar|a b.tar.gz|in|a b.tar|1\nplain|plain|plain|.|plain|2\n");
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
}

#[test]
fn without_a_placeholder_the_argument_is_the_last_word() {
    assert_eq!(run(&["-k", "printf", "<%s>"], "a b\nc\n").stdout, "<a b><c>");
    assert_eq!(run(&["-k", "printf '<%s>' x"], "a b\nc\n").stdout, "<x><a b><x><c>");
}

#[test]
fn arguments_may_come_after_the_command() {
    let ran = run(&["-k", "echo", "{}", "-n", ":::", "a", "-b", "--", "c d"], "not read\n");
    assert_eq!(ran.stdout, "a -n\n-b -n\n-- -n\nc d -n\n");
}

#[test]
fn nul_separated_arguments_may_contain_anything_else() {
    let ran = run(&["-0", "-k", "printf", "<%s>"], "a\nb\0 c \0\0d");
    assert_eq!(ran.stdout, "<a\nb>< c ><><d>");
}

#[test]
fn arguments_need_not_be_text() {
    let output = run_raw(command().args(["run", "printf", "%s"]), b"\xff\xfe\n");
    assert_eq!(output.stdout, b"\xff\xfe");
    let argument = std::ffi::OsStr::from_bytes(b"\xff");
    let output = run_raw(command().args(["run", "printf '%s' {}", ":::"]).arg(argument), "");
    assert_eq!(output.stdout, b"\xff");
}

#[test]
fn arguments_may_come_from_a_file() {
    let directory = directory("run-arg-file");
    fs::write(directory.join("list"), "a\nb\n").unwrap();
    assert_eq!(run_in(&directory, &["-k", "-a", "list", "echo"], "not read").stdout, "a\nb\n");
    let missing = run_in(&directory, &["-a", "nowhere", "echo"], "");
    assert_eq!(run_in(&directory, &["-k", "-a", "-", "echo"], "c\n").stdout, "c\n", "- is stdin");
    assert_eq!(missing.status, 2);
    assert!(missing.stderr.starts_with("millpond: cannot read nowhere: "), "{}", missing.stderr);
}

#[test]
fn a_shell_sees_the_command_only_if_it_is_one_word_with_spaces_or_if_asked() {
    assert_eq!(run(&["echo {} | tr a-z A-Z"], "a\n").stdout, "A\n");
    assert_eq!(run(&["--shell", "echo", "{}", "|", "tr", "a-z", "A-Z"], "a\n").stdout, "A\n");
}

#[test]
fn no_argument_becomes_shell_code() {
    let directory = directory("run-evil");
    let evil = "'; touch evil; echo '$(touch evil)`touch evil`\"; touch evil; \"&& touch evil #";
    for command in ["echo {}", "echo \"{}\"", "echo '{}'", "echo \"$(echo {})\"", "echo"] {
        let ran = run_in(&directory, &["--shell", command], &format!("{evil}\n"));
        assert_eq!(ran.stdout, format!("{evil}\n"), "{command}");
        assert!(!directory.join("evil").exists(), "{command}");
    }
}

#[test]
fn a_dry_run_prints_what_could_be_typed() {
    let directory = directory("run-dry");
    let ran = run_in(&directory, &["--dry-run", "touch", "{}", "{#}"], "it's\nb\n");
    assert_eq!(ran.stdout, "touch 'it'\\''s' 1\ntouch b 2\n");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn jobs_have_no_input_of_their_own() {
    assert_eq!(run(&["-k", "cat; echo {}"], "a\nb\n").stdout, "a\nb\n");
}

#[test]
fn jobs_at_the_same_time_have_different_slots_and_slots_are_used_again() {
    let directory = directory("run-slots");
    let command = format!("echo {{%}}; touch at-{{}}; {}; {}", until("at-a"), until("at-b"));
    let ran = run_in(&directory, &["-j2", &command], "a\nb\n");
    assert_eq!(sorted(&ran.stdout), ["1", "2"]);
    assert_eq!(run(&["-j1", "echo", "{%}"], "a\nb\nc\n").stdout, "1\n1\n1\n");
}

#[test]
fn a_job_gets_as_many_arguments_as_asked() {
    assert_eq!(run(&["-k", "-n2", "printf", "<%s>", "x"], "a b\nc\nd\n").stdout, "<x><a b><c><x><d>");
    assert_eq!(
        run(&["-k", "-n", "3", "echo {#}: {} {/.}"], "a/b.c\nd\ne\nf\n").stdout,
        "1: a/b.c d e b d e\n2: f f\n"
    );
    assert_eq!(run(&["-n2", "--dry-run", "echo"], "a b\nc\n").stdout, "echo 'a b' c\n");
    let ran = run(&["-n2", "false"], "a b\nc\n");
    assert_eq!(ran.stderr, "millpond: failed: 'a b' c (exit 1)\nmillpond: 1 of 1 job failed\n");
}

#[test]
fn another_byte_may_separate_arguments() {
    assert_eq!(run(&["-k", "-d", ",", "printf", "<%s>"], "a b,,c").stdout, "<a b><><c>");
    assert_eq!(run(&["-k", "-d", "\\t", "printf", "<%s>"], "a\tb").stdout, "<a><b>");
    let ran = run(&["-d", "ab", "echo"], "");
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("'ab' is not one byte"), "{}", ran.stderr);
}

#[test]
fn verbose_prints_each_command_before_it_starts() {
    let ran = run(&["-t", "-j1", "cat", "{}"], "/dev/null\nit's\n");
    let told = lines(&ran.stderr);
    assert_eq!(told[..2], ["cat /dev/null", r"cat 'it'\''s'"], "{}", ran.stderr);
}
