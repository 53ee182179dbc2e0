//! When a machine is put away.
//!
//! Three timers: an idle machine is stopped (or hibernated, if it can be), a stopped one is destroyed, and one past its
//! greatest lifetime is destroyed. "Stop soon, destroy later" is the first two together.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::reason::Reason;
use crate::state::State;
use crate::verb::{Verb, VerbSet};

/// What becomes of an idle machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenIdle {
    /// It is switched off.
    #[default]
    Stop,
    /// Its memory is kept; where that cannot be done with it, it is switched off.
    Hibernate,
    /// It is destroyed: nothing of it is worth keeping.
    Terminate,
}

/// The timers of a machine. None runs unless it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timers {
    /// How long a running machine may have no work.
    pub idle: Option<Duration>,
    /// What happens to it then.
    pub when_idle: WhenIdle,
    /// How long a machine may be stopped.
    pub stopped: Option<Duration>,
    /// How long it may live, counted from when it was made.
    pub lifetime: Option<Duration>,
}

/// Signs of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Sessions that are open.
    pub sessions: u32,
    /// Commands that run.
    pub commands: u32,
    /// Somebody said that the machine is in use until then.
    pub heartbeat_until: Option<Moment>,
    /// When the last work ended, as far as it was seen.
    pub last: Moment,
}

impl Work {
    /// Whether there is work now.
    #[must_use]
    pub fn is_busy(&self, now: Moment) -> bool {
        self.sessions > 0
            || self.commands > 0
            || self.heartbeat_until.is_some_and(|until| until > now)
    }

    /// Since when there is none. A heartbeat that ran out was work until then.
    fn idle_since(&self) -> Moment {
        self.heartbeat_until
            .map_or(self.last, |until| until.max(self.last))
    }
}

/// What is known about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Where it is.
    pub state: State,
    /// Since when.
    pub since: Moment,
    /// When it was made.
    pub made: Moment,
    /// Its work.
    pub work: Work,
    /// Whether it answers, as far as anybody has tried.
    pub reachable: bool,
    /// A pool counts on it being idle: it does not age.
    pub kept_warm: bool,
    /// It is a node of a Unit, whose work nobody here sees: only its lifetime ends it.
    pub is_node: bool,
    /// What can be asked of it.
    pub supported: VerbSet,
}

/// What a timer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing, unless the facts change.
    Never,
    /// Ask again then, or when the facts change.
    At(Moment),
    /// A timer ran out, but there is work: ask again when it has ended.
    Held,
    /// Do this now.
    Now(Verb, Reason),
}

impl Due {
    /// What comes first.
    fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (now @ Self::Now(..), _) | (_, now @ Self::Now(..)) => now,
            (Self::Held, _) | (_, Self::Held) => Self::Held,
            (Self::At(one), Self::At(two)) => Self::At(one.min(two)),
            (Self::Never, due) | (due, Self::Never) => due,
        }
    }
}

/// What the timers of a machine say now. The end of its life goes before its rest.
#[must_use]
pub fn due(timers: &Timers, facts: &Facts, now: Moment) -> Due {
    if facts.state.is_ending() {
        return Due::Never;
    }
    let lifetime = lifetime(timers, facts, now);
    lifetime.sooner(match facts.state {
        State::Running => idle(timers, facts, now),
        State::Stopped(_) => stopped(timers, facts, now),
        State::Pending | State::Stopping(_) | State::ShuttingDown | State::Terminated => Due::Never,
    })
}

/// At its moment, unless there is work.
fn when(at: Moment, verb: Option<Verb>, reason: Reason, facts: &Facts, now: Moment) -> Due {
    match verb {
        _ if at > now => Due::At(at),
        _ if facts.work.is_busy(now) => Due::Held,
        Some(verb) => Due::Now(verb, reason),
        None => Due::Never,
    }
}

/// Whether a machine has been idle for as long as its timer allows, and none of what the timer may do can be done with it: it
/// stays, and its owner should know.
#[must_use]
pub fn stays(timers: &Timers, facts: &Facts, now: Moment) -> bool {
    let runs = facts.state == State::Running;
    let Some((at, None)) = end_of_idling(timers, facts).filter(|_| runs) else {
        return false;
    };
    at <= now && !facts.work.is_busy(now)
}

fn first_supported(facts: &Facts, verbs: &[Verb]) -> Option<Verb> {
    let mut verbs = verbs.iter().copied();
    verbs.find(|&verb| facts.supported.has(verb))
}

fn lifetime(timers: &Timers, facts: &Facts, now: Moment) -> Due {
    let Some(longest) = timers.lifetime else {
        return Due::Never;
    };
    let verb = first_supported(facts, &[Verb::Terminate]);
    when(
        facts.made.after(longest),
        verb,
        Reason::Lifetime,
        facts,
        now,
    )
}

fn idle(timers: &Timers, facts: &Facts, now: Moment) -> Due {
    match end_of_idling(timers, facts) {
        Some((at, verb)) => when(at, verb, Reason::Idle, facts, now),
        None => Due::Never,
    }
}

/// When a machine has been idle for too long, and what can be done with it then, if anything can.
fn end_of_idling(timers: &Timers, facts: &Facts) -> Option<(Moment, Option<Verb>)> {
    let longest = timers.idle?;
    // Work inside a machine that does not answer cannot be seen; it comes back, or its lifetime ends.
    if facts.kept_warm || facts.is_node || !facts.reachable {
        return None;
    }
    let verbs: &[Verb] = match timers.when_idle {
        WhenIdle::Stop => &[Verb::Stop],
        WhenIdle::Hibernate => &[Verb::Hibernate, Verb::Stop],
        WhenIdle::Terminate => &[Verb::Terminate],
    };
    let since = facts.work.idle_since().max(facts.since);
    Some((since.after(longest), first_supported(facts, verbs)))
}

fn stopped(timers: &Timers, facts: &Facts, now: Moment) -> Due {
    let Some(longest) = timers.stopped else {
        return Due::Never;
    };
    // Its Unit still counts on it.
    if facts.is_node {
        return Due::Never;
    }
    let verb = first_supported(facts, &[Verb::Terminate]);
    when(
        facts.since.after(longest),
        verb,
        Reason::StoppedLong,
        facts,
        now,
    )
}
