//! The whole way of a layer: [`unpack`].

use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::archive::{Archive, Content, Entry, Kind};
use crate::decode::Decoder;
use crate::error::{EntryRef, Fault, NameRule, Operation as _, Rule, UnpackError};
use crate::folders::Attributes;
use crate::options::{Compression, Durability, IdRange, Options, Ownership, Privilege, Special};
use crate::path::{LayerPath, Role};
use crate::pax::{Moment, Xattr};
use crate::pipe::{Stream, circle};
use crate::report::Report;
use crate::tree::{Tree, set_attributes};
use crate::xattr::{Bearer, Verdict, judge};

muster_fault::points! {
    /// An entry is in the tree, the next one is not.
    pub(crate) AFTER_ENTRY = "layer.after-entry",
    /// All entries are in the tree, folders have temporary attributes.
    pub(crate) BEFORE_FOLDERS = "layer.before-folders",
    /// The tree is complete and perhaps not on disk.
    pub(crate) BEFORE_SYNC = "layer.before-sync",
}

/// Unpacks a layer into the empty folder `destination`, verifying it as it streams.
///
/// The reader is read to its end on the calling thread. The destination may be open in any way (`O_PATH` is enough).
///
/// # Errors
/// The layer is not what it should be, or the file system failed. The destination then holds some of the layer:
/// [`remove_contents`](crate::remove_contents) takes it away.
pub fn unpack(
    reader: impl Read,
    compression: Compression,
    destination: BorrowedFd<'_>,
    options: &Options,
) -> Result<Report, UnpackError> {
    let root = open_destination(destination)?;
    let decoder = Decoder::new(compression, options.limits.zstd_window_log, options.end);
    let (inlet, stream) = circle();
    let (source, written) = thread::scope(|scope| {
        let writer = thread::Builder::new()
            .name("layer-unpack".to_owned())
            .spawn_scoped(scope, move || Unpacker::run(stream, root, options))
            .map_err(UnpackError::Thread)?;
        let source = inlet.run(reader, decoder, options);
        let written = writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((source, written))
    })?;
    let mut report = written?;
    report.compressed_bytes = source.bytes;
    report.digest = source.digest;
    match options.digest {
        Some(expected) if expected != report.digest => Err(UnpackError::WrongDigest {
            expected,
            actual: report.digest,
        }),
        _ => Ok(report),
    }
}

/// Opens the folder anew, so that it can be read and synced however the caller's descriptor was opened.
fn open_destination(destination: BorrowedFd<'_>) -> Result<OwnedFd, UnpackError> {
    let failed = |operation| {
        move |errno: Errno| UnpackError::Destination {
            operation,
            source: errno.into(),
        }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::openat(destination, c".", flags, Mode::empty()).map_err(failed("open"))?;
    for entry in fs::Dir::read_from(&root).map_err(failed("read"))? {
        let entry = entry.map_err(failed("read"))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Err(UnpackError::DestinationNotEmpty);
        }
    }
    Ok(root)
}

/// The thread that writes: owner of the tree.
struct Unpacker<'a> {
    options: &'a Options,
    archive: Archive<'a>,
    tree: Tree<'a>,
    report: Report,
}

impl<'a> Unpacker<'a> {
    fn run(stream: Stream, root: OwnedFd, options: &'a Options) -> Result<Report, UnpackError> {
        Self::new(stream, root, options)
            .map_err(|fault| fault.at(EntryRef::default()))?
            .all()
    }

    fn new(stream: Stream, root: OwnedFd, options: &'a Options) -> Result<Self, Fault> {
        let undescribed = Attributes {
            owner: owner(0, 0, &options.ownership)?,
            mode: 0o755,
            mtime: Moment::default(),
        };
        Ok(Self {
            options,
            archive: Archive::new(stream, &options.limits, options.end),
            tree: Tree::new(root, options, undescribed)?,
            report: Report::default(),
        })
    }

    /// All entries, then what can only be known or done at the end.
    fn all(mut self) -> Result<Report, UnpackError> {
        loop {
            let number = self.report.entries + 1;
            let entry = self.archive.next();
            let entry = entry.map_err(|fault| fault.at(self.archive.near(number)))?;
            let Some(entry) = entry else { break };
            self.report.entries = number;
            let limit = self.options.limits.entries;
            let done = if number > limit {
                Err(Rule::Entries { limit }.into())
            } else {
                self.entry(&entry)
            };
            done.map_err(|fault| fault.at(EntryRef::new(number, &entry.name)))?;
            muster_fault::hit(AFTER_ENTRY);
        }
        let end = EntryRef::unnamed(self.report.entries);
        let (bytes, diff_id) = self.archive.into_stream().finish();
        self.report.archive_bytes = bytes;
        self.report.diff_id = diff_id;
        if let Some(expected) = self.options.diff_id
            && expected != diff_id
        {
            return Err(UnpackError::WrongDiffId {
                expected,
                actual: diff_id,
            });
        }
        muster_fault::hit(BEFORE_FOLDERS);
        let undescribed = self.tree.finish();
        self.report.undescribed_folders = undescribed.map_err(|fault| fault.at(end))?;
        muster_fault::hit(BEFORE_SYNC);
        if self.options.durability == Durability::SyncFs {
            self.tree
                .sync()
                .map_err(|errno| UnpackError::Sync(errno.into()))?;
        }
        Ok(self.report)
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        let path = LayerPath::parse(&entry.name, &self.options.limits).map_err(Rule::Name)?;
        match path.role().map_err(Rule::Name)? {
            Role::Plain => self.plain(entry, &path),
            role => self.whiteout(entry, &path, role),
        }
    }

    fn whiteout(&mut self, entry: &Entry, path: &LayerPath, role: Role) -> Result<(), Fault> {
        match &entry.kind {
            Kind::File(content) if content.size() == 0 => {}
            _ => return Err(Rule::WhiteoutNotEmpty.into()),
        }
        self.report.whiteouts += 1;
        if role == Role::Whiteout {
            self.tree.delete(&path.hidden())
        } else if path.parent().is_empty() {
            Err(Rule::OpaqueRoot.into())
        } else {
            self.tree.make_opaque(path)
        }
    }

    fn plain(&mut self, entry: &Entry, path: &LayerPath) -> Result<(), Fault> {
        if path.is_root() && !matches!(entry.kind, Kind::Folder) {
            return Err(Rule::RootNotFolder.into());
        }
        let mut attributes = Attributes {
            owner: owner(entry.uid, entry.gid, &self.options.ownership)?,
            mode: entry.mode,
            mtime: entry.mtime,
        };
        let access = access(&self.options.ownership, &entry.kind, path.is_root());
        match &entry.kind {
            Kind::File(content) => {
                let xattrs = self.xattrs(entry, Bearer::File)?;
                attributes.mode = self.mode(entry.mode)? | access;
                self.file(path, content, &attributes, &xattrs)?;
                self.report.files += 1;
            }
            Kind::Folder => {
                let xattrs = self.xattrs(entry, Bearer::Folder)?;
                attributes.mode |= access;
                self.tree.make_folder(path, attributes, &xattrs)?;
                self.report.folders += 1;
            }
            Kind::Symlink(target) => {
                self.xattrs(entry, Bearer::Other)?;
                check_symlink(target, self.options.limits.path_bytes)?;
                self.tree.make_symlink(path, target, &attributes)?;
                self.report.symlinks += 1;
            }
            Kind::HardLink(target) => {
                // The target has had its own attributes.
                self.xattrs(entry, Bearer::Other)?;
                let target =
                    LayerPath::parse_target(target, &self.options.limits).map_err(Rule::Target)?;
                self.tree.make_hard_link(path, &target)?;
                self.report.hard_links += 1;
            }
            Kind::CharDevice(0, 0) => return Err(Rule::WhiteoutDevice.into()),
            Kind::CharDevice(major, minor) => {
                let (kind, number) = (FileType::CharacterDevice, (*major, *minor));
                self.special(entry, path, kind, number, attributes)?;
            }
            Kind::BlockDevice(major, minor) => {
                let (kind, number) = (FileType::BlockDevice, (*major, *minor));
                self.special(entry, path, kind, number, attributes)?;
            }
            Kind::Fifo => self.special(entry, path, FileType::Fifo, (0, 0), attributes)?,
        }
        Ok(())
    }

    fn special(
        &mut self,
        entry: &Entry,
        path: &LayerPath,
        file_type: FileType,
        number: (u32, u32),
        mut attributes: Attributes,
    ) -> Result<(), Fault> {
        let (policy, rule) = match file_type {
            FileType::Fifo => (self.options.fifos, Rule::Fifo),
            _ => (self.options.devices, Rule::Device),
        };
        match policy {
            Special::Refuse => return Err(rule.into()),
            Special::Skip => self.report.skipped_specials += 1,
            Special::Make => {
                self.xattrs(entry, Bearer::Other)?;
                attributes.mode = self.mode(entry.mode)?;
                self.tree
                    .make_special(path, file_type, number, &attributes)?;
                self.report.specials += 1;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &LayerPath,
        content: &Content,
        attributes: &Attributes,
        xattrs: &[Xattr],
    ) -> Result<(), Fault> {
        let limits = &self.options.limits;
        if content.size() > limits.file_bytes {
            return Err(Rule::FileBytes {
                limit: limits.file_bytes,
            }
            .into());
        }
        // No overflow: both are at most the limit.
        self.report.file_bytes += content.size();
        if self.report.file_bytes > limits.total_bytes {
            return Err(Rule::TotalBytes {
                limit: limits.total_bytes,
            }
            .into());
        }
        let file = self.tree.make_file(path)?;
        match content {
            Content::Dense { size } => self.copy(&file, 0, *size)?,
            Content::Sparse(map) => {
                for &(offset, length) in map.pieces() {
                    self.copy(&file, offset, length)?;
                }
                fs::ftruncate(&file, map.size()).operation("set the size")?;
            }
        }
        set_attributes(&file, attributes, xattrs)
    }

    /// Writes the next `length` bytes of content at `offset`.
    fn copy(&mut self, file: &OwnedFd, mut offset: u64, length: u64) -> Result<(), Fault> {
        let end = offset + length;
        while offset < end {
            let bytes = self.archive.content()?;
            let wanted = usize::try_from(end - offset).map_or(bytes.len(), |n| n.min(bytes.len()));
            let written = match rustix::io::pwrite(file, &bytes[..wanted], offset) {
                Err(Errno::INTR) => continue,
                result => result.operation("write the file")?,
            };
            if written == 0 {
                return Err(Fault::FileSystem {
                    operation: "write the file",
                    errno: Errno::IO,
                });
            }
            self.archive.consume(written);
            offset += written as u64;
        }
        Ok(())
    }

    /// The mode of something other than a folder, with set-id bits as the options want.
    fn mode(&mut self, mode: u32) -> Result<u32, Rule> {
        const SET_ID: u32 = 0o6000;
        match self.options.set_id {
            _ if mode & SET_ID == 0 => Ok(mode),
            Privilege::Keep => Ok(mode),
            Privilege::Strip => {
                self.report.stripped_set_id += 1;
                Ok(mode & !SET_ID)
            }
            Privilege::Refuse => Err(Rule::SetId),
        }
    }

    /// The attributes that are set.
    fn xattrs(&mut self, entry: &Entry, bearer: Bearer) -> Result<Vec<Xattr>, Rule> {
        let mut set = Vec::new();
        for xattr in &entry.xattrs {
            match judge(&xattr.name, bearer, self.options.capabilities)? {
                Verdict::Set => set.push(xattr.clone()),
                Verdict::Strip => self.report.stripped_capabilities += 1,
                Verdict::Drop => self.report.dropped_xattrs += 1,
            }
        }
        Ok(set)
    }
}

fn check_symlink(target: &[u8], limit: usize) -> Result<(), Rule> {
    match target {
        b"" => Err(Rule::Target(NameRule::Empty)),
        _ if target.contains(&0) => Err(Rule::Target(NameRule::Nul)),
        _ if target.len() > limit => Err(Rule::Target(NameRule::TooLong { limit })),
        _ => Ok(()),
    }
}

/// What a caller without root keeps of the right to what is unpacked, whatever the layer says. A root is also written on and moved.
fn access(ownership: &Ownership, kind: &Kind, is_root: bool) -> u32 {
    match (ownership, kind) {
        (Ownership::Caller, Kind::File(_)) => 0o400,
        (Ownership::Caller, Kind::Folder) if is_root => 0o700,
        (Ownership::Caller, Kind::Folder) => 0o500,
        _ => 0,
    }
}

/// Who owns an entry here, unless it is whoever calls.
fn owner(uid: u64, gid: u64, ownership: &Ownership) -> Result<Option<(u32, u32)>, Rule> {
    let (users, groups) = match ownership {
        Ownership::Caller => return Ok(None),
        Ownership::Keep => (None, None),
        Ownership::Map { users, groups } => (Some(users.as_slice()), Some(groups.as_slice())),
    };
    Ok(Some((id("user", uid, users)?, id("group", gid, groups)?)))
}

fn id(which: &'static str, id: u64, ranges: Option<&[IdRange]>) -> Result<u32, Rule> {
    let refused = Rule::Owner { which, id };
    let Ok(inside) = u32::try_from(id) else {
        return Err(refused);
    };
    let outside = match ranges {
        None => Some(inside),
        Some(ranges) => ranges.iter().find_map(|range| {
            let step = inside
                .checked_sub(range.inside)
                .filter(|step| *step < range.count)?;
            range.outside.checked_add(step)
        }),
    };
    // The last id means "leave it as it is" to the kernel.
    outside
        .filter(|outside| *outside != u32::MAX)
        .ok_or(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_or_refused() {
        let ranges = [
            IdRange {
                inside: 0,
                outside: 100_000,
                count: 1000,
            },
            IdRange {
                inside: 5000,
                outside: u32::MAX - 1,
                count: 10,
            },
        ];
        let map = |inside| id("user", inside, Some(&ranges)).ok();
        assert_eq!(map(0), Some(100_000));
        assert_eq!(map(999), Some(100_999));
        assert_eq!(map(1000), None);
        assert_eq!(map(5000), Some(u32::MAX - 1));
        assert_eq!(map(5001), None, "the id that changes nothing");
        assert_eq!(map(5002), None, "no id at all");
        assert_eq!(id("user", 4_294_967_294, None), Ok(u32::MAX - 1));
        for none in [4_294_967_295, 1 << 32, u64::MAX] {
            assert!(id("group", none, None).is_err());
        }
    }
}
