//! Alerts from the journal to the controller, with real files, daemons, disks and deaths.

mod daemons;
mod disk;
mod journal;
mod kill;
mod rig;
mod store;
