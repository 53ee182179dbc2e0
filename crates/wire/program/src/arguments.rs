//! The command line that every daemon has.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use muster_telemetry::LogFormat;

use crate::About;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) config: Option<PathBuf>,
    pub(crate) set: Vec<String>,
    pub(crate) check_config: bool,
    pub(crate) print_config: bool,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

impl Arguments {
    /// Reads the process's arguments; help, version and mistakes end the process, as everywhere.
    pub(crate) fn parse(about: &About) -> Self {
        Self::of(&command(about).get_matches())
    }

    fn of(matches: &ArgMatches) -> Self {
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        Self {
            config: matches.get_one("config").cloned(),
            set: matches
                .get_many("set")
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            check_config: matches.get_flag("check-config"),
            print_config: matches.get_flag("print-config"),
            log: text("log"),
            log_format: match text("log-format").as_str() {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
        }
    }
}

fn command(about: &About) -> Command {
    let package = about.name.replace('-', "_");
    Command::new(about.name)
        .version(about.version)
        .about(about.summary)
        .long_about(format!("{}\n\n{}", about.summary, about.details))
        .arg(
            Arg::new("config")
                .long("config")
                .short('c')
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(format!(
                    "Configuration file: .json, .cfg, .toml or .yaml; FILE.d holds drop-ins. Without this option {} is read if it is there",
                    about.default_file
                )),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("KEY=VALUE")
                .action(ArgAction::Append)
                .help(format!(
                    "Sets a key over files and environment, as in --set {}; can be repeated",
                    about.set_example
                )),
        )
        .arg(
            Arg::new("check-config")
                .long("check-config")
                .action(ArgAction::SetTrue)
                .help("Checks the configuration, says what is wrong with it, and ends"),
        )
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Prints every key that is set, with its value and where it was set, and ends"),
        )
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("FILTER")
                .env(format!("{}_LOG", about.env_prefix))
                .default_value("info")
                .help(format!(
                    "What to log, as error, warn, info, debug, trace, or per part as {package}=debug"
                )),
        )
        .arg(
            Arg::new("log-format")
                .long("log-format")
                .value_parser(PossibleValuesParser::new(["text", "json"]))
                .default_value("text")
                .help("How to log"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About {
        name: "muster-demo",
        version: "1.2.3",
        summary: "A daemon.",
        details: "It does nothing.",
        default_file: "/etc/muster/demo.json",
        env_prefix: "MUSTER_DEMO_OF_ARGUMENTS",
        set_example: "a=b",
        blocking_threads: 1,
    };

    fn parsed(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        let words = std::iter::once("muster-demo").chain(arguments.iter().copied());
        Ok(Arguments::of(&command(&ABOUT).try_get_matches_from(words)?))
    }

    #[test]
    fn every_option_arrives() {
        let given = parsed(&[
            "-c",
            "a.json",
            "--set",
            "x=1",
            "--set",
            "y=2",
            "--log",
            "debug",
            "--log-format",
            "json",
            "--check-config",
        ]);
        let given = given.expect("these are options");
        assert_eq!(given.config, Some(PathBuf::from("a.json")));
        assert_eq!(given.set, ["x=1", "y=2"]);
        assert_eq!(
            (given.log.as_str(), given.log_format),
            ("debug", LogFormat::Json)
        );
        assert!(given.check_config && !given.print_config);
    }

    #[test]
    fn without_options_it_logs_text_at_info() {
        let given = parsed(&[]).expect("nothing is needed");
        assert_eq!(
            (given.log.as_str(), given.log_format),
            ("info", LogFormat::Text)
        );
        assert!(given.config.is_none() && given.set.is_empty());
    }

    #[test]
    fn help_names_the_usual_file_and_the_example() {
        let help = command(&ABOUT).render_long_help().to_string();
        for words in [
            "A daemon.",
            "It does nothing.",
            "/etc/muster/demo.json",
            "--set a=b",
        ] {
            assert!(help.contains(words), "{words} is not in\n{help}");
        }
    }

    #[test]
    fn an_unknown_format_is_refused() {
        assert!(parsed(&["--log-format", "xml"]).is_err());
    }
}
