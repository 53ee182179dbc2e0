//! A manager over a real store, real files and real devices.

mod hotplug;
mod model;
mod rig;
mod shares;
