//! The Service Manager in a machine with core, runc and a controller written in Python.

mod equipment;
mod identity;
mod networked;
mod rig;
mod sets;
