//! Hints for users of GNU parallel and xargs: options and syntax that mean something else here.
//!
//! Syntax that is special in those tools, but would be plain text here, is refused with its
//! replacement. docs/coming-from-parallel.md has the complete table.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

pub(super) const NO_COMMAND: &str = "no command; write one, such as `millpond run echo {} ::: a b`; to run \
                                     each line of a file as a command, write `millpond run sh -c < FILE`";

/// Options of GNU parallel and xargs, with the answer to each.
const OPTIONS: [(&[&str], &str); 24] = [
    (&["--bar", "--eta", "--progress"], "progress is shown on a terminal without an option"),
    (&["--group"], "output is grouped by default"),
    (&["-I", "-i", "--replace"], "the placeholder is {} and cannot be changed"),
    (&["-L", "-l", "-N", "--max-lines", "--max-replace-args"], "use -n N for N arguments per job"),
    (&["-X", "-m", "-x", "--xargs", "--exit", "-s", "--max-chars"], "use -n N; a job gets at most 128 KiB"),
    (&["-q", "--quote"], "it is not needed, because several words are started without a shell"),
    (&["-v"], "use -t or --verbose, which show each command on stderr"),
    (&["--silent"], "commands are shown only with --verbose"),
    (&["--dryrun"], "use --dry-run"),
    (&["--keeporder"], "use -k or --keep-order"),
    (&["--halt-on-error"], "use --halt"),
    (&["--tagstring", "--ctag", "--ctagstring"], "use --tag, which begins each line with the argument"),
    (&["--line-buffered", "--linebuffer"], "use --line-buffer"),
    (&["--retry-failed"], "use --joblog FILE --resume-failed"),
    (
        &["--results", "--files", "--outputasfiles", "--res"],
        "redirect in the command: 'cmd {} > out/{/}.txt'",
    ),
    (&["--process-slot-var"], "use {%}, the number of the slot"),
    (&["--seqreplace"], "use {#}, the number of the job"),
    (&["--null-input", "-E", "-e", "--eof"], "input ends at the end of the file"),
    (
        &["--nice", "--load", "--memfree", "--noswap"],
        "start it with `nice millpond run`, and limit jobs with -j",
    ),
    (
        &["--termseq", "-p", "--interactive", "-o", "--open-tty", "--tty"],
        "jobs have no terminal and no stdin",
    ),
    (
        &["--pipe", "--pipepart", "--pipe-part", "--spreadstdin", "--block", "--tee", "--cat", "--fifo"],
        "jobs have no stdin; split the input into files with `split` and pass their names",
    ),
    (
        &["--colsep", "-C", "--header", "--link", "--shuf", "--trim", "--plus", "--rpl", "--arg-sep"],
        "prepare the arguments with another tool, such as cut, paste or shuf, before the pipe",
    ),
    (
        &[
            "-S",
            "--sshlogin",
            "--sshloginfile",
            "--slf",
            "--transfer",
            "--transferfile",
            "--return",
            "--onall",
            "--nonall",
        ],
        "jobs run on this machine; start `ssh HOST` in the command",
    ),
    (
        &["--semaphore", "--sem", "--fg", "--bg", "--env", "--wd", "--workdir", "--basefile", "--tmux"],
        "set it in the command, such as 'cd DIR && cmd {}'",
    ),
];

/// Explains an option that `run` does not have: its replacement if another tool has it.
pub(crate) fn explain(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    if arguments.get(1).is_none_or(|command| command != "run") || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    if let Some((_, hint)) = OPTIONS.into_iter().find(|(names, _)| names.contains(&option.as_str())) {
        return Some(format!("{option} is not supported: {hint}"));
    }
    Some(match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(similar)) => {
            format!("run has no option {option}; a similar one is {similar}; try --help")
        }
        _ => format!(
            "run has no option {option}; options of the command go after its name: `millpond run COMMAND \
             {option}`; try --help"
        ),
    })
}

/// Explains a word that would name another source of arguments in GNU parallel.
pub(super) fn other_source(word: &OsStr) -> Option<String> {
    match word.as_bytes() {
        b"::::" => Some(":::: is not supported; use -a FILE before the command".to_owned()),
        b":::+" | b"::::+" => Some(format!(
            "{} is not supported: a job has one list of arguments; combine the lists before, such as \
             `paste LIST1 LIST2 | millpond run ...`",
            word.to_string_lossy()
        )),
        _ => None,
    }
}

/// Checks a command for words that only a shell, or only GNU parallel, would understand.
pub(super) fn check_words(words: &[OsString], shell: bool) -> Result<(), String> {
    for (variable, placeholder) in [("PARALLEL_SEQ", "{#}"), ("PARALLEL_JOBSLOT", "{%}")] {
        if words.iter().any(|word| contains(word.as_bytes(), variable.as_bytes())) {
            return Err(format!("{variable} is not set here; write {placeholder}"));
        }
    }
    if shell || words.len() == 1 {
        return Ok(());
    }
    match words.iter().find(|word| is_shell_operator(word.as_bytes())) {
        Some(word) => Err(format!(
            "'{}' would be passed to the program as text; quote the whole command, or add --shell",
            word.to_string_lossy()
        )),
        None => Ok(()),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether a shell reads the word as an operator. `>text` is not refused, because it may be a
/// search term, unless it contains a placeholder. `2>text` is refused.
fn is_shell_operator(word: &[u8]) -> bool {
    const LONE: [&[u8]; 12] =
        [b"|", b"||", b"&", b"&&", b";", b";;", b"|&", b">", b">>", b"<", b"<<", b"<<<"];
    let redirects_stream = matches!(word, [b'1' | b'2' | b'&', b'>', ..]) || word.starts_with(b">&");
    let redirects_to_argument = word.starts_with(b">") && contains(word, b"{") && contains(word, b"}");
    LONE.contains(&word) || redirects_stream || redirects_to_argument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_a_shell_are_told_from_text() {
        for word in ["|", "||", "&&", ";", ">", ">>", "<", "2>&1", "2>/dev/null", "&>log", ">&2", ">{}.out"] {
            assert!(is_shell_operator(word.as_bytes()), "{word}");
        }
        for word in ["", "a|b", ">chr1", "<br>", "=", "-", "->", "2", "a>b", "\\;", "{}", "+"] {
            assert!(!is_shell_operator(word.as_bytes()), "{word}");
        }
    }
}
