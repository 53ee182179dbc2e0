//! Who wrote an entry, by the word of the kernel and of the manager, never by that of the client.

mod cgroup;
mod device;
mod host;
mod process;

pub use cgroup::{UnitOfCgroup, unit_of_cgroup};
pub use device::device_fields;
pub use host::{Host, ReadHostError};
pub use process::{Origins, ProcessFacts};
