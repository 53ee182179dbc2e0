//! The command line, as clap sees it: one module per family of commands.

pub(crate) mod image;
pub(crate) mod node;
pub(crate) mod pki;
pub(crate) mod sm;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line makes no sense
  3  refused: not allowed, or not possible in this state
  4  there is no such node, certificate, authority or file
  5  the daemon cannot be reached";

/// Machines that run, and a fleet that is managed: nodes, their identities and certificates.
#[derive(Debug, Parser)]
#[command(name = "muster", version, subcommand_required = true, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Global {
    /// How answers are printed.
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        global = true
    )]
    pub(crate) output: Output,
    /// When to use colours.
    #[arg(
        long,
        alias = "colour",
        value_enum,
        value_name = "WHEN",
        default_value_t,
        global = true
    )]
    pub(crate) color: When,
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON value.
    Json,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The families of commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The certificate authority of a system without a cloud
    #[command(subcommand, after_help = EXIT_CODES)]
    Pki(pki::Pki),
    /// The nodes of a system: provision, renew, pause, look
    #[command(subcommand, after_help = EXIT_CODES)]
    Node(node::Node),
    /// Images: build, look into, validate, upload, download
    #[command(subcommand, after_help = EXIT_CODES)]
    Image(image::Image),
    /// The Service Manager without a controller
    #[command(subcommand)]
    Sm(sm::Sm),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages
    Man(Man),
}

/// Completions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Completions {
    /// For which shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Manual pages.
#[derive(Debug, Clone, Args)]
pub(crate) struct Man {
    /// The folder to write them into; the main page goes to standard output if there is none.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained() {
        fn check(command: &clap::Command) {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                !about.is_empty(),
                "{} has no description",
                command.get_name()
            );
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{}: {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
