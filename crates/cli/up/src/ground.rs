//! Whether the file systems of the two folders can carry a Unit, tried before anything is made that would have to be explained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, CommandError};
use crate::error::{FileError, UpError};
use crate::layout::Layout;
use crate::settings::Shape;
use crate::sweep;

/// What a Unit of the demo takes, with room for a change or two.
const STATE_SPACE: u64 = 192 << 20;
/// Sockets, and what instances write.
const RUN_SPACE: u64 = 16 << 20;
/// The name of what is tried, in either folder.
const TRIAL: &str = "trial";

/// Tries what instances will need of both folders.
pub(crate) fn check(layout: &Layout, shape: Shape) -> Result<(), UpError> {
    for (folder, needed) in [(&layout.dir, STATE_SPACE), (&layout.run, RUN_SPACE)] {
        enough_space(folder, needed)?;
    }
    if shape == Shape::OneUser {
        let mut own_users = Command::new("unshare");
        own_users.args(["--user", "--map-root-user", "--mount", "true"]);
        command::run(own_users).map_err(UpError::NoUserNamespaces)?;
    }
    let trial = Trial::make(layout)?;
    let laid = trial.lay(shape);
    trial.remove()?;
    laid.map_err(|source| UpError::NoLayers {
        dir: layout.dir.clone(),
        run: layout.run.clone(),
        source,
    })
}

fn enough_space(folder: &Path, needed: u64) -> Result<(), UpError> {
    let space = rustix::fs::statvfs(folder)
        .map_err(std::io::Error::from)
        .map_err(FileError::of("look at the file system of", folder))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    match free < needed {
        true => Err(UpError::NoSpace {
            path: folder.to_owned(),
            free: free >> 20,
            needed: needed >> 20,
        }),
        false => Ok(()),
    }
}

/// One layer in the state's folder, and what is written over it in the other one: as an instance has them.
#[derive(Debug)]
struct Trial {
    layer: PathBuf,
    over: PathBuf,
}

impl Trial {
    fn make(layout: &Layout) -> Result<Self, FileError> {
        let trial = Self {
            layer: layout.dir.join(TRIAL),
            over: layout.run.join(TRIAL),
        };
        let over = ["upper", "work", "root"].map(|it| trial.over.join(it));
        for folder in over.iter().chain([&trial.layer]) {
            fs::create_dir_all(folder).map_err(FileError::of("make", folder))?;
        }
        Ok(trial)
    }

    /// Mounts them over each other, where nobody else sees it and the kernel takes it away by itself.
    fn lay(&self, shape: Shape) -> Result<(), CommandError> {
        let (layer, over) = (self.layer.display(), self.over.display());
        let mut lay = Command::new("unshare");
        if shape == Shape::OneUser {
            lay.args(["--user", "--map-root-user"]);
        }
        lay.args(["--mount", "--propagation", "private", "mount"])
            .args(["-t", "overlay", "overlay", "-o"])
            .arg(format!(
                "lowerdir={layer},upperdir={over}/upper,workdir={over}/work"
            ))
            .arg(self.over.join("root"));
        command::run(lay).map(drop)
    }

    fn remove(self) -> Result<(), FileError> {
        sweep::folder(&self.over)?;
        sweep::folder(&self.layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(folder: &Path) -> Layout {
        let layout = Layout::new(folder, &folder.join("run")).unwrap();
        fs::create_dir(&layout.run).unwrap();
        layout
    }

    #[test]
    fn a_trial_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(folder.path());
        // Whether this machine can is not the question.
        let _ = check(&layout, Shape::OneUser);
        assert_eq!(fs::read_dir(&layout.run).unwrap().count(), 0);
        assert_eq!(fs::read_dir(&layout.dir).unwrap().count(), 1);
    }

    #[test]
    fn too_little_space_is_told_with_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        enough_space(folder.path(), 0).unwrap();
        let error = enough_space(folder.path(), u64::MAX).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(&folder.path().display().to_string()),
            "{said}"
        );
        assert!(said.contains("MiB"), "{said}");
    }
}
