//! A Unit on this machine, for trying Muster out: `muster up` and `muster down`.
//!
//! # Purpose
//! [`up`] makes a certificate authority, two nodes and two demo images, and has the nodes run what a file says; [`down`] takes all
//! of it away again. Everything that runs is the product itself: the same daemons, configuration files and commands that a real
//! Unit has, under a `muster-init` of their own beside whatever init the machine has.
//!
//! | node | where | runs |
//! |---|---|---|
//! | `main` | this machine | identity manager, Communication Manager, Service Manager, log daemon |
//! | `second` | mount, network and UTS namespaces of its own | identity manager, Service Manager, log daemon |
//!
//! Each has a `muster-init`, a cgroup below `muster-demo-TAG`, and a folder each for state and for sockets. A pair of links joins
//! the two nodes, and another one the network of their instances. Without root there is `main` only, with the native runtime and
//! without networks: [`Settings::shape`] decides that.
//!
//! # Entry points
//! * [`Settings`] says where everything is; [`Settings::resolve`] knows what is usual.
//! * [`up`] and [`down`] do it; [`Tell`] hears how it goes. Both block, and may be repeated and interrupted at any time.
//!
//! # How it is made
//! Pure: `layout` (paths and names), `files` (configuration and unit files), `mountinfo` (tables of mounts). Acting:
//! `claim` takes a folder, `ground` tries what its file system can carry,
//! `supervisor` starts and ends a node, `sweep` removes what a node left, whoever killed it, `unit` speaks with the Communication
//! Manager. `record` is what the folder says about itself: it is on disk before anything else is made, and goes last.
//!
//! There are no long-running tasks: whatever goes on after [`up`] has returned is under `muster-init`.
//!
//! # Invariants
//! * What can be found is never made twice: a second [`up`] starts what is missing, and nothing else. A node whose init has died
//!   is swept before it is started again.
//! * [`down`] needs nobody's help: it works whatever has died or was never started, and removes only what has the demo's own
//!   names, or appeared since [`up`] looked.
//! * Only one of them works on a folder at a time.
//!
//! # What it does not do
//! It installs and builds nothing: `make up` does, before it calls this. It changes no file of the machine outside of its two
//! folders; forwarding, which instances' networks need, is switched back by [`down`].

#![forbid(unsafe_code)]

mod act;
mod cgroups;
mod claim;
mod command;
mod down;
mod error;
mod files;
mod ground;
mod images;
mod layout;
mod links;
mod mountinfo;
mod needs;
mod record;
mod settings;
mod supervisor;
mod sweep;
mod unit;

pub use self::act::{Outcome, up};
pub use self::command::{CommandError, is_interruption};
pub use self::down::{Down, down};
pub use self::error::{DownError, FileError, UpError};
pub use self::layout::LayoutError;
pub use self::settings::{Settings, Shape};
pub use self::unit::{InstanceRow, Picture, UnitError};

/// What one of the two is doing.
pub trait Tell {
    /// A step begins.
    fn step(&mut self, text: &str);
    /// How nodes and instances are now.
    fn picture(&mut self, picture: &Picture);
}
