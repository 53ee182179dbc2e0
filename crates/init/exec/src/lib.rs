//! Starts one process exactly as described, fast, and says which step failed.
//!
//! The crate knows nothing of unit files: whoever wants a process run describes it in an [`ExecContext`], a plain value
//! that can be stored, compared and sent, turns it into a [`Prepared`] and hands that to a [`Spawner`].
//!
//! ```text
//! ExecContext + descriptors --Prepared::new--> Prepared --Spawner::spawn--> Spawned { pid, pidfd }
//!                                                            |                or SpawnError { step, errno, exit code }
//!                                            Launch { cgroup, parent, mode } + Slot
//! ```
//!
//! # How a process is started
//! [`Spawner::spawn`] calls `clone3` with the memory shared and the caller suspended until the new process has executed
//! its program (as `vfork` does). Neither memory nor the table of descriptors is copied, so the cost does not grow with
//! the manager; the new process is born in its cgroup; and the caller learns of a step that failed as the return value,
//! not from an exit code later. Between `clone3` and `execve` only system calls are made: every string and table was
//! built before. The kernel must be 5.9 or later.
//!
//! With [`Parent::Same`] the process becomes a sibling of the caller (`CLONE_PARENT`), so that services are children of
//! the process that outlives the manager. The kernel writes the new pid into the caller's [`Slot`], memory that outlives
//! the manager too, before the process first runs: a manager that dies right after starting something can find it.
//!
//! [`Mode::Detached`] copies the memory instead and does not wait: for programs and folders on file systems that the
//! caller itself has to serve before they answer. A failed step is then seen only as the exit code of [`Step`].
//!
//! # Entry points
//! - [`ExecContext`], [`Prepared`], [`Spawner`], [`Launch`], [`Slot`].
//! - [`Step`]: the steps and the exit codes that systemd gave them.
//! - [`accounts::Accounts`]: users and groups from the machine's files.
//!
//! # Invariants
//! - The process has exactly the descriptors that the context names, 0, 1, 2 and those passed from 3 on; default signal
//!   dispositions, an empty signal mask, and no privilege that a step later than it would need.
//! - A process that could not be set up never executes anything. It ends with the exit code of its step.
//! - A process is executed at most once per call, also where the kernel kills the first attempt (see [`Spawner`]).
//! - The caller's own memory, descriptors, mask, folder and limits are as they were.
//!
//! # Deliberately absent
//! Namespaces, seccomp and capabilities (a later layer between context and program), looking commands up in `PATH`,
//! variables in command lines, and NSS: names come from `/etc/passwd` and `/etc/group` alone, since code loaded by NSS
//! may do anything, and the manager must not. There are no long-running tasks and no channels.

pub mod accounts;
mod child;
mod clone;
mod context;
mod prepared;
mod slot;
mod spawn;
mod step;
mod terminal;
mod window;

pub use context::{
    ExecContext, FileAccess, Identity, IoPriority, Limit, PassedFd, Scheduler, Stream, TakeControl,
    Terminal, WorkingDirectory,
};
pub use prepared::{PrepareError, Prepared};
pub use slot::{Slot, SlotEntry, SlotError};
pub use spawn::{Launch, Mode, Parent, SpawnError, Spawned, Spawner, SpawnerError};
pub use step::Step;
