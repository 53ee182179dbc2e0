//! Checking a whole file.
//!
//! Reading steps over damage; this names it. Every object is looked at once in the order of the file,
//! then everything that refers to something else is compared with what is there: the same checks as
//! `journalctl --verify`, and a few more.

mod links;
mod objects;

use std::path::Path;

use crate::file::{Fault, JournalFile, OpenFileError, ReadError};

/// Why a file is not in order.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It could not be opened.
    #[error(transparent)]
    Open(OpenFileError),
    /// Something in it is wrong.
    #[error(transparent)]
    Content(ReadError),
}

/// What a file in order contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// All objects.
    pub objects: u64,
    /// Entries.
    pub entries: u64,
    /// Different values.
    pub values: u64,
}

/// Checks a file that nobody is writing to.
///
/// # Errors
/// The first thing that is wrong, with its offset.
pub fn verify(path: &Path) -> Result<Verified, VerifyError> {
    let file = JournalFile::open(path).map_err(VerifyError::Open)?;
    check(&file).map_err(|fault| VerifyError::Content(file.fail(fault)))
}

fn check(file: &JournalFile) -> Result<Verified, Fault> {
    let header = file.header();
    let objects = objects::walk(file, &header)?;
    objects::compare_counters(&header, &objects)?;
    links::check(file, &header, &objects)?;
    Ok(Verified {
        objects: objects.count,
        entries: objects.entries.len() as u64,
        values: objects.data.len() as u64,
    })
}
