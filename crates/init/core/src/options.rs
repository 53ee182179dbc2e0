//! The command line of `muster-core`.

use std::ffi::OsString;
use std::path::PathBuf;

use muster_engine::protocol::Severity;
use muster_unit_file::load::SearchPath;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder of sockets and of everything that lives as long as the machine is up.
    pub runtime: PathBuf,
    /// Where things are kept across boots.
    pub state: PathBuf,
    /// Folders of unit files instead of the usual ones.
    pub unit_path: Option<Vec<String>>,
    /// Folders of generators instead of the usual ones.
    pub generator_path: Option<Vec<String>>,
    /// The unit to boot; `default.target` where absent.
    pub unit: Option<String>,
    /// The root of the cgroup tree, as a folder in a mounted hierarchy; this process's own where absent.
    pub cgroup: Option<PathBuf>,
    /// The file system that unit files are read from.
    pub root: PathBuf,
    /// Keep services, start nothing by itself.
    pub safe_mode: bool,
    /// Units of devices, mounts and swaps are made from what the kernel says.
    pub kernel_units: bool,
    /// Where helper programs are.
    pub helpers: Option<PathBuf>,
    /// Lines that matter at least so much go to standard error too; without it, warnings do until the log daemon runs.
    pub console: Option<Severity>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runtime: PathBuf::from(muster_control::RUNTIME_FOLDER),
            state: PathBuf::from("/var/lib/muster"),
            unit_path: None,
            generator_path: None,
            unit: None,
            cgroup: None,
            root: PathBuf::from("/"),
            safe_mode: false,
            kernel_units: true,
            helpers: None,
            console: None,
        }
    }
}

/// What to do instead of running, or why the command line makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// `--help`
    #[error("{HELP}")]
    Help,
    /// `--version`
    #[error("muster-core {}", env!("CARGO_PKG_VERSION"))]
    Version,
    /// An option that there is not.
    #[error("unknown option '{0}'; see --help")]
    Unknown(String),
    /// A level that there is not.
    #[error("'{0}' is no level; error, warning, notice, info and debug are")]
    Level(String),
    /// An option that lacks its value.
    #[error("option '{0}' needs a value; see --help")]
    NoValue(&'static str),
}

/// The text of `--help`.
pub const HELP: &str = "\
muster-core: loads units, runs jobs, supervises processes. Started by muster-init.

Usage: muster-init [OPTIONS OF INIT] -- [OPTIONS]

Options:
      --unit UNIT            boot this unit instead of default.target
      --unit-path A:B        read unit files from these folders only
      --generator-path A:B   run generators from these folders only
      --runtime-dir DIR      sockets and runtime state [default: /run/muster]
      --state-dir DIR        timer stamps and the like [default: /var/lib/muster]
      --cgroup DIR           root of the cgroup tree [default: the cgroup of this process]
      --root DIR             read unit files below this folder [default: /]
      --helper-dir DIR       where muster's helper programs are [default: beside this program]
      --console LEVEL        also write lines of this level (error, warning, notice, info, debug) to standard error
      --no-kernel-units      make no units of devices, mounts and swaps
      --safe-mode            do not boot by itself, keep what runs, answer sctl
  -h, --help                 print this
  -V, --version              print the version
";

fn level_of(word: &str) -> Result<Severity, OptionsError> {
    Ok(match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        "notice" => Severity::Notice,
        "info" => Severity::Info,
        "debug" => Severity::Debug,
        other => return Err(OptionsError::Level(other.to_owned())),
    })
}

impl Options {
    /// Reads a command line (without the program's name).
    ///
    /// # Errors
    /// If it asks for help or the version, or makes no sense.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy().into_owned();
            let (name, inline) = match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(OsString::from(value))),
                None => (text.clone(), None),
            };
            let mut value = |name: &'static str| {
                inline
                    .clone()
                    .or_else(|| arguments.next())
                    .ok_or(OptionsError::NoValue(name))
            };
            let list = |value: OsString| -> Vec<String> {
                let text = value.to_string_lossy().into_owned();
                text.split(':').map(str::to_owned).collect()
            };
            match name.as_str() {
                "--unit" => {
                    options.unit = Some(value("--unit")?.to_string_lossy().into_owned());
                }
                "--unit-path" => options.unit_path = Some(list(value("--unit-path")?)),
                "--generator-path" => {
                    options.generator_path = Some(list(value("--generator-path")?));
                }
                "--runtime-dir" => options.runtime = value("--runtime-dir")?.into(),
                "--state-dir" => options.state = value("--state-dir")?.into(),
                "--cgroup" => options.cgroup = Some(value("--cgroup")?.into()),
                "--root" => options.root = value("--root")?.into(),
                "--helper-dir" => options.helpers = Some(value("--helper-dir")?.into()),
                "--console" => {
                    let level = value("--console")?;
                    options.console = Some(level_of(&level.to_string_lossy())?);
                }
                "--no-kernel-units" => options.kernel_units = false,
                "--safe-mode" => options.safe_mode = true,
                "-h" | "--help" => return Err(OptionsError::Help),
                "-V" | "--version" => return Err(OptionsError::Version),
                _ => return Err(OptionsError::Unknown(text)),
            }
        }
        Ok(options)
    }

    /// A helper program: in the stated folder, or beside this program.
    #[must_use]
    pub fn helper(&self, name: &str) -> PathBuf {
        let own = || {
            let program = std::env::current_exe().ok()?;
            Some(program.parent()?.to_owned())
        };
        let folder = self.helpers.clone().or_else(own);
        folder
            .unwrap_or_else(|| PathBuf::from("/usr/lib/muster"))
            .join(name)
    }

    /// Where units made by requests are.
    #[must_use]
    pub fn transient_folder(&self) -> PathBuf {
        self.runtime.join("units/transient")
    }

    /// Where settings changed until the next boot are.
    #[must_use]
    pub fn control_folder(&self) -> PathBuf {
        self.runtime.join("units/control")
    }

    /// Where generators write: normal, early, late.
    #[must_use]
    pub fn generator_folders(&self) -> [PathBuf; 3] {
        ["generator", "generator.early", "generator.late"]
            .map(|name| self.runtime.join("units").join(name))
    }

    /// All folders of unit files, in the order of their priority.
    #[must_use]
    pub fn search_path(&self) -> SearchPath {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let [normal, early, late] = self.generator_folders().map(text);
        let mut folders = vec![
            text(self.control_folder()),
            text(self.transient_folder()),
            early,
        ];
        match &self.unit_path {
            Some(path) => folders.extend(path.iter().cloned()),
            None => folders.extend(SearchPath::system().iter().map(str::to_owned)),
        }
        folders.push(normal);
        folders.push(late);
        SearchPath::new(folders.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, OptionsError> {
        Options::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn values_come_after_a_space_or_an_equals_sign() {
        let options = parse(&["--runtime-dir", "/r", "--unit-path=/a:/b", "--safe-mode"]).unwrap();
        assert_eq!(options.runtime, PathBuf::from("/r"));
        assert_eq!(
            options.unit_path,
            Some(vec!["/a".to_owned(), "/b".to_owned()])
        );
        assert!(options.safe_mode);
        let folders: Vec<String> = options.search_path().iter().map(str::to_owned).collect();
        assert_eq!(folders[0], "/r/units/control");
        assert!(
            folders.contains(&"/a".to_owned())
                && folders.ends_with(&["/r/units/generator.late".to_owned()])
        );
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(
            parse(&["--frob"]),
            Err(OptionsError::Unknown("--frob".into()))
        );
        assert_eq!(parse(&["--unit"]), Err(OptionsError::NoValue("--unit")));
        assert_eq!(parse(&["-h"]), Err(OptionsError::Help));
    }
}
