//! Configuration: from files, environment and flags to validated types.
//!
//! A daemon describes its configuration as a raw structure (`#[derive(Deserialize)]`, camelCase, with
//! serde defaults), gathers its layers with [`Load`], and turns the result into a structure that
//! cannot be invalid with [`Validate`]:
//!
//! ```
//! use muster_config::{Duration, Format, Load, Problems, Validate};
//! use serde::Deserialize;
//!
//! #[derive(Debug, Default, Deserialize)]
//! #[serde(rename_all = "camelCase", default)]
//! struct Raw {
//!     monitoring: RawMonitoring,
//! }
//!
//! #[derive(Debug, Default, Deserialize)]
//! #[serde(rename_all = "camelCase", default)]
//! struct RawMonitoring {
//!     poll_period: Duration,
//! }
//!
//! struct Config {
//!     poll_period: std::time::Duration,
//! }
//!
//! impl Validate for Raw {
//!     type Valid = Config;
//!
//!     fn validate(self, problems: &mut Problems<'_>) -> Option<Config> {
//!         let poll_period = self.monitoring.poll_period.get();
//!         if poll_period.is_zero() {
//!             problems.report("monitoring.pollPeriod", "must be longer than 0s");
//!             return None;
//!         }
//!         Some(Config { poll_period })
//!     }
//! }
//!
//! # fn main() -> Result<(), muster_config::ConfigError> {
//! let loaded = Load::<Raw>::new("muster-sm")
//!     .document("sm.json", Format::Json, r#"{"Monitoring": {"pollPeriod": "10s"}}"#)
//!     .env_prefix("MUSTER_SM")
//!     .set(["monitoring.pollPeriod=1m"])
//!     .load()?;
//! for setting in loaded.explain() {
//!     println!("{} = {} ({})", setting.key, setting.value, setting.origin);
//! }
//! assert_eq!(loaded.validate()?.poll_period.as_secs(), 60);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//! Later layers win:
//! 1. the defaults built into the raw structure;
//! 2. the main file ([`Load::file`], [`Load::optional_file`]);
//! 3. the files of the folder `<main file>.d` ([`Load::drop_ins`]) that end in `.json`, `.cfg`,
//!    `.toml`, `.yaml` or `.yml`, by file name; hidden files are left out; then documents at hand;
//! 4. the environment ([`Load::env_prefix`]): `MUSTER_SM__MONITORING__POLL_PERIOD=10s`;
//! 5. flags ([`Load::set`]): `--set monitoring.pollPeriod=10s`; of two for one key the last one wins.
//!
//! Tables merge key by key, to any depth. Everything else replaces, lists too. `null` takes back what
//! lower layers said, so the key has its default again.
//!
//! # Keys
//! Keys of files match without regard to upper and lower case, and a table that has two keys which
//! differ only in case is refused. Keys of the environment and of flags match without regard to `_`
//! as well; `__` (environment) and `.` (flags) separate sections. Their values have whatever type the
//! key wants; a value that is a JSON list or object is read as one; the word `null` is `null`.
//! A key that the structure does not know is an error in every layer.
//!
//! # Problems
//! A [`ConfigError`] names, one line each, the file and line, the key path, the value, and what was
//! expected. All unknown keys, and the wrong values of all keys, are reported together, up to 64; only
//! what stands inside a table that cannot be read at all stays hidden until the table is mended, and
//! documents with syntax errors are reported before anything is read from the others. Values under
//! keys that hold secrets (`password`, `token`, `pin`, `key` ...) and passwords inside URLs are never
//! shown. The raw structure's own `Debug` is its owner's business.
//!
//! # Limits
//! [`Limits`] bounds file size (1 MiB), depth (64), number of values (65536, with YAML aliases
//! counted at each use) and number of drop-in files (256). No input panics.
//!
//! # Documents
//! Documents that are no configuration (descriptions of machines, lists of rules) have no layers: [`read_documents`] gives their
//! values as they stand, each with its line and column, several YAML documents in a file, keys as they are written. Their owners
//! say what they mean; [`nearest`], [`printable`] and [`is_secret`] help with messages.
//!
//! # Not here
//! Watching files for changes, writing configuration, and addresses or certificates as value types:
//! they belong to the crates that use them.
//!
//! Raw structures must not use `#[serde(flatten)]`, `#[serde(tag)]` or `#[serde(untagged)]`: serde then
//! keeps values in a buffer of its own, where unknown keys go unnoticed, keys are matched with case and
//! positions are lost. Enumerations are externally tagged, serde's default.

mod de;
mod document;
mod load;
mod merge;
mod overlay;
mod parse;
mod problem;
mod redact;
mod tree;
mod value;

pub use de::nearest;
pub use document::{Content, Key, Located, read_documents};
pub use load::{Load, Loaded, Setting, Validate};
pub use parse::{Format, Limits};
pub use problem::{ConfigError, Problem, Problems};
pub use redact::is_secret;
pub use tree::{Origin, Source, printable};
pub use value::{ByteSize, Duration, ParseByteSizeError, ParseDurationError};
