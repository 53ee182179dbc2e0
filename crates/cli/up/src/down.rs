//! From a Unit, or from whatever is left of one, to nothing.

use std::fs;
use std::io;
use std::path::Path;

use muster_firewall::Firewall;

use crate::Tell;
use crate::cgroups::Trees;
use crate::error::{DownError, FileError};
use crate::layout::{Layout, MAIN, SECOND};
use crate::record::{Claim, Lock, Record, is_unused};
use crate::settings::Shape;
use crate::{links, supervisor, sweep};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// A Unit, which is gone now.
    Removed,
    /// Nothing.
    NothingThere,
}

/// Takes the Unit in these folders away, however much of it is there.
///
/// # Errors
/// With what could not be removed; everything before it is gone, and the record stays, so that another try goes on from there.
pub fn down(dir: &Path, run: &Path, tell: &mut dyn Tell) -> Result<Down, DownError> {
    let layout = Layout::new(dir, run).map_err(DownError::Layout)?;
    let _lock = match Lock::take(&layout.dir)? {
        Claim::Ours(lock) => lock,
        Claim::Gone => return Ok(Down::NothingThere),
        Claim::Taken => {
            let path = layout.dir;
            return Err(DownError::Busy { path });
        }
    };
    let Some(record) = Record::load(&layout)? else {
        return without_record(&layout);
    };
    let is_shared = record.shape() == Shape::TwoNodes;
    if is_shared && !rustix::process::geteuid().is_root() {
        return Err(DownError::NotRoot);
    }
    tell.step("stopping everything");
    let nodes = [layout.node(SECOND), layout.node(MAIN)];
    nodes.iter().for_each(supervisor::ask_to_end);
    nodes.iter().for_each(supervisor::wait_for_end);
    tell.step("clearing up");
    let trees = match is_shared {
        true => Trees::find(),
        false => Trees::default(),
    };
    for place in &nodes {
        sweep::node(&layout, place, &trees)?;
    }
    trees.sweep(&layout.cgroup())?;
    sweep::mounts_below(&[&layout.dir, &layout.run])?;
    if is_shared {
        network(&layout, &record)?;
    }
    folders(&layout, &record)?;
    Ok(Down::Removed)
}

/// An empty folder may be one that `up` was interrupted in before it wrote anything.
fn without_record(layout: &Layout) -> Result<Down, DownError> {
    if !is_unused(layout)? {
        let path = layout.dir.clone();
        return Err(DownError::Foreign { path });
    }
    remove_file(&muster_durable::temporary(&layout.record()))?;
    remove_unless_mounted(&layout.dir)?;
    Ok(Down::Removed)
}

/// A folder that somebody gave a disk of its own stays, empty, with that disk.
fn remove_unless_mounted(folder: &Path) -> Result<(), FileError> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        removed => removed.map_err(FileError::of("remove", folder)),
    }
}

/// Links, rules, and the switch for forwarding.
fn network(layout: &Layout, record: &Record) -> Result<(), DownError> {
    let before = &record.before;
    links::remove(&links::of_demo(layout, &before.links)).map_err(|source| DownError::Command {
        what: "remove the links of the Unit".to_owned(),
        source,
    })?;
    if !before.has_rules
        && let Ok(firewall) = Firewall::detect()
    {
        firewall.clear().map_err(DownError::Rules)?;
    }
    before.restore_forwarding()?;
    let shared = Path::new(muster_firewall::LOCK_FILE);
    if !before.files.contains(shared) {
        remove_file(shared)?;
    }
    Ok(())
}

/// The record goes last.
fn folders(layout: &Layout, record: &Record) -> Result<(), DownError> {
    remove_file(&layout.control_socket())?;
    let entries = fs::read_dir(&layout.dir).map_err(FileError::of("read", &layout.dir))?;
    for entry in entries {
        let path = entry.map_err(FileError::of("read", &layout.dir))?.path();
        if path == layout.record() {
            continue;
        }
        match path.is_dir() && !path.is_symlink() {
            true => sweep::folder(&path)?,
            false => remove_file(&path)?,
        }
    }
    remove_file(&layout.record())?;
    remove_unless_mounted(&layout.dir)?;
    for folder in &record.before.made_folders {
        remove_empty(folder)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::of("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Somebody else may keep something there by now.
fn remove_empty(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir(path) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(FileError::of("remove", path)(error))
        }
        _ => Ok(()),
    }
}
