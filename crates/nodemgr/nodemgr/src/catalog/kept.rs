//! Templates that were added through the contract.
//!
//! They are in one file of the manager's own, which is replaced as a whole: of several that are added together all are there after
//! a crash, or none. What is added is read by the same rules as a file, together with everything that there is.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use muster_template::{
    DescriptionError, Format, Limits, Template, TemplateName, TemplateSet, UnknownTemplate,
};

use super::{Descriptions, LoadCatalogError, PLAIN, with_plain};

/// Templates may hold passwords, in what they tell a machine at its first boot.
const MODE: u32 = 0o600;

/// What became of a template that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There was none of this name.
    Added,
    /// Another one was added before.
    Replaced,
    /// The same was added before.
    Unchanged,
}

impl Outcome {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Why templates were neither added nor removed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeTemplatesError {
    /// What was given is not valid, alone or together with what there is.
    #[error(transparent)]
    Invalid(DescriptionError),
    /// There is nothing in what was given.
    #[error("there is no template in {0}")]
    Nothing(String),
    /// A file has a template of this name.
    #[error("the template `{name}` is written at {at}: change it there, or use another name here")]
    OfFile {
        /// Which.
        name: String,
        /// The file.
        at: String,
    },
    /// Nobody wrote it, so nobody can remove it.
    #[error("the template `{0}` is built in")]
    BuiltIn(String),
    /// There is no such template.
    #[error(transparent)]
    Unknown(UnknownTemplate),
    /// Somebody needs it.
    #[error("the template `{name}` is in use: {}", by.join(", "))]
    InUse {
        /// Which.
        name: String,
        /// By whom.
        by: Vec<String>,
    },
    /// What there is already cannot be read.
    #[error("cannot read the templates that there are")]
    Unreadable(#[source] LoadCatalogError),
    /// More than is kept.
    #[error("this is more than a manager keeps")]
    TooMuch(#[source] DescriptionError),
    /// They cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// All that are kept stand in one file, in a list.
fn limits() -> Limits {
    let usual = Limits::default();
    Limits {
        file_bytes: 16 * usual.file_bytes,
        depth: usual.depth + 2,
        values: 16 * usual.values,
        ..usual
    }
}

/// Those that are kept; none if there is no file.
pub(super) fn read(path: &Path) -> Result<Vec<Template>, DescriptionError> {
    let limits = limits();
    match muster_durable::read(path, limits.file_bytes) {
        Ok(bytes) => Template::read_all(path, Format::Json, &bytes, &limits),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(DescriptionError::ReadFile {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Nothing is written that could not be read again.
fn write(path: &Path, templates: &[Template]) -> Result<(), ChangeTemplatesError> {
    let failed = |source: io::Error| ChangeTemplatesError::Write {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_vec_pretty(templates).map_err(|error| failed(error.into()))?;
    let again = Template::read_all(path, Format::Json, &text, &limits());
    again.map_err(ChangeTemplatesError::TooMuch)?;
    muster_durable::write(path, &text, MODE).map_err(failed)
}

fn of_file(template: &Template) -> ChangeTemplatesError {
    ChangeTemplatesError::OfFile {
        name: template.name().to_string(),
        at: template.origin().to_string(),
    }
}

impl Descriptions {
    fn kept(&self) -> Result<Vec<Template>, ChangeTemplatesError> {
        let failed =
            |error| ChangeTemplatesError::Unreadable(LoadCatalogError::Descriptions(error));
        read(&self.added).map_err(failed)
    }

    fn written(&self) -> Result<TemplateSet, ChangeTemplatesError> {
        let written = self.written_templates();
        written.map_err(ChangeTemplatesError::Unreadable)
    }

    /// Adds the templates of a text, or replaces those that were added before: all or none. `name` stands in messages. Two at a time
    /// would undo each other: the caller sees to that. It reads and writes files.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn add_templates(
        &self,
        name: &Path,
        format: Format,
        text: &[u8],
        dry_run: bool,
    ) -> Result<Vec<(TemplateName, Outcome)>, ChangeTemplatesError> {
        let limits = Limits::default();
        let invalid = ChangeTemplatesError::Invalid;
        let new = Template::read_all(name, format, text, &limits).map_err(invalid)?;
        if new.is_empty() {
            let name = name.display().to_string();
            return Err(ChangeTemplatesError::Nothing(name));
        }
        let written = self.written()?;
        let shadowed = new
            .iter()
            .find_map(|it| written.get(it.name().as_str()).ok());
        if let Some(shadowed) = shadowed {
            return Err(of_file(shadowed));
        }
        let before = self.kept()?;
        let outcomes: Vec<(TemplateName, Outcome)> = new
            .iter()
            .map(|it| (it.name().clone(), outcome(it, &before)))
            .collect();
        let stays = |it: &&Template| !outcomes.iter().any(|(name, _)| name == it.name());
        let mut kept: Vec<Template> = before.iter().filter(stays).cloned().collect();
        kept.extend(new);
        let all = written.iter().chain(&kept).cloned().collect();
        let all = TemplateSet::new(all, &limits).map_err(invalid)?;
        with_plain(all, &limits).map_err(invalid)?;
        let changes = outcomes.iter().any(|(_, it)| *it != Outcome::Unchanged);
        if changes && !dry_run {
            kept.sort_by(|a, b| a.name().cmp(b.name()));
            write(&self.added, &kept)?;
        }
        Ok(outcomes)
    }

    /// Removes a template that was added, or only says whether that could be done; `used_by` says who uses it otherwise. As with
    /// [`Self::add_templates`], only one at a time.
    ///
    /// # Errors
    /// There is none, or somebody needs it.
    pub fn remove_template(
        &self,
        name: &str,
        used_by: Vec<String>,
        dry_run: bool,
    ) -> Result<(), ChangeTemplatesError> {
        let mut kept = self.kept()?;
        let before = kept.len();
        let extends = |it: &&Template| it.extends().is_some_and(|it| it.as_str() == name);
        let children = kept.iter().filter(extends);
        let children = children.map(|it| format!("the template `{}` extends it", it.name()));
        let by: Vec<String> = children.chain(used_by).collect();
        kept.retain(|it| it.name().as_str() != name);
        if kept.len() == before {
            return Err(self.not_added(name)?);
        }
        if !by.is_empty() {
            let name = name.to_owned();
            return Err(ChangeTemplatesError::InUse { name, by });
        }
        match dry_run {
            true => Ok(()),
            false => write(&self.added, &kept),
        }
    }

    /// Why a template that was not added cannot be removed.
    fn not_added(&self, name: &str) -> Result<ChangeTemplatesError, ChangeTemplatesError> {
        let written = self.written()?;
        if let Ok(found) = written.get(name) {
            return Ok(of_file(found));
        }
        if name == PLAIN {
            return Ok(ChangeTemplatesError::BuiltIn(name.to_owned()));
        }
        let loaded = self.load_templates();
        let (all, _) = loaded.map_err(ChangeTemplatesError::Unreadable)?;
        Ok(match all.get(name) {
            Ok(found) => of_file(found),
            Err(unknown) => ChangeTemplatesError::Unknown(unknown),
        })
    }
}

fn outcome(template: &Template, before: &[Template]) -> Outcome {
    let there = before.iter().find(|it| it.name() == template.name());
    match there {
        None => Outcome::Added,
        Some(there) if there == template => Outcome::Unchanged,
        Some(_) => Outcome::Replaced,
    }
}
