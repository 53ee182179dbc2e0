//! The signals that end processes.

/// Names without their prefix, by the numbers that they have on Linux.
const SIGNALS: [(u8, &str); 18] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (31, "SYS"),
];

/// What [`Exit::Signal`](crate::Exit::Signal) calls a signal, if it is one that commonly ends processes.
#[must_use]
pub fn signal_name(number: i32) -> Option<&'static str> {
    let found = SIGNALS.iter().find(|(it, _)| i32::from(*it) == number);
    found.map(|(_, name)| *name)
}

/// The number of a signal by the name that [`signal_name`] gives it. A shell adds 128 to it.
#[must_use]
pub fn signal_number(name: &str) -> Option<u8> {
    let found = SIGNALS.iter().find(|(_, it)| *it == name);
    found.map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_this_system() {
        for (signal, name) in [
            (Signal::KILL, "KILL"),
            (Signal::BUS, "BUS"),
            (Signal::USR2, "USR2"),
            (Signal::XFSZ, "XFSZ"),
            (Signal::SYS, "SYS"),
        ] {
            assert_eq!(signal_name(signal.as_raw()), Some(name));
            assert_eq!(signal_number(name).map(i32::from), Some(signal.as_raw()));
        }
        for number in [-1, 0, 17, 64, 265] {
            assert_eq!(signal_name(number), None);
        }
        assert_eq!(signal_number("RTMIN"), None);
    }
}
