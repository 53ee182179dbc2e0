//! Starts one process exactly as described, fast, and says which step failed.
//!
//! The crate knows nothing of units: whoever wants a process run describes it in an [`ExecContext`], a plain value
//! that can be stored, compared and sent, turns it into a [`Prepared`] and hands that to a [`Spawner`].
//!
//! ```text
//! ExecContext + descriptors --Prepared::new--> Prepared --Spawner::spawn--> Spawned { pid, pidfd }
//!                                                            |                or SpawnError { step, errno, exit code }
//!                                            Launch { cgroup, parent } + Slot
//! ```
//!
//! # How a process is started
//! [`Spawner::spawn`] calls `clone3` with the memory shared, and does nothing but wait until the new process has executed
//! its program (as `vfork` does), for four seconds at the most. Neither memory nor the table of descriptors is copied, so
//! the cost does not grow with the manager; the new process is born in its cgroup; and the caller learns of a step that
//! failed as the return value, not from an exit code later. Between `clone3` and `execve` only system calls are made: every string and table was
//! built before. The kernel must be 5.9 or later.
//!
//! With [`Parent::Same`] the process becomes a sibling of the caller (`CLONE_PARENT`), so that services are children of
//! the process that outlives the manager. The kernel writes the new pid into the caller's [`Slot`], memory that outlives
//! the manager too, before the process first runs: a manager that dies right after starting something can find it.
//!
//! The caller waits for whatever the new process waits for. A program, folder or file on a file system that may not answer (one
//! of another machine, or one that a process serves) is therefore not for the direct path: such a context gets a [`Sandbox`],
//! if only an empty one, and [`waits_for_files`](ExecContext::waits_for_files).
//!
//! # What needs an ordinary process
//! Folders full of files for a new owner, namespaces, mounts, secrets, PAM, names that only name services know, files of variables
//! on file systems that may not answer, capabilities and filters of system calls cannot be set up in memory that is shared with
//! a waiting manager. A context with a [`Sandbox`] is divided by [`delegate`]: what the direct path can do stays there, and what
//! it spawns is the program `muster-exec` ([`helper`]), which does the rest and becomes the program. What it has to say comes
//! back through a pipe, as a [`Report`].
//!
//! ```text
//! ExecContext { sandbox: Some } --delegate--> outer ExecContext --Spawner--> muster-exec --execve--> program
//!                                         `-> job ---memory file---------------^ `---pipe--> Report
//! ```
//!
//! # Entry points
//! - [`ExecContext`], [`Prepared`], [`Spawner`], [`Launch`], [`Slot`].
//! - [`Sandbox`], [`delegate`], [`Report`]; [`helper::run`] is all of `muster-exec`.
//! - [`helper::become_program`] does the same in a process that somebody else's manager has started (the Service Manager's
//!   native runtime, also on a machine with systemd and for users without root).
//! - [`in_a_copy`] and [`enter_network`], for sockets that are opened where a unit's processes are.
//! - [`Step`]: the steps and the exit codes that systemd gave them.
//! - [`accounts::Accounts`]: users and groups from the machine's files.
//! - [`folders`]: a unit's own folders, made and put away without following a link.
//! - [`variables`]: how the variables of a process come together, in the manager and in `muster-exec`.
//! - [`bpf`]: programs that the kernel runs for a cgroup, which confine what is in it.
//!
//! # Invariants
//! - The process has exactly the descriptors that the context names, 0, 1, 2 and those passed from 3 on; default signal
//!   dispositions, an empty signal mask, and no privilege that a step later than it would need.
//! - A process that could not be set up never executes anything. It ends with the exit code of its step.
//! - A process is executed at most once per call, also where the kernel kills the first attempt (see [`Spawner`]).
//! - Nobody who stops or freezes a new process holds its parent up for long: it is killed, and its start has failed.
//! - The caller's own memory, descriptors, mask, folder and limits are as they were.
//!
//! # Deliberately absent
//! Name services in the manager: there names come from `/etc/passwd` and `/etc/group` alone, since code loaded by name services
//! may do anything; only `muster-exec` asks them. What a unit file means is decided elsewhere; of its formats only patterns and
//! files of variables are known here. There are no long-running tasks and no channels.

pub mod accounts;
pub mod bpf;
mod child;
mod clone;
mod context;
mod copy;
mod environment;
pub mod folders;
pub mod helper;
mod ipc;
mod job;
mod loopback;
pub mod mounts;
mod network;
mod prepared;
mod report;
mod sandbox;
mod slot;
mod spawn;
mod step;
mod terminal;
pub mod variables;
mod window;

pub use context::{
    ExecContext, FileAccess, Identity, IoPriority, Limit, PassedFd, Scheduler, Stream, TakeControl,
    Terminal, WorkingDirectory,
};
pub use copy::in_a_copy;
pub use ipc::{IpcRemains, REMOVE_IPC};
pub use job::{DelegateError, Delegated, delegate};
pub use loopback::raise_loopback;
pub use network::{Network, enter_network};
pub use prepared::{PrepareError, Prepared};
pub use report::{Failed, Report};
pub use sandbox::{
    CapabilitySets, Credential, CredentialSource, Keyring, KnownUsers, Login, Names, Namespace,
    Namespaces, NumaPolicy, Sandbox,
};
pub use slot::{Slot, SlotEntry, SlotError};
pub use spawn::{Launch, Parent, SpawnError, Spawned, Spawner, SpawnerError};
pub use step::Step;
