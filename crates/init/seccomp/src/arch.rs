//! Which machine a filter is for, and which tables of system calls processes on it can use.

/// The architecture of the kernel, whose processes may use more than one table of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// `x86-64`, which also runs programs that use the tables of `x86` and `x32`.
    X86_64,
    /// `arm64`, which also runs programs that use the table of `arm`.
    Aarch64,
}

impl Arch {
    /// The one that this program was built for; nothing if it is none of those that filters can be made for.
    #[must_use]
    pub const fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// The table of its own programs. It is allowed whatever a policy says: the next program is started with it.
    pub(crate) const fn own(self) -> Abi {
        match self {
            Self::X86_64 => Abi::X86_64,
            Self::Aarch64 => Abi::Arm64,
        }
    }

    /// What the kernel tells filters apart by, each with the tables behind it, its own last.
    pub(crate) const fn marks(self) -> &'static [(u32, &'static [Abi])] {
        match self {
            Self::X86_64 => &[
                (0x4000_0003, &[Abi::X86]),
                (0xC000_003E, &[Abi::X86_64, Abi::X32]),
            ],
            Self::Aarch64 => &[(0x4000_0028, &[Abi::Arm]), (0xC000_00B7, &[Abi::Arm64])],
        }
    }
}

/// A table of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Abi {
    X86_64,
    /// Numbers with one bit more, behind the same mark as `X86_64`.
    X32,
    X86,
    Arm64,
    Arm,
}

impl Abi {
    /// What is added to every number of `X32`, and where they end.
    pub(crate) const X32_NUMBERS: std::ops::RangeInclusive<u32> = 0x4000_0000..=0x7fff_ffff;

    /// The name that unit files have for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::X32 => "x32",
            Self::X86 => "x86",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
        }
    }

    /// Its place in the table of numbers.
    pub(crate) const fn column(self) -> usize {
        match self {
            Self::X86_64 => 0,
            Self::X32 => 1,
            Self::X86 => 2,
            Self::Arm64 => 3,
            Self::Arm => 4,
        }
    }
}
