//! The record on disk: one JSON object a line, only ever appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::faults;
use crate::layout;
use crate::ledger::{Entry, Ledger, LedgerError};

/// Why the record cannot be read or added to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot read the record {}", path.display())]
    Read {
        /// The record.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line that was complete is not an entry.
    #[error("line {line} of the record {} is damaged; restore the file from a copy", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A line does not follow from those before it.
    #[error("line {line} of the record {} contradicts the ones before; restore the file from a copy", path.display())]
    Contradiction {
        /// The record.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        #[source]
        source: LedgerError,
    },
    /// A line cannot be added. Nothing was handed out.
    #[error("cannot add to the record {}", path.display())]
    Append {
        /// The record.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What was to be added makes no sense.
    #[error("refused by the record {}", path.display())]
    Refused {
        /// The record.
        path: PathBuf,
        /// Why.
        #[source]
        source: LedgerError,
    },
}

/// The record, open for more.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    /// Behind the last complete line.
    end: u64,
    ledger: Ledger,
}

impl Record {
    /// Opens or makes it. An end without a line break was never acknowledged, and the next line replaces it.
    pub(crate) fn open(folder: &Path) -> Result<Self, RecordError> {
        let path = folder.join(layout::RECORD);
        let failed = |source| RecordError::Read {
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(&path)
            .map_err(failed)?;
        muster_durable::sync_folder_of(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let (ledger, end) = replay(&path, &bytes)?;
        Ok(Self {
            file,
            path,
            end,
            ledger,
        })
    }

    /// Adds an entry; it is on disk when this returns.
    pub(crate) fn append(&mut self, entry: Entry) -> Result<(), RecordError> {
        let refused = |path: &PathBuf, source| RecordError::Refused {
            path: path.clone(),
            source,
        };
        self.ledger
            .check(&entry)
            .map_err(|source| refused(&self.path, source))?;
        let mut line = serde_json::to_vec(&entry).expect("entries are plain data");
        line.push(b'\n');
        self.write(&line).map_err(|source| RecordError::Append {
            path: self.path.clone(),
            source,
        })?;
        self.end += line.len() as u64;
        self.ledger
            .apply(entry)
            .map_err(|source| refused(&self.path, source))
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        // Whatever an earlier failure or a killed process left there.
        self.file.set_len(self.end)?;
        let (first, second) = line.split_at(line.len() / 2);
        self.file.write_all_at(first, self.end)?;
        muster_fault::hit(faults::RECORD_TORN);
        self.file
            .write_all_at(second, self.end + first.len() as u64)?;
        muster_fault::hit(faults::RECORD_WRITTEN);
        self.file.sync_all()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// Reads the record without the right to write it.
pub(crate) fn read(folder: &Path) -> Result<Ledger, RecordError> {
    let path = folder.join(layout::RECORD);
    match std::fs::read(&path) {
        Ok(bytes) => replay(&path, &bytes).map(|(ledger, _)| ledger),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ledger::default()),
        Err(source) => Err(RecordError::Read { path, source }),
    }
}

/// The state after all complete lines, and where they end.
fn replay(path: &Path, bytes: &[u8]) -> Result<(Ledger, u64), RecordError> {
    let mut ledger = Ledger::default();
    let mut end = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let at = || (path.to_owned(), index + 1);
        let entry = serde_json::from_slice(line).map_err(|source| {
            let (path, line) = at();
            RecordError::Damaged { path, line, source }
        })?;
        ledger.apply(entry).map_err(|source| {
            let (path, line) = at();
            RecordError::Contradiction { path, line, source }
        })?;
        end += line.len() as u64;
    }
    Ok((ledger, end))
}

#[cfg(test)]
mod tests;
