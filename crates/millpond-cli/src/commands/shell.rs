//! `millpond completions` and `millpond man`: completion scripts and man pages, generated from the
//! definition of the arguments.

use clap::Command;
use clap_complete::Shell;

use crate::error::{Error, Outcome};
use crate::term;

/// Print the completion script for a shell.
///
/// For example: millpond completions bash > ~/.local/share/bash-completion/completions/millpond
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Print a man page.
///
/// For example: millpond man lab > millpond-lab.1; millpond man cluster status | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The page of this command; without it, the page of millpond itself
    command: Vec<String>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "millpond", &mut script);
    print(&script)
}

pub(crate) fn man(args: &ManArgs, mut whole: Command) -> Result<Outcome, Error> {
    whole.build();
    let page = match args.command.as_slice() {
        [] => whole.disable_help_flag(true),
        names => names.iter().try_fold(whole, |command, name| subcommand(&command, name))?,
    };
    let mut text = Vec::new();
    let source = concat!("millpond ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page).source(source).render(&mut text).expect("a Vec takes everything");
    print(&text)
}

fn subcommand(command: &Command, name: &str) -> Result<Command, Error> {
    if let Some(found) = command.find_subcommand(name) {
        return Ok(found.clone());
    }
    let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let path = command.get_bin_name().unwrap_or("millpond");
    Err(match known.as_slice() {
        [] => Error::new(format_args!("{path} has no commands of its own")),
        known => Error::new(format_args!("{path} has no command '{name}'; it has {}", known.join(", "))),
    })
}

fn print(text: &[u8]) -> Result<Outcome, Error> {
    term::print(&String::from_utf8_lossy(text))?;
    Ok(Outcome::Yes)
}
