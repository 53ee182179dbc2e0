//! Which unit files there are, and under which names.

use std::collections::HashMap;

use thiserror::Error;

use super::SearchPath;
use crate::diagnostic::{Diagnostic, Diagnostics, Problem, Severity};
use crate::fs::{FileKind, UnitFs, base_name, link_destination};
use crate::name::UnitName;

/// Links from alias to alias that are followed.
const MAX_ALIASES: usize = 8;

/// Why a name cannot be an alias of another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AliasError {
    /// The types differ.
    #[error("the alias {alias} and its unit {target} are of different types")]
    Type {
        /// The alias.
        alias: UnitName,
        /// What it points to.
        target: UnitName,
    },
    /// One is a template and the other is not, or the instances differ.
    #[error(
        "the alias {alias} does not fit its unit {target}: one is a template or another instance"
    )]
    Template {
        /// The alias.
        alias: UnitName,
        /// What it points to.
        target: UnitName,
    },
}

/// Checks that a name may be an alias of another: the same type, and plain for plain, template for
/// template, an instance for its template or for the same instance.
///
/// # Errors
/// It may not.
pub fn check_alias(alias: &UnitName, target: &UnitName) -> Result<(), AliasError> {
    let names = || (alias.clone(), target.clone());
    if alias.unit_type() != target.unit_type() {
        let (alias, target) = names();
        return Err(AliasError::Type { alias, target });
    }
    let fits = match alias.instance() {
        None => target.instance().is_none(),
        Some("") => target.is_template(),
        Some(instance) => target.is_template() || target.instance() == Some(instance),
    };
    if fits {
        return Ok(());
    }
    let (alias, target) = names();
    Err(AliasError::Template { alias, target })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// A file, a mask, or a link to a file outside of the search path.
    File(String),
    /// Another unit.
    Alias(UnitName),
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) id: UnitName,
    pub(super) aliases: Vec<UnitName>,
    pub(super) fragment: Option<String>,
}

/// Which unit files and folders there are.
#[derive(Clone, Debug, Default)]
pub struct UnitIndex {
    units: HashMap<UnitName, Target>,
    /// Other names per main name.
    aliases: HashMap<UnitName, Vec<UnitName>>,
    /// Folders such as `x.service.d` by name, with the priorities of the folders they stand in.
    folders: HashMap<String, Vec<u16>>,
}

impl UnitIndex {
    pub(super) fn scan(fs: &impl UnitFs, path: &SearchPath, problems: &mut Diagnostics) -> Self {
        let mut index = Self::default();
        let mut seen = Vec::new();
        for (folder, priority) in path.iter().zip(0u16..) {
            let entries = match fs.list(folder) {
                Ok(entries) => entries,
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    problems.push(super::file_problem(
                        &folder.into(),
                        Severity::Warning,
                        &error,
                    ));
                    continue;
                }
            };
            // On merged systems one folder has two names; the second would only repeat the first.
            let inode = fs.stat(folder).map_or(0, |stat| stat.inode);
            if inode != 0 && seen.contains(&inode) {
                continue;
            }
            seen.push(inode);
            for (name, kind) in &entries {
                index.add(fs, path, folder, priority, name, *kind, problems);
            }
        }
        index.collect_aliases();
        index
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of the scan, with all that the scan knows"
    )]
    fn add(
        &mut self,
        fs: &impl UnitFs,
        path: &SearchPath,
        folder: &str,
        priority: u16,
        name: &str,
        kind: FileKind,
        problems: &mut Diagnostics,
    ) {
        let is_dependency_folder = [".d", ".wants", ".requires", ".upholds"]
            .iter()
            .any(|suffix| name.ends_with(suffix));
        if is_dependency_folder {
            if matches!(kind, FileKind::Folder | FileKind::Link) {
                self.folders
                    .entry(name.to_owned())
                    .or_default()
                    .push(priority);
            }
            return;
        }
        let Ok(unit) = UnitName::new(name) else {
            return;
        };
        if self.units.contains_key(&unit) {
            return;
        }
        let file = format!("{folder}/{name}");
        let target = match kind {
            FileKind::File | FileKind::Null => Target::File(file),
            FileKind::Link => match resolve_link(fs, path, &file, &unit) {
                Ok(target) => target,
                Err(message) => {
                    problems.push(Diagnostic {
                        severity: Severity::Warning,
                        problem: Problem::File,
                        file: file.as_str().into(),
                        line: 0,
                        message: message.into(),
                        hint: None,
                    });
                    return;
                }
            },
            FileKind::Folder | FileKind::Other => return,
        };
        self.units.insert(unit, target);
    }

    /// A file was made in a folder of the search path; no other has its name.
    pub(super) fn made(&mut self, name: &UnitName, file: &str) {
        self.units
            .insert(name.clone(), Target::File(file.to_owned()));
    }

    /// A file is gone from a folder of the search path; no other had its name.
    pub(super) fn removed(&mut self, name: &UnitName, file: &str) {
        if matches!(self.units.get(name), Some(Target::File(known)) if known == file) {
            self.units.remove(name);
        }
    }

    fn collect_aliases(&mut self) {
        let mut aliases: HashMap<UnitName, Vec<UnitName>> = HashMap::new();
        for (name, target) in &self.units {
            if matches!(target, Target::Alias(_))
                && let Some((main, _)) = self.follow(name)
            {
                aliases.entry(main).or_default().push(name.clone());
            }
        }
        self.aliases = aliases;
    }

    /// The main name and the file at the end of a chain of aliases.
    fn follow(&self, name: &UnitName) -> Option<(UnitName, &str)> {
        let mut current = name.clone();
        for _ in 0..MAX_ALIASES {
            match self.units.get(&current)? {
                Target::File(path) => return Some((current, path)),
                Target::Alias(next) => {
                    let template = || {
                        next.template()
                            .filter(|template| self.units.contains_key(template))
                    };
                    let known = self.units.contains_key(next);
                    current = if known { next.clone() } else { template()? };
                }
            }
        }
        None
    }

    pub(super) fn resolve(&self, name: &UnitName) -> Resolved {
        let found = self.follow(name).or_else(|| self.follow(&name.template()?));
        let Some((main, path)) = found else {
            return Resolved {
                id: name.clone(),
                aliases: Vec::new(),
                fragment: None,
            };
        };
        let instance = name.instance().filter(|instance| !instance.is_empty());
        let instantiate = |known: &UnitName| match instance {
            Some(instance) if known.is_template() => known.with_instance(instance).ok(),
            Some(instance) => (known.instance() == Some(instance)).then(|| known.clone()),
            None => Some(known.clone()),
        };
        let id = instantiate(&main).unwrap_or_else(|| name.clone());
        let mut aliases: Vec<UnitName> = self
            .aliases
            .get(&main)
            .into_iter()
            .flatten()
            .filter_map(instantiate)
            .collect();
        aliases.push(name.clone());
        aliases.retain(|alias| *alias != id);
        aliases.sort_unstable();
        aliases.dedup();
        Resolved {
            id,
            aliases,
            fragment: Some(path.to_owned()),
        }
    }

    /// The priorities of the search path's folders that have a folder of this name.
    pub(super) fn folder(&self, name: &str) -> &[u16] {
        self.folders.get(name).map_or(&[], Vec::as_slice)
    }

    /// The unit that a name is an alias of, by the first link.
    #[must_use]
    pub fn alias_of(&self, name: &UnitName) -> Option<&UnitName> {
        match self.units.get(name)? {
            Target::Alias(target) => Some(target),
            Target::File(_) => None,
        }
    }

    /// The main name that a name or alias leads to, with the file.
    #[must_use]
    pub fn main_name(&self, name: &UnitName) -> Option<(UnitName, &str)> {
        self.follow(name)
    }

    /// Every name that has a file, a link or a mask, sorted. Templates are among them.
    pub fn names(&self) -> impl Iterator<Item = &UnitName> {
        let mut names: Vec<&UnitName> = self.units.keys().collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// Whether a name has a file, a link or a mask of its own, or is an instance of one that has.
    #[must_use]
    pub fn contains(&self, name: &UnitName) -> bool {
        self.follow(name)
            .or_else(|| self.follow(&name.template()?))
            .is_some()
    }

    /// The file that a name leads to, if any.
    #[must_use]
    pub fn file(&self, name: &UnitName) -> Option<&str> {
        self.follow(name)
            .or_else(|| self.follow(&name.template()?))
            .map(|(_, path)| path)
    }
}

fn resolve_link(
    fs: &impl UnitFs,
    path: &SearchPath,
    file: &str,
    unit: &UnitName,
) -> Result<Target, String> {
    let target = fs.read_link(file).map_err(|error| error.to_string())?;
    let destination = link_destination(file, &target);
    // A link that leads out of the search path is a linked unit file or a mask.
    if !path.contains(&destination) {
        return Ok(Target::File(file.to_owned()));
    }
    let name = base_name(&destination);
    if name == unit.as_str() {
        return Ok(Target::File(file.to_owned()));
    }
    let target = UnitName::new(name).map_err(|error| format!("the link is ignored: {error}"))?;
    check_alias(unit, &target).map_err(|error| format!("the link is ignored: {error}"))?;
    Ok(Target::Alias(target))
}
