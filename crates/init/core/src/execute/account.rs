//! What a run has used up, for those who ask later and for the log.

use crate::memory::Consumed;
use crate::platform::Usage;

/// From here on it is worth a line that people see: microseconds of processor time, bytes of disks.
const MUCH_TIME: u64 = 1_000_000;
const MUCH_DISK: u64 = 1 << 20;

pub(super) fn of(used: &Usage) -> Consumed {
    Consumed {
        cpu: used.cpu,
        memory_peak: used.memory_peak,
        disks: used.disks,
        network: used.network,
    }
}

/// A line for the log; nothing where it was too little to be worth one.
pub(super) fn in_words(used: &Consumed) -> Option<String> {
    let ([read, _, written, _], [received, _, sent, _]) = (used.disks, used.network);
    let mut parts = Vec::new();
    if let Some(cpu) = used.cpu {
        let (seconds, millis) = (cpu / 1_000_000, cpu % 1_000_000 / 1000);
        parts.push(format!("{seconds}.{millis:03}s CPU time"));
    }
    if let Some(peak) = used.memory_peak {
        parts.push(format!("{} memory peak", bytes(peak)));
    }
    let flows = [
        (read, "read from disk"),
        (written, "written to disk"),
        (received, "incoming IP traffic"),
        (sent, "outgoing IP traffic"),
    ];
    for (amount, what) in flows {
        if let Some(amount) = amount.filter(|amount| *amount > 0) {
            parts.push(format!("{} {what}", bytes(amount)));
        }
    }
    let much = |amount: Option<u64>, least: u64| amount.is_some_and(|amount| amount >= least);
    let is_worth_it = much(used.cpu, MUCH_TIME)
        || much(read, MUCH_DISK)
        || much(written, MUCH_DISK)
        || much(received, 1)
        || much(sent, 1);
    is_worth_it.then(|| format!("Consumed {}.", parts.join(", ")))
}

fn bytes(amount: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let unit = units.into_iter().find(|(_, shift)| amount >> shift > 0);
    let Some((unit, shift)) = unit else {
        return format!("{amount}B");
    };
    let tenths = (u128::from(amount) * 10) >> shift;
    format!("{}.{}{unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_said_where_it_is_much() {
        assert_eq!(in_words(&Consumed::default()), None);
        let little = Consumed {
            cpu: Some(12_345),
            memory_peak: Some(1_572_864),
            disks: [Some(0), None, Some(4096), None],
            ..Consumed::default()
        };
        assert_eq!(in_words(&little), None);
        let time = Consumed {
            cpu: Some(2_012_345),
            ..little
        };
        assert_eq!(
            in_words(&time).as_deref(),
            Some("Consumed 2.012s CPU time, 1.5M memory peak, 4.0K written to disk.")
        );
        let disks = [Some(1 << 20), None, None, None];
        assert!(in_words(&Consumed { disks, ..little }).is_some());
        let network = [Some(0), None, Some(34), None];
        let said = in_words(&Consumed { network, ..little }).unwrap();
        assert!(said.ends_with(", 34B outgoing IP traffic."), "{said}");
    }
}
