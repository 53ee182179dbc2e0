//! Executors against the real thing: this machine, and OpenSSH's server on a port of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the test, which is the report"
)]

#[path = "executor/conformance.rs"]
mod conformance;
#[path = "executor/early.rs"]
mod early;
#[path = "executor/full.rs"]
mod full;
#[path = "executor/hostile.rs"]
mod hostile;
#[path = "executor/hostile_rsync.rs"]
mod hostile_rsync;
#[path = "executor/local_sudo.rs"]
mod local_sudo;
#[path = "executor/lost.rs"]
mod lost;
#[path = "executor/proxy.rs"]
mod proxy;
#[path = "executor/rsync.rs"]
mod rsync;
#[path = "executor/server.rs"]
mod server;
#[path = "executor/ssh.rs"]
mod ssh;
#[path = "executor/sudo.rs"]
mod sudo;
