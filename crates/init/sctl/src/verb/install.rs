//! Verbs that make and remove links.

use muster_unit_file::fs::RealFs;
use muster_unit_file::install::{
    Change, InstallError, InstallOptions, Installer, Note, Plan, PresetMode,
};
use muster_unit_file::name::UnitName;
use thiserror::Error;

use super::VerbError;
use crate::cli::{
    self, AddDependency, ChangeUnits, Common, LinkFiles, Mode, Preset, PresetAll, SetDefault,
};
use crate::console::{Console, Exit};
use crate::links::{LinkError, carry_out};
use crate::system::System;

/// What `enable` says about units that cannot be enabled.
const NO_INSTALL_INFO: &str = "\
The unit files have no installation config (WantedBy=, RequiredBy=, Also=,
Alias= settings in the [Install] section, and DefaultInstance= for template
units). This means they are not meant to be enabled using sctl.

Possible reasons for having this kind of units are:
\u{2022} Another unit pulls it in: it is linked from a .wants/ or .requires/ folder.
\u{2022} It is a helper that other units require by name.
\u{2022} Something starts it when needed: a socket, a path, a timer, D-Bus, udev.
\u{2022} It is a template, and is meant to be enabled with an instance name.";

/// Why links are not changed.
#[derive(Debug, Error)]
pub(crate) enum InstallVerbError {
    /// The plan cannot be made. The text is the one `systemctl` prints.
    #[error("{text}")]
    Refused {
        /// For people.
        text: String,
    },
    /// The plan cannot be carried out.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// `--now`
    #[error(
        "Option --now starts or stops units of the running system, so it makes no sense together with --root."
    )]
    Now,
    /// A relative path means nothing in another system.
    #[error("Non-absolute paths are not allowed when --root is used: {path}")]
    Relative {
        /// What was given.
        path: String,
    },
    /// A relative path without a current folder.
    #[error("Failed to make path '{path}' absolute")]
    Path {
        /// What was given.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The words that stand in `Failed to ... unit`.
#[derive(Debug, Clone, Copy)]
struct Doing(&'static str);

impl Doing {
    /// What `systemctl` says about a refused request.
    fn refused(self, error: &InstallError, system: &System) -> InstallVerbError {
        let Self(verb) = self;
        let text = match error {
            InstallError::NotFound { name } => {
                format!("Failed to {verb} unit, unit {name} does not exist.")
            }
            InstallError::Masked { path } => {
                let path = system.outside(path);
                format!("Failed to {verb} unit, unit {path} is masked.")
            }
            InstallError::Alias { name, .. } => {
                format!("Failed to {verb} unit, refusing to operate on linked unit file {name}.")
            }
            InstallError::LinkExists { path, target } => {
                let path = system.outside(path);
                format!(
                    "Failed to {verb} unit, file \"{path}\" already exists and is a symlink to \"{target}\"."
                )
            }
            InstallError::FileExists { path } => {
                let path = system.outside(path);
                format!("Failed to {verb} unit, file \"{path}\" already exists.")
            }
            InstallError::TemplateNeedsInstance { name, target } => {
                format!(
                    "Failed to {verb} {name}, destination unit {target} is a non-template unit."
                )
            }
            InstallError::BadName { text, .. } => {
                format!("Failed to {verb} unit, \"{text}\" is not a valid unit name.")
            }
            InstallError::BadAlias { name, alias } => {
                format!("Failed to {verb} unit, cannot alias {name} as {alias}.")
            }
            InstallError::BadPath { path } => {
                format!("Failed to {verb} unit, unit {path} does not exist.")
            }
            InstallError::NotATarget { .. } => {
                "Failed to set default: Invalid argument.".to_owned()
            }
            InstallError::NoDefault => {
                "Failed to get default target: No such file or directory".to_owned()
            }
        };
        InstallVerbError::Refused { text }
    }
}

/// One request: the system, what is done, and how.
struct Request {
    system: System,
    doing: Doing,
    options: InstallOptions,
}

impl Request {
    fn new(change: &cli::Change, doing: &'static str) -> Result<Self, VerbError> {
        let other_root = change
            .common
            .root
            .as_deref()
            .is_some_and(|root| !root.is_empty());
        if change.now && other_root {
            return Err(InstallVerbError::Now.into());
        }
        Ok(Self {
            system: System::open(&change.common)?,
            doing: Doing(doing),
            options: InstallOptions {
                runtime: change.runtime,
                force: change.force,
            },
        })
    }

    /// The units that words mean.
    fn units(&self, texts: &[String], console: &mut Console) -> Result<Vec<UnitName>, VerbError> {
        Ok(self.system.plain_units(texts, self.doing.0, console)?)
    }

    /// The same where a word may be the path of a unit file. A file from elsewhere is linked first;
    /// then it is a unit like any other.
    fn units_and_files(
        &self,
        texts: &[String],
        installer: &mut Installer<'_, RealFs>,
        console: &mut Console,
    ) -> Result<Vec<UnitName>, VerbError> {
        let (files, names): (Vec<String>, Vec<String>) =
            texts.iter().cloned().partition(|text| text.contains('/'));
        let files = absolute(&files, &self.system)?;
        let mut units = self.units(&names, console)?;
        if !files.is_empty() {
            let linked = installer.link_files(&as_strs(&files), self.options);
            self.carry_out(linked, console)?;
            let names: Vec<String> = files.iter().map(|file| file_name(file)).collect();
            units.extend(self.units(&names, console)?);
        }
        Ok(units)
    }

    /// Carries a plan out, with `systemctl`'s messages.
    fn carry_out(
        &self,
        plan: Result<Plan, InstallError>,
        console: &mut Console,
    ) -> Result<Plan, VerbError> {
        let plan = plan.map_err(|error| self.doing.refused(&error, &self.system))?;
        let quiet = self.system.quiet();
        carry_out(self.system.fs(), &plan.changes, |change| {
            if !quiet {
                console.note(message(change, &self.system));
            }
        })
        .map_err(InstallVerbError::Link)?;
        if !quiet {
            for note in &plan.notes {
                console.note(remark(note, self.doing, &self.system));
            }
        }
        Ok(plan)
    }

    fn warn_if_static(&self, plan: &Plan, console: &mut Console) {
        if !plan.carries_install_info && !self.system.quiet() {
            console.note(NO_INSTALL_INFO);
        }
    }
}

/// What a change is called, with paths as this machine knows them.
fn message(change: &Change, system: &System) -> String {
    match change {
        Change::Link { path, target } => {
            let path = system.outside(path);
            format!("Created symlink {path} \u{2192} {target}.")
        }
        Change::Remove { path } | Change::RemoveFolder { path } => {
            format!("Removed \"{}\".", system.outside(path))
        }
    }
}

/// What a remark is called, with paths as this machine knows them.
fn remark(note: &Note, doing: Doing, system: &System) -> String {
    let mut note = note.clone();
    match &mut note {
        Note::Refused { error } => return doing.refused(error, system).to_string(),
        Note::DestinationMissing { file: path, .. } | Note::Masked { path } => {
            *path = system.outside(path).into();
        }
        Note::AlsoFailed { .. } => {}
    }
    note.to_string()
}

pub(super) fn enable(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "enable")?;
    let mut installer = request.system.installer();
    let units = request.units_and_files(&arguments.units, &mut installer, console)?;
    let plan = request.carry_out(installer.enable(&units, request.options), console)?;
    request.warn_if_static(&plan, console);
    Ok(exit_of(&plan))
}

pub(super) fn disable(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "disable")?;
    if arguments.units.iter().any(|text| text.contains('/')) && !request.system.quiet() {
        console.note(
            "Warning: Can't execute disable on the unit file path. Proceeding with the unit name.",
        );
    }
    let names: Vec<String> = arguments.units.iter().map(|text| file_name(text)).collect();
    let units = request.units(&names, console)?;
    let mut installer = request.system.installer();
    for unit in &units {
        if installer.state(unit).is_none() && !request.system.quiet() {
            console.note(format_args!(
                "Failed to disable unit, unit {unit} does not exist."
            ));
        }
    }
    request.carry_out(installer.disable(&units, request.options), console)?;
    Ok(Exit::Success)
}

pub(super) fn reenable(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "reenable")?;
    let mut installer = request.system.installer();
    let units = request.units_and_files(&arguments.units, &mut installer, console)?;
    let plan = request.carry_out(installer.reenable(&units, request.options), console)?;
    request.warn_if_static(&plan, console);
    Ok(exit_of(&plan))
}

/// A masked unit is masked on purpose; anything else that kept one of many units from its change is
/// a failure, although the others were changed.
fn exit_of(plan: &Plan) -> Exit {
    let failed = plan.notes.iter().any(|note| {
        matches!(note, Note::Refused { error } if !matches!(error, InstallError::Masked { .. }))
    });
    if failed { Exit::Failure } else { Exit::Success }
}

/// The last part of a path, or the text itself.
fn file_name(text: &str) -> String {
    text.rsplit('/').next().unwrap_or_default().to_owned()
}

fn preset_mode(mode: Mode) -> PresetMode {
    match mode {
        Mode::Full => PresetMode::Full,
        Mode::EnableOnly => PresetMode::EnableOnly,
        Mode::DisableOnly => PresetMode::DisableOnly,
    }
}

pub(super) fn preset(arguments: &Preset, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.units.change, "preset")?;
    let names = arguments.units.units.iter().map(|text| file_name(text));
    let units = request.units(&names.collect::<Vec<_>>(), console)?;
    let mode = preset_mode(arguments.preset_mode);
    let mut installer = request.system.installer();
    let plan = request.carry_out(installer.preset(&units, mode, request.options), console)?;
    Ok(exit_of(&plan))
}

pub(super) fn preset_all(arguments: &PresetAll, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "preset")?;
    let mode = preset_mode(arguments.preset_mode);
    let mut installer = request.system.installer();
    let plan = request.carry_out(installer.preset_all(mode, request.options), console)?;
    Ok(exit_of(&plan))
}

pub(super) fn mask(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "mask")?;
    let units = request.units(&arguments.units, console)?;
    let mut installer = request.system.installer();
    request.carry_out(installer.mask(&units, request.options), console)?;
    Ok(Exit::Success)
}

pub(super) fn unmask(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "unmask")?;
    let units = request.units(&arguments.units, console)?;
    let mut installer = request.system.installer();
    request.carry_out(installer.unmask(&units, request.options), console)?;
    Ok(Exit::Success)
}

pub(super) fn link(arguments: &LinkFiles, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "link")?;
    let files = absolute(&arguments.files, &request.system)?;
    let mut installer = request.system.installer();
    let plan = installer.link_files(&as_strs(&files), request.options);
    request.carry_out(plan, console)?;
    Ok(Exit::Success)
}

pub(super) fn revert(arguments: &ChangeUnits, console: &mut Console) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "revert")?;
    let units = request.units(&arguments.units, console)?;
    let mut installer = request.system.installer();
    request.carry_out(installer.revert(&units), console)?;
    Ok(Exit::Success)
}

pub(super) fn add_dependency(
    arguments: &AddDependency,
    requires: bool,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "add dependency on")?;
    let target = with_target_type(&arguments.target);
    let target = request.system.plain_unit(&target, "the target", console)?;
    let units = request.units(&arguments.units, console)?;
    let mut installer = request.system.installer();
    let plan = installer.add_dependency(&target, &units, requires, request.options);
    request.carry_out(plan, console)?;
    Ok(Exit::Success)
}

pub(super) fn get_default(arguments: &Common, console: &mut Console) -> Result<Exit, VerbError> {
    let system = System::open(arguments)?;
    let target = system
        .installer()
        .default_target()
        .map_err(|error| Doing("get").refused(&error, &system))?;
    if !system.quiet() {
        console.line(target)?;
    }
    Ok(Exit::Success)
}

pub(super) fn set_default(
    arguments: &SetDefault,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let request = Request::new(&arguments.change, "set default")?;
    let name = with_target_type(&arguments.target);
    let target = request.system.plain_unit(&name, "set-default", console)?;
    let mut installer = request.system.installer();
    request.carry_out(installer.set_default(&target), console)?;
    Ok(Exit::Success)
}

/// Where a target is expected `.target` is filled in, not `.service`.
fn with_target_type(text: &str) -> String {
    if UnitName::new(text).is_ok() || text.starts_with('/') {
        text.to_owned()
    } else {
        format!("{text}.target")
    }
}

fn absolute(files: &[String], system: &System) -> Result<Vec<String>, InstallVerbError> {
    let one = |file: &String| {
        if system.is_offline() && !file.starts_with('/') {
            return Err(InstallVerbError::Relative { path: file.clone() });
        }
        std::path::absolute(file)
            .map(|path| path.to_string_lossy().into_owned())
            .map_err(|source| InstallVerbError::Path {
                path: file.clone(),
                source,
            })
    };
    files.iter().map(one).collect()
}

fn as_strs(files: &[String]) -> Vec<&str> {
    files.iter().map(String::as_str).collect()
}
