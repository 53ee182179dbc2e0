//! How patient the orchestrator is, and how much it keeps.

use std::path::PathBuf;
use std::time::Duration;

/// How patient the orchestrator is, and how much it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where logs are kept: a folder for each run, and nothing else.
    pub folder: PathBuf,
    /// How many runs may be under way at once.
    pub runs: usize,
    /// How many runs that are over are kept.
    pub keep_runs: usize,
    /// How long runs that are over are kept.
    pub keep_for: Duration,
    /// How large a file of a run's log grows before the next one is begun.
    pub log_file: u64,
    /// How many files a run's log has; the oldest goes first.
    pub log_files: usize,
    /// How long to wait after a machine did not answer for the first time; doubled with each.
    pub probe: Duration,
    /// The longest such wait.
    pub probe_longest: Duration,
    /// How long to wait for a machine to be gone or stopped before the run is over. The registry goes on with it anyway.
    pub clean_wait: Duration,
}

impl Settings {
    /// The usual ones, with logs in this folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            runs: 64,
            keep_runs: 200,
            keep_for: Duration::from_secs(30 * 24 * 60 * 60),
            log_file: 4 << 20,
            log_files: 8,
            probe: Duration::from_millis(200),
            probe_longest: Duration::from_secs(5),
            clean_wait: Duration::from_secs(120),
        }
    }
}
