//! Which file is executed as core.
//!
//! The file of a core that has adopted the services is held open, so that it can be executed again even when
//! another file has taken its place, or none.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fstat};

use crate::policy::Program;

/// The programs that init knows of.
#[derive(Debug)]
pub struct Programs {
    path: CString,
    /// Asked for by an upgrade; takes the place of `path` when it has proved to work.
    wanted: Option<CString>,
    good: Option<OwnedFd>,
    /// What the present core was started from.
    present: Option<OwnedFd>,
}

/// What to execute.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// By its path, or at least with this name.
    pub path: &'a CStr,
    /// By this descriptor, if there is one.
    pub file: Option<BorrowedFd<'a>>,
    /// It is the file that is known to work.
    pub known_good: bool,
}

impl Programs {
    /// A path, and what a former init knew.
    pub fn new(path: CString, wanted: Option<CString>, good: Option<OwnedFd>) -> Self {
        Self {
            path,
            wanted,
            good,
            present: None,
        }
    }

    /// The next core comes from this path; none for the path of the present one.
    pub fn want(&mut self, path: Option<&str>) {
        // A path with a NUL byte names no file, so it is as if none was given.
        self.wanted = path.and_then(|path| CString::new(path).ok());
    }

    /// Chooses what to execute, and takes hold of the file.
    pub fn choose(&mut self, program: Program) -> Chosen<'_> {
        if program == Program::KnownGood {
            self.wanted = None;
            self.present = None;
            if let Some(good) = &self.good {
                return Chosen {
                    path: &self.path,
                    file: Some(good.as_fd()),
                    known_good: true,
                };
            }
        }
        let path = self.wanted.as_ref().unwrap_or(&self.path);
        // If it cannot be opened, executing it will fail and say why.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        self.present = rustix::fs::open(path, flags, Mode::empty()).ok();
        let known_good = match (&self.present, &self.good) {
            (Some(present), Some(good)) => is_same_file(present.as_fd(), good.as_fd()),
            _ => false,
        };
        Chosen {
            path,
            file: None,
            known_good,
        }
    }

    /// The present core works.
    pub fn remember(&mut self) {
        if let Some(present) = self.present.take() {
            self.good = Some(present);
        }
        if let Some(wanted) = self.wanted.take() {
            self.path = wanted;
        }
    }

    /// Holds no file any more.
    pub fn let_go(&mut self) {
        self.good = None;
        self.present = None;
    }

    /// The path that has proved to work, or was given at the start.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// The path that an upgrade asked for.
    pub fn wanted(&self) -> Option<&CStr> {
        self.wanted.as_deref()
    }

    /// The file that is known to work.
    pub fn good(&self) -> Option<BorrowedFd<'_>> {
        self.good.as_ref().map(OwnedFd::as_fd)
    }
}

fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn programs(path: &Path) -> Programs {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        Programs::new(path, None, None)
    }

    #[test]
    fn file_that_worked_is_found_again_after_it_was_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("core");
        fs::write(&path, "old").unwrap();
        let mut programs = programs(&path);
        assert!(!programs.choose(Program::AtPath).known_good);
        programs.remember();
        assert!(programs.choose(Program::AtPath).known_good);

        fs::write(dir.path().join("new"), "new").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(!programs.choose(Program::AtPath).known_good);
        let chosen = programs.choose(Program::KnownGood);
        assert!(chosen.known_good);
        assert_eq!(fstat(chosen.file.unwrap()).unwrap().st_size, 3);
    }

    #[test]
    fn path_of_an_upgrade_counts_only_when_it_has_worked() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old");
        let new = dir.path().join("new");
        fs::write(&old, "").unwrap();
        fs::write(&new, "").unwrap();
        let mut programs = programs(&old);
        programs.choose(Program::AtPath);
        programs.remember();

        programs.want(new.to_str());
        assert_eq!(
            programs.choose(Program::AtPath).path.to_str().unwrap(),
            new.to_str().unwrap()
        );
        assert_eq!(
            programs.choose(Program::KnownGood).path.to_str().unwrap(),
            old.to_str().unwrap()
        );
        assert_eq!(programs.wanted(), None);

        programs.want(new.to_str());
        programs.choose(Program::AtPath);
        programs.remember();
        assert_eq!(programs.path().to_str().unwrap(), new.to_str().unwrap());
    }
}
