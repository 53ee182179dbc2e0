//! Sets of exit statuses and signals (`SuccessExitStatus=` and its siblings).

use super::{AssignError, Setting, ValueContext, ValueError, signal::Signal};
use crate::syntax::{WordRules, Words};

/// Names of exit statuses, as systemd documents them.
const NAMES: &[(&str, u8)] = &[
    ("SUCCESS", 0),
    ("FAILURE", 1),
    ("INVALIDARGUMENT", 2),
    ("NOTIMPLEMENTED", 3),
    ("NOPERMISSION", 4),
    ("NOTINSTALLED", 5),
    ("NOTCONFIGURED", 6),
    ("NOTRUNNING", 7),
    ("USAGE", 64),
    ("DATAERR", 65),
    ("NOINPUT", 66),
    ("NOUSER", 67),
    ("NOHOST", 68),
    ("UNAVAILABLE", 69),
    ("SOFTWARE", 70),
    ("OSERR", 71),
    ("OSFILE", 72),
    ("CANTCREAT", 73),
    ("IOERR", 74),
    ("TEMPFAIL", 75),
    ("PROTOCOL", 76),
    ("NOPERM", 77),
    ("CONFIG", 78),
    ("CHDIR", 200),
    ("NICE", 201),
    ("FDS", 202),
    ("EXEC", 203),
    ("MEMORY", 204),
    ("LIMITS", 205),
    ("OOM_ADJUST", 206),
    ("SIGNAL_MASK", 207),
    ("STDIN", 208),
    ("STDOUT", 209),
    ("CHROOT", 210),
    ("IOPRIO", 211),
    ("TIMERSLACK", 212),
    ("SECUREBITS", 213),
    ("SETSCHEDULER", 214),
    ("CPUAFFINITY", 215),
    ("GROUP", 216),
    ("USER", 217),
    ("CAPABILITIES", 218),
    ("CGROUP", 219),
    ("SETSID", 220),
    ("CONFIRM", 221),
    ("STDERR", 222),
    ("PAM", 224),
    ("NETWORK", 225),
    ("NAMESPACE", 226),
    ("NO_NEW_PRIVILEGES", 227),
    ("SECCOMP", 228),
    ("SELINUX_CONTEXT", 229),
    ("PERSONALITY", 230),
    ("APPARMOR", 231),
    ("ADDRESS_FAMILIES", 232),
    ("RUNTIME_DIRECTORY", 233),
    ("CHOWN", 235),
    ("SMACK_PROCESS_LABEL", 236),
    ("KEYRING", 237),
    ("STATE_DIRECTORY", 238),
    ("CACHE_DIRECTORY", 239),
    ("LOGS_DIRECTORY", 240),
    ("CONFIGURATION_DIRECTORY", 241),
    ("NUMA_POLICY", 242),
    ("CREDENTIALS", 243),
    ("BPF", 245),
    ("EXCEPTION", 255),
];

/// The name of an exit status, if it has one.
#[must_use]
pub fn exit_status_name(status: u8) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(_, known)| *known == status)
        .map(|(name, _)| *name)
}

/// The exit status that a name or number stands for.
#[must_use]
pub fn parse_exit_status(text: &str) -> Option<u8> {
    let named = NAMES
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, status)| *status);
    let number = || text.parse::<u8>().ok().filter(|_| !text.starts_with('+'));
    named.or_else(number)
}

/// A set of exit statuses and of signals that end a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitStatusSet {
    statuses: [u64; 4],
    /// Bit n is signal n + 1.
    signals: u64,
}

impl ExitStatusSet {
    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a process that exits with `status` is in the set.
    #[must_use]
    pub fn has_status(&self, status: u8) -> bool {
        self.statuses[usize::from(status / 64)] & (1 << (status % 64)) != 0
    }

    /// Whether a process that is ended by `signal` is in the set.
    #[must_use]
    pub fn has_signal(&self, signal: Signal) -> bool {
        self.signals & (1 << (signal.number() - 1)) != 0
    }

    /// The statuses in ascending order.
    pub fn statuses(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(|status| self.has_status(*status))
    }

    /// The signals in ascending order.
    pub fn signals(&self) -> impl Iterator<Item = Signal> + '_ {
        (1..=64)
            .filter_map(Signal::from_number)
            .filter(|signal| self.has_signal(*signal))
    }

    fn insert(&mut self, text: &str) -> bool {
        if let Some(status) = parse_exit_status(text) {
            self.statuses[usize::from(status / 64)] |= 1 << (status % 64);
        } else if let Some(signal) =
            Signal::find(text).filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.signals |= 1 << (signal.number() - 1);
        } else {
            return false;
        }
        true
    }
}

impl Setting for ExitStatusSet {
    const KIND: &'static str = "exit statuses and signals";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        for word in Words::new(text, WordRules::COMMAND) {
            let word = word.map_err(|error| ValueError::words(text, error))?;
            if !self.insert(&word) {
                context.warn(ValueError::invalid(&word, "an exit status or a signal"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn names_numbers_and_signals_mix() {
        let set: ExitStatusSet = read(&["TEMPFAIL 250 SIGUSR1", "143"]);
        assert_eq!(set.statuses().collect::<Vec<_>>(), [75, 143, 250]);
        assert_eq!(
            set.signals().map(|s| s.to_string()).collect::<Vec<_>>(),
            ["SIGUSR1"]
        );
        assert!(set.has_status(75) && !set.has_status(0));
        assert!(read::<ExitStatusSet>(&["1 2", ""]).is_empty());
    }

    #[test]
    fn a_bad_element_is_left_out() {
        let mut set = ExitStatusSet::default();
        assert_eq!(assign(&mut set, &["1 256 NOSUCH 2"]).len(), 2);
        assert_eq!(set.statuses().collect::<Vec<_>>(), [1, 2]);
    }
}
