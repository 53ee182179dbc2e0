//! What building a context asks of the machine, and what a start needs of it beforehand.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use muster_exec::accounts::{AccountError, Accounts};
use muster_exec::folders::{self, Folder, FolderError};
use muster_exec::variables;
use muster_mounts::Folders;
use rustix::fs::{Access, MemfdFlags};

use super::distant::Distant;
use super::dynamic_users::DynamicUsers;
use super::{name_services, private_tmp};

/// Where the C library finds out who knows names.
const NSSWITCH: &str = "/etc/nsswitch.conf";

/// The machine. [`RealMachine`] is the one that this process runs on; tests make up theirs.
pub trait Machine {
    /// What is in a file.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Paths that fit a pattern, in order; `None` if whoever looks may have to wait.
    fn matching(&mut self, pattern: &str) -> Option<Vec<String>>;
    /// Whether there is a program at this path.
    fn is_program(&self, path: &str) -> bool;
    /// Whether whoever goes to a path may have to wait for ever: it leads to a file system that others serve.
    fn may_wait_at(&mut self, path: &str) -> bool;
    /// A variable of the manager's own environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// Users and groups, up to date.
    ///
    /// # Errors
    /// They cannot be read.
    fn accounts(&mut self) -> Result<&Accounts, AccountError>;
    /// Whether others than the machine's files may know in which groups a user is.
    fn has_name_services(&self) -> bool;
    /// The number of a user that exists while a unit runs; it is in use from now on. The owner of the unit's folders is
    /// the number that it had before.
    ///
    /// # Errors
    /// No number is free, or the user cannot be written down.
    fn dynamic_user(&mut self, name: &str, folders: &[Folder]) -> io::Result<u32>;
    /// The number of a user that is known already.
    fn number_of(&mut self, user: &str) -> Option<u32>;
    /// Users and groups that exist at the moment because units run.
    fn dynamic_users(&mut self) -> Vec<(Box<str>, u32)>;
    /// Dynamic users other than these are not in use any more.
    fn keep_dynamic_users(&mut self, used: &BTreeSet<String>);
    /// Makes what stands for `/tmp` and `/var/tmp`, unless it is there.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    fn make_private_tmp(&mut self, folders: &Folders) -> io::Result<()>;
    /// A descriptor to read these bytes from.
    ///
    /// # Errors
    /// There is no memory for them.
    fn data(&self, bytes: &[u8]) -> io::Result<OwnedFd>;
    /// Makes a folder, or brings its mode and owner up to date. Says whether it is as it should be: where everything in it
    /// needs another owner, it is not.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    fn make_folder(&mut self, folder: &Folder) -> Result<bool, FolderError>;
    /// Takes a folder and the links to it away. One that is not empty is then at the path that is given back.
    ///
    /// # Errors
    /// It is there and cannot be taken away.
    fn put_away(&mut self, folder: &Folder, tag: &str) -> Result<Option<String>, FolderError>;
}

/// The machine that this process runs on.
#[derive(Debug)]
pub struct RealMachine {
    accounts: Accounts,
    dynamic: DynamicUsers,
    /// The accounts are those of this process's root.
    is_own: bool,
    distant: Distant,
}

impl RealMachine {
    /// With the accounts of this root directory. What lives as long as the machine is up is in `runtime`.
    #[must_use]
    pub fn new(root: &Path, runtime: &Path) -> Self {
        Self {
            accounts: Accounts::in_folder(&root.join("etc")),
            dynamic: DynamicUsers::in_folder(&runtime.join("dynamic-users")),
            is_own: root == Path::new("/"),
            distant: Distant::new(),
        }
    }
}

impl Machine for RealMachine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        variables::read(path)
    }

    fn matching(&mut self, pattern: &str) -> Option<Vec<String>> {
        let distant = &mut self.distant;
        variables::matching(pattern, |path| distant.has(path))
    }

    fn is_program(&self, path: &str) -> bool {
        let is_file = std::fs::metadata(path).is_ok_and(|stat| stat.is_file());
        is_file && rustix::fs::access(path, Access::EXEC_OK).is_ok()
    }

    fn may_wait_at(&mut self, path: &str) -> bool {
        self.distant.has(Path::new(path))
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn accounts(&mut self) -> Result<&Accounts, AccountError> {
        self.accounts.refresh()?;
        Ok(&self.accounts)
    }

    fn has_name_services(&self) -> bool {
        // The C library asks those of this process's root, and no others.
        let text = self
            .is_own
            .then(|| self.read(NSSWITCH))
            .and_then(Result::ok);
        text.is_some_and(|text| name_services::know_groups(&String::from_utf8_lossy(&text)))
    }

    fn dynamic_user(&mut self, name: &str, folders: &[Folder]) -> io::Result<u32> {
        self.accounts.refresh().map_err(io::Error::other)?;
        let distant = &mut self.distant;
        // Nobody waits for a hint.
        let near = folders
            .iter()
            .map(|folder| Path::new(&*folder.path))
            .filter(|path| !distant.has(path));
        let owners: Vec<u32> = near
            .filter_map(|path| Some(std::fs::symlink_metadata(path).ok()?.uid()))
            .collect();
        let accounts = &self.accounts;
        self.dynamic.take(name, &owners, |number| {
            accounts.user(&number.to_string()).is_ok() || accounts.has_group(number)
        })
    }

    fn number_of(&mut self, user: &str) -> Option<u32> {
        let known = self.dynamic.number_of(user);
        known.or_else(|| Some(self.accounts.user(user).ok()?.uid))
    }

    fn dynamic_users(&mut self) -> Vec<(Box<str>, u32)> {
        self.dynamic.all()
    }

    fn keep_dynamic_users(&mut self, used: &BTreeSet<String>) {
        self.dynamic.keep_only(used);
    }

    fn make_private_tmp(&mut self, folders: &Folders) -> io::Result<()> {
        private_tmp::make(folders)
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

    fn make_folder(&mut self, folder: &Folder) -> Result<bool, FolderError> {
        folders::prepare(folder)
    }

    fn put_away(&mut self, folder: &Folder, tag: &str) -> Result<Option<String>, FolderError> {
        folders::put_away(folder, tag)
    }
}
