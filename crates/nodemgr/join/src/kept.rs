//! What a machine has already, so that a second try brings only what the first did not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_executor::{Command, Executor};
use sha2::{Digest as _, Sha256};

use crate::plan::Plan;

/// Far more than it says about the files of a node.
const LONGEST: usize = 64 * 1024;
/// So much of a file is read at a time.
const PIECE: usize = 64 * 1024;

/// The SHA-256 of each file that the machine has.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeMap<PathBuf, String>);

impl Kept {
    /// What the machine is asked, as root: not everybody may read everything there.
    pub(crate) fn question(plan: &Plan) -> Vec<&str> {
        let copied = plan.copied.iter().map(|it| &it.to);
        let written = plan.written.iter().map(|(path, _)| path);
        let paths = copied.chain(written).filter_map(|path| path.to_str());
        std::iter::once("sha256sum").chain(paths).collect()
    }

    /// Asks. A machine that cannot say what it has gets everything.
    pub(crate) async fn ask(executor: &dyn Executor, question: &Command) -> Self {
        let Ok(running) = executor.run(question).await else {
            return Self::default();
        };
        match running.output(LONGEST).await {
            // Its exit tells whether all were there; some are enough.
            Ok(output) => Self::read(&String::from_utf8_lossy(&output.stdout)),
            Err(_) => Self::default(),
        }
    }

    fn read(said: &str) -> Self {
        let lines = said.lines().filter_map(|line| line.split_once("  "));
        Self(
            lines
                .map(|(digest, path)| (path.into(), digest.to_owned()))
                .collect(),
        )
    }

    pub(crate) fn has_text(&self, there: &Path, text: &str) -> bool {
        let kept = self.0.get(there);
        kept.is_some_and(|it| *it == hex::encode(Sha256::digest(text)))
    }

    /// Whether a file there is the same as one here.
    pub(crate) fn has_file(&self, there: &Path, here: &Path) -> io::Result<bool> {
        let Some(kept) = self.0.get(there) else {
            return Ok(false);
        };
        let mut file = File::open(here)?;
        let mut hasher = Sha256::new();
        let mut piece = vec![0; PIECE];
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 {
                break;
            }
            hasher.update(&piece[..read]);
        }
        Ok(*kept == hex::encode(hasher.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use muster_executor::local::LocalExecutor;

    use super::*;

    #[tokio::test]
    async fn what_is_the_same_on_both_sides_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [same, other, missing] = ["same", "other", "missing"].map(|it| folder.path().join(it));
        std::fs::write(&same, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let question = Command::new("sha256sum").args([&same, &missing, &other]);
        let kept = Kept::ask(&LocalExecutor::new(), &question).await;
        assert!(kept.has_text(&same, "one") && !kept.has_text(&other, "one"));
        assert!(!kept.has_text(&missing, ""));
        assert!(kept.has_file(&same, &same).unwrap());
        assert!(!kept.has_file(&same, &other).unwrap());
        assert!(!kept.has_file(&missing, &same).unwrap());
    }

    #[tokio::test]
    async fn a_machine_that_cannot_say_what_it_has_has_nothing() {
        let question = Command::new("/no/such/sha256sum");
        let kept = Kept::ask(&LocalExecutor::new(), &question).await;
        assert!(!kept.has_text(Path::new("/etc/passwd"), ""));
    }
}
