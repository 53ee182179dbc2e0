//! A server in a thread of its own, against real clients, hostile ones among them.

mod crowd;
mod descriptors;
mod rig;
mod talk;
