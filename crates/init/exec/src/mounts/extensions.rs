//! Extensions, laid over the folders of the root that they extend.
//!
//! What is mounted below such a folder is not seen in what is laid over it: the kernel takes one file system of each layer.

use std::io::Read;
use std::os::fd::OwnedFd;

use muster_mounts::release::{ExtensionKind, RELEASE_PREFIX, Release, check_extension};
use muster_mounts::{Extension, ExtensionSource, Hierarchy};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, FileType, OFlags, StatVfsMountFlags, fgetxattr, fstat, fstatvfs};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::calls::{copy_alone, open_folder, open_folder_in, open_inside, read_inside};
use super::image::Opened;
use super::staging::Staging;
use super::{ViewError, refused};

/// How long a description of a system or an extension may be.
const MAX_RELEASE: u64 = 64 << 10;
/// Where a system describes itself.
const SYSTEM_RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Set to `0` on a description that may be named after another extension.
const NAME_COUNTS: &str = "user.extension-release.strict";

/// An extension that fits the system.
pub(super) struct Layer {
    kind: ExtensionKind,
    root: OwnedFd,
}

/// An extension that fits the system whose root this is, or nothing if it may be absent and is.
pub(super) fn layer(
    extension: &Extension,
    system: BorrowedFd<'_>,
    staging: &mut Staging,
) -> Result<Option<Layer>, ViewError> {
    let (directive, path) = (extension.directive(), extension.path());
    let cannot = |what: String| {
        let detail = format!("{directive}: cannot {what}");
        move |errno| refused(errno, detail)
    };
    let Some(root) = root_of(extension, staging)? else {
        return Ok(None);
    };
    let found = find_release(extension, root.as_fd());
    let Some((kind, release)) = found.map_err(cannot(format!("read what {path} is for")))? else {
        let name = extension.name();
        let detail =
            format!("{directive}: {path} has no {RELEASE_PREFIX}{name} to say what it is for");
        return Err(refused(Errno::NOENT, detail));
    };
    let system = system_release(system).map_err(cannot(
        "read the os-release of what is to be extended".to_owned(),
    ))?;
    check_extension(kind, &system, &release).map_err(|mismatch| {
        let detail = format!("{directive}: {path} is not for this system: {mismatch}");
        refused(Errno::STALE, detail)
    })?;
    Ok(Some(Layer { kind, root }))
}

fn root_of(extension: &Extension, staging: &mut Staging) -> Result<Option<OwnedFd>, ViewError> {
    let (directive, path) = (extension.directive(), extension.path());
    let cannot = |errno| refused(errno, format!("{directive}: cannot open {path}"));
    match &extension.source {
        ExtensionSource::Folder(path) => match open_folder(path) {
            Err(Errno::NOENT) if extension.optional => Ok(None),
            folder => folder.map(Some).map_err(cannot),
        },
        ExtensionSource::Image(image) => {
            let opened = match Opened::open(directive, image, true) {
                Err(error) if extension.optional && error.errno == Errno::NOENT => return Ok(None),
                opened => opened?,
            };
            let mounted = opened.mount()?;
            let name = staging.attach(mounted.root.as_fd()).map_err(cannot)?;
            let place = staging.open_place(&name).map_err(cannot)?;
            mounted.complete(place.as_fd())?;
            Ok(Some(place))
        }
    }
}

/// Which kind of extension it is, and what it says about itself.
fn find_release(
    extension: &Extension,
    root: BorrowedFd<'_>,
) -> Result<Option<(ExtensionKind, Release)>, Errno> {
    for kind in ExtensionKind::ALL {
        let folder = kind.release_folder();
        let path = format!("{folder}/{RELEASE_PREFIX}{}", extension.name());
        let release = match read_release(root, &path)? {
            None => read_only_release(root, folder, extension.has_any_name())?,
            release => release,
        };
        if let Some(release) = release {
            return Ok(Some((kind, release)));
        }
    }
    Ok(None)
}

/// The only description in a folder, if its name may be another than the extension's.
fn read_only_release(
    root: BorrowedFd<'_>,
    folder: &str,
    any_name: bool,
) -> Result<Option<Release>, Errno> {
    let entries = match read_inside(root, folder, OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&entries)? {
        let entry = entry?;
        let name = entry.file_name().to_str().ok();
        names.extend(
            name.filter(|name| name.starts_with(RELEASE_PREFIX))
                .map(str::to_owned),
        );
        if names.len() > 1 {
            return Ok(None);
        }
    }
    let [name] = names.as_slice() else {
        return Ok(None);
    };
    let path = format!("{folder}/{name}");
    if !any_name {
        let file = read_inside(root, &path, OFlags::NONBLOCK)?;
        let mut value = [0; 2];
        let value = match fgetxattr(&file, NAME_COUNTS, &mut value) {
            Ok(length) => &value[..length],
            Err(_) => &[],
        };
        if value != b"0" {
            return Ok(None);
        }
    }
    read_release(root, &path)
}

fn system_release(root: BorrowedFd<'_>) -> Result<Release, Errno> {
    for path in SYSTEM_RELEASES {
        if let Some(release) = read_release(root, path)? {
            return Ok(release);
        }
    }
    Ok(Release::default())
}

/// What a file says, if it is there. Symlinks lead nowhere else than into the same root.
fn read_release(root: BorrowedFd<'_>, path: &str) -> Result<Option<Release>, Errno> {
    let file = match read_inside(root, path, OFlags::NONBLOCK) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        file => file?,
    };
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = Vec::new();
    let mut file = std::fs::File::from(file).take(MAX_RELEASE + 1);
    file.read_to_end(&mut text)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if u64::try_from(text.len()).map_or(true, |length| length > MAX_RELEASE) {
        return Err(Errno::FBIG);
    }
    Ok(Some(Release::parse(&String::from_utf8_lossy(&text))))
}

/// A folder of the root with the layers over it, each over those before it, or nothing if none of them has that folder.
/// What one of all these forbids is forbidden in all: a program gets no rights there that it would not get in its own place.
pub(super) fn extended(
    hierarchy: Hierarchy,
    layers: &[Layer],
    root: BorrowedFd<'_>,
    staging: &mut Staging,
) -> Result<Option<OwnedFd>, Errno> {
    let folder = hierarchy.folder();
    let mut places = Vec::new();
    for layer in layers.iter().filter(|layer| layer.kind == hierarchy.kind()) {
        match open_folder_in(layer.root.as_fd(), folder) {
            Err(Errno::NOENT) => {}
            place => places.push(place?),
        }
    }
    if places.is_empty() {
        return Ok(None);
    }
    let mut names = Vec::new();
    let mut flags = MountFlags::NODEV;
    match open_inside(root, folder) {
        // The kernel wants something to lay the others over.
        Err(Errno::NOENT) => names.push(staging.attach_nothing()?),
        place => places.insert(0, place?),
    }
    for place in places {
        let stat = fstatvfs(&place)?;
        for (stated, flag) in [
            (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
            (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        ] {
            if stat.f_flag.contains(stated) {
                flags |= flag;
            }
        }
        names.push(staging.attach(copy_alone(place.as_fd())?.as_fd())?);
    }
    names.reverse();
    staging.overlay(&names, flags).map(Some)
}
