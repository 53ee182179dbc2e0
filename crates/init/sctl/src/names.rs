//! Names of units as people write them.

use muster_control::manager::ListUnitsCall;
use muster_unit_file::name::{UnitName, UnitNameError, UnitType};
use thiserror::Error;

use crate::console::Console;
use crate::manager::{Manager, ManagerError};

/// Why a word means no unit.
#[derive(Debug, Error)]
#[error("Failed to mangle unit name '{text}'")]
pub(crate) struct NameError {
    /// The word.
    pub(crate) text: String,
    /// What is wrong with it.
    #[source]
    pub(crate) source: UnitNameError,
}

/// Whether a word is a shell pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The unit that a word means; one without a type gets `default`.
///
/// # Errors
/// It cannot mean any.
pub(crate) fn unit(
    text: &str,
    default: UnitType,
    quiet: bool,
    console: &mut Console,
) -> Result<UnitName, NameError> {
    let failed = |source| NameError {
        text: text.to_owned(),
        source,
    };
    let name = UnitName::mangle(text, default).map_err(failed)?;
    let usable = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if !text.starts_with('/') && !text.chars().all(usable) && !quiet {
        let escaped = name.as_str();
        let escaped = match name.as_str().rsplit_once('.') {
            Some((stem, suffix)) if !text.ends_with(&format!(".{suffix}")) => stem,
            _ => escaped,
        };
        let hint = if is_pattern(text) {
            ""
        } else {
            " (maybe you should use sctl escape?)"
        };
        console.note(format_args!(
            "Invalid unit name \"{text}\" escaped as \"{escaped}\"{hint}."
        ));
    }
    Ok(name)
}

/// Why words mean no loaded units.
#[derive(Debug, Error)]
pub(crate) enum ExpandError {
    /// A word is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The manager does not say what fits a pattern.
    #[error("Failed to expand names")]
    List {
        /// Why.
        #[source]
        source: ManagerError,
    },
}

/// The units that words mean; patterns stand for those loaded units that fit. Every unit comes once.
///
/// # Errors
/// A word is no name, or the manager does not answer.
pub(crate) fn expand(
    texts: &[String],
    default: UnitType,
    quiet: bool,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Vec<String>, ExpandError> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        let names = if is_pattern(text) {
            let call = ListUnitsCall {
                patterns: vec![with_type(text, default)],
                all: true,
                ..ListUnitsCall::default()
            };
            let rows = manager
                .list(&call)
                .map_err(|source| ExpandError::List { source })?;
            rows.into_iter().map(|row| row.name).collect()
        } else {
            vec![unit(text, default, quiet, console)?.as_str().to_owned()]
        };
        for name in names {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    Ok(found)
}

/// A pattern with the type that it lacks: `ssh*` is as it is, for it may fit any; `ssh?` means services.
fn with_type(pattern: &str, default: UnitType) -> String {
    let has_type = pattern
        .rsplit_once('.')
        .is_some_and(|(_, suffix)| UnitType::from_suffix(suffix).is_some());
    if has_type || pattern.ends_with('*') {
        pattern.to_owned()
    } else {
        format!("{pattern}.{default}")
    }
}
