//! A disk whose power can be cut after any write.
//!
//! [`LoggedDisk`] is a disk image served by a FUSE file system in this process. It sees every write
//! and every flush that the kernel's block layer (or a guest) sends, in order, and logs them. From
//! the [`WriteLog`] an [`Image`] of the disk can be made *as it would be found after a power cut* at
//! any position of the log:
//!
//! * what was written before the last completed flush is there;
//! * what was written later is lost ([`Unflushed::DropAll`]), or an arbitrary part of it survived,
//!   by whole writes ([`Unflushed::RandomSubset`]) or torn at sectors ([`Unflushed::Torn`]).
//!
//! ```text
//!  program --> ext4 --> loop device --> FUSE file disk.img --> server thread --> log
//!     |                                                                           ^
//!     '-- ack("row 7 is durable") --> rig notes the log's position, then answers -'
//! ```
//!
//! [`CutTest`] is the usual way in: it runs a program on such a disk, which acknowledges what it
//! promises to be durable with [`ack`], cuts the power at many positions, and gives each resulting
//! file system, together with exactly what had been acknowledged by then, to a check. Forget one
//! `fsync` in the program and the check fails: the file system is mounted without the heuristics
//! that would hide it (`noauto_da_alloc`, a commit interval longer than any test).
//!
//! One limit is ext4's own: an `fsync` of a file just *created* also makes its name durable, so only
//! a `rename` shows a missing `fsync` of the folder.
//!
//! # Nothing is left behind
//!
//! All mounts live in a mount namespace of the calling thread, which that thread enters with the
//! first disk and never leaves; children and threads started later share it. Disks and images live
//! in memory. Loop devices detach themselves. So a test killed with SIGKILL leaves nothing, too: the
//! server thread has a table of file descriptors of its own, so that its death ends the FUSE
//! connection even while another thread of the process waits for that very disk.
//!
//! # What it does not do
//!
//! It does not reorder completed flushes, and does not model a drive that lies about them. A write
//! sent while a flush is under way counts by which of the two arrived first.

mod ack;
mod blocks;
mod child;
mod cut_test;
mod disk;
mod log;
mod mounts;
mod reexec;
mod server;
#[cfg(test)]
mod tests;

pub use ack::{ack, ack_on};
pub use cut_test::{Ack, CheckFailure, Cut, CutReport, CutTest, CutTestError};
pub use disk::{DiskError, LoggedDisk};
pub use log::{Image, Unflushed, WriteLog};
pub use mounts::{Mounted, MountedImage};
pub use reexec::{Role, reexec, role};
