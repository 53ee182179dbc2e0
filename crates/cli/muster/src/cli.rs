//! The command line, as clap sees it: one module per family of commands.

pub(crate) mod doctor;
pub(crate) mod image;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod pki;
pub(crate) mod ports;
pub(crate) mod sm;
pub(crate) mod unit;
pub(crate) mod up;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line makes no sense
  3  refused: not allowed, or not possible in this state
  4  there is no such node, instance, item, certificate, authority or file
  5  the daemon cannot be reached
  6  what was waited for did not happen in time
  130  interrupted; what was begun is finished by running the command again";

/// Machines that run, and a fleet that is managed: what runs where, what shall run, and the nodes it runs on
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
    /// For people who want to know more.
    Wide,
    /// For programs: one JSON value; with --watch or --follow one on each line.
    Json,
    /// The same as YAML; with --watch or --follow one document after the other.
    Yaml,
    /// Names only, one on each line.
    Name,
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
    /// Bring up a Unit on this machine to try Muster out: two nodes and a demo
    ///
    /// Doing it again starts what has died and leaves alone what runs.
    #[command(after_help = EXIT_CODES)]
    Up(up::Up),
    /// Take away what `up` made, with everything of it
    #[command(after_help = EXIT_CODES)]
    Down(up::Down),
    /// The Unit in a few lines
    #[command(after_help = EXIT_CODES)]
    Status(unit::Status),
    /// List nodes, instances, items, alerts or networks
    ///
    /// With --watch every change follows. Programs take -o json: keys are never renamed or removed, every key is always there,
    /// what is not known is null, sizes are bytes and times RFC 3339. With --watch each line is one object with `event`
    /// (`set`, `gone`, or `synced` once everything that was there at the beginning has been told), `kind`, `key` and `object`.
    #[command(subcommand, after_help = EXIT_CODES)]
    Get(unit::Get),
    /// Show one node, instance, item or network, and what belongs to it
    #[command(after_help = EXIT_CODES)]
    Describe(unit::Describe),
    /// Tell why an instance is where it is, or is nowhere: every node with why or why not
    #[command(after_help = EXIT_CODES)]
    Explain(unit::Explain),
    /// Say what shall run from now on
    ///
    /// The document is checked before anything is sent; mistakes are shown with line and column.
    #[command(after_help = unit::DOCUMENT)]
    Apply(unit::Apply),
    /// Show what `apply` would change, and where instances would run
    #[command(after_help = EXIT_CODES)]
    Diff(unit::Diff),
    /// Want again what was wanted before
    #[command(after_help = EXIT_CODES)]
    Rollback(unit::Rollback),
    /// Show what an instance or a node wrote
    #[command(after_help = EXIT_CODES)]
    Logs(unit::Logs),
    /// Show what happened
    #[command(after_help = EXIT_CODES)]
    Events(unit::Events),
    /// Show what nodes and instances use, live
    #[command(after_help = EXIT_CODES)]
    Top(unit::Top),
    /// Check whether this machine has what Muster needs, and say what to do
    Doctor(doctor::Doctor),
    /// The nodes of a system: provision, renew, pause, drain, look
    #[command(subcommand, after_help = EXIT_CODES)]
    Node(node::Node),
    /// Machines on demand: make them, use them, run something on them, put them away
    ///
    /// Where no node manager answers on your own socket, one is started in the background.
    #[command(after_help = machine::EXIT_CODES)]
    Machine(machine::Machine),
    /// Images: build, look into, validate, upload, download
    #[command(subcommand, after_help = EXIT_CODES)]
    Image(image::Image),
    /// The certificate authority of a system without a cloud
    #[command(subcommand, after_help = EXIT_CODES)]
    Pki(pki::Pki),
    /// The Service Manager without a controller
    #[command(subcommand)]
    Sm(sm::Sm),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages
    #[command(hide = true)]
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
