//! Measuring places, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfs, lstat, statvfs};
use rustix::io::Errno;

use super::PlaceKey;
use super::walk::{Bounds, walk};

/// What is used of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskUse {
    /// In bytes.
    pub(crate) used: u64,
    /// What can be used there, in bytes.
    pub(crate) size: u64,
    /// Whether all of it was looked at.
    pub(crate) complete: bool,
}

/// Why a place could not be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeasureError {
    /// The file system does not tell.
    #[error("cannot ask the file system")]
    FileSystem(#[source] Errno),
    /// It cannot be looked into.
    #[error("cannot look into it")]
    Look(#[source] Errno),
}

/// What became of one place.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) key: PlaceKey,
    pub(crate) path: Arc<Path>,
    pub(crate) found: Result<DiskUse, MeasureError>,
}

/// What a job tells while it works.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A place is measured.
    Found(Measurement),
    /// That is all, after so long in folders.
    Done(Duration),
}

/// What to measure.
#[derive(Debug)]
pub(crate) struct Job {
    /// Which job it is.
    pub(crate) number: u64,
    /// As whole file systems.
    pub(crate) partitions: Vec<(PlaceKey, Arc<Path>)>,
    /// Folders, in this order, until the allowance is used up.
    pub(crate) folders: Vec<(PlaceKey, Arc<Path>)>,
    pub(crate) allowance: Duration,
    pub(super) bounds: Bounds,
}

impl Job {
    /// Measures, and tells in the order of the lists. Blocks for as long as disks take; ends early when nobody wants it any more.
    pub(crate) fn run(self, unwanted: &AtomicBool, mut tell: impl FnMut(Progress)) {
        let is_unwanted = || unwanted.load(Ordering::Relaxed);
        for (key, path) in self.partitions {
            if is_unwanted() {
                break;
            }
            let found = partition(&path);
            tell(Progress::Found(Measurement { key, path, found }));
        }
        let begin = Instant::now();
        for (key, path) in self.folders {
            if is_unwanted() || begin.elapsed() >= self.allowance {
                break;
            }
            let found = folder(&path, self.bounds, unwanted);
            // What it has seen until somebody stopped it tells nothing.
            if is_unwanted() {
                break;
            }
            tell(Progress::Found(Measurement { key, path, found }));
        }
        tell(Progress::Done(begin.elapsed()));
    }
}

fn used(stat: &StatVfs) -> u64 {
    let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    stat.f_frsize.saturating_mul(blocks)
}

fn size(stat: &StatVfs) -> u64 {
    stat.f_frsize.saturating_mul(stat.f_blocks)
}

fn partition(path: &Path) -> Result<DiskUse, MeasureError> {
    let stat = statvfs(path).map_err(MeasureError::FileSystem)?;
    Ok(DiskUse {
        used: used(&stat),
        size: size(&stat),
        complete: true,
    })
}

/// A folder below another one on the same file system is told to be smaller than that one only if it has a project quota; then
/// what the file system says is about the project.
fn has_quota(path: &Path, stat: &StatVfs) -> bool {
    let Some(parent) = path.parent() else {
        return false;
    };
    let same_device = match (lstat(path), lstat(parent)) {
        (Ok(own), Ok(above)) => own.st_dev == above.st_dev,
        _ => false,
    };
    same_device && statvfs(parent).is_ok_and(|above| stat.f_blocks < above.f_blocks)
}

fn folder(path: &Path, bounds: Bounds, unwanted: &AtomicBool) -> Result<DiskUse, MeasureError> {
    let stat = statvfs(path).map_err(MeasureError::FileSystem)?;
    let (used, complete) = if has_quota(path, &stat) {
        (used(&stat), true)
    } else {
        let walked = walk(path, bounds, unwanted).map_err(MeasureError::Look)?;
        (walked.bytes, walked.complete)
    };
    Ok(DiskUse {
        used,
        size: size(&stat),
        complete,
    })
}
