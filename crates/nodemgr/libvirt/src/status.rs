//! How a domain is, and what that means for a machine.

use muster_lifecycle::{Halt, State};
use serde::{Deserialize, Serialize};

/// How libvirt says that a domain is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DomainStatus {
    /// It runs, or waits for something within.
    Running,
    /// It is being started, or gets its memory back.
    Starting,
    /// Its memory is being written.
    Saving,
    /// Somebody has made it stand still; its memory is there, and it costs what it costs.
    Paused,
    /// Its system is going down.
    GoingDown,
    /// It is off, and its memory is kept.
    Saved,
    /// It is off.
    Off,
    /// It is off, because it crashed.
    Crashed,
}

impl DomainStatus {
    /// Whether a process runs it.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Starting | Self::Saving | Self::Paused | Self::GoingDown => true,
            Self::Saved | Self::Off | Self::Crashed => false,
        }
    }
}

/// A stop or a reboot that somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Off.
    Stop,
    /// Off and on again.
    Reboot,
}

/// What is known about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How its domain is, where libvirt has one.
    pub domain: Option<DomainStatus>,
    /// It has been started once.
    pub made: bool,
    /// It was destroyed, and something of it is left.
    pub ending: bool,
    /// What is under way.
    pub wanted: Option<Wanted>,
}

/// Where a machine is in its life. A machine that stands still is running: it holds its memory, and nothing but its own
/// hypervisor's operator has stopped it.
#[must_use]
pub const fn state(seen: Seen) -> State {
    use DomainStatus::{Crashed, GoingDown, Off, Paused, Running, Saved, Saving, Starting};
    if seen.ending {
        return State::ShuttingDown;
    }
    match (seen.domain, seen.wanted) {
        // Off and on again is one thing, and stays inside running.
        (Some(_), Some(Wanted::Reboot)) if seen.made => State::Running,
        (Some(Saving), _) => State::Stopping(Halt::Hibernated),
        (Some(GoingDown), _) => State::Stopping(Halt::Off),
        (Some(Running | Paused | Starting), Some(Wanted::Stop)) => State::Stopping(Halt::Off),
        (Some(Running | Paused), _) => State::Running,
        (Some(Starting), _) => State::Pending,
        (Some(Saved), _) => State::Stopped(Halt::Hibernated),
        // Defined, or not even that, and never started: whoever makes it was interrupted.
        (Some(Off | Crashed) | None, _) if !seen.made => State::Pending,
        (Some(Off | Crashed) | None, _) => State::Stopped(Halt::Off),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(domain: DomainStatus) -> Seen {
        Seen {
            domain: Some(domain),
            made: true,
            ending: false,
            wanted: None,
        }
    }

    #[test]
    fn each_status_has_its_state() {
        let expected = [
            (DomainStatus::Running, State::Running),
            (DomainStatus::Starting, State::Pending),
            (DomainStatus::Saving, State::Stopping(Halt::Hibernated)),
            (DomainStatus::Paused, State::Running),
            (DomainStatus::GoingDown, State::Stopping(Halt::Off)),
            (DomainStatus::Saved, State::Stopped(Halt::Hibernated)),
            (DomainStatus::Off, State::Stopped(Halt::Off)),
            (DomainStatus::Crashed, State::Stopped(Halt::Off)),
        ];
        for (domain, is) in expected {
            assert_eq!(state(seen(domain)), is, "{domain:?}");
            let ending = Seen {
                ending: true,
                ..seen(domain)
            };
            assert_eq!(state(ending), State::ShuttingDown);
        }
    }

    #[test]
    fn what_is_under_way_shows() {
        let with = |domain, wanted| Seen {
            wanted: Some(wanted),
            ..seen(domain)
        };
        let stopping = with(DomainStatus::Running, Wanted::Stop);
        assert_eq!(state(stopping), State::Stopping(Halt::Off));
        for domain in [
            DomainStatus::Running,
            DomainStatus::GoingDown,
            DomainStatus::Off,
        ] {
            assert_eq!(state(with(domain, Wanted::Reboot)), State::Running);
        }
    }

    #[test]
    fn what_was_never_started_is_on_its_way_and_what_vanished_is_off() {
        let half = Seen {
            made: false,
            ..seen(DomainStatus::Off)
        };
        assert_eq!(state(half), State::Pending);
        assert_eq!(
            state(Seen {
                domain: None,
                ..half
            }),
            State::Pending
        );
        let vanished = Seen {
            domain: None,
            ..seen(DomainStatus::Off)
        };
        assert_eq!(state(vanished), State::Stopped(Halt::Off));
    }
}
