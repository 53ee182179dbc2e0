//! How much of a provider may be used, and how much is.

/// So much of a provider's resources may be used. What is unset has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Machines.
    pub machines: Option<u64>,
    /// Virtual processors.
    pub cpus: Option<u64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
}

/// So much of a provider's resources is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    machines: u64,
    cpus: u64,
    memory_mb: u64,
}

impl Used {
    /// Counts one machine more. A size that nobody set counts for nothing: its provider decides it, and nobody here knows how.
    pub fn add(&mut self, cpus: Option<u64>, memory_mb: Option<u64>) {
        self.machines = self.machines.saturating_add(1);
        self.cpus = self.cpus.saturating_add(cpus.unwrap_or(0));
        self.memory_mb = self.memory_mb.saturating_add(memory_mb.unwrap_or(0));
    }
}

impl Quota {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// Whether more is used than may be.
    #[must_use]
    pub fn is_passed_by(&self, used: &Used) -> bool {
        let passes = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
        passes(self.machines, used.machines)
            || passes(self.cpus, used.cpus)
            || passes(self.memory_mb, used.memory_mb)
    }

    /// The limits, and what is used of them, for people.
    #[must_use]
    pub fn describe(&self, used: &Used) -> String {
        let part = |what: &str, used: u64, limit: Option<u64>| {
            limit.map(|limit| format!("{used} of {limit} {what}"))
        };
        let parts = [
            part("machines", used.machines, self.machines),
            part("cpus", used.cpus, self.cpus),
            part("MiB of memory", used.memory_mb, self.memory_mb),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_counts_by_itself_and_an_unset_size_for_nothing() {
        let quota = Quota {
            machines: Some(3),
            cpus: None,
            memory_mb: Some(1024),
        };
        let mut used = Used::default();
        used.add(Some(64), None);
        used.add(None, Some(1024));
        assert!(!quota.is_passed_by(&used), "{used:?}");
        assert_eq!(
            quota.describe(&used),
            "2 of 3 machines, 1024 of 1024 MiB of memory"
        );
        let mut more = used;
        more.add(None, Some(1));
        assert!(quota.is_passed_by(&more), "{more:?}");
        used.add(None, None);
        assert!(!quota.is_passed_by(&used), "{used:?}");
        used.add(None, None);
        assert!(quota.is_passed_by(&used), "{used:?}");
        assert!(quota.is_limited() && !Quota::default().is_limited());
    }
}
