//! `edit`: change the files of a unit, checked before they are saved.
//!
//! The new text is written in a private folder first. There it is what units are read from before all else, so it is checked
//! as the manager will read it, together with the unit's other files. Only what is sound is moved to its place.

mod draft;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_unit_file::install::InstallPaths;
use muster_unit_file::name::UnitName;
use thiserror::Error;

use super::{VerbError, machine, verify};
use crate::cli::{Common, Edit, RecursiveErrors};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::system::System;
use draft::Draft;

/// Longest text that is taken from standard input.
const MAX_TEXT: u64 = 4 << 20;

/// Why files are not changed.
#[derive(Debug, Error)]
pub(crate) enum EditError {
    /// There is no such unit.
    #[error("No files found for {name}. Run 'sctl edit --force --full {name}' to make a new unit.")]
    NoUnit {
        /// Which.
        name: UnitName,
    },
    /// A drop-in must be named so that it is read.
    #[error("'{name}' is not a name for a drop-in: it must end in .conf and have no slash.")]
    DropIn {
        /// What was given.
        name: String,
    },
    /// Standard input is one text.
    #[error("With --stdin, name one unit.")]
    OneUnit,
    /// No editor.
    #[error("No editor was found: set $EDITOR, or use --stdin.")]
    NoEditor,
    /// The editor.
    #[error("Failed to run the editor '{editor}'")]
    Editor {
        /// Which.
        editor: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The editor said no.
    #[error("The editor '{editor}' failed, so nothing was saved.")]
    EditorFailed {
        /// Which.
        editor: String,
    },
    /// Reading or writing.
    #[error("Failed to {what} '{}'", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The new text is not sound.
    #[error("{name} would not be sound with that, so nothing was saved. The text is kept in {}; --force saves it as it is.", draft.display())]
    Unsound {
        /// Which.
        name: UnitName,
        /// Where the text is.
        draft: PathBuf,
    },
}

pub(super) fn edit(
    arguments: &Edit,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let drop_in = &arguments.drop_in;
    if drop_in.contains('/') || !drop_in.ends_with(".conf") || drop_in.starts_with('.') {
        return Err(EditError::DropIn {
            name: drop_in.clone(),
        }
        .into());
    }
    if arguments.stdin && arguments.units.len() > 1 {
        return Err(EditError::OneUnit.into());
    }
    let common = Common {
        root: None,
        quiet: false,
    };
    let system = System::open(&common)?;
    let mut changed = false;
    for unit in system.plain_units(&arguments.units, "edit", console)? {
        changed |= one(&unit, arguments, &system, console)?;
    }
    if changed && !arguments.no_reload && manager.is_there()? {
        machine::reload(manager, console)?;
    }
    Ok(Exit::Success)
}

/// Edits one unit; whether it was changed.
fn one(
    unit: &UnitName,
    arguments: &Edit,
    system: &System,
    console: &mut Console,
) -> Result<bool, VerbError> {
    let loader = system.loader();
    let known = loader.index().main_name(unit);
    if known.is_none() && !arguments.force {
        return Err(EditError::NoUnit { name: unit.clone() }.into());
    }
    let (name, file) = match known {
        Some((name, file)) => (name, Some(PathBuf::from(file))),
        None => (unit.clone(), None),
    };
    let paths = InstallPaths::default();
    let folder = if arguments.runtime {
        &paths.runtime
    } else {
        &paths.persistent
    };
    let place = if arguments.full {
        PathBuf::from(&**folder).join(name.as_str())
    } else {
        let below = format!("{name}.d");
        PathBuf::from(&**folder)
            .join(below)
            .join(&arguments.drop_in)
    };
    let old = read_if_there(&place)?;
    let shown = match (&old, arguments.full, &file) {
        (Some(text), ..) => text.clone(),
        (None, true, Some(file)) => read_if_there(file)?.unwrap_or_default(),
        (None, ..) => String::new(),
    };
    let draft = Draft::new(
        &name,
        (!arguments.full).then_some(arguments.drop_in.as_str()),
    )?;
    let text = if arguments.stdin {
        standard_input()?
    } else {
        let whole = if arguments.full {
            shown
        } else {
            draft::with_hints(&shown, &place, file.as_deref())
        };
        draft.write(&whole)?;
        let back = run_editor(draft.path()).and_then(|()| draft.read())?;
        if arguments.full {
            back
        } else {
            draft::without_hints(&back)
        }
    };
    if text.trim().is_empty() || Some(&text) == old.as_ref() {
        console.note(format_args!("{} was not changed.", place.display()));
        return Ok(false);
    }
    draft.write(&text)?;
    let checked = verify::check(
        system,
        std::slice::from_ref(&name),
        &[draft.folder()],
        Some(RecursiveErrors::No),
        console,
    );
    if checked != Exit::Success && !arguments.force {
        let draft = draft.keep();
        return Err(EditError::Unsound { name, draft }.into());
    }
    draft::save(&place, &text)?;
    console.note(format_args!("Saved {}.", place.display()));
    Ok(true)
}

fn read_if_there(path: &Path) -> Result<Option<String>, EditError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EditError::File {
            what: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

fn standard_input() -> Result<String, EditError> {
    let mut text = String::new();
    let read = io::stdin().take(MAX_TEXT).read_to_string(&mut text);
    read.map_err(|source| EditError::File {
        what: "read",
        path: PathBuf::from("standard input"),
        source,
    })?;
    Ok(text)
}

/// Runs the editor that the user likes, or the first that there is.
fn run_editor(path: &Path) -> Result<(), EditError> {
    let wished = ["SYSTEMD_EDITOR", "EDITOR", "VISUAL"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.trim().is_empty());
    let candidates = match wished {
        Some(editor) => vec![editor],
        None => ["editor", "nano", "vim", "vi"].map(str::to_owned).to_vec(),
    };
    let last = candidates.len() - 1;
    for (n, editor) in candidates.into_iter().enumerate() {
        let mut words = editor.split_whitespace();
        let program = words.next().unwrap_or_default();
        match Command::new(program).args(words).arg(path).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(_) => return Err(EditError::EditorFailed { editor }),
            Err(error) if error.kind() == io::ErrorKind::NotFound && n < last => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && last > 0 => {
                return Err(EditError::NoEditor);
            }
            Err(source) => return Err(EditError::Editor { editor, source }),
        }
    }
    Err(EditError::NoEditor)
}
