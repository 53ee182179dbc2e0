//! Files with file systems in them, mounted through loop devices.

mod file;

use std::os::fd::OwnedFd;

use muster_mounts::partitions::{self, Chosen, Gpt, Partition, Table, TableError};
use muster_mounts::{Change, Image, MountOptions, Part, Point, PointKind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, SeekFrom, fstat, seek, stat};
use rustix::io::Errno;

use self::file::{file_system_of, open_file, read, verity_beside};
use super::calls::{attach_mount, change_mounts, make_mount, open_inside};
use super::fresh::make_point;
use super::loops::{Extent, loop_device};
use super::{ViewError, refused};

/// The file systems of an image, attached nowhere.
pub(super) struct Mounted {
    pub(super) root: OwnedFd,
    /// Those of its other partitions, in the order in which they are mounted.
    inside: Vec<Inside>,
}

/// The file system of a partition that is mounted in another one.
struct Inside {
    part: Part,
    mount: OwnedFd,
    /// Whose it is, for messages.
    directive: &'static str,
    path: Box<str>,
}

impl Mounted {
    pub(super) fn just(root: OwnedFd) -> Self {
        Self {
            root,
            inside: Vec::new(),
        }
    }

    pub(super) fn change(&self, change: Change) -> Result<(), Errno> {
        let inside = self.inside.iter().map(|inside| &inside.mount);
        let mut mounts = std::iter::once(&self.root).chain(inside);
        mounts.try_for_each(|mount| change_mounts(mount.as_fd(), change))
    }

    /// Mounts the other partitions in the root, which is attached at a place now. Where that has symlinks, they lead
    /// nowhere else.
    pub(super) fn complete(&self, root: BorrowedFd<'_>) -> Result<(), ViewError> {
        for inside in &self.inside {
            let folder = inside.part.folder();
            let place = match open_inside(root, folder) {
                Err(Errno::NOENT) => {
                    let point = Point {
                        path: folder.into(),
                        kind: PointKind::Folder,
                    };
                    make_point(root, &point).and_then(|()| open_inside(root, folder))
                }
                place => place,
            };
            let attached =
                place.and_then(|place| attach_mount(inside.mount.as_fd(), place.as_fd()));
            attached.map_err(|errno| {
                let (directive, path, part) = (inside.directive, &inside.path, inside.part.name());
                let detail =
                    format!("{directive}: cannot mount the {part} partition of {path} on {folder}");
                refused(errno, detail)
            })?;
        }
        Ok(())
    }
}

/// An image that is there.
pub(super) struct Opened<'a> {
    directive: &'static str,
    image: &'a Image,
    file: OwnedFd,
    is_device: bool,
    /// Nobody writes there, whatever options say.
    read_only: bool,
}

impl<'a> Opened<'a> {
    /// Opens an image for a directive. Nothing else than its path can be absent.
    pub(super) fn open(
        directive: &'static str,
        image: &'a Image,
        read_only: bool,
    ) -> Result<Self, ViewError> {
        let path = &image.path;
        let cannot = |errno| refused(errno, format!("{directive}: cannot open {path}"));
        if !path.starts_with('/') {
            let detail = format!("{directive}: {path:?} is not an absolute path");
            return Err(refused(Errno::INVAL, detail));
        }
        // Merely opening some devices does something.
        let kind = stat(&**path).map_err(cannot)?.st_mode;
        let is_image = |mode| {
            let kind = FileType::from_raw_mode(mode);
            matches!(kind, FileType::RegularFile | FileType::BlockDevice)
        };
        let other = || {
            let detail = format!("{directive}: {path} is neither a file nor a block device");
            refused(Errno::NOTBLK, detail)
        };
        if !is_image(kind) {
            return Err(other());
        }
        if let Some(beside) = verity_beside(path) {
            let detail = format!(
                "{directive}: {path} comes with {beside}, and images are not checked against a hash (dm-verity)"
            );
            return Err(refused(Errno::NOSYS, detail));
        }
        let (file, writable) = open_file(path, read_only).map_err(cannot)?;
        let mode = fstat(&file).map_err(cannot)?.st_mode;
        if !is_image(mode) {
            return Err(other());
        }
        Ok(Self {
            directive,
            image,
            file,
            is_device: FileType::from_raw_mode(mode) == FileType::BlockDevice,
            read_only: read_only || !writable,
        })
    }

    /// Mounts what is in it.
    pub(super) fn mount(&self) -> Result<Mounted, ViewError> {
        let partitions = self.partitions()?;
        // What is chosen begins with the root.
        let Some((root, others)) = partitions.split_first() else {
            return Err(self.unusable(&TableError::NoRoot));
        };
        let root = self.mount_part(root)?;
        let inside = others.iter().map(|chosen| {
            Ok(Inside {
                part: chosen.part,
                mount: self.mount_part(chosen)?,
                directive: self.directive,
                path: self.image.path.clone(),
            })
        });
        Ok(Mounted {
            root,
            inside: inside.collect::<Result<_, ViewError>>()?,
        })
    }

    fn failed(&self, what: &str) -> impl FnOnce(Errno) -> ViewError {
        let detail = format!("{}: cannot {what} {}", self.directive, self.image.path);
        move |errno| refused(errno, detail)
    }

    fn unusable(&self, why: &TableError) -> ViewError {
        let detail = format!("{}: cannot use {}: {why}", self.directive, self.image.path);
        refused(Errno::MEDIUMTYPE, detail)
    }

    /// What is mounted of it, the root first.
    fn partitions(&self) -> Result<Vec<Chosen>, ViewError> {
        let whole = Chosen {
            part: Part::Root,
            offset: 0,
            size: 0,
            read_only: false,
        };
        // A file system may leave a partition table alone that was there before it.
        let kind = file_system_of(self.file.as_fd(), 0).map_err(self.failed("read"))?;
        if kind.is_some() {
            return Ok(vec![whole]);
        }
        let size = seek(&self.file, SeekFrom::End(0)).map_err(self.failed("find the end of"))?;
        let head = read(self.file.as_fd(), 0, partitions::HEAD).map_err(self.failed("read"))?;
        let table = partitions::read_head(&head, size).map_err(|error| self.unusable(&error))?;
        let found = match table {
            Table::Nothing => return Err(self.holds_nothing("")),
            Table::Partitions(found) => found,
            Table::Gpt(gpt) => self.list(&gpt)?,
        };
        partitions::choose(&found).map_err(|error| self.unusable(&error))
    }

    fn list(&self, gpt: &Gpt) -> Result<Vec<Partition>, ViewError> {
        let (start, length) = gpt.list();
        let list = read(self.file.as_fd(), start, length).map_err(self.failed("read"))?;
        gpt.partitions(&list).map_err(|error| self.unusable(&error))
    }

    fn holds_nothing(&self, which: &str) -> ViewError {
        let (directive, path) = (self.directive, &self.image.path);
        let detail = format!("{directive}: {path}{which} holds no ext4, squashfs or erofs");
        refused(Errno::MEDIUMTYPE, detail)
    }

    fn mount_part(&self, chosen: &Chosen) -> Result<OwnedFd, ViewError> {
        let mut options = MountOptions::default();
        options.attributes.no_dev = true;
        let words = self.image.options_of(chosen.part);
        options.merge(&words).map_err(|error| {
            let (directive, path) = (self.directive, &self.image.path);
            refused(
                Errno::INVAL,
                format!("{directive}: options of {path}: {error}"),
            )
        })?;
        let kind = file_system_of(self.file.as_fd(), chosen.offset)
            .map_err(self.failed("read"))?
            .ok_or_else(|| {
                self.holds_nothing(&format!(" in its {} partition", chosen.part.name()))
            })?;
        let is_ext = kind == "ext4";
        let asked = options.attributes.read_only || chosen.read_only;
        let read_only = self.read_only || asked || !is_ext;
        options.attributes.read_only = read_only;
        let extent = Extent {
            offset: chosen.offset,
            size: chosen.size,
        };
        // The device is kept until it is mounted: it is free again when nobody uses it.
        let device = if self.is_device && extent.size == 0 {
            None
        } else {
            let device = loop_device(self.file.as_fd(), extent, read_only);
            Some(device.map_err(self.failed("get a loop device for"))?)
        };
        let source = match &device {
            Some(device) => device.path.as_str(),
            None => &self.image.path,
        };
        // A file system that somebody writes to by the same device stays as it is; only this mount of it is read-only.
        let is_shared = device.as_ref().is_some_and(|device| device.writable);
        let is_fixed = read_only && !is_shared;
        // Otherwise ext4 writes what its journal has left, also into what is mounted read-only.
        let no_journal = (is_fixed && is_ext).then_some(("noload", None));
        // A file system could say itself that the machine is to stop when it is damaged.
        let on_errors = is_ext.then_some(("errors", Some("remount-ro")));
        let parameters = options.parameters.iter();
        let parameters = parameters.map(|(name, value)| (&**name, value.as_deref()));
        let parameters = std::iter::once(("source", Some(source)))
            .chain(is_fixed.then_some(("ro", None)))
            .chain(no_journal)
            .chain(on_errors)
            .chain(parameters);
        make_mount(kind, parameters, &options.attributes, |_, errno| Err(errno))
            .map_err(self.failed("mount"))
    }
}
