//! Stopping and rebooting, one step at a time.

use std::time::Duration;

use muster_lifecycle::Moment;
use serde::{Deserialize, Serialize};

use crate::status::{DomainStatus, Wanted};

/// How often the button is pressed: a system that is still booting does not hear it.
pub(crate) const PRESS_EVERY: Duration = Duration::from_secs(3);

/// A stop or a reboot that is under way. Kept on disk from before the first press until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PowerChange {
    pub(crate) wanted: Wanted,
    /// When patience ends, in milliseconds since the beginning of 1970.
    pub(crate) cut_at: u64,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerStep {
    /// Press the button.
    Press,
    /// Cut the power.
    Cut,
    /// Start it.
    Start,
    /// Look again.
    Wait,
    /// It is done.
    Done,
}

/// The next step, by how the domain is and when the button was pressed last.
pub(crate) fn next(
    change: PowerChange,
    domain: Option<DomainStatus>,
    pressed: Option<Moment>,
    now: Moment,
) -> PowerStep {
    let Some(domain) = domain else {
        return PowerStep::Done;
    };
    if !domain.is_active() {
        return match change.wanted {
            Wanted::Stop => PowerStep::Done,
            Wanted::Reboot => PowerStep::Start,
        };
    }
    if now.as_millis() >= change.cut_at {
        return PowerStep::Cut;
    }
    // A button that is pressed while memory is written is heard by nobody, and libvirt refuses it.
    if matches!(domain, DomainStatus::Saving | DomainStatus::GoingDown) {
        return PowerStep::Wait;
    }
    match pressed {
        Some(before) if now.since(before) < PRESS_EVERY => PowerStep::Wait,
        _ => PowerStep::Press,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(seconds * 1000)
    }

    const STOP: PowerChange = PowerChange {
        wanted: Wanted::Stop,
        cut_at: 60_000,
    };

    #[test]
    fn the_button_is_pressed_again_and_then_the_power_is_cut() {
        let running = Some(DomainStatus::Running);
        assert_eq!(next(STOP, running, None, at(0)), PowerStep::Press);
        assert_eq!(next(STOP, running, Some(at(0)), at(1)), PowerStep::Wait);
        assert_eq!(next(STOP, running, Some(at(0)), at(3)), PowerStep::Press);
        assert_eq!(next(STOP, running, Some(at(59)), at(60)), PowerStep::Cut);
        assert_eq!(
            next(STOP, Some(DomainStatus::Off), None, at(60)),
            PowerStep::Done
        );
    }

    #[test]
    fn a_reboot_ends_when_it_was_started() {
        let reboot = PowerChange {
            wanted: Wanted::Reboot,
            ..STOP
        };
        assert_eq!(
            next(reboot, Some(DomainStatus::Off), None, at(1)),
            PowerStep::Start
        );
        assert_eq!(next(reboot, None, None, at(1)), PowerStep::Done);
    }

    /// A system that hears the button at its `hears`-th press, or never.
    fn play(wanted: Wanted, hears: Option<u32>) -> (u64, u32, bool) {
        let change = PowerChange {
            wanted,
            cut_at: 60_000,
        };
        let (mut domain, mut pressed, mut presses, mut started) =
            (DomainStatus::Running, None, 0, false);
        for second in 0..1000 {
            let now = at(second);
            match next(change, Some(domain), pressed, now) {
                PowerStep::Press => {
                    presses += 1;
                    pressed = Some(now);
                    if Some(presses) == hears {
                        domain = DomainStatus::Off;
                    }
                }
                PowerStep::Cut => domain = DomainStatus::Off,
                // Whoever carries steps out is done with a reboot when the start has succeeded.
                PowerStep::Start => {
                    started = true;
                    return (second, presses, started);
                }
                PowerStep::Wait => {}
                PowerStep::Done => return (second, presses, started),
            }
        }
        panic!("it never ended");
    }

    proptest! {
        #[test]
        fn every_change_ends_soon_after_patience_does(hears in proptest::option::of(1u32..40), reboot: bool) {
            let wanted = if reboot { Wanted::Reboot } else { Wanted::Stop };
            let (second, presses, started) = play(wanted, hears);
            prop_assert!(second <= 61);
            prop_assert!((1..=20).contains(&presses));
            prop_assert_eq!(started, reboot);
        }
    }
}
