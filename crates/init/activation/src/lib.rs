//! What starts units, and what units wait for: the kernel-facing parts of activation.
//!
//! The engine decides when a socket, path, timer, mount, swap or device unit does what; this crate has the hands for it.
//! Each module is a small, plain interface: values in, descriptors and values out. None of them knows the engine, a unit's
//! state or the others.
//!
//! | module | entry point | for |
//! |---|---|---|
//! | [`sockets`] | [`sockets::open`], [`sockets::accept`] | `Listen...=` lines, connections, who calls |
//! | [`paths`] | [`paths::PathWatches`] | path units, PID files, any file that somebody wants to be told of |
//! | [`mounts`] | [`mounts::MountWatch`], [`mounts::SwapWatch`] | the kernel's tables, and what changed in them |
//! | [`devices`] | [`devices::DeviceScan`], [`devices::UeventMonitor`], [`devices::DeviceTable`] | devices that come and go |
//! | [`timers`] | [`timers::next_elapses`], [`timers::StampFolder`], [`timers::ClockWatch`] | the calendar, stamps, clock jumps |
//! | [`generators`] | [`generators::GeneratorRun`] | programs that write unit files |
//! | [`conditions`] | [`conditions::ConditionHost`] | `Condition...=` and `Assert...=` |
//!
//! # How it is used
//!
//! There are no threads and no tasks. Whatever has to be waited for is a descriptor ([`AsFd`](std::os::fd::AsFd)) that the
//! caller puts into its own event loop: readable (for the tables of mounts and swaps: priority) means that the object's
//! method for it has something to give. No method waits, except [`generators::GeneratorRun::wait_at_most`], which says so.
//!
//! # Invariants
//! - Descriptors are closed on exec, and do not block, except connections that are handed to a service.
//! - Nothing that happens between a look and the next is missed: watches are placed before conditions are looked at, tables
//!   are compared as wholes, and where the kernel says that it dropped something, everything is looked at again.
//! - A manager that is replaced loses nothing: listening sockets ([`sockets::open`]) and the inotify descriptor
//!   ([`paths::PathWatches::adopt`]) are taken over with everything that waits in them.
//! - What comes from outside (tables, device messages, PID files, generators' output) is bounded and read without panics.
//! - An error names the operation and the object: the line of the unit, the path, the file.
//!
//! # What it deliberately does not do
//! Deciding, rate limits of triggers, names of users (callers look them up, sockets are given numbers), running commands of
//! units, mounting. USB functions are refused: they need a gadget driver that no machine of ours has.

pub mod conditions;
pub mod devices;
mod files;
mod folders;
pub mod generators;
mod glob;
pub mod mounts;
pub mod paths;
pub mod sockets;
mod sys;
pub mod timers;
