//! What is to be brought, put together here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::carry::{JoinError, file_error};
use crate::kept::Kept;
use crate::plan::{INIT, Plan};

/// What the machine lacks, as it shall stand below its root.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    files: Vec<String>,
    has_init: bool,
}

pub(crate) fn stage(plan: &Plan, kept: &Kept) -> Result<Stage, JoinError> {
    let folder = tempfile::tempdir().map_err(file_error(&std::env::temp_dir()))?;
    let mut stage = Stage {
        folder,
        files: Vec::new(),
        has_init: false,
    };
    for file in &plan.copied {
        if kept
            .has_file(&file.to, &file.from)
            .map_err(file_error(&file.from))?
        {
            continue;
        }
        let to = stage.add(&file.to)?;
        let mode = if file.is_program { 0o755 } else { 0o644 };
        fs::copy(&file.from, &to).map_err(file_error(&file.from))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(file_error(&to))?;
        stage.has_init |= file.to == Path::new(INIT);
    }
    for (path, text) in &plan.written {
        if kept.has_text(path, text) {
            continue;
        }
        let to = stage.add(path)?;
        fs::write(&to, text).map_err(file_error(&to))?;
    }
    Ok(stage)
}

impl Stage {
    /// Where it is here.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Every file in it, from there.
    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    /// Whether the program that shows whether programs run on the machine is among them.
    pub(crate) const fn has_init(&self) -> bool {
        self.has_init
    }

    /// Where a file of the machine is staged.
    fn add(&mut self, there: &Path) -> Result<PathBuf, JoinError> {
        let below = there.strip_prefix("/").unwrap_or(there);
        let to = self.folder.path().join(below);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(file_error(folder))?;
        }
        self.files.push(below.display().to_string());
        Ok(to)
    }
}
