//! The daemon as it runs: real processes and sockets, journals read by this workspace's reader and by
//! journalctl.

mod kill;
mod limits;
mod peer;
mod rig;
mod takes;
