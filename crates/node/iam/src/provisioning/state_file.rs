//! The file that says how far a node is: one word that the field's tools know, and, while something
//! is under way, a second line.
//!
//! | phase | first line | second line |
//! |---|---|---|
//! | unprovisioned (also: no file) | `unprovisioned` | |
//! | started | `unprovisioned` | `started` |
//! | provisioned | `provisioned` | |
//! | paused | `paused` | |
//! | deprovisioning | `unprovisioned` | `deprovisioning` |

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_durable::{Step, write_in_steps};

use super::phase::Phase;

muster_fault::points! {
    /// The new state is on the disk under another name; the old one counts.
    pub STATE_WRITTEN = "iam.state-written",
    /// The new state counts; nobody has been told.
    pub STATE_RENAMED = "iam.state-renamed",
}

/// No state is longer; anything else is not read further.
const LONGEST: u64 = 64;

/// Why the node's state is not known, or cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum NodeStateError {
    /// The file cannot be read.
    #[error("cannot read the node's state from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{} holds {text:?}, which is no state of a node; write \"provisioned\" or \"unprovisioned\" into it, \
         whichever is true",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What stands there, shortened.
        text: String,
    },
    /// The file cannot be written.
    #[error("cannot write the node's state to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The node's state file.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The state file at `path`; its folder is made when it is first written.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The phase on the disk. Without a file the node is unprovisioned.
    ///
    /// # Errors
    /// A file that cannot be read or says something else.
    pub fn read(&self) -> Result<Phase, NodeStateError> {
        let text = match read_bounded(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Phase::Unprovisioned);
            }
            Err(source) => {
                return Err(NodeStateError::Read {
                    path: self.path.clone(),
                    source,
                });
            }
        };
        parse(&text).ok_or_else(|| NodeStateError::Unknown {
            path: self.path.clone(),
            text,
        })
    }

    /// Makes `phase` the one on the disk; it is there when this returns, and the old one until then.
    ///
    /// # Errors
    /// The old phase stays.
    pub fn write(&self, phase: Phase) -> Result<(), NodeStateError> {
        self.replace(text(phase))
            .map_err(|source| NodeStateError::Write {
                path: self.path.clone(),
                source,
            })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Other programs of the node may know whether it is a member.
        let mode = 0o644;
        write_in_steps(&self.path, text.as_bytes(), mode, |step| match step {
            Step::Written => muster_fault::hit(STATE_WRITTEN),
            Step::Durable => muster_fault::hit(STATE_RENAMED),
            Step::Named => {}
        })
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn text(phase: Phase) -> &'static str {
    match phase {
        Phase::Unprovisioned => "unprovisioned\n",
        Phase::Started => "unprovisioned\nstarted\n",
        Phase::Provisioned => "provisioned\n",
        Phase::Paused => "paused\n",
        Phase::Deprovisioning => "unprovisioned\ndeprovisioning\n",
    }
}

/// Trailing white space is nobody's intention.
fn parse(found: &str) -> Option<Phase> {
    Phase::ALL
        .iter()
        .copied()
        .find(|phase| text(*phase).trim_end() == found.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path().join("deep/state"));
        assert_eq!(file.read().unwrap(), Phase::Unprovisioned);
        for &phase in Phase::ALL {
            file.write(phase).unwrap();
            assert_eq!(file.read().unwrap(), phase);
        }
        let left: Vec<_> = fs::read_dir(folder.path().join("deep")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn the_words_of_the_field_are_understood_with_or_without_a_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for (text, phase) in [
            ("provisioned", Phase::Provisioned),
            ("provisioned\n", Phase::Provisioned),
            ("paused", Phase::Paused),
            ("unprovisioned", Phase::Unprovisioned),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(StateFile::new(&path).read().unwrap(), phase, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_shown_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for text in ["", "error", "Provisioned", "started", &"x".repeat(10_000)] {
            fs::write(&path, text).unwrap();
            let error = StateFile::new(&path).read().unwrap_err();
            assert!(matches!(error, NodeStateError::Unknown { .. }), "{error}");
            assert!(error.to_string().len() < 400, "{error}");
        }
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(StateFile::new(&path).read().is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let blocker = folder.path().join("file");
        fs::write(&blocker, "").unwrap();
        let file = StateFile::new(blocker.join("state"));
        let error = file.write(Phase::Started).unwrap_err();
        assert!(error.to_string().contains("file/state"), "{error}");
    }
}
