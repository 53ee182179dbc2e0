//! Whether the kernel asks programs before files are opened, and where it keeps what they look at.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use muster_cgroup::{FileLayout, LayoutError, MAX_BTF};
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// The kernel's description of its own types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Names of the security modules in use.
const MODULES: &str = "/sys/kernel/security/lsm";
/// The kernel's number for the one that is made of programs, and how many numbers are asked for.
const MODULE_BPF: u64 = 110;
const MOST_MODULES: usize = 64;
/// Not in every C library's list yet; the same on all machines that there are programs for.
const SYS_LSM_LIST_MODULES: libc::c_long = 461;

/// Why no program can decide about files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFileHook {
    /// It is not built in, or not in use.
    #[error("the kernel has no BPF LSM")]
    NotActive,
    /// An older kernel does not say.
    #[error("cannot tell whether the kernel has a BPF LSM: {MODULES}: {0}")]
    Unknown(Box<str>),
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF: {TYPES}: {0}")]
    NoTypes(Box<str>),
    /// It does, but not so that it could be used.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Where the running kernel keeps what a filter of file systems looks at. It is found out once.
///
/// # Errors
/// The kernel lacks something.
pub fn file_layout() -> Result<FileLayout, NoFileHook> {
    static KNOWN: OnceLock<Result<FileLayout, NoFileHook>> = OnceLock::new();
    KNOWN.get_or_init(find_layout).clone()
}

fn find_layout() -> Result<FileLayout, NoFileHook> {
    // A program can be attached where the module is not in use; it is never asked there.
    if !is_active()? {
        return Err(NoFileHook::NotActive);
    }
    let no_types = |error: io::Error| NoFileHook::NoTypes(error.to_string().into());
    let file = File::open(TYPES).map_err(no_types)?;
    let most = u64::try_from(MAX_BTF).unwrap_or(u64::MAX);
    let mut types = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut types)
        .map_err(no_types)?;
    Ok(FileLayout::read(&types)?)
}

fn is_active() -> Result<bool, NoFileHook> {
    if let Some(modules) = listed() {
        return Ok(modules.contains(&MODULE_BPF));
    }
    let names = named().map_err(|error| NoFileHook::Unknown(error.to_string().into()))?;
    Ok(names.trim().split(',').any(|name| name == "bpf"))
}

/// The modules in use, as the kernel's file has them.
fn named() -> io::Result<String> {
    match std::fs::read_to_string(MODULES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    // Nobody has mounted what it lies on. It is looked at without giving it a place that anybody sees.
    let context = fsopen("securityfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let file = openat(
        &root,
        "lsm",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut names = String::new();
    File::from(file).read_to_string(&mut names)?;
    Ok(names)
}

/// The modules in use; nothing where the kernel is too old to be asked.
fn listed() -> Option<Vec<u64>> {
    let mut numbers = [0u64; MOST_MODULES];
    let mut size = u32::try_from(size_of_val(&numbers)).ok()?;
    // SAFETY: the kernel writes at most `size` bytes to the numbers, which are as large, and how many it wrote to `size`.
    let count = unsafe {
        libc::syscall(
            SYS_LSM_LIST_MODULES,
            numbers.as_mut_ptr(),
            &raw mut size,
            0u32,
        )
    };
    let count = usize::try_from(count).ok()?;
    Some(numbers.get(..count)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_its_file_say_the_same_about_modules() {
        if let (Some(listed), Ok(names)) = (listed(), named()) {
            let named = names.trim().split(',').any(|name| name == "bpf");
            assert_eq!(listed.contains(&MODULE_BPF), named, "{names}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        match file_layout() {
            Ok(layout) => assert!(layout.function > 0, "{layout:?}"),
            Err(error) => assert!(error.to_string().contains("kernel"), "{error}"),
        }
    }
}
