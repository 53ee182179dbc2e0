//! A guest that was booted, and what is left when it has ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::assemble::{READY_LINE, STATUS_LINE};
use crate::command::ToolError;
use crate::program::{Process, ProgramError};

/// Bounds on what is taken over from a guest.
const MAX_RESULT_BYTES: u64 = 64 << 20;
const MAX_RESULT_DEPTH: usize = 16;
/// How much of the console an error shows.
const TAIL_LINES: usize = 40;

/// What went wrong with a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// A file or folder for it could not be made.
    #[error("cannot prepare {} for a guest", path.display())]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// A tool of the host failed or is missing.
    #[error("a tool that guests need cannot be used")]
    Tool(#[source] ToolError),
    /// There is no kernel for QEMU guests.
    #[error("no kernel for QEMU guests in {}; scripts/lab-kernel fetches it", .0.display())]
    NoKernel(PathBuf),
    /// The kernel has no such module, neither built in nor as a file.
    #[error("the guest's kernel has no module {0}")]
    NoSuchModule(String),
    /// Folders of the host were to be shared with a QEMU guest.
    #[error("a QEMU guest cannot share folders of the host")]
    ShareUnsupported,
    /// The program that is the guest failed.
    #[error("the guest's program failed")]
    Program(#[source] ProgramError),
    /// It ran for too long and was killed.
    #[error("the guest did not end within {within:?}, last on its console:\n{console}")]
    Deadline {
        /// The time it was given.
        within: Duration,
        /// The end of its console.
        console: String,
    },
    /// It ended before its script did: a panic, most likely.
    #[error("the guest ended without a verdict, last on its console:\n{console}")]
    NoVerdict {
        /// The end of its console.
        console: String,
    },
    /// What it wrote to `/out` could not be read.
    #[error("cannot read what the guest left in /out")]
    Results(#[source] io::Error),
}

/// Where a guest leaves its files.
#[derive(Debug)]
pub(super) enum Results {
    Folder(PathBuf),
    Archive(PathBuf),
}

/// What a guest left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The script's exit status; `None` when there was no script or it did not come to its end.
    pub status: Option<i32>,
    /// The lines on the console, up to a bound.
    pub console: Vec<String>,
    /// The files in `/out`, by their names relative to it.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Outcome {
    /// A file of `/out` as text.
    pub fn text(&self, name: &str) -> Option<String> {
        let content = self.files.get(Path::new(name))?;
        Some(String::from_utf8_lossy(content).into_owned())
    }
}

/// A guest that was booted. Dropping it ends it.
#[derive(Debug)]
pub struct RunningGuest {
    // Ended before its folder goes.
    process: Process,
    results: Results,
    has_script: bool,
    _folder: TempDir,
}

impl RunningGuest {
    pub(super) fn new(
        process: Process,
        results: Results,
        has_script: bool,
        folder: TempDir,
    ) -> Self {
        Self {
            process,
            results,
            has_script,
            _folder: folder,
        }
    }

    /// Waits until the kernel is up and the script is about to start.
    pub fn wait_ready(&mut self, within: Duration) -> Result<(), GuestError> {
        self.wait_for_line(READY_LINE, within).map(drop)
    }

    /// Waits for a line on the console that contains `text`, and returns it.
    pub fn wait_for_line(&mut self, text: &str, within: Duration) -> Result<String, GuestError> {
        let line = self.process.wait_for_line(text, within);
        line.map(|line| without_return(&line.text))
            .map_err(GuestError::Program)
    }

    /// The lines on the console so far, up to a bound.
    pub fn console(&self) -> Vec<String> {
        let lines = self.process.lines();
        lines
            .iter()
            .map(|line| without_return(&line.text))
            .collect()
    }

    /// Waits for the guest to end by itself. At the deadline it is killed.
    pub fn finish(mut self, within: Duration) -> Result<Outcome, GuestError> {
        match self.process.wait(within) {
            Ok(_) => {}
            Err(ProgramError::StillRunning { .. }) => {
                self.process.kill_all().map_err(GuestError::Program)?;
                let console = self.tail();
                return Err(GuestError::Deadline { within, console });
            }
            Err(error) => return Err(GuestError::Program(error)),
        }
        let outcome = self.outcome()?;
        if self.has_script && outcome.status.is_none() {
            let console = self.tail();
            return Err(GuestError::NoVerdict { console });
        }
        Ok(outcome)
    }

    /// Cuts its power: kills it in the middle of whatever it does. What it had in `/out` comes back
    /// only from a User-Mode Linux guest.
    pub fn kill9(mut self) -> Result<Outcome, GuestError> {
        self.process.kill_all().map_err(GuestError::Program)?;
        self.outcome()
    }

    fn outcome(&self) -> Result<Outcome, GuestError> {
        let console = self.console();
        let status = console
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix(STATUS_LINE)?.parse().ok());
        let files = match &self.results {
            Results::Folder(folder) => read_folder(folder),
            Results::Archive(file) if status.is_some() => read_archive(file),
            Results::Archive(_) => Ok(BTreeMap::new()),
        };
        Ok(Outcome {
            status,
            console,
            files: files.map_err(GuestError::Results)?,
        })
    }

    fn tail(&self) -> String {
        let console = self.console();
        console[console.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

/// A guest's console ends its lines as a teletype does.
fn without_return(line: &str) -> String {
    line.trim_end_matches('\r').to_owned()
}

fn read_folder(folder: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut left = MAX_RESULT_BYTES;
    let mut folders = vec![PathBuf::new()];
    while let Some(name) = folders.pop() {
        for entry in fs::read_dir(folder.join(&name))? {
            let entry = entry?;
            let name = name.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() && name.components().count() <= MAX_RESULT_DEPTH {
                folders.push(name);
            } else if kind.is_file() {
                left = take_over(&mut files, name, File::open(entry.path())?, left)?;
            }
        }
    }
    Ok(files)
}

fn read_archive(file: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut left = MAX_RESULT_BYTES;
    for entry in tar::Archive::new(File::open(file)?).entries()? {
        let entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = entry.path()?.components().as_path().to_owned();
            let name = name.strip_prefix(".").unwrap_or(&name).to_owned();
            left = take_over(&mut files, name, entry, left)?;
        }
    }
    Ok(files)
}

/// Reads one file, and says how much may still be read.
fn take_over(
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
    name: PathBuf,
    file: impl io::Read,
    left: u64,
) -> io::Result<u64> {
    let mut content = Vec::new();
    let read = file.take(left + 1).read_to_end(&mut content)? as u64;
    files.insert(name, content);
    left.checked_sub(read)
        .ok_or_else(|| io::Error::other(format!("more than {MAX_RESULT_BYTES} bytes")))
}
