//! The command line.

use std::path::Path;

/// What `--help` prints.
pub const HELP: &str = "\
muster-buswatch: says who owns names on a D-Bus bus.

Usage: muster-buswatch [--bus ADDRESS] [NAME]...
Reads `watch NAME` and `unwatch NAME` from the standard input, and writes a line of JSON for each change.

  --bus ADDRESS   the bus; otherwise DBUS_SYSTEM_BUS_ADDRESS, otherwise
                  unix:path=/run/dbus/system_bus_socket
  --help, --version
";

/// The system bus.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Options {
    /// Watch names on a bus.
    Run {
        /// The bus.
        address: String,
        /// The first names.
        names: Vec<String>,
    },
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// Why the command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// `--bus` without an address.
    #[error("--bus needs an address")]
    NoAddress,
    /// Something that is not known.
    #[error("unknown option {option}; --help lists what there is")]
    Unknown {
        /// The option.
        option: String,
    },
}

impl Options {
    /// Reads the arguments; `from_environment` is the bus that the environment names.
    pub fn parse(
        arguments: impl IntoIterator<Item = String>,
        from_environment: Option<String>,
    ) -> Result<Self, OptionError> {
        let mut address = from_environment.filter(|address| !address.is_empty());
        let mut names = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bus" => address = Some(arguments.next().ok_or(OptionError::NoAddress)?),
                "--help" | "-h" => return Ok(Self::Help),
                "--version" => return Ok(Self::Version),
                option => match option.strip_prefix("--bus=") {
                    Some(value) => address = Some(value.to_owned()),
                    None if option.starts_with('-') => {
                        return Err(OptionError::Unknown { option: argument });
                    }
                    None => names.push(argument),
                },
            }
        }
        let address = address.unwrap_or_else(|| SYSTEM_BUS.to_owned());
        Ok(Self::Run {
            address: address_of(address),
            names,
        })
    }
}

/// A bare path is a socket.
fn address_of(address: String) -> String {
    if Path::new(&address).is_absolute() {
        format!("unix:path={address}")
    } else {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, environment: Option<&str>) -> Result<Options, OptionError> {
        let words = line.split_whitespace().map(str::to_owned);
        Options::parse(words, environment.map(str::to_owned))
    }

    fn run(address: &str, names: &[&str]) -> Result<Options, OptionError> {
        Ok(Options::Run {
            address: address.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    #[test]
    fn bus_is_given_by_option_environment_or_default() {
        assert_eq!(parsed("", None), run(SYSTEM_BUS, &[]));
        assert_eq!(parsed("", Some("")), run(SYSTEM_BUS, &[]));
        assert_eq!(
            parsed("a.b", Some("unix:path=/e")),
            run("unix:path=/e", &["a.b"])
        );
        let option = run("unix:path=/o", &["a.b", "c.d"]);
        assert_eq!(
            parsed("a.b --bus=unix:path=/o c.d", Some("unix:path=/e")),
            option
        );
        assert_eq!(parsed("a.b c.d --bus /o", None), option);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parsed("--bus", None), Err(OptionError::NoAddress));
        assert_eq!(
            parsed("--buss x", None).unwrap_err().to_string(),
            "unknown option --buss; --help lists what there is"
        );
    }
}
