//! Where the journal is.

use std::path::{Path, PathBuf};

use muster_journal::Journal;

use super::LogsError;
use crate::cli::Logs;
use crate::manager::Manager;

/// Where journals are on every machine: kept, and until the next start.
const DEFAULT_FOLDERS: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// The files that the options mean.
pub(super) fn open(arguments: &Logs, manager: &mut Manager) -> Result<Journal, LogsError> {
    if !arguments.file.is_empty() {
        let files: Vec<&Path> = arguments.file.iter().map(PathBuf::as_path).collect();
        return Journal::open_files(&files).map_err(|source| LogsError::File { source });
    }
    let folders = match &arguments.directory {
        Some(folder) => vec![folder.clone()],
        None => folders(manager),
    };
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    Journal::open_dirs(&folders).map_err(|source| LogsError::Folder { source })
}

/// The folders that the manager's log daemon writes to, and the usual ones where no manager says so.
pub(in crate::verb) fn folders(manager: &mut Manager) -> Vec<PathBuf> {
    let told = match manager.is_there() {
        Ok(true) => manager
            .machine()
            .map(|machine| machine.journal)
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    if told.is_empty() {
        return DEFAULT_FOLDERS.into_iter().map(PathBuf::from).collect();
    }
    told.into_iter().map(PathBuf::from).collect()
}
