//! When a core is started, asked for a sign of life, killed and replaced: decided here, done elsewhere.
//!
//! ```text
//!            Start                Hello               Adopted
//! Waiting ----------> Starting ----------> Adopting ----------> Running <--- Ping, Pong
//!    ^                   |                    |                    |
//!    |                   | too slow           | too slow           | no Pong, link closed
//!    |                   v                    v                    v
//!    |<-- Exited --------------------- Killing (SIGABRT, then SIGKILL)
//!    |<-- Exited --------------------- Leaving (asked for an upgrade)
//! ```
//! `Ending` is left only by a soft reboot. There is one core at most: a start is ordered only in `Waiting`,
//! and `Waiting` is entered only by the exit of the former core.
//!
//! Crashes: the first cores are replaced at once; after [`CRASHES_UNTIL_SAFE`] crashes within
//! [`CRASH_WINDOW`] the next is started in safe mode, and from then on each waits longer, up to
//! [`LONGEST_DELAY`]. A core that has run for [`CRASH_WINDOW`] clears that record, and so does an upgrade.
//!
//! Roll-back: a program that ends before it has adopted the services, while another is known to have done so,
//! is given up for that other one, until the next upgrade is asked for.

use std::time::Duration;

use muster_handover::{Cause, Outcome};

/// Crashes within this time are counted together.
pub const CRASH_WINDOW: Duration = Duration::from_secs(10);
/// So many crashes within [`CRASH_WINDOW`] lead to safe mode.
pub const CRASHES_UNTIL_SAFE: u32 = 3;
/// The wait after the first crash in safe mode; doubled with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// No start is delayed longer than this.
pub const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// For writing a memory dump after SIGABRT.
const ABORT_GRACE: Duration = Duration::from_secs(3);
/// For the kernel to report the end of a process whose link is closed already.
const CLOSED_GRACE: Duration = Duration::from_secs(1);
/// For a core that has announced its exit.
const LEAVE_GRACE: Duration = Duration::from_secs(10);
/// What a core exits with when its program cannot be executed.
pub const EXIT_NOT_EXECUTED: i32 = 203;

/// Times that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two questions for a sign of life; zero for none. An answer may take twice as long.
    pub heartbeat: Duration,
    /// From the start to `Hello`.
    pub hello: Duration,
    /// From `Hello` to `Adopted`.
    pub adopt: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            hello: Duration::from_secs(10),
            adopt: Duration::from_secs(60),
        }
    }
}

/// Something that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The ordered start was made. Whether the program is the file that is known to work.
    Started {
        /// Whether it is.
        known_good: bool,
    },
    /// No process could be made.
    StartFailed,
    /// Core has said `Hello`.
    Hello,
    /// Core has adopted everything.
    Adopted,
    /// Core has given a sign of life.
    Pong,
    /// Core has closed its link, but its exit has not been seen.
    LinkClosed,
    /// Core exits to be replaced.
    UpgradeAsked {
        /// Init is to be executed anew as well.
        init: bool,
    },
    /// Everything is to be ended.
    EndAsked,
    /// Core has ended.
    Exited(Outcome),
    /// All processes have been ended for a soft reboot.
    BeginAnew,
    /// Nothing but the time.
    Tick,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start a core.
    Start(Start),
    /// Ask core for a sign of life.
    Ping,
    /// Send SIGABRT to core.
    Abort,
    /// Send SIGKILL to core.
    Kill,
    /// The program of this core works: go back to it if another does not.
    RememberProgram,
    /// Execute init's own program anew; go on if that fails.
    ExecuteInit,
    /// There never was a core, and nothing depends on init: exit.
    GiveUp,
}

/// How to start a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Which program.
    pub program: Program,
    /// Why.
    pub cause: Cause,
    /// Crashes within [`CRASH_WINDOW`].
    pub crashes: u32,
    /// Whether it must start nothing by itself.
    pub safe_mode: bool,
}

/// Which program to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The file that is now at the path that was asked for.
    AtPath,
    /// The file whose core was the last to adopt the services.
    KnownGood,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting {
        until: Duration,
        cause: Cause,
    },
    Starting {
        deadline: Duration,
    },
    Adopting {
        deadline: Duration,
    },
    Running {
        since: Duration,
        pulse: Pulse,
    },
    Leaving {
        deadline: Duration,
        init: bool,
    },
    Killing {
        kill_at: Option<Duration>,
        hung: bool,
        ran_since: Option<Duration>,
    },
    Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pulse {
    Off,
    AskAt(Duration),
    AnswerBy(Duration),
}

/// The state of the decisions about cores.
#[derive(Debug, Clone)]
pub struct Policy {
    timing: Timing,
    /// Init may exit when its core can never be started.
    may_give_up: bool,
    phase: Phase,
    crashes: CrashRecord,
    program: Program,
    /// Some core has adopted the services.
    has_known_good: bool,
    /// The program of the present core is the one that is known to work.
    runs_known_good: bool,
    ever_said_hello: bool,
}

impl Policy {
    /// Before the first core.
    pub fn new(timing: Timing, may_give_up: bool, safe_mode: bool) -> Self {
        Self {
            timing,
            may_give_up,
            phase: Phase::Waiting {
                until: Duration::ZERO,
                cause: Cause::FirstBoot,
            },
            crashes: CrashRecord {
                safe_mode,
                ..CrashRecord::default()
            },
            program: Program::AtPath,
            has_known_good: false,
            runs_known_good: false,
            ever_said_hello: false,
        }
    }

    /// After init was executed anew, which happens only between two cores, for an upgrade.
    pub fn resumed(timing: Timing, may_give_up: bool, has_known_good: bool) -> Self {
        Self {
            phase: Phase::Waiting {
                until: Duration::ZERO,
                cause: Cause::Upgrade,
            },
            has_known_good,
            ever_said_hello: true,
            ..Self::new(timing, may_give_up, false)
        }
    }

    /// When to apply [`Event::Tick`] at the latest; none if only something else can change anything.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { until, .. } => Some(until),
            Phase::Starting { deadline }
            | Phase::Adopting { deadline }
            | Phase::Leaving { deadline, .. } => Some(deadline),
            Phase::Running { pulse, .. } => match pulse {
                Pulse::Off => None,
                Pulse::AskAt(at) | Pulse::AnswerBy(at) => Some(at),
            },
            Phase::Killing { kill_at, .. } => kill_at,
            Phase::Ending => None,
        }
    }

    /// Whether exits may be reaped: not while a core finds out which processes are its services.
    pub fn may_reap(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Leaving { .. })
    }

    /// Whether there is no core to tell anything.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// Takes note of what has happened by `now`, and says what to do.
    pub fn apply(&mut self, now: Duration, event: Event) -> Option<Action> {
        match event {
            Event::Started { known_good } => {
                self.runs_known_good = known_good;
                None
            }
            Event::StartFailed => self.exited(
                now,
                Outcome {
                    raw: EXIT_NOT_EXECUTED << 8,
                },
            ),
            Event::Hello => self.hello(now),
            Event::Adopted => self.adopted(now),
            Event::Pong => self.pong(now),
            Event::LinkClosed => self.link_closed(now),
            Event::UpgradeAsked { init } => self.upgrade_asked(now, init),
            Event::EndAsked => {
                self.phase = Phase::Ending;
                None
            }
            Event::Exited(outcome) => self.exited(now, outcome),
            Event::BeginAnew => {
                self.wait(now, Cause::SoftReboot);
                None
            }
            Event::Tick => self.tick(now),
        }
    }

    fn hello(&mut self, now: Duration) -> Option<Action> {
        if matches!(self.phase, Phase::Starting { .. }) {
            self.ever_said_hello = true;
            self.phase = Phase::Adopting {
                deadline: now + self.timing.adopt,
            };
        }
        None
    }

    fn adopted(&mut self, now: Duration) -> Option<Action> {
        if !matches!(self.phase, Phase::Adopting { .. }) {
            return None;
        }
        self.has_known_good = true;
        self.runs_known_good = true;
        self.phase = Phase::Running {
            since: now,
            pulse: self.next_question(now),
        };
        Some(Action::RememberProgram)
    }

    fn pong(&mut self, now: Duration) -> Option<Action> {
        if let Phase::Running {
            since,
            pulse: Pulse::AnswerBy(_),
        } = self.phase
        {
            self.phase = Phase::Running {
                since,
                pulse: self.next_question(now),
            };
        }
        None
    }

    fn link_closed(&mut self, now: Duration) -> Option<Action> {
        let ran_since = match self.phase {
            Phase::Running { since, .. } => Some(since),
            Phase::Starting { .. } | Phase::Adopting { .. } => None,
            _ => return None,
        };
        self.phase = Phase::Killing {
            kill_at: Some(now + CLOSED_GRACE),
            hung: false,
            ran_since,
        };
        None
    }

    fn upgrade_asked(&mut self, now: Duration, init: bool) -> Option<Action> {
        if matches!(self.phase, Phase::Running { .. } | Phase::Adopting { .. }) {
            self.phase = Phase::Leaving {
                deadline: now + LEAVE_GRACE,
                init,
            };
        }
        None
    }

    fn exited(&mut self, now: Duration, outcome: Outcome) -> Option<Action> {
        match self.phase {
            Phase::Waiting { .. } | Phase::Ending => None,
            Phase::Leaving { init, .. } => {
                self.crashes = CrashRecord::default();
                self.program = Program::AtPath;
                self.wait(now, Cause::Upgrade);
                init.then_some(Action::ExecuteInit)
            }
            Phase::Starting { .. } | Phase::Adopting { .. } => {
                self.failed_to_adopt(now, Cause::Crash { outcome }, outcome)
            }
            Phase::Killing {
                ran_since, hung, ..
            } => {
                let cause = if hung {
                    Cause::Hang
                } else {
                    Cause::Crash { outcome }
                };
                match ran_since {
                    Some(since) => self.stopped_running(now, since, cause),
                    None => self.failed_to_adopt(now, cause, outcome),
                }
            }
            Phase::Running { since, .. } => {
                self.stopped_running(now, since, Cause::Crash { outcome })
            }
        }
    }

    fn failed_to_adopt(&mut self, now: Duration, cause: Cause, outcome: Outcome) -> Option<Action> {
        if self.may_give_up && !self.ever_said_hello && outcome.code() == Some(EXIT_NOT_EXECUTED) {
            self.phase = Phase::Ending;
            return Some(Action::GiveUp);
        }
        if self.has_known_good && !self.runs_known_good {
            self.program = Program::KnownGood;
            self.crashes.add(now);
            self.wait(now, Cause::RolledBack { outcome });
            return None;
        }
        self.crashed(now, cause)
    }

    fn stopped_running(&mut self, now: Duration, since: Duration, cause: Cause) -> Option<Action> {
        if now.saturating_sub(since) >= CRASH_WINDOW {
            self.crashes = CrashRecord::default();
        }
        self.crashed(now, cause)
    }

    fn crashed(&mut self, now: Duration, cause: Cause) -> Option<Action> {
        let delay = self.crashes.add(now);
        self.wait(now + delay, cause);
        None
    }

    fn wait(&mut self, until: Duration, cause: Cause) {
        self.phase = Phase::Waiting { until, cause };
    }

    fn tick(&mut self, now: Duration) -> Option<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        match self.phase {
            Phase::Waiting { cause, .. } => {
                self.phase = Phase::Starting {
                    deadline: now + self.timing.hello,
                };
                Some(Action::Start(Start {
                    program: self.program,
                    cause,
                    crashes: self.crashes.recent(now),
                    safe_mode: self.crashes.safe_mode,
                }))
            }
            Phase::Running {
                since,
                pulse: Pulse::AskAt(_),
            } => {
                self.phase = Phase::Running {
                    since,
                    pulse: Pulse::AnswerBy(now + 2 * self.timing.heartbeat),
                };
                Some(Action::Ping)
            }
            Phase::Running { since, .. } => self.abort(now, Some(since)),
            Phase::Starting { .. } | Phase::Adopting { .. } => self.abort(now, None),
            // It said that it would exit, and still is what will be upgraded.
            Phase::Leaving { init, .. } => {
                self.phase = Phase::Leaving {
                    deadline: now + LEAVE_GRACE,
                    init,
                };
                Some(Action::Kill)
            }
            Phase::Killing {
                hung, ran_since, ..
            } => {
                self.phase = Phase::Killing {
                    kill_at: None,
                    hung,
                    ran_since,
                };
                Some(Action::Kill)
            }
            Phase::Ending => None,
        }
    }

    fn abort(&mut self, now: Duration, ran_since: Option<Duration>) -> Option<Action> {
        self.phase = Phase::Killing {
            kill_at: Some(now + ABORT_GRACE),
            hung: true,
            ran_since,
        };
        Some(Action::Abort)
    }

    fn next_question(&self, now: Duration) -> Pulse {
        if self.timing.heartbeat.is_zero() {
            Pulse::Off
        } else {
            Pulse::AskAt(now + self.timing.heartbeat)
        }
    }
}

/// The crashes that matter for the next start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CrashRecord {
    /// The last ones, the newest first.
    last: [Option<Duration>; CRASHES_UNTIL_SAFE as usize],
    safe_mode: bool,
    /// Crashes since safe mode began.
    in_safe_mode: u32,
}

impl CrashRecord {
    /// Records a crash; how long to wait before the next start.
    fn add(&mut self, now: Duration) -> Duration {
        self.last.rotate_right(1);
        self.last[0] = Some(now);
        if !self.safe_mode {
            self.safe_mode = self.recent(now) >= CRASHES_UNTIL_SAFE;
            return Duration::ZERO;
        }
        let doublings = self.in_safe_mode.min(16);
        self.in_safe_mode = self.in_safe_mode.saturating_add(1);
        FIRST_DELAY
            .saturating_mul(1 << doublings)
            .min(LONGEST_DELAY)
    }

    /// How many of the last crashes lie within the window.
    fn recent(&self, now: Duration) -> u32 {
        let recent = self.last.iter().flatten();
        let count = recent
            .filter(|at| now.saturating_sub(**at) < CRASH_WINDOW)
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
