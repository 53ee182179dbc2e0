//! The destination: everything that touches it goes through here.
//!
//! A step from one folder to another is made by `openat2` from the destination, beneath it and without symbolic links;
//! what is created is created by its last step in a descriptor of its folder, exclusively.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    XattrFlags, openat2,
};
use rustix::io::Errno;

use crate::error::{Fault, Operation as _, Rule};
use crate::folders::{Attributes, Folder, FolderTable};
use crate::options::{Options, OverlayXattrs, WhiteoutForm};
use crate::path::LayerPath;
use crate::pax::{Moment, Xattr};
use crate::remove::remove_tree;
use crate::xattr::CAPABILITY;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Where the last entry was, because the next is usually there too.
#[derive(Default)]
struct Recent(Option<(Vec<u8>, Rc<OwnedFd>)>);

impl Recent {
    fn get(&self, path: &[u8]) -> Option<Rc<OwnedFd>> {
        self.0
            .as_ref()
            .filter(|(known, _)| known == path)
            .map(|(_, folder)| Rc::clone(folder))
    }

    fn set(&mut self, path: &[u8], folder: &Rc<OwnedFd>) {
        self.0 = Some((path.to_vec(), Rc::clone(folder)));
    }
}

pub(crate) struct Tree<'a> {
    root: Rc<OwnedFd>,
    options: &'a Options,
    folders: FolderTable,
    /// What a folder gets that no entry describes.
    undescribed: Attributes,
    recent: Recent,
    recent_target: Recent,
}

impl<'a> Tree<'a> {
    /// `root` is an empty folder. `undescribed` is what folders get that no entry describes.
    pub(crate) fn new(
        root: OwnedFd,
        options: &'a Options,
        undescribed: Attributes,
    ) -> Result<Self, Fault> {
        let mut tree = Self {
            root: Rc::new(root),
            options,
            folders: FolderTable::default(),
            undescribed,
            recent: Recent::default(),
            recent_target: Recent::default(),
        };
        tree.set_undescribed(b"")?;
        Ok(tree)
    }

    fn set_undescribed(&mut self, path: &[u8]) -> Result<(), Fault> {
        let folder = Folder {
            attributes: self.undescribed,
            described: false,
        };
        Ok(self.folders.set(path, folder, &self.options.limits)?)
    }

    /// The folder that an entry is in; it and those above are made where they are missing.
    fn parent(&mut self, path: &LayerPath) -> Result<Rc<OwnedFd>, Fault> {
        let parent = path.parent();
        if parent.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some(folder) = self.recent.get(parent) {
            return Ok(folder);
        }
        let folder = match self.open(parent, OFlags::PATH) {
            Ok(folder) => Rc::new(folder),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => self.make_way(parent)?,
            Err(errno) => {
                return Err(Fault::FileSystem {
                    operation: "open the folder",
                    errno,
                });
            }
        };
        self.recent.set(parent, &folder);
        Ok(folder)
    }

    fn open(&self, path: &[u8], access: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        openat2(&self.root, path, FOLDER | access, Mode::empty(), RESOLVE)
    }

    /// Goes down step by step, makes what is missing, and finds out what is in the way.
    fn make_way(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, Fault> {
        let mut folder = Rc::clone(&self.root);
        let mut end = 0;
        for step in path.split(|byte| *byte == b'/') {
            end += step.len();
            folder = Rc::new(self.enter(&folder, step, &path[..end])?);
            end += 1;
        }
        Ok(folder)
    }

    fn enter(&mut self, parent: &OwnedFd, name: &[u8], path: &[u8]) -> Result<OwnedFd, Fault> {
        let open = || openat2(parent, name, FOLDER | OFlags::PATH, Mode::empty(), RESOLVE);
        let mut was_deleted = false;
        match open() {
            Ok(folder) => return Ok(folder),
            Err(Errno::NOENT) => {}
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => {
                let stat = self.stat(parent, name)?.ok_or(Fault::FileSystem {
                    operation: "open the folder",
                    errno,
                })?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    return Err(Rule::ThroughSymlink.into());
                }
                if !self.is_whiteout(parent, name, &stat)? {
                    return Err(Rule::ThroughFile.into());
                }
                // Deleted below and made anew here.
                fs::unlinkat(parent, name, AtFlags::empty()).operation("replace a whiteout")?;
                was_deleted = true;
            }
            Err(errno) => {
                return Err(Fault::FileSystem {
                    operation: "open the folder",
                    errno,
                });
            }
        }
        fs::mkdirat(parent, name, Mode::RWXU).operation("make the folder")?;
        self.set_undescribed(path)?;
        if was_deleted {
            self.mark(path, Mark::Opaque)?;
        }
        open().operation("open the folder")
    }

    fn stat(&self, parent: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Fault> {
        match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Fault::FileSystem {
                operation: "look up the name",
                errno,
            }),
        }
    }

    /// Whether it stands for a deleted name. Layers cannot make such things themselves.
    fn is_whiteout(&self, parent: &OwnedFd, name: &[u8], stat: &Stat) -> Result<bool, Fault> {
        match self.options.whiteouts.form {
            WhiteoutForm::CharDevice => {
                let device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
                Ok(device && stat.st_rdev == 0)
            }
            WhiteoutForm::EmptyFile => {
                let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                // An empty file of the layer may forbid reading, even to its owner; a whiteout does not.
                if !file || stat.st_size != 0 || stat.st_mode & 0o400 == 0 {
                    return Ok(false);
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat2(parent, name, flags, Mode::empty(), RESOLVE)
                    .operation("open the file")?;
                match fs::fgetxattr(&file, self.overlay("whiteout"), &mut [0; 8][..]) {
                    Ok(_) => Ok(true),
                    Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
                    Err(errno) => Err(Fault::FileSystem {
                        operation: "read an attribute",
                        errno,
                    }),
                }
            }
        }
    }

    fn overlay(&self, name: &str) -> String {
        match self.options.whiteouts.xattrs {
            OverlayXattrs::Trusted => format!("trusted.overlay.{name}"),
            OverlayXattrs::User => format!("user.overlay.{name}"),
        }
    }

    /// Does what makes the name, and once more after what has it was removed. Says whether that was a whiteout.
    fn create<T>(
        &mut self,
        parent: &OwnedFd,
        path: &LayerPath,
        operation: &'static str,
        make: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<(T, bool), Fault> {
        match make(parent.as_fd(), path.name()) {
            Err(Errno::EXIST) => {
                let was_deleted = self.clear(parent, path)?;
                let made = make(parent.as_fd(), path.name()).operation(operation)?;
                Ok((made, was_deleted))
            }
            result => Ok((result.operation(operation)?, false)),
        }
    }

    /// Removes what has the name. Says whether that was a whiteout.
    fn clear(&mut self, parent: &OwnedFd, path: &LayerPath) -> Result<bool, Fault> {
        let Some(stat) = self.stat(parent, path.name())? else {
            return Ok(false);
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.folders.forget(path.as_bytes());
            // They may be inside, and a folder that is gone still has a descriptor.
            self.recent = Recent::default();
            self.recent_target = Recent::default();
            remove_tree(parent.as_fd(), path.name()).map_err(|error| Fault::FileSystem {
                operation: "replace the folder",
                errno: Errno::from_io_error(&error.source).unwrap_or(Errno::IO),
            })?;
            return Ok(false);
        }
        let was_deleted = self.is_whiteout(parent, path.name(), &stat)?;
        fs::unlinkat(parent, path.name(), AtFlags::empty()).operation("replace the file")?;
        Ok(was_deleted)
    }

    /// A new, empty file, in place of whatever had the name.
    pub(crate) fn make_file(&mut self, path: &LayerPath) -> Result<OwnedFd, Fault> {
        let parent = self.parent(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (file, _) = self.create(&parent, path, "create the file", |parent, name| {
            fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)
        })?;
        Ok(file)
    }

    /// A folder that gets its attributes at the end. One that is there stays, with what is in it.
    pub(crate) fn make_folder(
        &mut self,
        path: &LayerPath,
        attributes: Attributes,
        xattrs: &[Xattr],
    ) -> Result<(), Fault> {
        let mut was_deleted = false;
        let mut existed = path.is_root();
        if !existed {
            let parent = self.parent(path)?;
            let stat = match fs::mkdirat(&parent, path.name(), Mode::RWXU) {
                Ok(()) => None,
                Err(Errno::EXIST) => self.stat(&parent, path.name())?,
                Err(errno) => {
                    return Err(Fault::FileSystem {
                        operation: "make the folder",
                        errno,
                    });
                }
            };
            if let Some(stat) = stat {
                existed = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if !existed {
                    was_deleted = self.clear(&parent, path)?;
                    fs::mkdirat(&parent, path.name(), Mode::RWXU).operation("make the folder")?;
                }
            }
        }
        let folder = Folder {
            attributes,
            described: true,
        };
        self.folders
            .set(path.as_bytes(), folder, &self.options.limits)?;
        if was_deleted {
            self.mark(path.as_bytes(), Mark::Opaque)?;
        }
        if existed || !xattrs.is_empty() {
            let folder = self
                .open(path.as_bytes(), OFlags::RDONLY)
                .operation("open the folder")?;
            if existed {
                remove_xattrs(&folder)?;
            }
            set_xattrs(&folder, xattrs)?;
        }
        Ok(())
    }

    pub(crate) fn make_symlink(
        &mut self,
        path: &LayerPath,
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), Fault> {
        let parent = self.parent(path)?;
        self.create(&parent, path, "make the symbolic link", |parent, name| {
            fs::symlinkat(target, parent, name)
        })?;
        set_owner(&parent, path.name(), attributes)?;
        set_time(&parent, path.name(), attributes.mtime)
    }

    pub(crate) fn make_special(
        &mut self,
        path: &LayerPath,
        file_type: FileType,
        (major, minor): (u32, u32),
        attributes: &Attributes,
    ) -> Result<(), Fault> {
        let parent = self.parent(path)?;
        let device = fs::makedev(major, minor);
        self.create(&parent, path, "make the special file", |parent, name| {
            fs::mknodat(parent, name, file_type, Mode::RUSR | Mode::WUSR, device)
        })?;
        set_owner(&parent, path.name(), attributes)?;
        // It was made just now and is no symbolic link.
        let mode = Mode::from_raw_mode(attributes.mode);
        fs::chmodat(&parent, path.name(), mode, AtFlags::empty()).operation("set the mode")?;
        set_time(&parent, path.name(), attributes.mtime)
    }

    pub(crate) fn make_hard_link(
        &mut self,
        path: &LayerPath,
        target: &LayerPath,
    ) -> Result<(), Fault> {
        if target.is_root() {
            return Err(Rule::TargetIsFolder.into());
        }
        let from = self.target_parent(target)?;
        let stat = self
            .stat(&from, target.name())?
            .ok_or(Rule::TargetMissing)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(Rule::TargetIsFolder.into());
        }
        if self.is_whiteout(&from, target.name(), &stat)? {
            return Err(Rule::TargetIsWhiteout.into());
        }
        let parent = self.parent(path)?;
        if let Some(existing) = self.stat(&parent, path.name())?
            && (existing.st_dev, existing.st_ino) == (stat.st_dev, stat.st_ino)
        {
            return Ok(());
        }
        let linked = self.create(&parent, path, "make the hard link", |parent, name| {
            // Without AT_SYMLINK_FOLLOW the link itself is linked.
            fs::linkat(&from, target.name(), parent, name, AtFlags::empty())
        });
        match linked {
            // The target was in a folder that had to go for the link.
            Err(Fault::FileSystem {
                errno: Errno::NOENT,
                ..
            }) => Err(Rule::TargetMissing.into()),
            result => result.map(|_| ()),
        }
    }

    /// The folder that a hard link's target is in.
    fn target_parent(&mut self, target: &LayerPath) -> Result<Rc<OwnedFd>, Fault> {
        let parent = target.parent();
        if parent.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some(folder) = self.recent_target.get(parent) {
            return Ok(folder);
        }
        match self.open(parent, OFlags::PATH) {
            Ok(folder) => {
                let folder = Rc::new(folder);
                self.recent_target.set(parent, &folder);
                Ok(folder)
            }
            Err(Errno::LOOP) => Err(Rule::TargetThroughSymlink.into()),
            Err(Errno::NOENT) => Err(Rule::TargetMissing.into()),
            // A symbolic link as the last step, where a folder is asked for, is this as well.
            Err(Errno::NOTDIR) => match self.open_link(parent) {
                true => Err(Rule::TargetThroughSymlink.into()),
                false => Err(Rule::TargetMissing.into()),
            },
            Err(errno) => Err(Fault::FileSystem {
                operation: "open the target's folder",
                errno,
            }),
        }
    }

    fn open_link(&self, path: &[u8]) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), RESOLVE)
            .and_then(fs::fstat)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// Records that lower layers' `path` is deleted. What this layer has there stays and hides it as well.
    pub(crate) fn delete(&mut self, path: &LayerPath) -> Result<(), Fault> {
        let parent = self.parent(path)?;
        if let Some(stat) = self.stat(&parent, path.name())? {
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self.mark(path.as_bytes(), Mark::Opaque)?;
            }
            return Ok(());
        }
        match self.options.whiteouts.form {
            WhiteoutForm::CharDevice => {
                let kind = FileType::CharacterDevice;
                fs::mknodat(&parent, path.name(), kind, Mode::empty(), 0)
                    .operation("make the whiteout")
            }
            WhiteoutForm::EmptyFile => {
                let file = self.make_file(path)?;
                fs::fsetxattr(&file, self.overlay("whiteout"), b"", XattrFlags::empty())
                    .operation("mark the whiteout")?;
                self.mark(path.parent(), Mark::HasWhiteouts)
            }
        }
    }

    /// Records that a folder hides what lower layers have there.
    pub(crate) fn make_opaque(&mut self, marker: &LayerPath) -> Result<(), Fault> {
        self.parent(marker)?;
        self.mark(marker.parent(), Mark::Opaque)
    }

    fn mark(&self, folder: &[u8], mark: Mark) -> Result<(), Fault> {
        let folder = self
            .open(folder, OFlags::RDONLY)
            .operation("open the folder")?;
        let (value, flags) = match mark {
            Mark::Opaque => (b"y", XattrFlags::empty()),
            // The other mark says more and stays.
            Mark::HasWhiteouts => (b"x", XattrFlags::CREATE),
        };
        match fs::fsetxattr(&folder, self.overlay("opaque"), value, flags) {
            Err(Errno::EXIST) => Ok(()),
            result => result.operation("mark the folder"),
        }
    }

    /// Gives folders their owners, modes and times, and says how many below the root no entry has described.
    pub(crate) fn finish(&self) -> Result<u64, Fault> {
        let mut undescribed = 0;
        for (path, folder) in self.folders.innermost_first() {
            undescribed += u64::from(!folder.described && !path.is_empty());
            let opened = self.open(path, OFlags::RDONLY).operation("open the folder");
            let set = opened.and_then(|opened| set_attributes(&opened, &folder.attributes, &[]));
            set.map_err(|fault| fault.of_folder(path))?;
        }
        Ok(undescribed)
    }

    pub(crate) fn sync(&self) -> Result<(), Errno> {
        fs::syncfs(&self.root)
    }
}

/// What overlayfs is told about a folder.
#[derive(Clone, Copy)]
enum Mark {
    Opaque,
    HasWhiteouts,
}

/// In the only order that works: a new owner clears set-id bits and capabilities, and everything changes the time.
pub(crate) fn set_attributes(
    file: &OwnedFd,
    attributes: &Attributes,
    xattrs: &[Xattr],
) -> Result<(), Fault> {
    if let Some((uid, gid)) = attributes.owner {
        fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
            .operation("set the owner")?;
    }
    fs::fchmod(file, Mode::from_raw_mode(attributes.mode)).operation("set the mode")?;
    set_xattrs(file, xattrs)?;
    fs::futimens(file, &timestamps(attributes.mtime)).operation("set the time")
}

fn set_xattrs(file: &OwnedFd, xattrs: &[Xattr]) -> Result<(), Fault> {
    for xattr in xattrs {
        fs::fsetxattr(
            file,
            xattr.name.as_slice(),
            &xattr.value,
            XattrFlags::empty(),
        )
        .operation("set an extended attribute")?;
    }
    Ok(())
}

/// Removes what an earlier entry for the same folder has set; marks for overlayfs stay.
fn remove_xattrs(folder: &OwnedFd) -> Result<(), Fault> {
    let mut names = vec![0; 64 << 10];
    let length = match fs::flistxattr(folder, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(errno) => {
            return Err(Fault::FileSystem {
                operation: "list the attributes",
                errno,
            });
        }
    };
    for name in names[..length].split(|byte| *byte == 0) {
        let ours = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
        if ours || name == CAPABILITY {
            fs::fremovexattr(folder, name).operation("remove an extended attribute")?;
        }
    }
    Ok(())
}

fn set_owner(parent: &OwnedFd, name: &[u8], attributes: &Attributes) -> Result<(), Fault> {
    let Some((uid, gid)) = attributes.owner else {
        return Ok(());
    };
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).operation("set the owner")
}

fn set_time(parent: &OwnedFd, name: &[u8], mtime: Moment) -> Result<(), Fault> {
    fs::utimensat(parent, name, &timestamps(mtime), AtFlags::SYMLINK_NOFOLLOW)
        .operation("set the time")
}

fn timestamps(mtime: Moment) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: mtime.nanoseconds.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
