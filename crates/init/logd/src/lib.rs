//! The log daemon: takes what services, programs and the kernel say, and keeps it in systemd's journal
//! files.
//!
//! It is a process of its own so that a slow or full disk never stalls the service manager: the manager
//! hands over descriptors and goes on, and whoever writes faster than the disk waits in its own socket.
//!
//! # What it takes
//! | source | descriptor | what |
//! |---|---|---|
//! | feed | `feed` | the manager's packets ([`muster_control::feed`]): output of services to be read, and lines of its own |
//! | streams | by the feed | standard output and error of one run of a service |
//! | syslog | `syslog` | datagrams of `syslog(3)` and `logger` |
//! | native | `native` | datagrams of `sd_journal_send(3)`, also in files |
//! | stdout | `stdout` | connections of `sd_journal_stream_fd(3)` and `systemd-cat` |
//! | kernel | `/dev/kmsg` | the kernel's messages |
//! | control | `varlink` | `io.muster.Log`: synchronise, rotate, flush, vacuum, status ([`control`]) |
//!
//! Descriptors come by `LISTEN_FDS` with these names; the command line can open them instead ([`options`]).
//! Configuration is journald's ([`config`]).
//!
//! # Map
//! Entry point: [`run::run`], which makes a [`daemon::Daemon`] and runs it. There is one thread and one
//! epoll loop; nothing is queued in the process.
//!
//! - [`parse`], [`policy`]: bytes to messages; rate limits, room, retention. Pure.
//! - [`input`]: the sources. Each takes a bounded amount per turn, and the kernel's ready list goes round,
//!   so a service that screams does not keep others from being heard.
//! - [`recorder::Recorder`]: the one way into the journal. Adds the trusted fields ([`origin`]), applies
//!   limits, appends, forwards ([`forward`]).
//! - [`state::Ledger`]: what has been taken and what is in the journal, so that a kill loses and doubles
//!   nothing.
//! - [`store::Store`]: the active file, rotation, vacuum, memory and disk.
//! - [`faults`]: the moments at which tests kill it.
//!
//! # Invariants
//! - A line that was written to a stream or socket that outlives the process is in the journal exactly once,
//!   also if the process is killed at any moment ([`state`] says how).
//! - A field whose name begins with `_` is the kernel's, the manager's or this daemon's word; no client can
//!   set one.
//! - What is dropped is counted and said: by rate limits in the journal, the rest by `Status`. A disk that is
//!   full loses entries, counts them, and tells how many when there is room again.
//! - Memory is bounded: per stream by its slot in the ledger, per socket by its largest message, and caches
//!   by their sizes.
//! - One process at a time: the ledger is locked before a journal file is opened.
//!
//! # What it does not do
//! It does not wait for anybody but the disk. It keeps no journals per user, seals nothing, feeds no other
//! syslog daemon and writes to no terminal but the console. Connections of `sd_journal_stream_fd(3)` are not
//! kept by anybody else and end with the process, as such clients expect of journald.

#![deny(unsafe_code)]

pub mod config;
pub mod control;
pub mod daemon;
pub mod entry;
pub mod faults;
pub mod forward;
pub mod input;
pub mod notify;
pub mod options;
pub mod origin;
pub mod parse;
pub mod policy;
pub mod recorder;
pub mod run;
pub mod sockets;
pub mod state;
pub mod store;
pub mod sys;
