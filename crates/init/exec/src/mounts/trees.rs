//! The machine's file system, asked by planning.

use std::os::fd::OwnedFd;

use muster_mounts::{Hierarchy, LookError, Machine, Seen, Tree};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags, readlinkat, statx};
use rustix::io::Errno;

use super::calls::open_folder;

/// The trees that a view is made of, as they were before the first step.
pub(super) struct Trees {
    machine: OwnedFd,
    /// The other root, if there is one.
    root: Option<OwnedFd>,
    /// Those of images, by their numbers in the view, where they are mounted.
    images: Vec<Option<OwnedFd>>,
    extended: Vec<(Hierarchy, OwnedFd)>,
}

impl Trees {
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self {
            machine: open_folder("/")?,
            root: None,
            images: Vec::new(),
            extended: Vec::new(),
        })
    }

    pub(super) fn set_root(&mut self, root: OwnedFd) {
        self.root = Some(root);
    }

    pub(super) fn add_image(&mut self, image: Option<OwnedFd>) {
        self.images.push(image);
    }

    pub(super) fn add_extended(&mut self, hierarchy: Hierarchy, folder: OwnedFd) {
        self.extended.push((hierarchy, folder));
    }

    pub(super) fn machine(&self) -> BorrowedFd<'_> {
        self.machine.as_fd()
    }

    /// What the view is of where nothing is mounted over it.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_ref().unwrap_or(&self.machine).as_fd()
    }

    /// The root of a tree, which is absent where an image or extension is.
    pub(super) fn of(&self, tree: Tree) -> Result<BorrowedFd<'_>, Errno> {
        let found = match tree {
            Tree::Machine => Some(self.machine()),
            Tree::Root => Some(self.root()),
            Tree::Image(number) => {
                let image = self.images.get(usize::from(number));
                image.and_then(Option::as_ref).map(AsFd::as_fd)
            }
            Tree::Extended(wanted) => {
                let found = self.extended.iter().find(|(known, _)| *known == wanted);
                found.map(|(_, folder)| folder.as_fd())
            }
        };
        found.ok_or(Errno::NOENT)
    }
}

impl Machine for Trees {
    fn look(&self, tree: Tree, path: &str) -> Result<Seen, LookError> {
        let Ok(root) = self.of(tree) else {
            return Ok(Seen::Missing);
        };
        look(root, path).map_err(|errno| LookError {
            errno: errno.raw_os_error(),
        })
    }
}

fn look(root: BorrowedFd<'_>, path: &str) -> Result<Seen, Errno> {
    let inside = path.trim_start_matches('/');
    let inside = if inside.is_empty() { "." } else { inside };
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = match statx(root, inside, flags, StatxFlags::TYPE) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Seen::Missing),
        stat => stat?,
    };
    let mount = stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Directory => Seen::Folder { mount },
        FileType::Symlink => match readlinkat(root, inside, Vec::new()) {
            Ok(target) => {
                // A path that is no UTF-8 cannot be listed in a unit file; nobody is led there either.
                let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
                Seen::Link(target.into())
            }
            Err(Errno::NOENT | Errno::INVAL) => Seen::Missing,
            Err(errno) => return Err(errno),
        },
        _ => Seen::Other { mount },
    })
}
