//! Every execution directive, looked at from the inside: units that say by their exit code whether they were given what their
//! file asks for, and whether they are kept from what it forbids.
//!
//! The units are data, in `cases/*.units`; [`case`] says how they are written. [`world`] boots a machine, loads all units of
//! some files, starts one after the other with the manager's own tool and notes how each ended; [`expectation`] compares, and
//! [`report`] prints a table of those that ended otherwise. The same units run
//!
//! - under Muster in namespaces of the host ([`host`], one test for each file),
//! - under Muster in a guest with a kernel of its own and most controllers of cgroup v2 ([`guest`], likewise),
//! - those about file systems and control groups also in a guest whose kernel has everything for them, `cpuset` and the
//!   pressure on memory included ([`kernel`]),
//! - under systemd ([`peer`]): where it disagrees, the expectation is wrong, unless the case says why Muster differs.
//!
//! [`coverage`] sees to it that no directive is left out, and that every case has a place that has what it needs.
//!
//! What a kernel cannot do is a fact of the machine (`facts.sh`), and a case says what it expects without it; nothing is passed
//! over in silence. [`escapes`] tries to break out, by name; [`daemons`] runs Debian's daemons from their own unit files.
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod case;
mod coverage;
mod daemons;
mod escapes;
mod expectation;
mod guest;
mod host;
mod kernel;
mod peer;
mod report;
mod topics;
mod world;
