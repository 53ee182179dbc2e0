//! How processes share the machine.

use super::rare;
use crate::value::cpuset::{CpuAffinity, CpuSet};
use crate::value::number::{Nanoseconds, parse_integer};
use crate::value::{ValueError, scalar_setting, word_enum};

word_enum! {
    /// Scheduling policy.
    SchedulingPolicy, "scheduling policy",
    Other = "other", Fifo = "fifo", RoundRobin = "rr", Batch = "batch", Idle = "idle",
}

word_enum! {
    /// Input/output scheduling class.
    IoClass, "I/O class" + io_class_word,
    None = "none", Realtime = "realtime", BestEffort = "best-effort", Idle = "idle",
}

fn io_class_word(text: &str) -> &str {
    match text {
        "0" => "none",
        "1" => "realtime",
        "2" => "best-effort",
        "3" => "idle",
        other => other,
    }
}

word_enum! {
    /// Where memory comes from on machines with several nodes.
    NumaPolicy, "NUMA policy",
    Default = "default", Preferred = "preferred", Bind = "bind", Interleave = "interleave", Local = "local",
}

/// A number within bounds.
macro_rules! bounded {
    ($(#[$meta:meta])* $name:ident, $type:ty, $low:literal, $high:literal, $range:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $type);

        scalar_setting!($name, $range, |text: &str| {
            let number = parse_integer(text)?;
            <$type>::try_from(number)
                .ok()
                .filter(|number| ($low..=$high).contains(number))
                .map($name)
                .ok_or_else(|| ValueError::range(text, $range))
        });
    };
}

bounded!(/// Nice level.
    Nice, i8, -20, 19, "-20 to 19");
bounded!(/// How readily the kernel ends the process for lack of memory.
    OomScoreAdjust, i16, -1000, 1000, "-1000 to 1000");
bounded!(/// Priority within an I/O class.
    IoPriority, u8, 0, 7, "0 to 7");
bounded!(/// Priority within a real-time policy.
    RealtimePriority, u8, 0, 99, "0 to 99");

/// Which memory goes into a core dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoredumpFilter(pub u64);

scalar_setting!(CoredumpFilter, "kinds of memory", |text: &str| {
    const NAMES: [&str; 9] = [
        "private-anonymous",
        "shared-anonymous",
        "private-file-backed",
        "shared-file-backed",
        "elf-headers",
        "private-huge",
        "shared-huge",
        "private-dax",
        "shared-dax",
    ];
    let mut bits = 0u64;
    for word in text.split_whitespace() {
        bits |= match word {
            "all" => u64::MAX,
            "default" => 0x33,
            _ => match NAMES.iter().position(|name| *name == word) {
                Some(bit) => 1 << bit,
                None => {
                    let digits = word.strip_prefix("0x").unwrap_or(word);
                    u64::from_str_radix(digits, 16).map_err(|_| {
                        ValueError::invalid(word, "a kind of memory or a hexadecimal mask")
                    })?
                }
            },
        };
    }
    Ok::<_, ValueError>(CoredumpFilter(bits))
});

/// How processes share the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduling {
    /// Nice level.
    pub nice: Option<Nice>,
    /// How readily the kernel ends it for lack of memory.
    pub oom_score_adjust: Option<OomScoreAdjust>,
    /// Which memory goes into a core dump.
    pub coredump_filter: Option<CoredumpFilter>,
    /// I/O class.
    pub io_class: Option<IoClass>,
    /// Priority within it.
    pub io_priority: Option<IoPriority>,
    /// Policy.
    pub policy: Option<SchedulingPolicy>,
    /// Priority within it.
    pub priority: Option<RealtimePriority>,
    /// Children get the normal policy.
    pub reset_on_fork: bool,
    /// Processors.
    pub affinity: CpuAffinity,
    /// Memory nodes.
    pub numa_policy: Option<NumaPolicy>,
    /// Which of them.
    pub numa_mask: CpuSet,
    /// How late timers may be.
    pub timer_slack: Option<Nanoseconds>,
}

rare!(Scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(read::<Option<Nice>>(&["-20"]), Some(Nice(-20)));
        assert_eq!(assign(&mut Nice(0), &["20", "x"]).len(), 2);
        assert_eq!(
            read::<Option<CoredumpFilter>>(&["0x33"]),
            Some(CoredumpFilter(0x33))
        );
        assert_eq!(
            read::<Option<CoredumpFilter>>(&["default private-huge"]),
            Some(CoredumpFilter(0x33))
        );
    }
}
