//! The logged disk itself: image, FUSE server and their life time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{Config, Session, SessionACL};
use rustix::mount::MountFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::blocks::Blocks;
use super::log::WriteLog;
use super::mounts::{Mounted, home_namespace, private_folder, unmount};
use super::server::{FILE_NAME, SharedDisk};
use crate::command::{ToolError, run_tool};

/// Largest disk: its written blocks are held in memory.
const MAX_SIZE: u64 = 4 << 30;
/// How long the kernel may take to let go of the FUSE file system before its connection is cut.
const GRACE: Duration = Duration::from_secs(10);

/// Why a logged disk could not be made or mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The size is not one that ext4 and the rig can do.
    #[error("a logged disk has 16 MiB to 4 GiB in whole 4 KiB blocks, not {0} bytes")]
    Size(u64),
    /// There is no free place to mount on.
    #[error("none of {0:?} is an empty folder to mount on")]
    NoMountPoint(&'static [&'static str]),
    /// The thread could not get mounts of its own.
    #[error("cannot enter a private mount namespace")]
    Namespace {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A folder or file of the rig could not be made.
    #[error("cannot prepare {}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The FUSE file system could not be mounted or served.
    #[error("cannot serve a FUSE file system at {}", path.display())]
    Fuse {
        /// Where it was to be mounted.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// `mkfs.ext4` or `mount` failed.
    #[error("cannot make or mount the file system")]
    Tool(#[source] ToolError),
}

/// A disk with an empty ext4 file system whose writes and flushes are logged.
///
/// See the [module](super) for what happens to the calling thread.
#[derive(Debug)]
pub struct LoggedDisk {
    shared: SharedDisk,
    folder: PathBuf,
    /// The thread whose mount namespace this is.
    thread: i32,
    server: Option<Server>,
}

#[derive(Debug)]
struct Server {
    thread: JoinHandle<()>,
    ended: Receiver<()>,
    /// Number of the FUSE connection, to cut it by.
    connection: u64,
}

impl LoggedDisk {
    /// Makes a disk of so many bytes.
    pub fn create(size: u64) -> Result<Self, DiskError> {
        if !(16 << 20..=MAX_SIZE).contains(&size) || !size.is_multiple_of(4096) {
            return Err(DiskError::Size(size));
        }
        let folder = private_folder()?;
        let base = formatted(size, &folder.join("mkfs.img"))?;
        let mut disk = Self {
            shared: SharedDisk::new(base),
            folder,
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
            server: None,
        };
        for folder in [disk.fuse_point(), disk.mount_point()] {
            fs::create_dir(&folder).map_err(|source| DiskError::Folder {
                path: folder,
                source,
            })?;
        }
        disk.server = Some(disk.serve()?);
        Ok(disk)
    }

    /// The disk as a file, under a path that works for every process of root, also outside of this
    /// thread's mount namespace: for instance for a guest. It needs this thread to live.
    pub fn path(&self) -> PathBuf {
        let process = rustix::process::getpid().as_raw_nonzero();
        let mut path = PathBuf::from(format!("/proc/{process}/task/{}/root", self.thread));
        path.extend(self.fuse_point().components().skip(1));
        path.join(FILE_NAME)
    }

    /// Mounts the disk's file system. One mount at a time: ext4 does not share a disk.
    pub fn mount(&self) -> Result<Mounted<'_>, DiskError> {
        Mounted::ext4(&self.fuse_point().join(FILE_NAME), &self.mount_point())
    }

    /// How many requests the disk has seen so far: the log's position now.
    pub fn position(&self) -> usize {
        self.shared.position()
    }

    /// The log up to now.
    pub fn log(&self) -> WriteLog {
        self.shared.log()
    }

    fn fuse_point(&self) -> PathBuf {
        self.folder.join("disk")
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.join("mount")
    }

    fn serve(&self) -> Result<Server, DiskError> {
        let point = self.fuse_point();
        let failed = |source| DiskError::Fuse {
            path: self.fuse_point(),
            source,
        };
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(failed)?;
        let options = format!(
            "fd={},rootmode=40700,user_id=0,group_id=0\0",
            device.as_raw_fd()
        );
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes())
            .expect("the only zero byte is the last one");
        rustix::mount::mount(
            "powercut",
            &point,
            "fuse.powercut",
            MountFlags::empty(),
            options,
        )
        .map_err(|error| failed(error.into()))?;
        let home = home_namespace()?;
        let started =
            start_server(self.shared.clone(), device, home).and_then(|(thread, ended)| {
                let connection = fs::metadata(&point)?.dev();
                Ok(Server {
                    thread,
                    ended,
                    connection,
                })
            });
        started.map_err(|source| {
            unmount(&point);
            failed(source)
        })
    }
}

impl Drop for LoggedDisk {
    fn drop(&mut self) {
        unmount(&self.fuse_point());
        if let Some(server) = self.server.take() {
            if server.ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                abort_connection(server.connection, &self.folder);
            }
            let _ = server.thread.join();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// An empty ext4 file system. Everything is laid out now, so that the kernel has nothing to
/// initialise behind the program's back later.
fn formatted(size: u64, path: &Path) -> Result<Blocks, DiskError> {
    let failed = |source| DiskError::Folder {
        path: path.to_owned(),
        source,
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed)?;
    file.set_len(size).map_err(failed)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4"])
        .args(["-E", "lazy_itable_init=0,lazy_journal_init=1,nodiscard"])
        .arg(path);
    run_tool(&mut mkfs, "").map_err(DiskError::Tool)?;
    let content = Blocks::load(&mut file).map_err(failed)?;
    fs::remove_file(path).map_err(failed)?;
    Ok(content)
}

/// Starts the thread that answers the kernel. The device's descriptor exists only there afterwards.
fn start_server(
    disk: SharedDisk,
    device: File,
    home: Arc<File>,
) -> io::Result<(JoinHandle<()>, Receiver<()>)> {
    let (ready, is_ready) = sync_channel(1);
    let (end, ended) = sync_channel(1);
    let descriptor = device.as_raw_fd();
    let thread = thread::Builder::new()
        .name("powercut".to_owned())
        .spawn(move || {
            let (own, outcome) = match isolate(home, descriptor) {
                Ok(own) => (Some(own), Ok(())),
                Err(error) => (None, Err(error)),
            };
            if ready.send(outcome).is_ok()
                && let Some(own) = own
                && let Ok(session) =
                    Session::from_fd(disk, own, SessionACL::Owner, Config::default())
            {
                // Ends when the file system is unmounted. After an error, users of the disk see
                // theirs, since the connection goes with the session.
                let _ = session.run();
            }
            let _ = end.send(());
        })?;
    // Our copy of the device is dropped on return, after the server has made its own.
    is_ready
        .recv()
        .map_err(|_| io::Error::other("the server thread died"))??;
    Ok((thread, ended))
}

/// Cuts the server thread loose from what a killed process takes down in no certain order.
///
/// The process's own exit may unmount the disk, and that waits for the server's answers. So the
/// server must not hold the mount namespace (or it would be the one to unmount), and its descriptor
/// must close, which fails all requests, when it dies and not when the last thread does.
fn isolate(home: Arc<File>, descriptor: RawFd) -> io::Result<OwnedFd> {
    #[expect(
        unsafe_code,
        reason = "leaving a mount namespace takes the raw system call"
    )]
    // SAFETY: only `UnshareFlags::FILES` is unsafe; this is the working folder and root.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
    rustix::thread::move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Mount))?;
    // Before the split, so that the owner closes the descriptor in the table that it is in.
    drop(home);
    keep_only(descriptor)
}

/// Gives the calling thread a table of descriptors of its own with nothing but the standard streams
/// and one descriptor in it.
fn keep_only(descriptor: RawFd) -> io::Result<OwnedFd> {
    #[expect(
        unsafe_code,
        reason = "a private table of descriptors takes the raw system call"
    )]
    // SAFETY: the calling thread owns no descriptor, so none of its own is lost by the split.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    let open: Vec<RawFd> = fs::read_dir("/proc/thread-self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for other in open {
        // The listing shows the descriptor that it was read through, too, which is gone by now.
        let is_open = || fs::read_link(format!("/proc/thread-self/fd/{other}")).is_ok();
        if other > 2 && other != descriptor && is_open() {
            #[expect(
                unsafe_code,
                reason = "the copies in this thread's table have no owner"
            )]
            // SAFETY: the table is this thread's own since the split above, so this closes a copy
            // that nothing refers to; owners in other threads keep theirs.
            unsafe {
                rustix::io::close(other)
            };
        }
    }
    #[expect(unsafe_code, reason = "the copy in this thread's table needs an owner")]
    // SAFETY: the caller opened this descriptor and holds it open until this thread has reported;
    // the copy in this thread's table is owned by nobody else.
    let own = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(own)
}

/// Fails every request on a FUSE connection that does not end by itself.
fn abort_connection(connection: u64, folder: &Path) {
    let control = folder.join("control");
    if fs::create_dir(&control).is_ok()
        && rustix::mount::mount("fusectl", &control, "fusectl", MountFlags::empty(), c"").is_ok()
    {
        let _ = fs::write(control.join(connection.to_string()).join("abort"), "1");
        unmount(&control);
    }
}
