//! Contexts on a machine that is made up.

mod command_lines;
mod files;
mod rig;
mod sandbox;
mod small;
mod surroundings;
