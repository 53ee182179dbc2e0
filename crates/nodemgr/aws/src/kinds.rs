//! Types of instances, and which of them will do.

use muster_template::Arch;

/// A type of instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// EC2's name of it.
    pub name: String,
    /// Virtual processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// The architecture.
    pub arch: Arch,
    /// Whether it has its processors for a part of the time only, for which it costs less.
    pub burstable: bool,
}

/// What a machine must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) cpus: u32,
    pub(crate) memory_mb: u64,
    pub(crate) arch: Arch,
}

impl Kind {
    /// Roughly what it costs: on every price list a processor costs what twelve GiB of memory do.
    fn weight(&self) -> u64 {
        let of_cpus = u64::from(self.cpus).saturating_mul(12 * 1024);
        of_cpus.saturating_add(self.memory_mb)
    }

    fn fits(&self, needs: Needs) -> bool {
        let large = self.cpus >= needs.cpus && self.memory_mb >= needs.memory_mb;
        large && self.arch == needs.arch
    }
}

/// Those that will do, the cheapest first, `most` of them.
pub(crate) fn fitting(kinds: &[Kind], needs: Needs, most: usize) -> Vec<String> {
    let mut fitting: Vec<&Kind> = kinds.iter().filter(|kind| kind.fits(needs)).collect();
    fitting.sort_by_key(|kind| (kind.weight(), !kind.burstable, kind.name.as_str()));
    let names = fitting.into_iter().map(|kind| kind.name.clone());
    names.take(most).collect()
}

/// A family: its name, the memory that its `large` has in GiB, its architecture, its sizes.
type Family = (&'static str, u64, Arch, &'static [(&'static str, u32)]);

/// Sizes and how many processors they have, of families in which memory follows processors.
const SIZES: [(&str, u32); 10] = [
    ("medium", 1),
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("32xlarge", 128),
];
/// Those of ARM end at 64 processors; those of x86 begin at two.
const ARM_SIZES: &[(&str, u32)] = SIZES.split_at(8).0;
const X86_SIZES: &[(&str, u32)] = SIZES.split_at(1).1;
const FAMILIES: [Family; 6] = [
    ("c6i", 4, Arch::Amd64, X86_SIZES),
    ("m6i", 8, Arch::Amd64, X86_SIZES),
    ("r6i", 16, Arch::Amd64, X86_SIZES),
    ("c6g", 4, Arch::Arm64, ARM_SIZES),
    ("m6g", 8, Arch::Arm64, ARM_SIZES),
    ("r6g", 16, Arch::Arm64, ARM_SIZES),
];

/// Burstable sizes: processors and memory in MiB.
const BURSTABLE: [(&str, u32, u64); 7] = [
    ("nano", 2, 512),
    ("micro", 2, 1024),
    ("small", 2, 2048),
    ("medium", 2, 4096),
    ("large", 2, 8192),
    ("xlarge", 4, 16384),
    ("2xlarge", 8, 32768),
];

/// Types that nearly every region has. What a type has never changes, so that they can stand here.
pub(crate) fn default_kinds() -> Vec<Kind> {
    let burstable = [("t3", Arch::Amd64), ("t4g", Arch::Arm64)];
    let burstable = burstable.into_iter().flat_map(|(family, arch)| {
        BURSTABLE.iter().map(move |&(size, cpus, memory_mb)| Kind {
            name: format!("{family}.{size}"),
            cpus,
            memory_mb,
            arch,
            burstable: true,
        })
    });
    let steady = FAMILIES.iter().flat_map(|&(family, large, arch, sizes)| {
        sizes.iter().map(move |&(size, cpus)| Kind {
            name: format!("{family}.{size}"),
            cpus,
            memory_mb: large * 1024 * u64::from(cpus) / 2,
            arch,
            burstable: false,
        })
    });
    burstable.chain(steady).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(cpus: u32, memory_mb: u64, arch: Arch) -> Needs {
        Needs {
            cpus,
            memory_mb,
            arch,
        }
    }

    #[test]
    fn the_cheapest_that_fits_comes_first() {
        let kinds = default_kinds();
        let first = |cpus, memory, arch| fitting(&kinds, needs(cpus, memory, arch), 2);
        assert_eq!(first(1, 1024, Arch::Amd64), ["t3.micro", "t3.small"]);
        assert_eq!(first(2, 4096, Arch::Amd64), ["t3.medium", "c6i.large"]);
        assert_eq!(first(1, 4096, Arch::Arm64), ["m6g.medium", "r6g.medium"]);
        assert_eq!(first(16, 1024, Arch::Arm64), ["c6g.4xlarge", "m6g.4xlarge"]);
        assert!(first(1000, 1024, Arch::Amd64).is_empty());
        assert!(first(1, 1, Arch::Riscv64).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_chosen_fits_and_nothing_cheaper_does(cpus in 1_u32..130, memory_mb in 1_u64..600_000) {
            let kinds = default_kinds();
            let needs = needs(cpus, memory_mb, Arch::Amd64);
            let all = fitting(&kinds, needs, usize::MAX);
            let of = |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap();
            prop_assert!(all.iter().all(|name| of(name).fits(needs)));
            prop_assert!(all.windows(2).all(|two| of(&two[0]).weight() <= of(&two[1]).weight()));
            prop_assert_eq!(all.len(), kinds.iter().filter(|kind| kind.fits(needs)).count());
            prop_assert_eq!(&all[..all.len().min(3)], &fitting(&kinds, needs, 3)[..]);
        }
    }
}
