//! Units on real init systems: `muster-core` and systemd, each as process 1 of a machine of the lab.

mod contract;
mod core;
mod systemd;
