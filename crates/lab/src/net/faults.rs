//! What the switch does to frames, as a ruleset for its bridge.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// All faults in force at once. The ruleset is always written whole, so it cannot drift from this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Pairs of ports that do not hear each other, in both orders.
    partitions: BTreeSet<(String, String)>,
    loss_percent: u8,
}

impl Faults {
    pub(super) fn partition(&mut self, a: &str, b: &str) {
        self.partitions.insert((a.to_owned(), b.to_owned()));
        self.partitions.insert((b.to_owned(), a.to_owned()));
    }

    pub(super) fn heal(&mut self, a: &str, b: &str) {
        self.partitions.remove(&(a.to_owned(), b.to_owned()));
        self.partitions.remove(&(b.to_owned(), a.to_owned()));
    }

    pub(super) fn lose(&mut self, percent: u8) {
        self.loss_percent = percent.min(100);
    }

    /// Input for `nft -f`: replaces what was in force before in one step.
    pub(super) fn ruleset(&self) -> String {
        let mut rules = String::new();
        for (from, to) in &self.partitions {
            let _ = writeln!(rules, "    iifname \"{from}\" oifname \"{to}\" drop");
        }
        match self.loss_percent {
            0 => {}
            percent @ 1..100 => {
                let _ = writeln!(rules, "    numgen random mod 100 < {percent} drop");
            }
            // The tool refuses a comparison that always holds.
            100.. => rules.push_str("    drop\n"),
        }
        format!(
            "table bridge lab\n\
             delete table bridge lab\n\
             table bridge lab {{\n  chain forward {{\n    \
             type filter hook forward priority 0; policy accept;\n{rules}  }}\n}}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_drops_both_ways_until_healed() {
        let mut faults = Faults::default();
        faults.partition("p0", "p1");
        faults.partition("p1", "p0");
        let ruleset = faults.ruleset();
        assert_eq!(
            ruleset
                .matches("iifname \"p0\" oifname \"p1\" drop")
                .count(),
            1
        );
        assert_eq!(
            ruleset
                .matches("iifname \"p1\" oifname \"p0\" drop")
                .count(),
            1
        );
        faults.heal("p1", "p0");
        assert_eq!(faults, Faults::default());
    }

    #[test]
    fn loss_is_bounded_and_none_by_default() {
        let mut faults = Faults::default();
        assert!(!faults.ruleset().contains(" drop"));
        faults.lose(30);
        assert!(faults.ruleset().contains("numgen random mod 100 < 30 drop"));
        faults.lose(200);
        assert!(faults.ruleset().contains("\n    drop\n"));
    }
}
