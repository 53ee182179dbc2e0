//! Signals that `muster-init` got and passed on.

use muster_engine::ids::UnitId;
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::Severity;
use muster_handover::Signal;

use super::Core;
use crate::memory::Farewell;

const SIGHUP: u32 = 1;
const SIGINT: u32 = 2;
const SIGUSR2: u32 = 12;
const SIGTERM: u32 = 15;
const SIGWINCH: u32 = 28;
const SIGPWR: u32 = 30;
/// The first of the signals that have no meaning of their own.
const SIGRTMIN: u32 = 34;

impl Core {
    /// Does what systemd's manager does for the same signal. A supervisor beside another init ends by SIGTERM and SIGINT.
    pub(super) fn signalled(&mut self, signal: Signal) {
        let start = |unit| (unit, JobMode::ReplaceIrreversibly);
        let (unit, mode) = match signal.number {
            SIGHUP => {
                self.reload_units();
                return;
            }
            SIGUSR2 => return self.say_what_waits(),
            SIGINT | SIGTERM if self.supervised => start("exit.target"),
            SIGINT => start("ctrl-alt-del.target"),
            SIGTERM => start("poweroff.target"),
            SIGWINCH => ("kbrequest.target", JobMode::Replace),
            SIGPWR => ("sigpwr.target", JobMode::Replace),
            number => match number.checked_sub(SIGRTMIN) {
                Some(0) => ("default.target", JobMode::Isolate),
                Some(1) => ("rescue.target", JobMode::Isolate),
                Some(2) => ("emergency.target", JobMode::Isolate),
                Some(3) => start("halt.target"),
                Some(4) => start("poweroff.target"),
                Some(5) => start("reboot.target"),
                Some(6) => start("kexec.target"),
                _ => {
                    let message = format!("Signal {number} means nothing to the manager.");
                    return self.say(Severity::Info, None, &message);
                }
            },
        };
        let message = format!(
            "Signal {} came from process {}.",
            signal.number, signal.sender
        );
        self.say(Severity::Notice, None, &message);
        if mode == JobMode::ReplaceIrreversibly {
            // What somebody asked for with an end that did not come is not asked for with this one.
            self.keep_farewell(Farewell::default());
            self.begin_shutdown(unit);
        } else {
            self.want(unit, JobVerb::Start, mode);
        }
    }

    /// Every queued job and what it waits for, for whoever cannot reach the control socket.
    fn say_what_waits(&mut self) {
        let units: Vec<UnitId> = self.engine.jobs().map(|job| job.unit).collect();
        let message = format!("{} jobs are queued.", units.len());
        self.say(Severity::Notice, None, &message);
        for unit in units {
            let why = self.engine.why(unit).to_string();
            self.say(Severity::Notice, Some(unit), &why);
        }
    }
}
