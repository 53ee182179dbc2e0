//! Network namespaces of instances: files that keep them, made and removed by name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::UnshareFlags;
use uuid::Uuid;

/// The file system that files of namespaces are in.
const NAMESPACE_FS: i64 = 0x6e73_6673;
/// What the kernel gives by itself to every link that comes later: instances speak IPv4 only, as the rules do.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

/// Why a namespace could not be made or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} the network namespace {}", path.display())]
pub struct NamespaceError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The folder of all namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces(PathBuf);

impl Namespaces {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Where an instance's namespace is, or would be.
    pub(crate) fn path(&self, instance: Uuid) -> PathBuf {
        self.0.join(instance.to_string())
    }

    /// Whether it is there: after a reboot, or a death between two steps, it may be an empty file.
    pub(crate) fn exists(&self, instance: Uuid) -> bool {
        is_namespace(&self.path(instance))
    }

    /// Makes it, if it is not there. Blocks.
    pub(crate) fn make(&self, instance: Uuid) -> Result<PathBuf, NamespaceError> {
        let path = self.path(instance);
        if is_namespace(&path) {
            return Ok(path);
        }
        let make = || {
            fs::create_dir_all(&self.0)?;
            File::create(&path)?;
            in_new_namespace(|| {
                match fs::write(NO_IPV6, "1") {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                Ok(mount_bind("/proc/thread-self/ns/net", &path)?)
            })
        };
        make().map_err(|source| failed("make", &path, source))?;
        Ok(path)
    }

    /// Removes it, if it is there. Blocks. Processes that are in it keep it alive until they end.
    pub(crate) fn remove(&self, instance: Uuid) -> Result<(), NamespaceError> {
        let path = self.path(instance);
        // An interrupted start may have mounted it twice.
        while is_namespace(&path) {
            unmount(&path, UnmountFlags::DETACH)
                .map_err(|source| failed("unmount", &path, source.into()))?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// All instances that have a file here.
    pub(crate) fn all(&self) -> Result<Vec<Uuid>, NamespaceError> {
        let list = || {
            let files = match fs::read_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                files => files?,
            };
            let mut found = Vec::new();
            for file in files {
                let name = file?.file_name();
                found.extend(name.to_str().and_then(|name| Uuid::parse_str(name).ok()));
            }
            Ok(found)
        };
        list().map_err(|source| failed("list", &self.0, source))
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> NamespaceError {
    NamespaceError {
        operation,
        path: path.to_owned(),
        source,
    }
}

fn is_namespace(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == NAMESPACE_FS)
}

/// Namespaces belong to threads: this one ends, and nothing has to be restored.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            unshare_network()?;
            work()
        })?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[expect(
    unsafe_code,
    reason = "unshare can take the file descriptor table away from others"
)]
fn unshare_network() -> io::Result<()> {
    // SAFETY: only the network namespace of the calling thread changes; memory, descriptors and signals stay shared as Rust
    // expects.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}
