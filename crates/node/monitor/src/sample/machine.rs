//! The whole machine: `/proc/stat` and `/proc/meminfo`.

use std::path::Path;

use super::{MAX_FILE, MachineSample, Reading, read_path};
use crate::cpu::CpuTimes;

pub(super) fn read(proc: &Path) -> MachineSample {
    let mut buffer = [0; MAX_FILE];
    let stat = read_path(&proc.join("stat"), &mut buffer);
    let cpu = stat.ok().and_then(cpu_times);
    let meminfo = read_path(&proc.join("meminfo"), &mut buffer);
    let memory = meminfo.ok().and_then(memory_used);
    MachineSample {
        cpu: cpu.map_or(Reading::Lost, Reading::Value),
        memory: memory.map_or(Reading::Lost, Reading::Value),
    }
}

/// From the first line: user, nice, system, idle, iowait, irq, softirq, steal; older kernels have fewer. What follows is time
/// of guests, which is part of user and nice. Time that a hypervisor gave to others is not used, nor is it idle.
fn cpu_times(stat: &str) -> Option<CpuTimes> {
    const IDLE: [usize; 2] = [3, 4];
    const STEAL: usize = 7;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let mut times = CpuTimes { busy: 0, total: 0 };
    let mut fields = 0;
    for (index, field) in line.split_ascii_whitespace().take(STEAL + 1).enumerate() {
        let ticks = field.parse::<u64>().ok()?;
        times.total = times.total.saturating_add(ticks);
        if !IDLE.contains(&index) && index != STEAL {
            times.busy = times.busy.saturating_add(ticks);
        }
        fields += 1;
    }
    (fields > IDLE[0]).then_some(times)
}

/// Total less available; kernels that do not tell what is available tell what is free or easily freed.
fn memory_used(meminfo: &str) -> Option<u64> {
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        let number = line.strip_prefix(':')?.trim().strip_suffix(" kB")?;
        number.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let free = || {
        let parts = [bytes("Buffers"), bytes("Cached")];
        let parts = parts.into_iter().flatten();
        Some(parts.fold(bytes("MemFree")?, u64::saturating_add))
    };
    let available = bytes("MemAvailable").or_else(free)?;
    Some(bytes("MemTotal")?.saturating_sub(available))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen() {
        let stat = "cpu  10 20 30 400 500 6 7 8 900 1000\ncpu0 1 2 3\nintr 5\n";
        let times = CpuTimes {
            busy: 10 + 20 + 30 + 6 + 7,
            total: 10 + 20 + 30 + 400 + 500 + 6 + 7 + 8,
        };
        assert_eq!(cpu_times(stat), Some(times));
        // As the first kernels had it.
        let times = CpuTimes { busy: 6, total: 10 };
        assert_eq!(cpu_times("cpu 1 2 3 4\n"), Some(times));
        for odd in [
            "",
            "cpu",
            "cpu \n",
            "cpu 1 2 3",
            "cpu0 1 2 3 4",
            "cpu 1 x 3 4",
        ] {
            assert_eq!(cpu_times(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let new = "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable:   600 kB\nBuffers: 1 kB\n";
        assert_eq!(memory_used(new), Some(400 * 1024));
        let old = "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 250 kB\nSwapCached: 9 kB\n";
        assert_eq!(memory_used(old), Some(600 * 1024));
        // More available than there is: hot-plugged between two lines.
        assert_eq!(memory_used("MemTotal: 1 kB\nMemAvailable: 2 kB\n"), Some(0));
        for odd in [
            "",
            "MemTotal: 1 kB\n",
            "MemFree: 1 kB\n",
            "MemTotal: x kB\nMemFree: 1 kB\n",
        ] {
            assert_eq!(memory_used(odd), None, "{odd:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", numbers in any::<[u64; 10]>()) {
            let _ = (cpu_times(&text), memory_used(&text));
            let line = numbers.map(|number| number.to_string()).join(" ");
            let times = cpu_times(&format!("cpu  {line}\n")).unwrap();
            prop_assert!(times.busy <= times.total);
            let _ = memory_used(&format!("MemTotal: {} kB\nMemAvailable: {} kB", numbers[0], numbers[1]));
        }
    }
}
