//! The folders and files of instances. Names are made of ids, each of which is one component of a path; the folders above an
//! instance's own belong to root, so that an instance cannot put a link in the way.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use muster_api::domain::InstanceIdent;
use muster_fault::hit;

use crate::fault::STATE_STAGED;

/// The instance's state in its folder.
pub(crate) const STATE_FILE: &str = "state.dat";
/// A state that came from the cloud and is not in the instance's file yet.
const STAGED_FILE: &str = "state.new";

/// Something about an instance's folders failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FolderError {
    /// What was being done, as a verb.
    pub action: &'static str,
    /// To what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError {
        action,
        path,
        source,
    }
}

/// Where an instance is below each root.
pub(crate) fn relative(instance: &InstanceIdent) -> String {
    let (item, subject) = (&instance.item_id, &instance.subject_id);
    format!("{item}/{subject}/{}", instance.instance)
}

/// Makes the folders above an instance's own, passable by anybody and writable by root only.
fn make_above(root: &Path, instance: &InstanceIdent) -> Result<PathBuf, FolderError> {
    let mut at = root.to_owned();
    fs::create_dir_all(&at).map_err(failed("make the folder", &at))?;
    for part in [instance.item_id.as_str(), instance.subject_id.as_str()] {
        at.push(part);
        make_folder(&at, 0o711)?;
    }
    at.push(instance.instance.to_string());
    Ok(at)
}

fn make_folder(path: &Path, mode: u32) -> Result<(), FolderError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make the folder", path)(error)),
    }
    let facts = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if !facts.is_dir() {
        let error = io::Error::new(io::ErrorKind::NotADirectory, "it is no folder");
        return Err(failed("use the folder", path)(error));
    }
    Ok(())
}

/// Makes the folder that is the instance's.
pub(crate) fn make_storage(
    root: &Path,
    instance: &InstanceIdent,
    uid: u32,
    gid: u32,
) -> Result<(), FolderError> {
    let path = make_above(root, instance)?;
    make_folder(&path, 0o700)?;
    let folder = File::open(&path).map_err(failed("open", &path))?;
    give(&folder, &path, uid, gid, 0o700)
}

fn give(file: &File, path: &Path, uid: u32, gid: u32, mode: u32) -> Result<(), FolderError> {
    let facts = file.metadata().map_err(failed("look at", path))?;
    if (facts.uid(), facts.gid()) != (uid, gid) {
        fchown(file, Some(uid), Some(gid)).map_err(failed("change the owner of", path))?;
    }
    if facts.mode() & 0o7777 != mode {
        let mode = fs::Permissions::from_mode(mode);
        file.set_permissions(mode)
            .map_err(failed("change the mode of", path))?;
    }
    Ok(())
}

/// Makes the state file, which stays as it is if it is there.
pub(crate) fn make_state(
    root: &Path,
    instance: &InstanceIdent,
    uid: u32,
    gid: u32,
) -> Result<(), FolderError> {
    let folder = make_above(root, instance)?;
    make_folder(&folder, 0o711)?;
    finish_staged(&folder)?;
    let path = folder.join(STATE_FILE);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(NOT_THROUGH_LINKS)
        .open(&path)
        .map_err(failed("open", &path))?;
    give(&file, &path, uid, gid, 0o600)
}

/// Also not a pipe that nobody writes to.
#[expect(
    clippy::cast_possible_wrap,
    reason = "the flags are small; the interface wants them signed"
)]
const NOT_THROUGH_LINKS: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()) as i32;

/// When a file was changed: enough to see that it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    changed: (i64, i64),
    length: u64,
}

/// How a state file looks; `None` if there is none.
pub(crate) fn stamp(root: &Path, instance: &InstanceIdent) -> Option<Stamp> {
    let facts = fs::symlink_metadata(state_path(root, instance)).ok()?;
    Some(Stamp {
        changed: (facts.mtime(), facts.mtime_nsec()),
        length: facts.len(),
    })
}

pub(crate) fn state_path(root: &Path, instance: &InstanceIdent) -> PathBuf {
    root.join(relative(instance)).join(STATE_FILE)
}

/// Reads a state that is at most `limit` long.
pub(crate) fn read_state(
    root: &Path,
    instance: &InstanceIdent,
    limit: u64,
) -> Result<Vec<u8>, FolderError> {
    let path = state_path(root, instance);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(NOT_THROUGH_LINKS)
        .open(&path)
        .map_err(failed("open", &path))?;
    let facts = file.metadata().map_err(failed("look at", &path))?;
    if !facts.is_file() || facts.len() > limit {
        let text = format!("it has {} bytes and may have {limit}", facts.len());
        return Err(failed("take in", &path)(io::Error::other(text)));
    }
    let mut content = Vec::new();
    // It may grow while it is read; what is above the limit is not taken in.
    file.take(limit)
        .read_to_end(&mut content)
        .map_err(failed("read", &path))?;
    Ok(content)
}

/// Puts a state into the instance's file, which stays the same file: the instance has it mounted.
pub(crate) fn write_state(
    root: &Path,
    instance: &InstanceIdent,
    content: &[u8],
) -> Result<(), FolderError> {
    let folder = root.join(relative(instance));
    let staged = folder.join(STAGED_FILE);
    let stage = || {
        let partial = folder.join("state.part");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&partial, &staged)?;
        File::open(&folder)?.sync_all()
    };
    stage().map_err(failed("write", &staged))?;
    hit(STATE_STAGED);
    finish_staged(&folder)
}

/// Does the second half of [`write_state`] for an instance, if it is still to be done.
pub(crate) fn finish_write(root: &Path, instance: &InstanceIdent) -> Result<(), FolderError> {
    finish_staged(&root.join(relative(instance)))
}

/// The same in its folder.
fn finish_staged(folder: &Path) -> Result<(), FolderError> {
    let staged = folder.join(STAGED_FILE);
    let content = match fs::read(&staged) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", &staged)(error)),
    };
    let path = folder.join(STATE_FILE);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(NOT_THROUGH_LINKS)
            .open(&path)?;
        file.write_all(&content)?;
        file.sync_all()?;
        fs::remove_file(&staged)
    };
    write().map_err(failed("write", &path))
}

/// Removes what an instance kept below a root; nothing there is a success.
pub(crate) fn remove(root: &Path, instance: &InstanceIdent) -> Result<(), FolderError> {
    let path = root.join(relative(instance));
    match fs::remove_dir_all(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("remove", &path)(error)),
    }
    // The folders above stay if another instance has something in them.
    for above in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(above).is_err() {
            break;
        }
    }
    Ok(())
}
