//! From names to units: search path, aliases, masks, templates, drop-ins.
//!
//! A [`Loader`] scans the folders of a [`SearchPath`] into an index and loads units from it by name.
//! [`Loader::fingerprint`] tells without reading whether a unit would come out differently, so that a
//! reload reads only what changed.

mod dropin;
mod index;
mod paths;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use index::{AliasError, UnitIndex, check_alias};
pub use paths::SearchPath;

use crate::config::{DependencyKind, InstallSection, LoadState, UnitConfig, UnitKind};
use crate::diagnostic::{Diagnostic, Diagnostics, Problem, Severity};
use crate::directives::{Applied, apply, has_section, verify};
use crate::fs::{FileStat, Fingerprint, UnitFs};
use crate::name::{UnitName, UnitType};
use crate::specifier::{HostFacts, SpecifierContext};
use crate::syntax;
use crate::value::{Names, ValueContext};

/// A unit and what is wrong with its files.
#[derive(Clone, Debug)]
pub struct LoadedUnit {
    /// What the files say.
    pub config: UnitConfig,
    /// What is wrong with them.
    pub diagnostics: Diagnostics,
    /// Of the files as they were read.
    pub fingerprint: Fingerprint,
}

/// Loads units.
#[derive(Debug)]
pub struct Loader<F> {
    fs: F,
    path: SearchPath,
    host: HostFacts,
    names: Names,
    index: UnitIndex,
    problems: Diagnostics,
}

impl<F: UnitFs> Loader<F> {
    /// A loader that has scanned the search path.
    pub fn new(fs: F, path: SearchPath, host: HostFacts) -> Self {
        let mut loader = Self {
            fs,
            path,
            host,
            names: Names::default(),
            index: UnitIndex::default(),
            problems: Diagnostics::default(),
        };
        loader.rescan();
        loader
    }

    /// Looks at the folders again: after files were added, removed or changed.
    pub fn rescan(&mut self) {
        let mut problems = Diagnostics::default();
        self.index = UnitIndex::scan(&self.fs, &self.path, &mut problems);
        self.problems = problems;
        self.names.release_unused();
    }

    /// Takes note of one file that was made in a folder of the search path, without looking at all folders again. No other file
    /// or link may have its name.
    pub fn file_made(&mut self, name: &UnitName, file: &str) {
        self.index.made(name, file);
    }

    /// Takes note that a file of which [`Loader::file_made`] told is gone.
    pub fn file_removed(&mut self, name: &UnitName, file: &str) {
        self.index.removed(name, file);
        self.names.release_unused();
    }

    /// What is wrong with folders and links, from the last scan.
    pub fn problems(&self) -> &Diagnostics {
        &self.problems
    }

    /// Which files and folders there are.
    pub fn index(&self) -> &UnitIndex {
        &self.index
    }

    /// The file system.
    pub fn fs(&self) -> &F {
        &self.fs
    }

    /// The file system, to be changed before the next [`Loader::rescan`].
    pub fn fs_mut(&mut self) -> &mut F {
        &mut self.fs
    }

    /// The folders.
    pub fn search_path(&self) -> &SearchPath {
        &self.path
    }

    /// What specifiers say about the machine.
    pub fn set_host(&mut self, host: HostFacts) {
        self.host = host;
    }

    /// Names shared with the loaded units.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// What loading a unit would read, in short: equal values mean an equal unit.
    pub fn fingerprint(&self, name: &UnitName) -> Fingerprint {
        self.sources(name).fingerprint(&self.fs).0
    }

    /// Loads a unit unless it would come out as the one with this fingerprint.
    pub fn load_if_changed(&mut self, name: &UnitName, known: Fingerprint) -> Option<LoadedUnit> {
        if self.fingerprint(name) == known {
            None
        } else {
            Some(self.load(name))
        }
    }

    /// Loads a unit by any of its names. A template must be given with an instance.
    pub fn load(&mut self, name: &UnitName) -> LoadedUnit {
        let sources = self.sources(name);
        let (fingerprint, fragment) = sources.fingerprint(&self.fs);
        let mut diagnostics = Diagnostics::default();
        let mut config = UnitConfig::new(self.share(&sources.id));
        config.aliases = sources
            .aliases
            .iter()
            .map(|alias| self.share(alias))
            .collect();
        self.read_fragment(&mut config, &sources, fragment, &mut diagnostics);
        if matches!(config.load_state, LoadState::Loaded) {
            self.read_dropins(&mut config, &sources, &mut diagnostics);
            finish(&mut config, &mut diagnostics);
        }
        config.compact();
        diagnostics.shrink();
        LoadedUnit {
            config,
            diagnostics,
            fingerprint,
        }
    }

    /// What the `[Install]` sections of a unit's files say. Unlike [`Loader::load`] this takes
    /// templates, and nothing else in the files can keep it from answering.
    pub fn install_section(&mut self, name: &UnitName) -> InstallSection {
        let sources = self.sources(name);
        let mut scratch = UnitConfig::new(sources.id.clone());
        let mut ignored = Diagnostics::default();
        for path in sources.fragment.iter().chain(&sources.dropins) {
            let Ok(content) = self.fs.read(path) else {
                continue;
            };
            let file: Arc<str> = path.as_str().into();
            let parsed = syntax::parse(&content, &file, &mut ignored);
            let specifiers = SpecifierContext {
                host: &self.host,
                unit: &sources.id,
                fragment: None,
            };
            let mut context = ValueContext {
                specifiers,
                names: &mut self.names,
                warnings: Vec::new(),
            };
            for entry in parsed
                .entries
                .iter()
                .filter(|entry| entry.section == "Install")
            {
                apply(&mut scratch, entry, &file, &mut context, &mut ignored);
            }
        }
        (*scratch.install).clone()
    }

    /// What specifiers say about the machine.
    pub fn host(&self) -> &HostFacts {
        &self.host
    }

    fn share(&mut self, name: &UnitName) -> UnitName {
        self.names
            .unit(name.as_str())
            .unwrap_or_else(|_| name.clone())
    }

    fn sources(&self, name: &UnitName) -> Sources {
        let resolved = self.index.resolve(name);
        let names: Vec<&UnitName> = std::iter::once(&resolved.id)
            .chain(&resolved.aliases)
            .collect();
        let folders = |suffix| dropin::folders(&self.index, &self.path, &names, suffix);
        let dropins = dropin::files(&self.fs, &folders(".d"));
        let wants = [
            (DependencyKind::Wants, ".wants"),
            (DependencyKind::Requires, ".requires"),
            (DependencyKind::Upholds, ".upholds"),
        ];
        let links = wants
            .into_iter()
            .flat_map(|(kind, suffix)| {
                let files = dropin::links(&self.fs, &folders(suffix));
                files.into_iter().map(move |path| (kind, path))
            })
            .collect();
        Sources {
            id: resolved.id,
            aliases: resolved.aliases,
            fragment: resolved.fragment,
            dropins,
            links,
        }
    }

    fn read_fragment(
        &mut self,
        config: &mut UnitConfig,
        sources: &Sources,
        known: Option<FileStat>,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(path) = &sources.fragment else {
            // These exist without files; everything else needs one.
            let free = matches!(
                config.name.unit_type(),
                UnitType::Slice | UnitType::Device | UnitType::Scope
            );
            config.load_state = if free {
                LoadState::Loaded
            } else {
                LoadState::NotFound
            };
            return;
        };
        let file: Arc<str> = path.as_str().into();
        config.fragment = Some(file.clone());
        // Looked at once more only to learn why nothing was seen.
        match known.map_or_else(|| self.fs.stat(path), Ok) {
            Ok(stat) if stat.is_mask() => {
                config.load_state = LoadState::Masked;
                return;
            }
            Ok(_) => {}
            Err(error) => {
                config.load_state = if error.is_not_found() {
                    // A link that leads nowhere is no file.
                    config.fragment = None;
                    LoadState::NotFound
                } else {
                    LoadState::Error
                };
                diagnostics.push(file_problem(&file, Severity::Error, &error));
                return;
            }
        }
        config.load_state = match self.read_file(config, &file, diagnostics) {
            Outcome::Read => LoadState::Loaded,
            Outcome::Fatal => LoadState::BadSetting,
            Outcome::Unreadable => LoadState::Error,
        };
    }

    fn read_dropins(
        &mut self,
        config: &mut UnitConfig,
        sources: &Sources,
        diagnostics: &mut Diagnostics,
    ) {
        for path in &sources.dropins {
            let file: Arc<str> = path.as_str().into();
            config.drop_ins.push(file.clone());
            // What is wrong with a drop-in is reported, but does not take the unit away.
            self.read_file(config, &file, diagnostics);
        }
        for (kind, path) in &sources.links {
            let entry = crate::fs::base_name(path);
            match self.names.unit(entry) {
                Ok(name) => match resolve_template(&name, &config.name) {
                    Ok(name) => config.add_dependency(*kind, self.share(&name)),
                    Err(error) => diagnostics.push(file_problem(
                        &path.as_str().into(),
                        Severity::Warning,
                        &error,
                    )),
                },
                Err(error) => diagnostics.push(file_problem(
                    &path.as_str().into(),
                    Severity::Warning,
                    &error,
                )),
            }
        }
    }

    fn read_file(
        &mut self,
        config: &mut UnitConfig,
        file: &Arc<str>,
        diagnostics: &mut Diagnostics,
    ) -> Outcome {
        let content = match self.fs.read(file) {
            Ok(content) => content,
            Err(error) => {
                diagnostics.push(file_problem(file, Severity::Error, &error));
                return Outcome::Unreadable;
            }
        };
        let (unit, fragment) = (config.name.clone(), config.fragment.clone());
        let specifiers = SpecifierContext {
            host: &self.host,
            unit: &unit,
            fragment: fragment.as_deref(),
        };
        let mut context = ValueContext {
            specifiers,
            names: &mut self.names,
            warnings: Vec::new(),
        };
        apply_file(config, &content, file, &mut context, diagnostics)
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was read; what is wrong with single lines is among the diagnostics.
    Read,
    /// A setting makes the unit unusable.
    Fatal,
    /// It is not a unit file.
    Unreadable,
}

/// Applies the content of a file to a unit. Loaders do this for all files of a unit; alone it is for
/// units that have no files.
pub fn apply_file(
    config: &mut UnitConfig,
    content: &[u8],
    file: &Arc<str>,
    context: &mut ValueContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Outcome {
    let parsed = syntax::parse(content, file, diagnostics);
    let kind = config.name.unit_type();
    for (section, line) in &parsed.sections {
        if !has_section(kind, section) && !section.starts_with("X-") {
            let shown = syntax::truncate(section);
            diagnostics.push(Diagnostic {
                severity: Severity::Warning,
                problem: Problem::UnknownSection,
                file: file.clone(),
                line: *line,
                message: format!("a {kind} has no section [{shown}], ignored").into(),
                hint: Some("prefix it with X- if it is meant for other programs".into()),
            });
        }
    }
    for entry in parsed
        .entries
        .iter()
        .filter(|entry| has_section(kind, &entry.section))
    {
        if apply(config, entry, file, context, diagnostics) == Applied::Fatal {
            return Outcome::Fatal;
        }
    }
    if parsed.broken {
        Outcome::Unreadable
    } else {
        Outcome::Read
    }
}

/// The folder of units that a manager makes by request, whatever lies above it.
const TRANSIENT_FOLDER: &str = "transient";

/// Fills in what the name says, and checks the whole.
fn finish(config: &mut UnitConfig, diagnostics: &mut Diagnostics) {
    let path = config
        .name
        .to_path()
        .ok()
        .map(|path| crate::value::path::AbsolutePath(path.into()));
    match &mut config.kind {
        UnitKind::Mount(mount) if mount.r#where.is_none() => mount.r#where = path,
        UnitKind::Automount(automount) if automount.r#where.is_none() => automount.r#where = path,
        _ => {}
    }
    // A scope that the manager made is fine, one with a file of somebody else's is refused by the checks below.
    let made = match config.fragment.as_deref() {
        Some(path) => path.rsplit('/').nth(1) == Some(TRANSIENT_FOLDER),
        None => config.drop_ins.is_empty(),
    };
    if made && matches!(config.kind, UnitKind::Scope(_)) {
        return;
    }
    if let Err(reason) = verify(config) {
        config.load_state = LoadState::BadSetting;
        let file = config
            .fragment
            .clone()
            .unwrap_or_else(|| config.name.as_shared().clone());
        diagnostics.push(Diagnostic {
            severity: Severity::Error,
            problem: Problem::Unit,
            file,
            line: 0,
            message: reason.into(),
            hint: None,
        });
    }
}

/// A dependency on a template means its instance for this unit: the same instance, or else the
/// unit's prefix.
pub(crate) fn resolve_template(
    name: &UnitName,
    unit: &UnitName,
) -> Result<UnitName, crate::name::UnitNameError> {
    if !name.is_template() {
        return Ok(name.clone());
    }
    match unit.instance() {
        Some(instance) if !instance.is_empty() => name.with_instance(instance),
        _ => name.with_instance(unit.prefix()),
    }
}

fn file_problem(file: &Arc<str>, severity: Severity, error: &dyn std::error::Error) -> Diagnostic {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    Diagnostic {
        severity,
        problem: Problem::File,
        file: file.clone(),
        line: 0,
        message: message.into(),
        hint: None,
    }
}

/// What a unit is made from.
struct Sources {
    id: UnitName,
    aliases: Vec<UnitName>,
    fragment: Option<String>,
    dropins: Vec<String>,
    links: Vec<(DependencyKind, String)>,
}

impl Sources {
    /// What tells whether they have changed, and what the fragment is, if it can be seen.
    fn fingerprint(&self, fs: &impl UnitFs) -> (Fingerprint, Option<FileStat>) {
        let paths = self.fragment.iter().chain(&self.dropins);
        let stats: Vec<_> = paths.map(|path| (path, fs.stat(path).ok())).collect();
        let seen = stats.first().filter(|_| self.fragment.is_some());
        let seen = seen.and_then(|(_, stat)| *stat);
        let fingerprint = Fingerprint::of(&(&self.id, &self.aliases, stats, &self.links));
        (fingerprint, seen)
    }
}
