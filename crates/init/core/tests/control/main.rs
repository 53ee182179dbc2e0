//! The control socket of a running manager, asked by clients of all kinds.

mod events;
mod hostile;
mod jobs;
mod rig;
mod settings;
mod survive;
mod transient;
mod views;
