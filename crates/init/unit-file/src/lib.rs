//! systemd's unit files in, typed values out.
//!
//! This crate is the file side of the init engine. It reads what distributions ship and what
//! administrators write, means by it what systemd 252 means, and gives the engine values it can act
//! on without parsing anything. Muster's own directives (`HealthCheckExec=` and its siblings,
//! `SandboxBestEffort=`) stand in the same files.
//!
//! # Entry points
//!
//! * [`load::Loader`] finds, reads and merges the files of a unit: search path, aliases, masks,
//!   templates, drop-ins, `.wants/` folders. [`load::Loader::load`] gives a [`load::LoadedUnit`]: a
//!   [`config::UnitConfig`], the [`diagnostic::Diagnostics`] and a fingerprint, by which a reload reads
//!   only what changed.
//! * [`config::UnitConfig`] is a unit: dependencies, conditions, limits, the part of its type
//!   ([`config::UnitKind`]), and how its processes are set up, ended and limited.
//! * [`install::Installer`] plans `enable`, `disable`, `mask`, presets and the rest as link changes with
//!   systemctl's messages, and answers `is-enabled`.
//! * [`directives::table`] says for every directive its type, where it lands and whether it has an effect
//!   yet.
//! * [`calendar::CalendarSpec`], [`timespan::TimeSpan`], [`timestamp::parse_timestamp`] for timers.
//! * [`name::UnitName`] for names and escaping, [`specifier::HostFacts`] for what `%H` and others stand for.
//! * [`value::environment::parse_environment_file`] for `EnvironmentFile=`, which is read when a process
//!   starts.
//!
//! # How it is built
//!
//! ```text
//! UnitFs -> load::UnitIndex -> syntax::parse -> directives::apply -> config::UnitConfig
//!                                                    |                      |
//!                                            value::Setting::assign   directives::verify
//! ```
//!
//! The type of a field decides how its directive is read ([`value::Setting`]); a row of the table joins the
//! two. A new directive is a field and a row.
//!
//! # Invariants
//!
//! * Everything is pure: no clock, no threads, no system calls but reading files through
//!   [`fs::UnitFs`] (and the system's zone database, when an expression names a time zone). There are no
//!   long-running tasks.
//! * Nothing is dropped in silence: what a file says either has an effect or causes a diagnostic with
//!   file and line. Only sections and keys that begin with `X-` are skipped without one.
//! * No input panics, and time grows with the length of the input. Lines end at 1 MiB, files at 4 MiB,
//!   expanded values at 1 MiB, diagnostics at [`diagnostic::MAX_KEPT`] per unit (the rest are counted).
//! * Units are compact: equal names are shared, lists of texts are one allocation, groups of rare settings
//!   are [`config::Rare`].
//!
//! # What it deliberately does not do
//!
//! * Dependencies that follow from settings rather than stand in files (on slices, mounts, sockets,
//!   `sysinit.target`) are the engine's.
//! * Names of users, groups and devices are not looked up, percentages of memory are not resolved, groups
//!   of system calls are not expanded, `$VAR` in command lines stays: all that is for the moment a process
//!   starts.
//! * Nothing is written. Plans are carried out by whoever asked for them.

pub mod calendar;
pub mod config;
pub mod diagnostic;
pub mod directives;
pub mod fs;
pub mod install;
pub mod load;
pub mod name;
pub mod specifier;
pub mod syntax;
pub mod timespan;
pub mod timestamp;
pub mod value;
