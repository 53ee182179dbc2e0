//! What building a context asks of the machine, and what a start needs of it beforehand.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use muster_exec::accounts::{AccountError, Accounts};
use muster_unit_file::install::glob;
use rustix::fs::{Access, MemfdFlags, Mode, OFlags};

use super::folders::{self, Folder};

/// The largest environment file that is read; systemd has the same limit.
const MAX_FILE: u64 = 4 << 20;
/// Files and folders that one pattern may come to.
const MAX_MATCHES: usize = 4096;

/// The machine. [`RealMachine`] is the one that this process runs on; tests make up theirs.
pub trait Machine {
    /// What is in a file.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Paths that fit a pattern, in order.
    fn matching(&self, pattern: &str) -> Vec<String>;
    /// Whether there is a program at this path.
    fn is_program(&self, path: &str) -> bool;
    /// A variable of the manager's own environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// Users and groups, up to date.
    ///
    /// # Errors
    /// They cannot be read.
    fn accounts(&mut self) -> Result<&Accounts, AccountError>;
    /// A descriptor to read these bytes from.
    ///
    /// # Errors
    /// There is no memory for them.
    fn data(&self, bytes: &[u8]) -> io::Result<OwnedFd>;
    /// Makes a folder, or brings its mode and owner up to date.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    fn make_folder(&mut self, folder: &Folder) -> io::Result<()>;
    /// Removes a folder with everything in it, or a link.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    fn remove_folder(&mut self, path: &str) -> io::Result<()>;
}

/// The machine that this process runs on.
#[derive(Debug)]
pub struct RealMachine {
    accounts: Accounts,
}

impl RealMachine {
    /// With the accounts of this root directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            accounts: Accounts::in_folder(&root.join("etc")),
        }
    }
}

impl Machine for RealMachine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Reading a fifo or a terminal fails rather than waits for somebody to write.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![PathBuf::from("/")];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let mut next: Vec<PathBuf> = Vec::new();
            for folder in &found {
                if !super::environment::is_pattern(part) {
                    next.push(folder.join(part));
                    continue;
                }
                let names = std::fs::read_dir(folder).into_iter().flatten();
                let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                let fits = |name: &String| {
                    (!name.starts_with('.') || part.starts_with('.')) && glob(part, name)
                };
                let room = MAX_MATCHES.saturating_sub(next.len());
                next.extend(names.filter(fits).map(|name| folder.join(name)).take(room));
            }
            found = next;
        }
        found.sort();
        let there = found.into_iter().filter(|path| path.exists());
        there
            .filter_map(|path| path.into_os_string().into_string().ok())
            .collect()
    }

    fn is_program(&self, path: &str) -> bool {
        let is_file = std::fs::metadata(path).is_ok_and(|stat| stat.is_file());
        is_file && rustix::fs::access(path, Access::EXEC_OK).is_ok()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn accounts(&mut self) -> Result<&Accounts, AccountError> {
        self.accounts.refresh()?;
        Ok(&self.accounts)
    }

    fn data(&self, bytes: &[u8]) -> io::Result<OwnedFd> {
        let memory = rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = rustix::io::write(&memory, rest)?;
            rest = &rest[written..];
        }
        rustix::fs::seek(&memory, rustix::fs::SeekFrom::Start(0))?;
        Ok(memory)
    }

    fn make_folder(&mut self, folder: &Folder) -> io::Result<()> {
        folders::make(folder)
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        folders::remove(path)
    }
}
