//! Which system calls a process may make: from the words of unit files to the kernel's filter programs.
//!
//! A [`Policy`] says what is to be kept from a process, a plain value that can be stored and sent. [`compile`] makes of it
//! one [`Program`] for the kernel's `seccomp`, a function of values: no system call, no clock, no state, no tasks. Whoever
//! starts the process installs what comes out.
//!
//! # How
//! ```text
//! Policy -> one layer per directive and table of calls -> decisions: call -> rules, the strictest first -> program
//! ```
//! - A machine's processes may use several tables of system calls (`x86-64` also has `x86` and `x32`, `arm64` has `arm`);
//!   every directive is carried out in each table that `SystemCallArchitectures=` admits.
//! - Each directive is a layer: which rules it has for which call. The layers of a table are merged as the kernel would
//!   merge the answers of several filters: the strictest wins, and among errors the directive that systemd installs last.
//! - The program tells the tables apart, finds the call by a binary search over spans of numbers that are treated alike,
//!   and looks at arguments where rules ask for it. A call costs about ten instructions, however long a list is.
//! - [`CallFilter::listed`] resolves names and groups; those who show filters use it as well.
//!
//! # Why one program, and why written here
//! One program is installed by one call: it applies as a whole or not at all, and no earlier part can refuse the installation
//! of a later one. The crate `seccompiler` makes a program for one table, ends processes that use another one, and looks a call
//! up by comparing with one number after the other.
//!
//! # Invariants
//! - A program is never longer than the kernel takes, and all its jumps end inside of it.
//! - A list of allowed calls lets a process execute the next program, unless it takes that away itself.
//! - A number that has no name yet is treated as one that is not listed.
//! - Nothing is hidden from a rule by the upper half of an argument: the kernel does not look there either.
//! - Every name is a call of some architecture or a group; others are left out, and told. [`is_known`] and [`family`] say which
//!   names mean something, for those who read unit files.
//!
//! # Stricter than systemd 252, on purpose
//! `RestrictSUIDSGID=` also covers `fchmodat2` and files made by `O_TMPFILE`; `RestrictRealtime=` also refuses `sched_setattr`;
//! `RestrictNamespaces=yes` also refuses time namespaces to `unshare`; `MemoryDenyWriteExecute=` also covers `shmat` through `ipc`.
//!
//! # Deliberately absent
//! Installing a program (it needs `unsafe`, and privileges or `no_new_privs`), notifications to a supervisor, tracing, and
//! machines of the other byte order. `RestrictAddressFamilies=` does not reach the table of `x86`, as with systemd: its
//! `socketcall` takes the family from memory.

#![forbid(unsafe_code)]

mod arch;
mod compile;
mod errno;
mod names;
mod policy;
mod program;

pub use arch::Arch;
pub use compile::{CompileError, Compiled, compile};
pub use names::{Listed, NEWER_CALLS, Purpose, family, group, groups, has_call, is_known, members};
pub use policy::{CallFilter, CallRule, FamilyFilter, Kinds, Policy, Refusal};
pub use program::{Instruction, MAX_INSTRUCTIONS, Program};
