//! `millpond completions` and `millpond man`: what a shell and `man` want to know, made from the
//! argument parser.

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
/// For example: millpond man lab > millpond-lab.1
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The page of this command; without it, the page of millpond itself
    command: Option<String>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "millpond", &mut script);
    print(&script)
}

pub(crate) fn man(args: &ManArgs, mut whole: Command) -> Result<Outcome, Error> {
    whole.build();
    let page = match &args.command {
        None => whole.disable_help_flag(true),
        Some(name) => {
            let known = whole.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", ");
            let Some(command) = whole.find_subcommand(name) else {
                return Err(Error::new(format_args!("no command is called '{name}'; there are {known}")));
            };
            command.clone()
        }
    };
    let mut text = Vec::new();
    let source = concat!("millpond ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page).source(source).render(&mut text).expect("a Vec takes everything");
    print(&text)
}

fn print(text: &[u8]) -> Result<Outcome, Error> {
    term::print(&String::from_utf8_lossy(text))?;
    Ok(Outcome::Yes)
}
