//! What this machine is: identity, processors and their power, memory, partitions, operating system.
//!
//! # Entry point
//! [`NodeFacts::gather`] reads everything once, from the files of a running Linux, as [`Options`]
//! say. [`NodeFacts::node_info`] makes the node's description for the wire of it, once the node's
//! state is known. `gather` reads files, may measure for 200 ms per kind of core and blocks: call it
//! where that is allowed.
//!
//! ```no_run
//! use muster_api::domain::{NodeState, NodeType};
//! use muster_nodeinfo::{NodeFacts, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::new(NodeType::new("main")?);
//! options.node_name = "gateway".to_owned();
//! options.dmips_cache = Some("/var/lib/muster/iam/dmips.json".into());
//! let facts = NodeFacts::gather(&options)?;
//! for warning in &facts.warnings {
//!     eprintln!("{warning}");
//! }
//! let node = facts.node_info(NodeState::Unprovisioned, None);
//! # drop(node);
//! # Ok(())
//! # }
//! ```
//!
//! # Where each fact comes from
//! | fact | source |
//! |---|---|
//! | node id | the file [`Options::node_id_path`], `/etc/machine-id` unless configured; never made up, since an id that changes makes another node |
//! | name, type, attributes | the configuration; the name is the host name when it is empty |
//! | processors | `/proc/cpuinfo`, with `/sys/devices/system/cpu` where that has no topology (ARM, RISC-V); one entry per package and kind of core, so a big.LITTLE chip has two |
//! | architecture | `uname`, in the words of OCI; the variant of ARM from `/proc/cpuinfo` |
//! | RAM the system may use | `MemTotal` of `/proc/meminfo` |
//! | RAM built in | the firmware's list of modules (DMI type 17), or else the memory blocks that the kernel manages; unknown otherwise |
//! | partitions | the configuration, sizes from the mounted file system |
//! | operating system | `VERSION_ID` of `os-release`; the kernel's release where there is none |
//! | processing power | [`Options::max_dmips`], or measured once: see [`dmips`] |
//!
//! # Invariants
//! * What is read is bounded, and parsing is pure over the files' texts: no text makes it panic, and
//!   texts of other boards are tests.
//! * What a node cannot be without (its id, memory, processors) is an error that says what to do.
//!   What it can be without (a partition that is not mounted) is a warning, and left out.
//! * With a fixture folder as [`Options::root`] every file is read below it, links apart.
//!
//! # What this crate does not do
//! It does not watch: hardware that comes and goes at run time is seen at the next start. It keeps
//! no node state, which is the identity manager's, and runs no task. It does not tell free memory or
//! load, which is monitoring.

#![forbid(unsafe_code)]

mod cpu;
pub mod dmips;
mod facts;
mod memory;
mod node_id;
mod options;
mod os;
mod tree;

pub use cpu::Processor;
pub use facts::{GatherError, GatherWarning, NodeFacts};
pub use node_id::NodeIdProblem;
pub use options::{Options, PartitionSpec};
