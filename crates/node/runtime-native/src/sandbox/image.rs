//! What the execution environment has no notion of: an image of layers, with folders of the host below the image's own of the
//! same name.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use muster_bundle::rootfs::Top;
use muster_bundle::{Place, rootfs};
use muster_mounts::View;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::{SandboxError, context, must};
use crate::plan::{Bind, Plan};

/// Where in an instance's folder places are made that neither image nor host has, and something is to be mounted on.
const PLACES: &str = "places";

/// Mounts the image, and puts the host's folders below its own. Those that the image does not have are added to the view.
pub(super) fn mount_image(place: &Place, plan: &Plan, view: &mut View) -> Result<(), SandboxError> {
    let top = Top {
        owner: rustix::process::geteuid().as_raw(),
        size: None,
    };
    rootfs::mount_layers(place, &plan.layers, top).map_err(SandboxError::Rootfs)?;
    let root = must("open the image", File::open(place.rootfs()))?;
    for folder in &plan.beside {
        let missing = must("look into the image", missing_places(&root, folder, plan))?;
        show_beside(place, &root, folder, &missing, view)?;
    }
    Ok(())
}

/// What is mounted in a folder of the host's where neither the host nor the image has anything, as a host without
/// `/etc/resolv.conf`.
fn missing_places<'a>(root: &File, folder: &Path, plan: &'a Plan) -> io::Result<Vec<&'a Bind>> {
    let mut missing = Vec::new();
    for bind in &plan.binds {
        let is_missing = bind.target.starts_with(folder)
            && fs::symlink_metadata(&bind.target).is_err()
            && look(root, &bind.target)?.is_none();
        missing.extend(is_missing.then_some(bind));
    }
    Ok(missing)
}

fn show_beside(
    place: &Place,
    root: &File,
    folder: &Path,
    missing: &[&Bind],
    view: &mut View,
) -> Result<(), SandboxError> {
    let Ok(found) = fs::symlink_metadata(folder) else {
        // Not every host has every folder.
        return Ok(());
    };
    let own = must("look into the image", look(root, folder))?;
    let step = "show a folder of the host below the image's";
    if let Some((own, kind)) = own {
        // What is no folder on either side is the image's.
        return match kind == FileType::Directory && found.is_dir() {
            true => {
                let places = make_places(place, folder, missing)?;
                must(step, merge(&own, true, folder, places.as_deref()))
            }
            false => Ok(()),
        };
    }
    if found.is_symlink() {
        // As on the host (`/bin` is `usr/bin`).
        let leads = must("read a link of the host", fs::read_link(folder))?;
        return link(place, root, folder, &leads);
    }
    let Some(places) = make_places(place, folder, missing)? else {
        view.binds.push(context::beside(folder));
        return Ok(());
    };
    rootfs::make_mount_point(&place.rootfs(), folder, true).map_err(SandboxError::Rootfs)?;
    let point = must(step, look(root, folder))?;
    let (point, _) = must(step, point.ok_or(io::Error::from(io::ErrorKind::NotFound)))?;
    must(step, merge(&point, false, folder, Some(&places)))
}

/// Makes what is missing in a folder of its own, which goes below the host's: the host's stays as it is.
fn make_places(
    place: &Place,
    folder: &Path,
    missing: &[&Bind],
) -> Result<Option<PathBuf>, SandboxError> {
    if missing.is_empty() {
        return Ok(None);
    }
    let root = place.file(PLACES);
    must("make places to mount on", fs::create_dir_all(&root))?;
    for bind in missing {
        rootfs::make_mount_point(&root, &bind.target, bind.source.is_dir())
            .map_err(SandboxError::Rootfs)?;
    }
    Ok(Some(root.join(folder.strip_prefix("/").unwrap_or(folder))))
}

/// What the image has at a path, if anything. Links on the way lead nowhere but into the image.
fn look(root: &File, path: &Path) -> io::Result<Option<(OwnedFd, FileType)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = path.strip_prefix("/").unwrap_or(path);
    match openat2(root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        opened => {
            let opened = opened?;
            let stat = rustix::fs::fstat(&opened)?;
            Ok(Some((opened, FileType::from_raw_mode(stat.st_mode))))
        }
    }
}

fn link(place: &Place, root: &File, path: &Path, leads: &Path) -> Result<(), SandboxError> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    rootfs::make_mount_point(&place.rootfs(), above, true).map_err(SandboxError::Rootfs)?;
    let step = "make a link as the host's";
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = above.strip_prefix("/").unwrap_or(above);
    let inside = if inside == Path::new("") {
        Path::new(".")
    } else {
        inside
    };
    let above = openat2(root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let above = must(step, above)?;
    must(step, symlinkat(leads, &above, name))
}

/// Puts a folder of the host's, and places to mount on below it, where `point` is: below what is there, if that is to be seen. By
/// descriptor, so that nothing in the image leads elsewhere.
fn merge(point: &OwnedFd, is_seen: bool, host: &Path, places: Option<&Path>) -> io::Result<()> {
    let below = [Some(File::open(host)?), places.map(File::open).transpose()?];
    let by_descriptor = |number: i32| format!("/proc/self/fd/{number}");
    let point = by_descriptor(point.as_raw_fd());
    let mut layers: Vec<_> = is_seen.then(|| point.clone()).into_iter().collect();
    let opened = below.iter().flatten();
    layers.extend(opened.map(|folder| by_descriptor(folder.as_raw_fd())));
    let options = CString::new(format!("lowerdir={}", layers.join(":")))?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    mount("overlay", point, "overlay", flags, options.as_c_str()).map_err(Into::into)
}
