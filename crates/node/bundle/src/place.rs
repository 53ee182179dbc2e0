//! Where the files of one instance are, and the records among them.
//!
//! ```text
//! FOLDER/                     0700: what images bring is for nobody on the host; 0711 where user namespaces are used
//! FOLDER/INSTANCE-ID/         0711: a user namespace's root passes through
//!   config.json       0600    how to run it; holds the instance's secret
//!   hosts resolv.conf hostname
//!   rootfs/                   where the root file system is mounted
//!   upper/ work/              what was written over the image
//!   top/                      the same, where it has a size: a file system that holds both
//!   run.json                  which start this is
//!   pid                       the instance's first process, where the init system is told by a file
//!   cgroup                    the unit's group, as its own command found it
//!   memory-events             where the kernel counts what it killed for want of memory
//!   end.json                  how the last process ended
//!   runtime.log               what whoever started it says
//! ```
//! The folder is on a file system that a reboot empties, as everything is that these files are about. So nothing is synced;
//! records are replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_runtime::{Ended, RunId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cgroup::UnitGroup;

/// The unit's group, noted for those who measure it and those who clear away after it.
const GROUP_FILE: &str = "cgroup";
/// Records are short; a long one is not ours.
const MAX_RECORD: u64 = 64 << 10;
const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// A file or folder of an instance that could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct PlaceError {
    /// As a verb.
    pub operation: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// The folder of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

/// Which start of an instance is in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its number.
    pub run: u64,
    /// What the instance is called by those who run it.
    pub name: String,
    /// Who runs it.
    pub program: PathBuf,
}

/// How a start ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    pub(crate) run: u64,
    pub(crate) end: RecordedEnd,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecordedEnd {
    Exited(i32),
    Signalled(i32),
    OutOfMemory,
}

impl From<RecordedEnd> for Ended {
    fn from(end: RecordedEnd) -> Self {
        match end {
            RecordedEnd::Exited(code) => Self::Exited(code),
            RecordedEnd::Signalled(signal) => Self::Signalled(signal),
            RecordedEnd::OutOfMemory => Self::OutOfMemory,
        }
    }
}

impl Place {
    /// The folder of an instance below the runtime's.
    #[must_use]
    pub fn new(folder: &Path, instance: Uuid) -> Self {
        Self {
            folder: folder.join(instance.to_string()),
        }
    }

    /// The folder that a unit's command was given.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// How to run it.
    pub fn config(&self) -> PathBuf {
        self.file("config.json")
    }

    /// Where its root file system is mounted.
    pub fn rootfs(&self) -> PathBuf {
        self.file("rootfs")
    }

    /// What was written over the image.
    pub fn upper(&self) -> PathBuf {
        self.file("upper")
    }

    /// Where a file system of limited size is mounted for what is written over the image.
    pub fn top(&self) -> PathBuf {
        self.file("top")
    }

    /// What was written over the image, wherever that went.
    pub(crate) fn written(&self) -> PathBuf {
        let limited = self.top().join("upper");
        match limited.exists() {
            true => limited,
            false => self.upper(),
        }
    }

    /// The kernel's own, for what is written.
    pub fn work(&self) -> PathBuf {
        self.file("work")
    }

    /// The file that names its first process.
    pub fn pid_file(&self) -> PathBuf {
        self.file("pid")
    }

    /// The file that says where kills for want of memory are counted.
    pub(crate) fn memory_events(&self) -> PathBuf {
        self.file("memory-events")
    }

    /// What whoever started it says.
    pub fn log(&self) -> PathBuf {
        self.file("runtime.log")
    }

    fn run(&self) -> PathBuf {
        self.file("run.json")
    }

    fn end(&self) -> PathBuf {
        self.file("end.json")
    }

    fn make_folder(&self, path: &Path, mode: u32) -> Result<(), PlaceError> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path);
        made.map_err(failed("make", path))
    }

    /// Makes the folder and those in it.
    pub(crate) fn make(&self) -> Result<(), PlaceError> {
        self.make_folder(&self.folder, 0o711)?;
        for folder in [self.rootfs(), self.upper(), self.work()] {
            self.make_folder(&folder, 0o755)?;
        }
        Ok(())
    }

    /// Writes a file that anybody may read.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), PlaceError> {
        write_whole(&self.file(name), content, PUBLIC_MODE)
    }

    /// Writes how to run it, for root only.
    pub fn write_config(&self, content: &[u8]) -> Result<(), PlaceError> {
        write_whole(&self.config(), content, SECRET_MODE)
    }

    /// Notes where the kernel counts what it kills for want of memory in the instance's cgroup.
    pub fn note_memory_events(&self, counters: &Path) -> Result<(), PlaceError> {
        let path = counters.as_os_str().as_encoded_bytes();
        write_whole(&self.memory_events(), path, PUBLIC_MODE)
    }

    /// Notes the unit's group, which is known for certain only in it.
    pub fn note_group(&self, group: &UnitGroup) -> Result<(), PlaceError> {
        self.write(GROUP_FILE, group.as_str().as_bytes())
    }

    /// The unit's group, if it was noted.
    #[must_use]
    pub fn group(&self) -> Option<UnitGroup> {
        let noted = read_bounded(&self.file(GROUP_FILE)).ok()??;
        UnitGroup::noted(std::str::from_utf8(&noted).ok()?)
    }

    /// Records a start.
    pub(crate) fn write_run(&self, record: &RunRecord) -> Result<(), PlaceError> {
        write_record(&self.run(), record)
    }

    pub(crate) fn write_end(&self, record: &EndRecord) -> Result<(), PlaceError> {
        write_record(&self.end(), record)
    }

    /// The start that is in the folder.
    pub fn read_run(&self) -> Result<Option<RunRecord>, PlaceError> {
        read_record(&self.run())
    }

    /// How a start ended, if that was recorded.
    pub(crate) fn end_of(&self, run: RunId) -> Result<Option<Ended>, PlaceError> {
        let record: Option<EndRecord> = read_record(&self.end())?;
        Ok(record
            .filter(|record| record.run == run.0)
            .map(|record| record.end.into()))
    }

    /// What an earlier process of the same start left.
    pub fn clear_traces(&self) -> Result<(), PlaceError> {
        for file in [
            self.end(),
            self.pid_file(),
            self.memory_events(),
            self.log(),
        ] {
            remove_file(&file)?;
        }
        Ok(())
    }

    /// Removes the folder with all that is in it. Nothing may be mounted in it.
    pub(crate) fn remove(&self) -> Result<(), PlaceError> {
        // Not by walking: what is mounted there is not ours to delete.
        for point in [self.rootfs(), self.top()] {
            absent_is_fine(fs::remove_dir(&point)).map_err(failed("remove", &point))?;
        }
        absent_is_fine(fs::remove_dir_all(&self.folder)).map_err(failed("remove", &self.folder))
    }
}

fn failed<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> PlaceError + 'a {
    move |source| PlaceError {
        operation,
        path: path.to_owned(),
        source,
    }
}

fn remove_file(path: &Path) -> Result<(), PlaceError> {
    absent_is_fine(fs::remove_file(path)).map_err(failed("remove", path))
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<(), PlaceError> {
    let text = serde_json::to_vec(record)
        .map_err(io::Error::from)
        .map_err(failed("write", path))?;
    write_whole(path, &text, PUBLIC_MODE)
}

/// Whoever reads finds the old or the new file.
fn write_whole(path: &Path, content: &[u8], mode: u32) -> Result<(), PlaceError> {
    let beside = path.with_extension("new");
    let write = || {
        // Made anew, so that it has this mode from its first byte on.
        absent_is_fine(fs::remove_file(&beside))?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(content)?;
        fs::rename(&beside, path)
    };
    write().map_err(failed("write", path))
}

fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PlaceError> {
    let read = || {
        let content = read_bounded(path)?;
        content
            .map(|content| serde_json::from_slice(&content).map_err(io::Error::from))
            .transpose()
    };
    read().map_err(failed("read", path))
}

/// A short file; `None` if there is none.
pub fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut content = Vec::new();
    file.take(MAX_RECORD).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Makes the folder that instances have theirs in. Who is not root gets through it only where somebody has to; whatever it was before.
pub(crate) fn make_outer(folder: &Path, is_passable: bool) -> Result<(), PlaceError> {
    let mode = match is_passable {
        true => 0o711,
        false => 0o700,
    };
    let make = || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(folder)?;
        if fs::metadata(folder)?.permissions().mode() & 0o7777 == mode {
            return Ok(());
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(mode))
    };
    make().map_err(failed("make", folder))
}

/// The instances that have a folder in this one.
#[must_use]
pub fn instances_in(folder: &Path) -> Vec<Uuid> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let id = |name: std::ffi::OsString| Uuid::parse_str(name.to_str()?).ok();
    entries.filter_map(|entry| id(entry.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), Uuid::from_u128(1));
        place.make().unwrap();
        (folder, place)
    }

    #[test]
    fn an_end_is_told_only_of_the_start_that_it_is_of() {
        let (_folder, place) = place();
        assert_eq!(place.end_of(RunId(2)).unwrap(), None);
        let end = RecordedEnd::OutOfMemory;
        place.write_end(&EndRecord { run: 2, end }).unwrap();
        assert_eq!(place.end_of(RunId(2)).unwrap(), Some(Ended::OutOfMemory));
        assert_eq!(place.end_of(RunId(3)).unwrap(), None);
        place.clear_traces().unwrap();
        assert_eq!(place.end_of(RunId(2)).unwrap(), None);
    }

    #[test]
    fn a_torn_record_is_an_error_that_names_it() {
        let (_folder, place) = place();
        fs::write(place.run(), "{\"run\":").unwrap();
        let error = place.read_run().unwrap_err();
        assert_eq!(error.operation, "read");
        assert_eq!(error.path, place.run());
    }

    #[test]
    fn the_specification_is_for_nobody_else() {
        let (_folder, place) = place();
        fs::write(
            place.config().with_extension("new"),
            "left over, and readable",
        )
        .unwrap();
        place.write_config(b"{}").unwrap();
        let mode = fs::metadata(place.config()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn nobody_gets_to_an_image_on_the_host_unless_somebody_has_to() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a/runtime");
        let mode = || fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
        for (is_passable, expected) in [(false, 0o700), (true, 0o711), (false, 0o700)] {
            make_outer(&folder, is_passable).unwrap();
            assert_eq!(mode(), expected);
        }
        Place::new(&folder, Uuid::from_u128(1)).make().unwrap();
        assert_eq!(mode(), 0o700);
    }

    #[test]
    fn removing_does_not_walk_into_what_is_mounted() {
        let (_folder, place) = place();
        fs::write(place.rootfs().join("file"), "as if it were mounted").unwrap();
        assert!(place.remove().is_err());
        assert!(place.rootfs().join("file").exists());
        fs::remove_file(place.rootfs().join("file")).unwrap();
        place.remove().unwrap();
        place.remove().unwrap();
        assert!(!place.folder().exists());
    }
}
