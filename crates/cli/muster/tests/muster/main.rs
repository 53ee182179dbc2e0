//! The built program: exit codes, messages, JSON, files, and what is left when it is killed.

mod image;
mod killed;
mod node;
mod pki;
mod rig;
mod sm;
mod tools;
mod unit;
