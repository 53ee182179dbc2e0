//! The root file system: the image's layers under one that takes what is written.
//!
//! Always with a layer on top, also for instances that may not write: the OCI runtime makes missing mount points in it, and
//! then makes the whole read-only. What may be written by the instance goes to a file system of its own with a size: the folder
//! of instances is on one that all of them share with the init system.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

use muster_layer::OverlayXattrs;
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::place::Place;

/// The kernel takes a page of options.
const MAX_OPTIONS: usize = 4095;

/// Why a root file system could not be made or taken away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootfsError {
    /// The image is empty.
    #[error("the image has no layers")]
    NoLayers,
    /// More layers than the kernel takes.
    #[error("the image has {0} layers, which is more than the kernel takes at once")]
    TooManyLayers(usize),
    /// A layer is not there.
    #[error("cannot open the layer {}", path.display())]
    Layer {
        /// Its folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The layer for what is written could not be made.
    #[error("cannot prepare {}", path.display())]
    Prepare {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It could not be mounted.
    #[error("cannot mount {layers} layers at {}", path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// How many.
        layers: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It could not be unmounted.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A mount point could not be made in it.
    #[error("cannot make {} in the root file system", path.display())]
    MountPoint {
        /// The path, from the instance's root.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Smaller files than this are counted as such, so that not even empty ones are without number.
const BYTES_PER_FILE: u64 = 1024;
/// However little may be written, so many files may be there.
const LEAST_FILES: u64 = 64;

/// The layer above the image's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// Whom it belongs to.
    pub owner: u32,
    /// Bytes that the instance may write to it; nothing but mount points is made in it if absent.
    pub size: Option<u64>,
}

/// Mounts the layers (lowest first), with an empty one on top.
pub fn mount_layers(place: &Place, layers: &[PathBuf], top: Top) -> Result<(), RootfsError> {
    if layers.is_empty() {
        return Err(RootfsError::NoLayers);
    }
    unmount_layers(place)?;
    let (upper, work) = match top.size {
        Some(size) => limited_top(&place.top(), size)?,
        None => (place.upper(), place.work()),
    };
    for folder in [&upper, &work] {
        fresh_folder(folder, top.owner).map_err(prepare(folder))?;
    }
    let opened: Vec<File> = layers
        .iter()
        .map(|layer| open_folder(layer))
        .collect::<Result<_, _>>()?;
    let [upper, work] = [open_folder(&upper)?, open_folder(&work)?];
    let path = place.rootfs();
    let options = options(&opened, &upper, &work, OverlayXattrs::of_this_process())?;
    // It is in sight of the host: what an image says of whom its programs run as is not for whoever runs them there. Inside it means
    // nothing either, where nobody gains rights by a program.
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    mount("overlay", &path, "overlay", flags, Some(options.as_c_str())).map_err(|errno| {
        RootfsError::Mount {
            path: path.clone(),
            layers: layers.len(),
            source: errno.into(),
        }
    })
}

fn prepare(path: &Path) -> impl Fn(io::Error) -> RootfsError + '_ {
    move |source| RootfsError::Prepare {
        path: path.to_owned(),
        source,
    }
}

/// Mounts a file system that holds so much, and says where in it what goes.
fn limited_top(path: &Path, size: u64) -> Result<(PathBuf, PathBuf), RootfsError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
    .map_err(prepare(path))?;
    let files = (size / BYTES_PER_FILE).max(LEAST_FILES);
    let options = format!("mode=755,size={size},nr_inodes={files}");
    let options = CString::new(options).expect("numbers and fixed words hold no NUL");
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|errno| prepare(path)(errno.into()))?;
    Ok((path.join("upper"), path.join("work")))
}

/// Takes away what [`mount_layers`] has mounted.
pub fn unmount_layers(place: &Place) -> Result<(), RootfsError> {
    unmount_all(&place.rootfs())?;
    unmount_all(&place.top())
}

/// Layers by descriptor: short, however long their paths are and whatever is in them, so that hundreds fit. `marks` says which
/// attributes tell what layers delete.
fn options(
    layers: &[File],
    upper: &File,
    work: &File,
    marks: OverlayXattrs,
) -> Result<CString, RootfsError> {
    let by_descriptor = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
    // The kernel wants the uppermost first.
    let lower: Vec<String> = layers.iter().rev().map(by_descriptor).collect();
    let marks = match marks {
        OverlayXattrs::Trusted => "",
        OverlayXattrs::User => "userxattr,",
    };
    let options = format!(
        "{marks}lowerdir={},upperdir={},workdir={}",
        lower.join(":"),
        by_descriptor(upper),
        by_descriptor(work)
    );
    if options.len() > MAX_OPTIONS {
        return Err(RootfsError::TooManyLayers(layers.len()));
    }
    Ok(CString::new(options).expect("numbers and fixed words hold no NUL"))
}

fn open_folder(path: &Path) -> Result<File, RootfsError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).expect("open flags fit");
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    opened.map_err(|source| RootfsError::Layer {
        path: path.to_owned(),
        source,
    })
}

fn fresh_folder(path: &Path, owner: u32) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(path)?;
    chown(path, Some(owner), Some(owner))
}

/// Takes everything away that is mounted at a place; processes that still use it keep it until they end.
pub fn unmount_all(path: &Path) -> Result<(), RootfsError> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Nothing is mounted there, or there is no such place.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => {
                return Err(RootfsError::Unmount {
                    path: path.to_owned(),
                    source: errno.into(),
                });
            }
        }
    }
}

/// Makes a mount point below a root, if it is missing; links in it lead nowhere but into that root.
pub fn make_mount_point(root: &Path, target: &Path, is_folder: bool) -> Result<(), RootfsError> {
    let failed = |source: io::Error| RootfsError::MountPoint {
        path: target.to_owned(),
        source,
    };
    let root = open_folder(root)?;
    let relative = target.strip_prefix("/").unwrap_or(target);
    let mut parent = root.try_clone().map_err(failed)?;
    let mut so_far = PathBuf::new();
    let mut parts = relative.components().peekable();
    while let Some(part) = parts.next() {
        so_far.push(part);
        let open = || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            openat2(
                root.as_fd(),
                &so_far,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            )
        };
        let found = match open() {
            Err(Errno::NOENT) => {
                let name = Path::new(part.as_os_str());
                if parts.peek().is_some() || is_folder {
                    mkdirat(&parent, name, Mode::from_raw_mode(0o755))
                        .map_err(|errno| failed(errno.into()))?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))
                        .map_err(|errno| failed(errno.into()))?;
                }
                open()
            }
            found => found,
        };
        parent = File::from(found.map_err(|errno| failed(errno.into()))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::StatVfsMountFlags;

    use super::*;

    const UNLIMITED: Top = Top {
        owner: 0,
        size: None,
    };

    #[test]
    fn no_more_is_written_over_an_image_than_its_top_holds() {
        muster_lab::require!(Root);
        let outer = tempfile::tempdir().unwrap();
        let place = Place::new(outer.path(), uuid::Uuid::from_u128(1));
        place.make().unwrap();
        let layer = outer.path().join("layer");
        fs::create_dir(&layer).unwrap();
        fs::write(layer.join("own"), "image").unwrap();
        let top = Top {
            owner: 0,
            size: Some(1 << 20),
        };
        // Also over what an earlier start left.
        for _ in 0..2 {
            mount_layers(&place, std::slice::from_ref(&layer), top).unwrap();
            assert!(!place.rootfs().join("fits").exists());
            fs::write(place.rootfs().join("fits"), vec![1; 600_000]).unwrap();
            assert!(place.written().join("fits").exists());
            let full = fs::write(place.rootfs().join("large"), vec![1; 600_000]).unwrap_err();
            assert_eq!(full.kind(), io::ErrorKind::StorageFull);
            fs::remove_file(place.rootfs().join("large")).unwrap();
            let mut empty = (0..2_000).map(|name| {
                let name = format!("empty-{name}");
                fs::write(place.rootfs().join(name), "").map_err(|error| error.kind())
            });
            assert_eq!(
                empty.find_map(Result::err),
                Some(io::ErrorKind::StorageFull)
            );
        }
        unmount_layers(&place).unwrap();
        place.remove().unwrap();
        assert_eq!(fs::read_dir(&layer).unwrap().count(), 1);
    }

    #[test]
    fn a_program_of_an_image_gives_nobody_on_the_host_its_owners_rights() {
        muster_lab::require!(Root);
        let outer = tempfile::tempdir().unwrap();
        let place = Place::new(outer.path(), uuid::Uuid::from_u128(1));
        place.make().unwrap();
        let layer = outer.path().join("layer");
        fs::create_dir(&layer).unwrap();
        let limited = Top {
            owner: 0,
            size: Some(1 << 20),
        };
        for top in [UNLIMITED, limited] {
            mount_layers(&place, std::slice::from_ref(&layer), top).unwrap();
            let flags = rustix::fs::statvfs(place.rootfs()).unwrap().f_flag;
            unmount_layers(&place).unwrap();
            assert!(flags.contains(StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV));
        }
        place.remove().unwrap();
    }

    #[test]
    fn mount_points_stay_within_the_root() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("inside")).unwrap();
        std::os::unix::fs::symlink("/inside", root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../../..", root.join("upwards")).unwrap();
        make_mount_point(&root, Path::new("/absolute/a/b"), true).unwrap();
        make_mount_point(&root, Path::new("/upwards/c"), false).unwrap();
        make_mount_point(&root, Path::new("/upwards/c"), false).unwrap();
        assert!(root.join("inside/a/b").is_dir());
        assert!(root.join("c").is_file());
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    }

    #[test]
    fn many_layers_with_long_and_odd_names_are_mounted() {
        muster_lab::require!(Root);
        let outer = tempfile::tempdir().unwrap();
        let place = Place::new(outer.path(), uuid::Uuid::from_u128(1));
        place.make().unwrap();
        let layers: Vec<PathBuf> = (0..150)
            .map(|number| {
                outer
                    .path()
                    .join(format!("{number}:,\\{}", "long".repeat(40)))
            })
            .collect();
        for (number, layer) in layers.iter().enumerate() {
            fs::create_dir(layer).unwrap();
            fs::write(layer.join(format!("file-{number}")), "").unwrap();
            fs::write(layer.join("same"), number.to_string()).unwrap();
        }
        mount_layers(&place, &layers, UNLIMITED).unwrap();
        mount_layers(&place, &layers, UNLIMITED).unwrap();
        let seen = fs::read_dir(place.rootfs()).unwrap().count();
        let uppermost = fs::read_to_string(place.rootfs().join("same")).unwrap();
        unmount_all(&place.rootfs()).unwrap();
        unmount_all(&place.rootfs()).unwrap();
        assert_eq!((seen, uppermost.as_str()), (151, "149"));
        place.remove().unwrap();
    }

    #[test]
    fn what_is_missing_is_named() {
        let outer = tempfile::tempdir().unwrap();
        let place = Place::new(outer.path(), uuid::Uuid::from_u128(1));
        place.make().unwrap();
        assert!(matches!(
            mount_layers(&place, &[], UNLIMITED),
            Err(RootfsError::NoLayers)
        ));
        let nowhere = outer.path().join("nowhere");
        let error = mount_layers(&place, std::slice::from_ref(&nowhere), UNLIMITED).unwrap_err();
        assert!(matches!(error, RootfsError::Layer { path, .. } if path == nowhere));
    }
}
