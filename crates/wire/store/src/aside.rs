//! Setting a damaged database aside, so that a kill in the middle neither loses nor hides it.
//!
//! 1. A note says under which name which files go, and why. It is durable before anything moves.
//! 2. The files are renamed, never copied, never over something: `NAME.damaged-TIME-N`, with `-wal`
//!    and `-shm` behind it as SQLite expects them, so the copy can be opened with its log.
//! 3. A new database is made.
//! 4. The note is removed, and the caller told.
//!
//! A process that finds the note goes on where the other one stopped, and reports what that one
//! found. Copies set aside are never deleted by Muster.

use std::fs;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::error::{Damage, OpenStoreError};
use crate::fault;
use crate::files::{Files, look, rename_new};

const FIRST_LINE: &str = "muster set-aside 1";
const REASON_LIMIT: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Main,
    Log,
    Index,
}

impl Part {
    /// The database goes first: a log without its database is noticed, but a database without its
    /// log would look sound and lack what was acknowledged last.
    const IN_ORDER: [Self; 3] = [Self::Main, Self::Log, Self::Index];

    fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Log => "-wal",
            Self::Index => "-shm",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Log => "log",
            Self::Index => "index",
        }
    }
}

/// A set-aside that has been noted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    target: String,
    parts: Vec<Part>,
    reason: String,
}

impl Aside {
    /// Notes durably that the database is to be set aside.
    pub(crate) fn begin(files: &Files, damage: &Damage) -> Result<Self, OpenStoreError> {
        let failed = |source| OpenStoreError::File {
            doing: "note the damage of",
            path: files.main(),
            source,
        };
        let aside = Self::choose(files, damage, Timestamp::now()).map_err(failed)?;
        files
            .write_note(&files.note(), &aside.to_text())
            .map_err(failed)?;
        muster_fault::hit(fault::ASIDE_NOTED);
        Ok(aside)
    }

    fn choose(files: &Files, damage: &Damage, now: Timestamp) -> io::Result<Self> {
        let place =
            |name: &str, part: Part| files.folder().join(format!("{name}{}", part.suffix()));
        let mut parts = Vec::new();
        for part in Part::IN_ORDER {
            if look(&place(files.name(), part))?.is_some() {
                parts.push(part);
            }
        }
        let time = now.strftime("%Y%m%dT%H%M%SZ");
        let mut number = 1_u64;
        let target = loop {
            let target = format!("{}.damaged-{time}-{number}", files.name());
            let taken = Part::IN_ORDER.map(|part| look(&place(&target, part)));
            if taken
                .into_iter()
                .collect::<io::Result<Vec<_>>>()?
                .iter()
                .all(Option::is_none)
            {
                break target;
            }
            number += 1;
        };
        let reason = damage.to_string().replace(char::is_control, " ");
        let reason = reason.chars().take(REASON_LIMIT).collect();
        Ok(Self {
            target,
            parts,
            reason,
        })
    }

    /// The set-aside that another process did not finish.
    pub(crate) fn unfinished(files: &Files) -> Result<Option<Self>, OpenStoreError> {
        let path = files.note();
        match fs::read_to_string(&path) {
            Ok(text) => match Self::from_text(&text, files.name()) {
                Some(aside) => Ok(Some(aside)),
                None => Err(OpenStoreError::Note { path }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(OpenStoreError::Note { path })
            }
            Err(source) => Err(OpenStoreError::File {
                doing: "read",
                path,
                source,
            }),
        }
    }

    /// Moves what has not been moved yet. A part whose new name exists is one that was: what stands
    /// under the old name now belongs to the new database.
    pub(crate) fn carry_out(&self, files: &Files) -> Result<(), OpenStoreError> {
        for &part in &self.parts {
            let from = files
                .folder()
                .join(format!("{}{}", files.name(), part.suffix()));
            let to = self.path(files, part);
            let failed = |source| OpenStoreError::File {
                doing: "set aside",
                path: from.clone(),
                source,
            };
            let moved = look(&to).map_err(failed)?.is_some();
            if !moved && look(&from).map_err(failed)?.is_some() {
                rename_new(&from, &to).map_err(failed)?;
            }
            if part == Part::Main {
                muster_fault::hit(fault::ASIDE_MAIN_MOVED);
            }
        }
        muster_fault::hit(fault::ASIDE_MOVED);
        let failed = |source| OpenStoreError::File {
            doing: "set aside",
            path: files.main(),
            source,
        };
        files.sync_folder().map_err(failed)?;
        muster_fault::hit(fault::ASIDE_DURABLE);
        Ok(())
    }

    /// Removes the note: the new database is in place.
    pub(crate) fn finish(&self, files: &Files) -> Result<(), OpenStoreError> {
        let path = files.note();
        files
            .remove_note(&path)
            .map_err(|source| OpenStoreError::File {
                doing: "remove",
                path,
                source,
            })
    }

    pub(crate) fn paths(&self, files: &Files) -> Vec<PathBuf> {
        self.parts
            .iter()
            .map(|&part| self.path(files, part))
            .collect()
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    fn path(&self, files: &Files, part: Part) -> PathBuf {
        files
            .folder()
            .join(format!("{}{}", self.target, part.suffix()))
    }

    fn to_text(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|part| part.word()).collect();
        format!(
            "{FIRST_LINE}\n{}\n{}\n{}\n",
            self.target,
            parts.join(" "),
            self.reason
        )
    }

    fn from_text(text: &str, name: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let target = lines.next()?;
        if target.contains('/') || !target.starts_with(&format!("{name}.damaged-")) {
            return None;
        }
        let find = |word| Part::IN_ORDER.into_iter().find(|part| part.word() == word);
        let parts = lines
            .next()?
            .split_whitespace()
            .map(find)
            .collect::<Option<Vec<_>>>()?;
        let reason = lines.next()?.to_owned();
        Some(Self {
            target: target.to_owned(),
            parts,
            reason,
        })
    }
}

/// The databases (without their logs) that were set aside here, in no particular order.
pub(crate) fn copies(files: &Files) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{}.damaged-", files.name());
    let mut found = Vec::new();
    for entry in fs::read_dir(files.folder())? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(&prefix) && !name.ends_with("-wal") && !name.ends_with("-shm") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside() -> Aside {
        Aside {
            target: "x.db.damaged-20260101T000000Z-1".into(),
            parts: vec![Part::Main, Part::Log],
            reason: "the file is empty".into(),
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        assert_eq!(Aside::from_text(&aside().to_text(), "x.db"), Some(aside()));
    }

    #[test]
    fn a_note_that_points_elsewhere_is_refused() {
        let text = aside().to_text();
        assert_eq!(Aside::from_text(&text, "y.db"), None);
        assert_eq!(
            Aside::from_text(&text.replace("x.db.damaged-", "x.db.damaged-/"), "x.db"),
            None
        );
        assert_eq!(
            Aside::from_text(&text.replace(" log", " etc"), "x.db"),
            None
        );
        assert_eq!(
            Aside::from_text(&text.replace("aside 1", "aside 2"), "x.db"),
            None
        );
        for end in 0..text.len() - "the file is empty\n".len() {
            assert_eq!(Aside::from_text(&text[..end], "x.db"), None, "cut at {end}");
        }
    }

    #[test]
    fn names_are_never_taken_twice() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::resolve(&folder.path().join("x.db"), true).unwrap();
        fs::write(files.main(), "broken").unwrap();
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        fs::write(folder.path().join("x.db.damaged-20260304T050607Z-1"), "").unwrap();
        fs::write(
            folder.path().join("x.db.damaged-20260304T050607Z-2-wal"),
            "",
        )
        .unwrap();
        let aside = Aside::choose(&files, &Damage::Empty, now).unwrap();
        assert_eq!(aside.target, "x.db.damaged-20260304T050607Z-3");
        assert_eq!(aside.parts, [Part::Main]);
    }
}
