//! Properties of every command: help texts, completion, man pages, mistakes, closed pipes.

mod support;

use std::io::Read;
use std::process::Stdio;

use support::{assert_fits_80_columns, assert_is_file, command, millpond, printed};

#[cfg(feature = "cluster")]
const COMMANDS: &[&str] = &["lab", "plan", "run", "cluster", "completions", "man"];
#[cfg(not(feature = "cluster"))]
const COMMANDS: &[&str] = &["lab", "plan", "run", "completions", "man"];

#[test]
fn the_help_texts_are_those_in_the_files() {
    let help = printed(&["--help"]);
    assert_fits_80_columns(&help);
    if cfg!(feature = "cluster") {
        assert_is_file(&help, "help/millpond.txt");
    }
    for command in COMMANDS {
        let help = printed(&[command, "--help"]);
        assert_fits_80_columns(&help);
        assert_is_file(&help, &format!("help/{command}.txt"));
    }
}

#[test]
fn every_command_has_a_man_page_that_names_it() {
    assert!(printed(&["man"]).contains(".TH millpond 1"));
    for command in COMMANDS {
        let page = printed(&["man", command]);
        assert!(page.contains(&format!(".TH millpond-{command} 1")), "{page}");
        assert!(page.contains(&format!("\\fBmillpond {command}\\fR")), "{page}");
    }
}

#[test]
#[cfg(feature = "cluster")]
fn a_command_of_a_command_has_a_man_page_too() {
    let page = printed(&["man", "cluster", "dead", "list"]);
    assert!(page.contains(".TH millpond-cluster-dead-list 1"), "{page}");
    assert!(page.contains("\\fBmillpond cluster dead list\\fR"), "{page}");
}

#[test]
fn a_man_page_that_is_not_there_is_refused_with_those_that_are() {
    let ran = millpond(&["man", "woman"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let expected = "millpond: millpond has no command 'woman'; it has";
    assert_eq!(ran.stderr, format!("{expected} {}\n", COMMANDS.join(", ")));
    assert_eq!(millpond(&["man", "lab", "x"]).stderr, "millpond: millpond lab has no commands of its own\n");
}

#[test]
fn every_shell_gets_a_completion_script_with_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} knows no {command}");
        }
    }
}

/// Only shells whose scripts contain values.
#[test]
fn shells_complete_the_names_of_workloads() {
    for shell in ["bash", "fish", "zsh"] {
        assert!(printed(&["completions", shell]).contains("reject-discard-oldest"), "{shell}");
    }
}

#[test]
fn a_mistake_is_one_line_on_stderr_that_says_what_to_do_and_status_2() {
    for (arguments, complaint) in [
        (&["--loud"][..], "unexpected argument '--loud' found; try --help"),
        (&["labb"], "unrecognized subcommand 'labb'; a similar subcommand exists: 'lab'; try --help"),
        (
            &["plan"],
            "plan needs --arrivals and --takes: `millpond plan --arrivals 'poisson 50/s' --takes 20ms`; try --help",
        ),
        (&["completions"], "the following required arguments were not provided: <SHELL>; try --help"),
    ] {
        let ran = millpond(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(ran.stderr, format!("millpond: {complaint}\n"), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    for arguments in [&["--help"][..], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut child =
            command().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut complaints = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut complaints).expect("readable");
        assert!(child.wait().expect("it ends").success(), "{arguments:?}");
        assert_eq!(complaints, "");
    }
}
