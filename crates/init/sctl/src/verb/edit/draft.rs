//! The text while it is edited and checked, and its way to its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_unit_file::name::UnitName;

use super::EditError;

const BEGIN: &str = "### Write the new settings below this line.";
const END: &str = "### What stands below this line is not saved.";

/// A private folder that units are read from, with one file in it. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Draft {
    folder: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl Draft {
    /// An empty one, for a drop-in or for the unit's own file.
    pub(super) fn new(name: &UnitName, drop_in: Option<&str>) -> Result<Self, EditError> {
        let folder = private_folder()?;
        let path = match drop_in {
            Some(drop_in) => folder.join(format!("{name}.d")).join(drop_in),
            None => folder.join(name.as_str()),
        };
        let draft = Self {
            folder,
            path,
            kept: false,
        };
        if let Some(parent) = draft.path.parent() {
            fs::create_dir_all(parent).map_err(|source| file("make", parent, source))?;
        }
        Ok(draft)
    }

    /// The folder.
    pub(super) fn folder(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, text: &str) -> Result<(), EditError> {
        fs::write(&self.path, text).map_err(|source| file("write", &self.path, source))
    }

    pub(super) fn read(&self) -> Result<String, EditError> {
        let bytes = fs::read(&self.path).map_err(|source| file("read", &self.path, source))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Leaves the text where it is, for another try.
    pub(super) fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // There is nobody to tell, and nothing that depends on it.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn file(what: &'static str, path: &Path, source: io::Error) -> EditError {
    EditError::File {
        what,
        path: path.to_owned(),
        source,
    }
}

/// A new folder that nobody else can look into or have prepared.
fn private_folder() -> Result<PathBuf, EditError> {
    let above = std::env::temp_dir();
    let mut number = u64::from(std::process::id());
    loop {
        let folder = above.join(format!("sctl-edit-{number}"));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(file("make", &folder, source)),
        }
    }
}

/// What the editor shows for a drop-in: the old text between hints, and the unit's own file below.
pub(super) fn with_hints(old: &str, place: &Path, unit_file: Option<&Path>) -> String {
    let mut text = format!("### {}\n{BEGIN}\n\n{old}\n{END}\n", place.display());
    let unit = unit_file.and_then(|path| Some((path, fs::read(path).ok()?)));
    if let Some((path, content)) = unit {
        text.push_str(&format!("\n### {}\n", path.display()));
        for line in String::from_utf8_lossy(&content).lines() {
            text.push_str(&format!("# {line}\n"));
        }
    }
    text
}

/// What stands between the hints.
pub(super) fn without_hints(text: &str) -> String {
    let after = text.split_once(BEGIN).map_or(text, |(_, rest)| rest);
    let between = after.split_once(END).map_or(after, |(own, _)| own);
    let own = between.trim();
    if own.is_empty() {
        String::new()
    } else {
        format!("{own}\n")
    }
}

/// Puts a text in its place: whole or not at all, and on disk when this returns.
pub(super) fn save(place: &Path, text: &str) -> Result<(), EditError> {
    let folder = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|source| file("make", folder, source))?;
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    // A name that begins with a dot is never read as a unit's file.
    let next = folder.join(format!(".{name}.sctl-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&next)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&next, place))
        .and_then(|()| File::open(folder)?.sync_all());
    written.map_err(|source| {
        let _ = fs::remove_file(&next);
        file("save", place, source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_hints_is_kept() {
        let shown = with_hints("[Service]\nNice=1\n", Path::new("/x"), None);
        assert_eq!(without_hints(&shown), "[Service]\nNice=1\n");
        assert_eq!(without_hints(&with_hints("", Path::new("/x"), None)), "");
        assert_eq!(without_hints("[Unit]\n"), "[Unit]\n");
    }

    #[test]
    fn a_saved_file_replaces_the_old_one_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("a.service.d/override.conf");
        save(&place, "one").expect("saved");
        save(&place, "two").expect("saved again");
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "two");
        let above = place.parent().expect("a folder");
        assert_eq!(fs::read_dir(above).expect("its folder").count(), 1);
    }

    #[test]
    fn a_draft_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let name = UnitName::new("a.service").expect("a name");
        let draft = Draft::new(&name, Some("x.conf")).expect("a draft");
        let folder = PathBuf::from(draft.folder());
        let mode = fs::metadata(&folder)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(draft);
        assert!(!folder.exists());
    }
}
