//! Nodes that nobody can use, one of each type, to cover others with.

use std::os::fd::OwnedFd;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, StatxFlags, mkdirat, mknodat, statx};
use rustix::io::Errno;

use super::calls::{open_folder, open_place};
use super::{ViewError, refused};

/// Where they are kept.
const FOLDER: &str = "/run/muster/inaccessible";

const NODES: [(FileType, &str); 6] = [
    (FileType::Directory, "dir"),
    (FileType::RegularFile, "reg"),
    (FileType::Fifo, "fifo"),
    (FileType::Socket, "sock"),
    (FileType::CharacterDevice, "chr"),
    (FileType::BlockDevice, "blk"),
];

/// The folder with the nodes.
pub(super) struct Nodes {
    folder: OwnedFd,
}

impl Nodes {
    /// Opens the folder, and makes it and the nodes if they are not there.
    pub(super) fn open() -> Result<Self, ViewError> {
        let failed = |errno| refused(errno, format!("InaccessiblePaths: cannot make {FOLDER}"));
        let folder = match open_folder(FOLDER) {
            Err(Errno::NOENT) => {
                make_folder("/run/muster").map_err(failed)?;
                make_folder(FOLDER).map_err(failed)?;
                open_folder(FOLDER).map_err(failed)?
            }
            folder => folder.map_err(failed)?,
        };
        let nodes = Self { folder };
        // Later it may be read-only. What cannot be made is missed only where it is needed.
        for (kind, name) in NODES {
            let _ = nodes.node(kind, name);
        }
        Ok(nodes)
    }

    /// The node to cover what is at a place with.
    pub(super) fn like(&self, place: &OwnedFd) -> Result<OwnedFd, Errno> {
        let stat = statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        let wanted = FileType::from_raw_mode(stat.stx_mode.into());
        let (kind, name) = NODES
            .into_iter()
            .find(|(kind, _)| *kind == wanted)
            .ok_or(Errno::OPNOTSUPP)?;
        match self.node(kind, name) {
            // Who may not make devices covers them with a socket: that cannot be opened either.
            Err(Errno::PERM)
                if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) =>
            {
                self.node(FileType::Socket, "sock")
            }
            node => node,
        }
    }

    fn node(&self, kind: FileType, name: &str) -> Result<OwnedFd, Errno> {
        match open_place(self.folder.as_fd(), name) {
            Err(Errno::NOENT) => {}
            node => return node,
        }
        let made = if kind == FileType::Directory {
            mkdirat(&self.folder, name, Mode::empty())
        } else {
            mknodat(&self.folder, name, kind, Mode::empty(), 0)
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => open_place(self.folder.as_fd(), name),
            Err(errno) => Err(errno),
        }
    }
}

/// Makes a folder that everybody may enter, unless it is there.
pub(super) fn make_folder(path: &str) -> Result<(), Errno> {
    match mkdirat(CWD, path, Mode::from_raw_mode(0o755)) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}
