//! Files in which people describe machines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_config::Format;

use crate::error::DescriptionError;
use crate::limits::Limits;

/// Reads files one by one, in the order in which they are named, and of folders those that end in `.yaml`, `.yml` or `.json`, by
/// name; hidden ones are left out.
///
/// # Errors
/// A folder that cannot be listed; a file that cannot be read, is too large, or says no format; more files than the limit.
pub fn read_texts(
    paths: &[PathBuf],
    limits: &Limits,
    mut each: impl FnMut(&Path, Format, &[u8]),
) -> Result<(), DescriptionError> {
    for path in files(paths, limits)? {
        let Some(format) = Format::of(&path) else {
            let why = "its extension says no format (use .yaml, .yml or .json)";
            return Err(unreadable(&path, why));
        };
        each(&path, format, &read(&path, limits)?);
    }
    Ok(())
}

fn files(paths: &[PathBuf], limits: &Limits) -> Result<Vec<PathBuf>, DescriptionError> {
    let mut out = Vec::new();
    for path in paths {
        if path.is_dir() {
            out.extend(files_of(path, limits)?);
        } else {
            out.push(path.clone());
        }
        if out.len() > limits.files {
            let message = format!("there are more than {} files", limits.files);
            return Err(unreadable(path, &message));
        }
    }
    Ok(out)
}

fn files_of(folder: &Path, limits: &Limits) -> Result<Vec<PathBuf>, DescriptionError> {
    let failed = |source| DescriptionError::ListFolder {
        path: folder.to_owned(),
        source,
    };
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let extension = path.extension().and_then(|it| it.to_str());
        let wanted = matches!(extension, Some("yaml" | "yml" | "json"));
        // One more than the limit is enough to know that there are too many.
        if wanted && !name.starts_with(b".") && out.len() <= limits.files {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// Only a regular file: a pipe would wait for its writer for ever.
fn read(path: &Path, limits: &Limits) -> Result<Vec<u8>, DescriptionError> {
    let failed = |source| DescriptionError::ReadFile {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(unreadable(path, "it is not a regular file"));
    }
    muster_durable::read(path, limits.file_bytes).map_err(failed)
}

fn unreadable(path: &Path, why: &str) -> DescriptionError {
    DescriptionError::ReadFile {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, why),
    }
}
