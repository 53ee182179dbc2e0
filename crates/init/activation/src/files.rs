//! Reading small files.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

/// The content of a file, if it is not longer than `limit`.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(Error::from(ErrorKind::FileTooLarge));
    }
    Ok(content)
}

/// The text of a file, if it is not longer than `limit`.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, Error> {
    let content = read_bytes(path, limit)?;
    String::from_utf8(content).map_err(|_| Error::from(ErrorKind::InvalidData))
}
