//! Threads with a mount namespace of their own: when one ends, nothing of it is left.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_exec::mounts::{ViewError, apply};
use muster_mounts::{Bind, Place, Temporary, View};
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped, it needs root");
    }
    root
}

/// Runs in a thread with mounts, root and folder of its own.
pub(crate) fn namespaced<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            own_mounts();
            run()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[expect(unsafe_code, reason = "a thread leaves the namespace of the others")]
fn own_mounts() {
    // SAFETY: descriptors stay shared, so no other thread loses one.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }.unwrap();
}

/// What `look` finds where the view holds, or why it cannot be had.
pub(crate) fn try_seen<T: Send>(
    view: &View,
    look: impl FnOnce() -> T + Send,
) -> Result<T, ViewError> {
    namespaced(|| {
        let dropped = apply(view, false)?;
        assert!(dropped.is_empty(), "{dropped:?}");
        Ok(look())
    })
}

/// What `look` finds where the view holds.
pub(crate) fn seen<T: Send>(view: &View, look: impl FnOnce() -> T + Send) -> T {
    try_seen(view, look).unwrap_or_else(|error| panic!("{error}: {}", error.errno))
}

/// A folder with a few files that both sides of a view see.
pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for (path, text) in [("a/b/file", "in b"), ("a/file", "in a"), ("c/file", "in c")] {
            let path = scene.folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        scene
    }

    pub(crate) fn path(&self, inside: &str) -> String {
        let path = self.folder.path().join(inside);
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn place(&self, inside: &str) -> Place {
        place(&self.path(inside))
    }
}

pub(crate) fn place(path: &str) -> Place {
    Place {
        path: path.into(),
        optional: false,
        in_root: false,
    }
}

pub(crate) fn bind(source: &str, destination: &str) -> Bind {
    Bind {
        source: source.into(),
        destination: destination.into(),
        read_only: false,
        recursive: true,
        optional: false,
    }
}

pub(crate) fn memory(path: &str, options: &str) -> Temporary {
    Temporary {
        path: path.into(),
        options: options.into(),
    }
}

/// What writing a new file into a folder gives; the file is removed again.
pub(crate) fn write_into(folder: &str) -> Result<(), Errno> {
    let path = Path::new(folder).join("written-by-a-test");
    let written = fs::write(&path, "text").map_err(errno);
    if written.is_ok() {
        fs::remove_file(&path).unwrap();
    }
    written
}

pub(crate) fn read(path: &str) -> Result<String, Errno> {
    fs::read_to_string(path).map_err(errno)
}

/// The names in a folder, sorted.
pub(crate) fn list(folder: &str) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(errno)? {
        names.push(entry.unwrap().file_name().into_string().unwrap());
    }
    names.sort_unstable();
    Ok(names)
}

/// What executing a program gives.
pub(crate) fn execute(program: &str) -> Result<(), Errno> {
    let status = Command::new(program).status().map_err(errno)?;
    assert!(status.success(), "{program}: {status}");
    Ok(())
}

/// The mounts that this thread sees: their places and options.
pub(crate) fn mounts() -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let mount = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields[4].to_owned(), format!("{} {}", fields[5], line))
    };
    text.lines().map(mount).collect()
}

/// The options of the mount that is last at a place.
pub(crate) fn options_at(place: &str) -> String {
    let found = mounts().into_iter().rev().find(|(at, _)| at == place);
    found
        .unwrap_or_else(|| panic!("nothing is mounted at {place}"))
        .1
}

pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}
