//! Command line, and the words of the kernel's command line that are meant for init.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::policy::Timing;

/// What `--help` prints.
pub const HELP: &str = "\
muster-init: the parent of all services. Starts muster-core and keeps what must outlive it.

Usage: muster-init [OPTION]... [-- ARGUMENT-OF-CORE...]
Is PID 1, or with --supervise a supervisor beside another init.

  --supervise               be a child subreaper instead of PID 1
  --core PATH               muster-core's program; otherwise the one beside this program,
                            otherwise /usr/lib/muster/muster-core
  --safe-mode               start the first core in safe mode
  --heartbeat SECONDS       ask core so often for a sign of life (5; 0 for never)
  --hello-timeout SECONDS   time for a core to take over (10)
  --adopt-timeout SECONDS   time for a core to adopt the services (60)
  --shutdown-timeout SECONDS
                            time for what is left to end at the shutdown (10)
  --log-target TARGET       stderr, kmsg, or auto: kmsg for PID 1 of a machine (auto)
  --help, --version

As PID 1, these words of the kernel's command line count as well:
  muster.core=PATH  muster.safe  muster.heartbeat=SECONDS
";

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Be the init.
    Run,
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Say by the exit code whether this program can read the state in a descriptor.
    CheckState(i32),
}

/// Where messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTarget {
    /// The kernel's log for PID 1 of a machine, else the standard error.
    Auto,
    /// The standard error.
    Stderr,
    /// The kernel's log.
    Kmsg,
}

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What to do.
    pub command: Command,
    /// Be a subreaper instead of PID 1.
    pub supervise: bool,
    /// The program of core, if it was named.
    pub core: Option<PathBuf>,
    /// What core is started with.
    pub core_arguments: Vec<OsString>,
    /// Start the first core in safe mode.
    pub safe_mode: bool,
    /// Times for core.
    pub timing: Timing,
    /// Time for what is left at the shutdown.
    pub shutdown_timeout: Duration,
    /// Where messages go.
    pub log_target: LogTarget,
    /// The descriptor with the state of the init that executed this one.
    pub resume: Option<i32>,
    /// Arguments that are not known.
    pub unknown: Vec<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Command::Run,
            supervise: false,
            core: None,
            core_arguments: Vec::new(),
            safe_mode: false,
            timing: Timing::default(),
            shutdown_timeout: Duration::from_secs(10),
            log_target: LogTarget::Auto,
            resume: None,
            unknown: Vec::new(),
        }
    }
}

/// Why the command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option without its value.
    #[error("{option} needs a value")]
    NoValue {
        /// The option.
        option: String,
    },
    /// An option with a value that it cannot have.
    #[error("{option} cannot be {value:?}; {expected}")]
    BadValue {
        /// The option.
        option: String,
        /// Its value.
        value: OsString,
        /// What it can be.
        expected: &'static str,
    },
}

/// The option by which a running init hands its state to the next one; must come first.
pub(crate) const RESUME: &str = "--resume";
/// The option by which a running init asks another program whether it could take over.
pub(crate) const CHECK_STATE: &str = "--check-state";

impl Options {
    /// Reads the arguments, without the name of the program. Those that are not known are collected: for
    /// PID 1 they are the kernel's, for everybody else a mistake.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, inline) = split(&argument);
            let mut value = || match inline {
                Some(value) => Ok(value.to_owned()),
                None => arguments.next().ok_or_else(|| OptionError::NoValue {
                    option: name.to_string_lossy().into_owned(),
                }),
            };
            match name.as_bytes() {
                b"--supervise" => options.supervise = true,
                b"--safe-mode" => options.safe_mode = true,
                b"--core" => options.core = Some(value()?.into()),
                b"--heartbeat" => options.timing.heartbeat = seconds(name, &value()?)?,
                b"--hello-timeout" => options.timing.hello = seconds(name, &value()?)?,
                b"--adopt-timeout" => options.timing.adopt = seconds(name, &value()?)?,
                b"--shutdown-timeout" => options.shutdown_timeout = seconds(name, &value()?)?,
                b"--log-target" => options.log_target = log_target(name, &value()?)?,
                b"--help" | b"-h" => options.command = Command::Help,
                b"--version" => options.command = Command::Version,
                b"--" => options.core_arguments.extend(arguments.by_ref()),
                bytes if bytes == RESUME.as_bytes() => {
                    options.resume = Some(descriptor(name, &value()?)?);
                }
                bytes if bytes == CHECK_STATE.as_bytes() => {
                    options.command = Command::CheckState(descriptor(name, &value()?)?);
                }
                _ => options.unknown.push(argument),
            }
        }
        Ok(options)
    }

    /// Applies the words of the kernel's command line. What is given to the program itself comes first;
    /// a word that cannot be used is returned, since it must not keep a machine from starting.
    pub fn apply_kernel_words<'a>(&mut self, line: &'a str) -> Vec<&'a str> {
        let mut bad = Vec::new();
        for word in line.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "muster.core" if !value.is_empty() => {
                    self.core.get_or_insert_with(|| value.into());
                }
                "muster.safe" => self.safe_mode = true,
                "muster.heartbeat" => match seconds(OsStr::new(name), OsStr::new(value)) {
                    Ok(heartbeat) => self.timing.heartbeat = heartbeat,
                    Err(_) => bad.push(word),
                },
                _ if name.starts_with("muster.") => bad.push(word),
                _ => {}
            }
        }
        bad
    }
}

/// `--name=value` in its parts. What does not begin with a dash has none.
fn split(argument: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = argument.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => (
            OsStr::from_bytes(&bytes[..at]),
            Some(OsStr::from_bytes(&bytes[at + 1..])),
        ),
        _ => (argument, None),
    }
}

fn bad_value(option: &OsStr, value: &OsStr, expected: &'static str) -> OptionError {
    OptionError::BadValue {
        option: option.to_string_lossy().into_owned(),
        value: value.to_owned(),
        expected,
    }
}

fn seconds(option: &OsStr, value: &OsStr) -> Result<Duration, OptionError> {
    value
        .to_str()
        .and_then(|text| text.parse::<f64>().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| *duration <= Duration::from_secs(24 * 60 * 60))
        .ok_or_else(|| bad_value(option, value, "seconds up to a day are expected"))
}

fn descriptor(option: &OsStr, value: &OsStr) -> Result<i32, OptionError> {
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 2)
        .ok_or_else(|| bad_value(option, value, "the number of a descriptor is expected"))
}

fn log_target(option: &OsStr, value: &OsStr) -> Result<LogTarget, OptionError> {
    match value.as_bytes() {
        b"auto" => Ok(LogTarget::Auto),
        b"stderr" => Ok(LogTarget::Stderr),
        b"kmsg" => Ok(LogTarget::Kmsg),
        _ => Err(bad_value(option, value, "auto, stderr or kmsg is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, OptionError> {
        Options::parse(
            line.split(' ')
                .filter(|word| !word.is_empty())
                .map(OsString::from),
        )
    }

    #[test]
    fn nothing_means_the_defaults() {
        assert_eq!(parsed("").unwrap(), Options::default());
    }

    #[test]
    fn values_come_inline_or_in_the_next_argument() {
        let options = parsed(
            "--supervise --core=/a --heartbeat 0.5 --hello-timeout=1 --log-target kmsg -- --core /b",
        )
        .unwrap();
        assert!(options.supervise);
        assert_eq!(options.core, Some("/a".into()));
        assert_eq!(options.timing.heartbeat, Duration::from_millis(500));
        assert_eq!(options.timing.hello, Duration::from_secs(1));
        assert_eq!(options.log_target, LogTarget::Kmsg);
        assert_eq!(options.core_arguments, ["--core", "/b"]);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            parsed("--core").unwrap_err().to_string(),
            "--core needs a value"
        );
        for line in [
            "--heartbeat -1",
            "--heartbeat NaN",
            "--heartbeat 1e9",
            "--resume 2",
            "--log-target x",
        ] {
            assert!(
                matches!(parsed(line), Err(OptionError::BadValue { .. })),
                "{line}"
            );
        }
        assert_eq!(
            parsed("--heartbaet single").unwrap().unknown,
            ["--heartbaet", "single"]
        );
    }

    #[test]
    fn kernel_words_yield_to_arguments() {
        let mut options = parsed("--core /a").unwrap();
        let bad = options.apply_kernel_words(
            "quiet muster.core=/b muster.safe muster.heartbeat=2 muster.heartbeat=x muster.coer=/c\n",
        );
        assert_eq!(options.core, Some("/a".into()));
        assert!(options.safe_mode);
        assert_eq!(options.timing.heartbeat, Duration::from_secs(2));
        assert_eq!(bad, ["muster.heartbeat=x", "muster.coer=/c"]);
    }
}
