//! Machines made of namespaces: any init as process 1, on the host's own kernel, in a tenth of a second.
//!
//! [`Machine::builder`] says what to boot, [`MachineBuilder::boot`] gives a [`Machine`]:
//!
//! ```no_run
//! use std::time::Duration;
//! use muster_lab::machine::{Ended, Machine};
//! const TIME: Duration = Duration::from_secs(20);
//! let mut machine = Machine::builder()
//!     .init(["/lib/systemd/systemd", "--system"])
//!     .unit("hello.service", "[Service]\nExecStart=/bin/sleep infinity\n")
//!     .boot()?;
//! machine.wait_for_path("/run/systemd/private", TIME)?;
//! assert!(machine.run(["systemctl", "start", "hello"])?.status.success());
//! machine.run(["systemctl", "poweroff"])?;
//! assert_eq!(machine.wait_ended(TIME)?, Ended::PowerOff);
//! # Ok::<(), muster_lab::machine::MachineError>(())
//! ```
//!
//! # What the machine sees
//! | | |
//! |---|---|
//! | namespaces | PID, mount, UTS, IPC, network (with `lo` only) and cgroup of its own |
//! | `/` | the host's root file system under a layer of its own: it may write anywhere, and the host sees nothing of it |
//! | unit files | `/etc/systemd/system`: what the test gave; `/usr/lib/systemd/system`: what the test named of the host's or of another folder; no generators but the test's |
//! | `/run`, `/tmp`, `/var/log`, `/dev` | empty file systems in memory; the usual devices, no `/dev/kmsg` |
//! | `/sys/fs/cgroup` | a cgroup v2 tree whose root is a fresh group of the host's, or nothing with [`MachineBuilder::without_cgroups`] |
//! | `/proc/sys`, `/sys` | read-only: the kernel is the host's; `/proc/sys/net` is the machine's own |
//!
//! With [`MachineBuilder::root`] another installed system takes the place of the host's root; its own unit files, generators and
//! logs then stay, and those of the test come in addition.
//!
//! What is not on the root file system (a separate `/home`, for example) is not there unless it is
//! [bound](MachineBuilder::bind). With [`MachineBuilder::beside_an_init`] process 1 is a shell that only reaps, and the
//! init under test is its child: a service manager beside another init.
//!
//! A machine has its own kernel when it is a [`Guest`](crate::guest::Guest) instead; that takes ten times as long.
//!
//! # Invariants
//! - Dropping a machine kills every process in it and removes its group, folder and mounts, also when the test panics. When
//!   the test process is killed, the machine's process 1 is, and the kernel ends the rest; the empty group goes with the
//!   next machine that is made.
//! - Machines share nothing but the kernel and the (read-only) lower layer, so tests boot any number at the same time.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::program::ProgramError;

mod binaries;
mod builder;
mod group;
mod processes;
mod running;
#[cfg(test)]
mod tests;

pub use self::binaries::{Binaries, BinariesError, Build};
pub use self::builder::MachineBuilder;
pub use self::processes::MachineProcess;
pub use self::running::{CommandOutput, Ended, Machine};

/// That of the init and of commands; the workspace's own programs come first.
const SEARCH_PATH: &str =
    "/usr/lib/muster:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What went wrong with a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// A file or folder for it could not be made.
    #[error("cannot prepare {} for a machine", path.display())]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// Its control group could not be made.
    #[error("cannot make a control group for a machine")]
    Group(#[source] io::Error),
    /// No command was given to be its init.
    #[error("the machine has no init")]
    NoInit,
    /// It could not be started, did not come up, or did not end.
    #[error("the machine's first process failed")]
    Init(#[source] ProgramError),
    /// A command could not be run in it, or did not end in time.
    #[error("cannot run `{command}` in the machine")]
    Command {
        /// The command line.
        command: String,
        /// What went wrong.
        #[source]
        source: Box<ProgramError>,
    },
    /// A file of the machine could not be read or written.
    #[error("cannot {operation} {} of the machine", path.display())]
    File {
        /// What was to be done.
        operation: &'static str,
        /// The file, as the machine names it.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// Something did not appear in it.
    #[error("{} did not appear in the machine within {within:?}\n{console}", path.display())]
    NoSuchPath {
        /// The file that was waited for, as the machine names it.
        path: PathBuf,
        /// For how long.
        within: Duration,
        /// The end of what its init printed.
        console: String,
    },
    /// Its processes could not be listed.
    #[error("cannot list the machine's processes")]
    Processes(#[source] io::Error),
}
