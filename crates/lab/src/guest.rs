//! Guests: a kernel of their own for tests, so with a PID 1, modules and a power switch.
//!
//! [`Guest`] says what to boot, [`Guest::boot`] gives a [`RunningGuest`], [`Guest::run`] does all at
//! once. Two kinds, one interface:
//!
//! | | [`Guest::uml`] | [`Guest::qemu`] |
//! |---|---|---|
//! | what it is | User-Mode Linux, a kernel as a process | QEMU with its own translator, never KVM |
//! | boot to end | 1-2 s | 5-10 s |
//! | root file system | a folder of the host | an initramfs made from such a folder |
//! | host folders | [`Guest::share`] | no |
//! | needs | package user-mode-linux | packages qemu-system-x86 and the lab's kernel |
//!
//! `scripts/lab-qemu` and `scripts/lab-kernel` install what QEMU guests need; the kernel is looked
//! for in the folder `MUSTER_LAB_KERNEL`, or `muster/lab-kernel` in the user's cache folder.
//!
//! A guest runs a shell script as a child of a small init ([`Guest::script`]), with busybox as the
//! shell and all disks as `/dev/disk0`, `/dev/disk1`...; what the script leaves in `/out` comes back
//! in the [`Outcome`]. Or it boots straight into a program under test as PID 1 ([`Guest::init`]).
//!
//! A guest always ends: at its deadline, when its handle is dropped, when the test is killed.
//! [`RunningGuest::kill9`] is a power cut. Its disks are plain files: what the guest flushed is in
//! them, what its page cache still held is not. For writes lost *inside* the disk, use the file of a
//! [`LoggedDisk`](crate::powercut::LoggedDisk).

mod archive;
mod assemble;
mod launch;
mod modules;
mod registers;
mod running;
#[cfg(test)]
mod tests;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::preflight::STRICT_VARIABLE;

pub use running::{GuestError, Outcome, RunningGuest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uml,
    Qemu,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    HostFile(PathBuf),
    Link(PathBuf),
}

#[derive(Clone, Debug)]
struct FileEntry {
    path: PathBuf,
    content: Content,
    mode: u32,
}

#[derive(Clone, Debug)]
struct Share {
    host: PathBuf,
    guest: PathBuf,
    writable: bool,
}

#[derive(Clone, Debug)]
struct Disk {
    file: PathBuf,
    write_through: bool,
}

#[derive(Clone, Debug)]
enum Start {
    Script(String),
    Init(PathBuf),
}

/// What to boot.
#[derive(Clone, Debug)]
#[must_use]
pub struct Guest {
    kind: Kind,
    memory_mib: u32,
    files: Vec<FileEntry>,
    shares: Vec<Share>,
    modules: Vec<String>,
    disks: Vec<Disk>,
    kernel_args: Vec<String>,
    start: Start,
}

impl Guest {
    /// A User-Mode Linux guest.
    pub fn uml() -> Self {
        Self::new(Kind::Uml)
    }

    /// A QEMU guest with the distribution's cloud kernel.
    pub fn qemu() -> Self {
        Self::new(Kind::Qemu)
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            memory_mib: 256,
            files: Vec::new(),
            shares: Vec::new(),
            modules: Vec::new(),
            disks: Vec::new(),
            kernel_args: Vec::new(),
            start: Start::Script(String::new()),
        }
    }

    /// Sets the memory; 256 MiB without this.
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Puts a file into the guest, with this content and mode.
    pub fn file(mut self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) -> Self {
        self.files.push(FileEntry {
            path: path.as_ref().to_owned(),
            content: Content::Bytes(content.as_ref().to_owned()),
            mode,
        });
        self
    }

    /// Puts a copy of a file of the host into the guest, executable.
    pub fn host_file(mut self, host: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.files.push(FileEntry {
            path: path.as_ref().to_owned(),
            content: Content::HostFile(host.as_ref().to_owned()),
            mode: 0o755,
        });
        self
    }

    /// Makes a symbolic link in the guest.
    pub fn link(mut self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        self.files.push(FileEntry {
            path: path.as_ref().to_owned(),
            content: Content::Link(target.as_ref().to_owned()),
            mode: 0o777,
        });
        self
    }

    /// Mounts a folder of the host in the guest, read-only. User-Mode Linux and scripts only.
    pub fn share(self, host: impl AsRef<Path>, guest: impl AsRef<Path>) -> Self {
        self.share_as(host.as_ref(), guest.as_ref(), false)
    }

    /// As [`Guest::share`], but what the guest writes there, the host sees.
    pub fn share_writable(self, host: impl AsRef<Path>, guest: impl AsRef<Path>) -> Self {
        self.share_as(host.as_ref(), guest.as_ref(), true)
    }

    /// Gives a script the host's own programs: `/usr`, read-only. User-Mode Linux only.
    pub fn share_host_tools(self) -> Self {
        self.share("/usr", "/usr")
            .link("/usr/lib", "/lib")
            .link("/usr/lib64", "/lib64")
    }

    fn share_as(mut self, host: &Path, guest: &Path, writable: bool) -> Self {
        self.shares.push(Share {
            host: host.to_owned(),
            guest: guest.to_owned(),
            writable,
        });
        self
    }

    /// Has a kernel module loaded, with all that it depends on, before the script starts. For [`Guest::init`] it is only there:
    /// `/lab/load` has the names of files in `/lab/modules`, in the order that they are loaded in.
    pub fn module(mut self, name: impl Into<String>) -> Self {
        self.modules.push(name.into());
        self
    }

    /// Adds a disk. The file is used as it is; the first one is `/dev/disk0` for the script.
    pub fn disk(mut self, file: impl AsRef<Path>) -> Self {
        self.disks.push(Disk {
            file: file.as_ref().to_owned(),
            write_through: false,
        });
        self
    }

    /// As [`Guest::disk`], but each write is synchronous on the host.
    ///
    /// User-Mode Linux needs this with a [`LoggedDisk`](crate::powercut::LoggedDisk): its disk
    /// driver (of 6.1) drops flushes, so with it every completed write counts as flushed. QEMU
    /// passes flushes on and takes such a disk as it is.
    pub fn disk_write_through(mut self, file: impl AsRef<Path>) -> Self {
        self.disks.push(Disk {
            file: file.as_ref().to_owned(),
            write_through: true,
        });
        self
    }

    /// Adds a word to the kernel's command line.
    pub fn kernel_arg(mut self, word: impl Into<String>) -> Self {
        self.kernel_args.push(word.into());
        self
    }

    /// Runs a shell script in the guest, which ends with it.
    pub fn script(mut self, script: impl Into<String>) -> Self {
        self.start = Start::Script(script.into());
        self
    }

    /// Boots into a program of the guest as PID 1. Nothing is mounted or loaded for it, and the
    /// guest ends when that program says so.
    pub fn init(mut self, path: impl AsRef<Path>) -> Self {
        self.start = Start::Init(path.as_ref().to_owned());
        self
    }

    /// Boots it.
    pub fn boot(&self) -> Result<RunningGuest, GuestError> {
        launch::boot(self)
    }

    /// Boots it and waits until it has ended by itself.
    pub fn run(&self, within: Duration) -> Result<Outcome, GuestError> {
        self.boot()?.finish(within)
    }

    /// Whether this machine can boot it; if not, says so in a line.
    ///
    /// # Panics
    /// When it cannot and everything has to ([`STRICT_VARIABLE`]).
    #[track_caller]
    pub fn can_boot(&self) -> bool {
        let Some(reason) = self.unavailable() else {
            return true;
        };
        let strict = env::var(STRICT_VARIABLE).is_ok_and(|value| value == "1");
        assert!(!strict, "{reason} (not allowed with {STRICT_VARIABLE}=1)");
        eprintln!("skipped: {reason}");
        false
    }

    /// Why a guest of this kind cannot be booted on this machine, if so; for a test that skips.
    pub fn unavailable(&self) -> Option<String> {
        match self.kind {
            Kind::Uml => launch::uml_kernel().map(drop).err(),
            Kind::Qemu => launch::qemu_kernel().map(drop).err(),
        }
        .map(|error| error.to_string())
    }
}

/// Makes a file with an empty ext4 file system, to be a guest's disk.
pub fn make_ext4_disk(path: &Path, bytes: u64) -> Result<(), GuestError> {
    let failed = |source: io::Error| GuestError::Prepare {
        path: path.to_owned(),
        source,
    };
    let file = fs::File::create_new(path).map_err(failed)?;
    file.set_len(bytes).map_err(failed)?;
    let mut mkfs = std::process::Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,nodiscard"])
        .arg(path);
    crate::command::run_tool(&mut mkfs, "")
        .map(drop)
        .map_err(GuestError::Tool)
}
