//! Where logs are, and how much of them is answered.

use std::path::PathBuf;

/// How requests for logs are answered.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Folders of journal files, journald's or the log daemon's.
    pub dirs: Vec<PathBuf>,
    /// Bytes of text in one part, before it is compressed.
    pub part_bytes: usize,
    /// Parts of one answer; of more, the newest are sent.
    pub part_count: usize,
    /// A longer line is cut. Less than a part, so that a line is never in two.
    pub line_bytes: usize,
    /// Bytes of text for each failed end in a crash log, the newest lines before it.
    pub crash_bytes: usize,
    /// Failed ends in one crash log, the newest.
    pub crash_count: usize,
    /// Requests that are answered at a time; others wait.
    pub parallel: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            dirs: vec!["/run/log/journal".into(), "/var/log/journal".into()],
            part_bytes: 256 << 10,
            part_count: 80,
            line_bytes: 32 << 10,
            crash_bytes: 64 << 10,
            crash_count: 32,
            parallel: 4,
        }
    }
}
