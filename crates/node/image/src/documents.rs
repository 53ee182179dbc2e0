//! Documents are read into memory, and whoever names one says how large it is: neither is taken on trust.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::fetch::FetchBlobError;
use crate::folders::{DiskError, OnDisk};

/// Refuses a document whose descriptor claims more than documents may have, before space is reserved or anybody is asked.
pub(crate) fn check_claim(size: Option<u64>, limit: u64) -> Result<(), FetchBlobError> {
    match size {
        Some(size) if size > limit => Err(FetchBlobError::TooLarge { limit }),
        _ => Ok(()),
    }
}

/// Reads a document that is there; `None` if it has more than `limit` bytes. What is a document to one may be a layer to another.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let mut bytes = Vec::new();
    let more_than_enough = limit.saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(more_than_enough).read_to_end(&mut bytes))
        .on_disk("read", path)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}
