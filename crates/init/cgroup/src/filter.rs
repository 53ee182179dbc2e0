//! Programs for the kernel that decide what the processes of a group may use: devices, peers, ports, file systems.
//!
//! What a filter allows is said twice: by its plain `allows` and by the instructions that its program consists of. Tests hold
//! them against each other, on an interpreter and on the kernel.

mod assembly;
mod binds;
mod btf;
mod devices;
mod file_systems;
mod files;
mod pinned;
mod traffic;

pub use assembly::Instruction;
pub use binds::{BindFilter, BindRule, Family, Ports, Protocol};
pub use btf::{FileLayout, LayoutError, MAX_BTF};
pub use devices::{DeviceAccess, DeviceFilter, DeviceKind, DeviceRule};
pub use file_systems::{FileSystems, UnknownFileSystem};
pub use files::FileFilter;
pub use pinned::{AttachPoint, PinnedProgram};
pub use traffic::{COUNTERS_SIZE, Direction, Interfaces, Network, TooManyNetworks, TrafficFilter};

/// Where in the kernel a program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// A device's node is opened or made.
    Device,
    /// A packet comes in.
    Ingress,
    /// A packet goes out.
    Egress,
    /// A socket is bound to an IPv4 address.
    Bind4,
    /// A socket is bound to an IPv6 address.
    Bind6,
    /// A file is opened.
    FileOpen,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Device,
        Self::Ingress,
        Self::Egress,
        Self::Bind4,
        Self::Bind6,
        Self::FileOpen,
    ];

    /// The kernel's number of the type of program (`enum bpf_prog_type`).
    #[must_use]
    pub fn program_type(self) -> u32 {
        match self {
            Self::Device => 15,
            Self::Ingress | Self::Egress => 8,
            Self::Bind4 | Self::Bind6 => 18,
            Self::FileOpen => 29,
        }
    }

    /// The kernel's number of the place (`enum bpf_attach_type`).
    #[must_use]
    pub fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => 0,
            Self::Egress => 1,
            Self::Device => 6,
            Self::Bind4 => 8,
            Self::Bind6 => 9,
            Self::FileOpen => 43,
        }
    }

    /// What programs for it are called; by this one that was attached before is known again.
    #[must_use]
    pub fn program_name(self) -> &'static str {
        match self {
            Self::Device => "muster_devices",
            Self::Ingress => "muster_ingress",
            Self::Egress => "muster_egress",
            Self::Bind4 => "muster_bind4",
            Self::Bind6 => "muster_bind6",
            Self::FileOpen => "muster_files",
        }
    }
}

/// A program for one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The settings that it comes from, as in unit files: all of them are without effect where the kernel does not take it.
    pub settings: Vec<&'static str>,
    /// Where it decides.
    pub hook: Hook,
    /// Whether it counts packets and bytes, in an array that its loader makes.
    pub counts: bool,
    /// The kernel's number of the function whose calls it decides about, where it is for one.
    pub function: Option<u32>,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

impl Program {
    /// The instructions with the descriptor of its map put in: the array that it counts in, or where exempt processes are.
    #[must_use]
    pub fn with_map(&self, descriptor: i32) -> Vec<Instruction> {
        let mut instructions = self.instructions.clone();
        for instruction in &mut instructions {
            if instruction.is_map() {
                instruction.immediate = descriptor;
            }
        }
        instructions
    }
}

#[cfg(test)]
mod tests;
