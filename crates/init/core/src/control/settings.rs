//! Settings that come with a request, as the text of a unit file.
//!
//! A request is held to more than a file is: a setting that is not known, or whose value cannot be used, is an error and
//! nothing is written.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use muster_control::manager::SetPropertyCall;
use muster_engine::event::What;
use muster_unit_file::config::UnitConfig;
use muster_unit_file::diagnostic::{Diagnostics, Problem};
use muster_unit_file::directives::{has_section, lookup};
use muster_unit_file::load::{Outcome, apply_file};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::SpecifierContext;
use muster_unit_file::value::ValueContext;
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use super::transient::PIDS;
use crate::core::Core;

/// Most settings of one request.
const MAX_SETTINGS: usize = 4096;
/// Where settings that last are written.
const PERSISTENT: &str = "/etc/systemd/system.control";

/// One setting, with the section that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting<'a> {
    section: &'a str,
    name: &'a str,
    value: &'a str,
}

/// Finds out to which section a setting belongs, and whether it can be written into a file at all.
fn setting<'a>(unit: &UnitName, name: &'a str, value: &'a str) -> Result<Setting<'a>, Fault> {
    let kind = unit.unit_type();
    let own = kind.section();
    let (section, name) = match name.split_once('.') {
        Some((section, name)) => (section, name),
        None if lookup(own, name).is_some() => (own, name),
        None => ("Unit", name),
    };
    let noted = section == "Scope" && name == PIDS;
    if !has_section(kind, section) || (lookup(section, name).is_none() && !noted) {
        let message =
            format!("Units of type {kind} have no setting {name}= in section [{section}].");
        return Err(Fault::invalid(name, message));
    }
    if value.contains(['\n', '\r', '\0']) || value.ends_with('\\') {
        let message =
            format!("The value of {name}= has a line break in it, or a backslash at its end.");
        return Err(Fault::invalid(name, message));
    }
    Ok(Setting {
        section,
        name,
        value,
    })
}

/// The text of a file with these settings, in their order.
pub(super) fn unit_text(unit: &UnitName, settings: &[(String, String)]) -> Result<String, Fault> {
    if settings.len() > MAX_SETTINGS {
        let message = format!("More than {MAX_SETTINGS} settings are too many.");
        return Err(Fault::invalid(unit.as_str(), message));
    }
    let mut text = String::from("# Made by a request to the service manager.\n");
    let mut section = "";
    for (name, value) in settings {
        let setting = setting(unit, name, value)?;
        if setting.section != section {
            section = setting.section;
            text.push_str(&format!("\n[{section}]\n"));
        }
        text.push_str(&format!("{}={}\n", setting.name, setting.value));
    }
    Ok(text)
}

/// Writes a file as a whole: whoever reads finds the old or the new one. Process 1 has no umask to rely on, and nobody
/// else may write what the manager will run.
pub(super) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)
}

/// Makes a folder and those above it.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

impl Core {
    /// Whether the settings can be used: what is only remarked about a file is an error in a request.
    pub(super) fn check_settings(&mut self, unit: &UnitName, text: &str) -> Result<(), Fault> {
        let host = self.units.host().specifiers.clone();
        let mut config = UnitConfig::new(unit.clone());
        let mut found = Diagnostics::default();
        let mut context = ValueContext {
            specifiers: SpecifierContext {
                host: &host,
                unit,
                fragment: None,
            },
            names: self.units.loader().names(),
            warnings: Vec::new(),
        };
        let file = unit.as_shared().clone();
        let outcome = apply_file(
            &mut config,
            text.as_bytes(),
            &file,
            &mut context,
            &mut found,
        );
        let wrong = found
            .iter()
            .find(|one| !matches!(one.problem, Problem::NotApplied | Problem::Obsolete));
        match wrong {
            Some(wrong) => Err(Fault::invalid(unit.as_str(), wrong.message.to_string())),
            None if outcome != Outcome::Read => Err(Fault::invalid(
                unit.as_str(),
                "The settings cannot be used.",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn set_property(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: SetPropertyCall = call.parameters.read()?;
        let unit = self.load_for_change(&wanted.unit)?;
        self.must_have_files(&unit)?;
        let folder = if wanted.runtime {
            self.options.control_folder()
        } else {
            self.persistent_folder()
        };
        // All are looked at before the first is written.
        let mut files = Vec::new();
        for one in &wanted.properties {
            let text = unit_text(&unit, std::slice::from_ref(one))?;
            self.check_settings(&unit, &text)?;
            let name = one.0.rsplit('.').next().unwrap_or(&one.0);
            files.push((folder.join(format!("{unit}.d/50-{name}.conf")), text));
        }
        for (path, text) in &files {
            write_whole(path, text).map_err(|source| {
                Fault::system(&wanted.unit, &format!("write {}", path.display()), &source)
            })?;
        }
        self.read_again(&unit);
        if let Some(unit) = self.engine.find(unit.as_str()) {
            self.renew_limits_within(unit);
        }
        Ok(Some(Reply::empty()))
    }

    fn persistent_folder(&self) -> std::path::PathBuf {
        match &self.options.unit_path {
            Some(folders) => folders
                .first()
                .map(String::as_str)
                .unwrap_or_default()
                .into(),
            None => PERSISTENT.into(),
        }
    }

    /// Takes in what the files of one unit say now.
    pub(super) fn read_again(&mut self, unit: &UnitName) {
        let done = self.units.reload_one(unit);
        if !done.is_empty() {
            self.push(What::Loaded(done));
            self.apply_queued();
        }
    }
}

#[cfg(test)]
mod tests;
