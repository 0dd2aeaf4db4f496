//! Options and syntax of GNU parallel and xargs: supported with their meaning, or refused with a replacement.

use super::*;

/// Asserts that the call is refused before any job, in one line that contains the hint.
fn assert_refused(arguments: &[&str], hint: &str) {
    let ran = run(arguments, "a\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}: {}", ran.stderr);
    assert!(
        ran.stderr.starts_with("millpond: ") && ran.stderr.contains(hint),
        "{arguments:?}: {}",
        ran.stderr
    );
    assert_eq!(lines(&ran.stderr).len(), 1, "{}", ran.stderr);
}

#[test]
fn code_that_contains_an_argument_is_refused() {
    let directory = directory("run-code");
    for arguments in [
        &["sh", "-c", "echo {}"][..],
        &["/bin/bash", "-ec", "echo {}"],
        &["perl", "-e", "print \"{}\\n\""],
        &["python3", "-c", "print('{}')"],
        &["cd . && bash -c \"echo {}\""],
    ] {
        let ran = run_in(&directory, arguments, "$(touch pwned); touch pwned\n\"; `touch pwned`; \"\n");
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.contains("would run the argument as code; "), "{}", ran.stderr);
        assert!(!directory.join("pwned").exists());
    }
    let advice = run(&["sh", "-c", "echo {}"], "a\n").stderr;
    assert!(advice.contains("write `millpond run 'echo {}'`"), "{advice}");
}

#[test]
fn the_replacements_for_code_do_what_was_meant() {
    for arguments in
        [&["sh", "-c", "echo \"$1\"", "sh", "{}"][..], &["echo {}"], &["sh -c 'echo \"$1\"' sh {}"]]
    {
        let ran = run(arguments, "$(id); a  b\n");
        assert_eq!((ran.status, ran.stdout.as_str()), (0, "$(id); a  b\n"), "{arguments:?}: {}", ran.stderr);
    }
    let ran = run(&["-k", "sh", "-c"], "echo a | tr a b\nexit 3\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "b\n"), "whole commands may be arguments");
}

#[test]
fn other_sources_of_arguments_are_refused() {
    assert_refused(&["echo", "::::", "list.txt"], ":::: is not supported; use -a FILE");
    assert_refused(&["echo", ":::", "a", "b", ":::+", "1", "2"], ":::+ is not supported");
    assert_refused(&["echo", "::::+", "f"], "::::+ is not supported");
    assert_refused(&["echo", ":::", "a", ":::", "b"], "::: {a,b}-{1,2}");
}

#[test]
fn operators_of_a_shell_are_refused_as_words() {
    for operator in ["|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1", "2>/dev/null", "&>log", ">{}.out"] {
        let hint = "quote the whole command, or add --shell";
        assert_refused(&["echo", "{}", operator, "x"], hint);
    }
    assert_eq!(run(&["echo", "{}", ">chr1", "a|b"], "a\n").stdout, "a >chr1 a|b\n");
    assert_eq!(run(&["--shell", "echo", "{}", "|", "tr", "a", "b"], "a\n").stdout, "b\n");
}

#[test]
fn placeholders_of_parallel_are_refused() {
    assert_refused(&["echo", "{1}"], "{1} is not supported; write {}");
    assert_refused(&["echo {1.}"], "write {.}");
    assert_refused(&["echo", "{1}", "{2}"], "write {}");
    assert_refused(&["echo", "{2}"], "-n 2 sh -c");
    assert_refused(&["echo", "{= s/a/b/ =}"], "Perl");
    assert_refused(&["echo", "{..}"], "the placeholders are {} {.}");
    assert_refused(&["echo $PARALLEL_SEQ"], "write {#}");
    assert_refused(&["echo", "$PARALLEL_JOBSLOT"], "write {%}");
    let ran = run(&["printf", "%s %s %s\\n", "{}", "{print $1}", "[0-9]{3}"], "a\n");
    assert_eq!(ran.stdout, "a {print $1} [0-9]{3}\n");
    assert_eq!(run(&["-n2", "sh", "-c", "echo \"$2 $1\"", "sh", "{}"], "a\nb\n").stdout, "b a\n");
}

#[test]
fn options_of_other_tools_are_refused_with_the_right_answer() {
    for (option, hint) in [
        ("--bar", "--bar is not supported: progress is shown on a terminal"),
        ("-v", "-v is not supported: use -t or --verbose"),
        ("--nonall", "--nonall is not supported: jobs run on this machine"),
        ("--eta", "progress is shown on a terminal"),
        ("--cat", "jobs have no stdin"),
        ("--pipe", "jobs have no stdin"),
        ("--colsep", "such as cut, paste or shuf"),
        ("-I{}", "-I is not supported: the placeholder is {}"),
        ("-i", "the placeholder is {}"),
        ("-L1", "use -n N"),
        ("-X", "use -n N"),
        ("--tagstring=x", "use --tag"),
        ("--results=d", "redirect in the command"),
        ("--retry-failed", "--resume-failed"),
        ("-S", "ssh HOST"),
        ("-q", "not needed"),
        ("--process-slot-var=X", "use {%}"),
        ("--nice=5", "nice millpond run"),
    ] {
        assert_refused(&[option, "echo", ":::", "a"], hint);
    }
    assert_refused(&["--timeout", "200%", "echo"], "give a time such as 30s");
    assert_refused(&["--halt", "soon,fail=20%", "echo"], "write soon,20% for a share of the finished jobs");
    assert_refused(&["-j0", "echo"], "the meaning of -j 0 in GNU parallel");
}

#[test]
fn options_without_effect_are_accepted() {
    let ran = run(&["-r", "--will-cite", "--gnu", "echo"], "");
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
}

#[test]
fn the_number_of_jobs_may_be_relative_to_the_cpus() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    for (option, expected) in
        [("+1", cpus + 1), ("200%", 2 * cpus), ("-1", (cpus - 1).max(1)), ("100%", cpus)]
    {
        let directory = directory(&format!("run-relative-{}", option.replace('%', "p")));
        let all = format!("touch at-{{}}; until [ $(ls at-* | wc -l) = {expected} ]; do sleep 0.02; done");
        let input: String = (0..expected).map(|n| format!("{n}\n")).collect();
        let ran = run_in(&directory, &["-P", option, "--queue", "0", "--timeout", "100s", &all], &input);
        assert_eq!(ran.status, 0, "{option}: {}", ran.stderr);
    }
    assert_refused(&["-j", "many", "echo"], "'many' is not a number of jobs such as 4, +1, -1 or 200%");
}

#[test]
fn retries_count_attempts_as_parallel_does() {
    let directory = directory("run-retries-count");
    let ran = run_in(&directory, &["--retries", "3", "echo x >> tries; false"], "a b\n");
    assert_eq!(ran.status, 1);
    assert_eq!(lines(&fs::read_to_string(directory.join("tries")).unwrap()).len(), 3);
    let expected = "millpond: failed: 'a b' (exit 1, 3 of 3 attempts)\nmillpond: 1 of 1 job failed\n";
    assert_eq!(ran.stderr, expected);
    assert_refused(&["--attempts", "0", "echo"], "the smallest number is 1");
}

#[test]
fn a_missing_command_comes_with_examples() {
    assert_refused(&[], "millpond run sh -c < FILE");
    assert_refused(&[":::", "a"], "millpond run echo {} ::: a b");
}

#[test]
fn an_exported_function_comes_with_the_way_to_run_it() {
    let output = run_raw(
        command().env("BASH_FUNC_greet%%", "() { echo hello; }").args(["run", "greet", "{}", ":::", "a"]),
        "",
    );
    let ran = ran(output);
    assert_eq!(ran.status, 127);
    assert!(ran.stderr.contains("bash -c 'greet \"$1\"' bash {}"), "{}", ran.stderr);
}

/// The parser would suggest `-- --option`, which would name a program.
#[test]
fn an_unknown_option_gets_no_wrong_advice() {
    let ran = run(&["--foo", "echo"], "a\n");
    let place = "options of the command go after its name: `millpond run COMMAND --foo`; try --help";
    assert_eq!(ran.stderr, format!("millpond: run has no option --foo; {place}\n"));
    assert_refused(
        &["--tiemout", "5s", "echo"],
        "run has no option --tiemout; a similar one is --timeout; try --help",
    );
    let ran = run(&["echo", "--foo"], "a\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "--foo a\n"));
    let ran = support::millpond(&["lab", "growth", "--sped", "2"]);
    assert!(ran.stderr.ends_with("; a similar argument exists: '--speed'; try --help\n"), "{}", ran.stderr);
}
