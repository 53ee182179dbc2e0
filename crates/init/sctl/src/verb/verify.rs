//! `verify`: what is wrong with units, before they are started.

mod start;

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use muster_engine::dep::DepKind;
use muster_unit_file::config::{LoadState, UnitConfig, UnitKind};
use muster_unit_file::diagnostic::{Diagnostic, Severity};
use muster_unit_file::fs::RealFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitNameError};
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_units::Graph;
use muster_units::closure::Closure;
use thiserror::Error;

use super::VerbError;
use crate::cli::{RecursiveErrors, Verify};
use crate::console::{Console, Exit};
use crate::system::System;
use start::Rehearsal;

/// The instance that stands for all instances of a template.
pub(super) const INSTANCE: &str = "test-instance";

/// Where programs without a path are looked for.
const PROGRAM_FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Why nothing was checked.
#[derive(Debug, Error)]
pub(crate) enum VerifyError {
    /// Not the name of a unit file.
    #[error("Failed to prepare filename {text}")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: UnitNameError,
    },
    /// A relative path without a current folder.
    #[error("Failed to make path '{text}' absolute")]
    Path {
        /// What was given.
        text: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

pub(super) fn verify(arguments: &Verify, console: &mut Console) -> Result<Exit, VerbError> {
    let system = System::open(&arguments.common)?;
    let (names, folders) = named(&arguments.units, &system)?;
    let recursive = arguments.recursive_errors;
    Ok(check(&system, &names, &folders, recursive, console))
}

/// Checks units, of which some folders may have files that come before all others.
pub(super) fn check(
    system: &System,
    names: &[UnitName],
    folders: &[String],
    recursive: Option<RecursiveErrors>,
    console: &mut Console,
) -> Exit {
    let machine = system.machine();
    let system_path = SearchPath::system();
    let path = SearchPath::new(folders.iter().map(String::as_str).chain(system_path.iter()));
    let mut loader = system.loader_with(path);
    let graph = Graph::new(
        Closure::new(&mut loader, &machine).of(names.iter().cloned()),
        &machine,
    );
    let mut report = Report {
        system,
        console,
        failed: false,
        warned: false,
    };
    let depth = match recursive {
        Some(RecursiveErrors::No) => 0,
        Some(RecursiveErrors::One) => 1,
        Some(RecursiveErrors::Yes) | None => usize::MAX,
    };
    for (name, level) in needed(&graph, names, depth) {
        report.files(&mut loader, &name, level == 0);
    }
    let alone = recursive == Some(RecursiveErrors::No);
    let rehearsal = (!alone).then(|| Rehearsal::new(&graph));
    for name in names {
        report.unit(&graph, loader.fs(), name, rehearsal.as_ref());
    }
    let failed = report.failed || (report.warned && recursive.is_some());
    if failed { Exit::Failure } else { Exit::Success }
}

/// The units that words on the command line mean, and folders to find them in first.
pub(super) fn named(
    texts: &[String],
    system: &System,
) -> Result<(Vec<UnitName>, Vec<String>), VerifyError> {
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for text in texts {
        let file = text.rsplit('/').next().unwrap_or_default();
        let name = UnitName::new(file).map_err(|source| VerifyError::Name {
            text: text.clone(),
            source,
        })?;
        // A bare name is a file if there is one, and otherwise an installed unit.
        let is_file = text.contains('/') || (!system.is_offline() && Path::new(text).exists());
        if is_file {
            let path = std::path::absolute(text).map_err(|source| VerifyError::Path {
                text: text.clone(),
                source,
            })?;
            let folder = path.parent().unwrap_or(Path::new("/"));
            let folder = folder.to_string_lossy().into_owned();
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        names.push(if name.is_template() {
            name.with_instance(INSTANCE).unwrap_or(name)
        } else {
            name
        });
    }
    Ok((names, folders))
}

/// The units and what they pull in, with the distance from the nearest named one.
fn needed(graph: &Graph, names: &[UnitName], depth: usize) -> Vec<(UnitName, usize)> {
    const PULLS: [DepKind; 5] = [
        DepKind::Requires,
        DepKind::Requisite,
        DepKind::Wants,
        DepKind::BindsTo,
        DepKind::Upholds,
    ];
    let mut levels: HashMap<UnitName, usize> = HashMap::new();
    let mut order = Vec::new();
    let mut queue: VecDeque<(UnitName, usize)> =
        names.iter().map(|name| (name.clone(), 0)).collect();
    while let Some((name, level)) = queue.pop_front() {
        let Some(unit) = graph.unit(&name) else {
            continue;
        };
        if levels.insert(unit.name().clone(), level).is_some() {
            continue;
        }
        order.push((unit.name().clone(), level));
        if level < depth {
            let others = PULLS.iter().flat_map(|kind| unit.dependencies(*kind));
            queue.extend(others.map(|other| (other.clone(), level + 1)));
        }
    }
    order
}

/// What was found so far.
struct Report<'a> {
    system: &'a System,
    console: &'a mut Console,
    failed: bool,
    warned: bool,
}

impl Report<'_> {
    fn fail(&mut self, text: impl std::fmt::Display) {
        self.console.note(text);
        self.failed = true;
    }

    /// What is wrong with the lines of a unit's files. Remarks are for those who wrote the files.
    fn files(&mut self, loader: &mut Loader<RealFs>, name: &UnitName, is_named: bool) {
        let diagnostics = loader.load(name).diagnostics;
        for diagnostic in &diagnostics {
            match diagnostic.severity {
                Severity::Note if !is_named => continue,
                Severity::Note => {}
                Severity::Warning => self.warned = true,
                Severity::Error => {
                    self.warned = true;
                    self.failed |= is_named;
                }
            }
            let shown = Diagnostic {
                file: self.shown(&diagnostic.file),
                ..diagnostic.clone()
            };
            self.console.note(shown);
        }
        if diagnostics.dropped() > 0 {
            let count = diagnostics.dropped();
            self.console
                .note(format_args!("{name}: {count} more problems are not shown."));
        }
    }

    /// A path as this machine knows it; a unit without files is named by its name.
    fn shown(&self, file: &str) -> std::sync::Arc<str> {
        if file.starts_with('/') {
            self.system.outside(file).into()
        } else {
            file.into()
        }
    }

    /// Whether a unit could be started, with or without a look at what it needs.
    fn unit(&mut self, graph: &Graph, fs: &RealFs, name: &UnitName, rehearsal: Option<&Rehearsal>) {
        let unit = graph.unit(name);
        let state = unit
            .and_then(|unit| unit.config())
            .map_or(LoadState::NotFound, |config| config.load_state);
        let Some(config) = unit
            .and_then(|unit| unit.config())
            .filter(|_| state == LoadState::Loaded)
        else {
            return self.fail(start::unusable(name, state));
        };
        for problem in rehearsal.into_iter().flat_map(|r| r.problems(name)) {
            self.fail(format_args!("{name}: {problem}"));
        }
        for command in commands(config) {
            if let Err(reason) = find_program(fs, &command.path) {
                let path = &command.path;
                self.fail(format_args!(
                    "{name}: Command {path} is not executable: {reason}"
                ));
            }
        }
    }
}

/// The programs that must exist. Where a failure does not count, neither does a missing program.
fn commands(config: &UnitConfig) -> Vec<&Command> {
    let all: Vec<&Command> = match &config.kind {
        UnitKind::Service(service) => service.commands.iter().map(|c| &c.command).collect(),
        UnitKind::Socket(socket) => socket.commands.iter().map(|c| &c.1).collect(),
        _ => Vec::new(),
    };
    all.into_iter()
        .filter(|command| !command.flags.contains(CommandFlags::IGNORE_FAILURE))
        .collect()
}

fn find_program(fs: &RealFs, path: &str) -> Result<(), String> {
    if path.starts_with('/') {
        return is_executable(fs, path);
    }
    let found = PROGRAM_FOLDERS
        .iter()
        .any(|folder| is_executable(fs, &format!("{folder}/{path}")).is_ok());
    if found {
        Ok(())
    } else {
        Err("No such file or directory".to_owned())
    }
}

fn is_executable(fs: &RealFs, path: &str) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let place = fs.resolved(path).map_err(|error| error.to_string())?;
    match std::fs::metadata(place) {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(meta) if meta.is_dir() => Err("Is a directory".to_owned()),
        Ok(_) => Err("Permission denied".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("No such file or directory".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
