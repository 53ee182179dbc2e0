//! Warm pools: so many machines that are ready and have no work.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::state::{Halt, State};
use crate::verb::{Verb, VerbSet};

/// How large a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSize {
    /// How many are to be ready and without work.
    pub min_idle: u32,
    /// How many there may be in all, at work and stopped ones among them. Nothing is made beyond; unset is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

/// What a pool knows of one of its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<I> {
    /// Which.
    pub id: I,
    /// Where it is.
    pub state: State,
    /// A verb that is under way: one that is being stopped is not ready, though it still runs.
    pub task: Option<Verb>,
    /// It has work, or was given to somebody.
    pub taken: bool,
    /// Whether it answers, as far as anybody has tried: one that does not is replaced.
    pub reachable: bool,
    /// It was started a short while ago and did not come to run: it is not tried again yet.
    pub rests: bool,
    /// What can be asked of it.
    pub supported: VerbSet,
}

impl<I> Member<I> {
    /// Ready without work, now or soon.
    fn is_warm(&self) -> bool {
        let comes = matches!(self.task, Some(Verb::Start | Verb::Resume));
        let runs = matches!(self.state, State::Pending | State::Running);
        let leaves = self.task.is_some() && !comes && self.task != Some(Verb::Reboot);
        !self.taken && self.reachable && (comes || runs && !leaves)
    }

    /// Runs for nobody: it was replaced, and costs what it costs until it answers again or is given up.
    fn is_silent(&self) -> bool {
        !self.taken && !self.reachable && self.state == State::Running
    }

    /// Could become ready; lower is sooner.
    fn effort(&self) -> Option<u8> {
        if self.taken || self.rests || self.task.is_some() {
            return None;
        }
        match self.state {
            State::Stopped(Halt::Hibernated) if self.supported.has(Verb::Resume) => Some(0),
            State::Stopped(Halt::Off) if self.supported.has(Verb::Start) => Some(1),
            _ => None,
        }
    }
}

/// What a pool does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan<I> {
    /// These count for the minimum: they do not age, so that a timer and the pool do not work against each other.
    pub keep: Vec<I>,
    /// Stopped machines to start, those that are ready soonest first.
    pub start: Vec<I>,
    /// How many to make.
    pub make: u32,
    /// How many are missing that are not made: the maximum does not allow it, or too many do not answer.
    pub short: u32,
}

/// What to do so that the minimum is ready: start stopped machines first, then make new ones.
///
/// Those that do not answer are replaced once: with them, a pool makes at most twice its minimum. Where no machine ever answers,
/// more of them would not either.
///
/// Members are taken in the given order among equals, so the same members give the same plan.
#[must_use]
pub fn plan<I: Copy>(size: PoolSize, members: &[Member<I>]) -> PoolPlan<I> {
    let wanted = usize::try_from(size.min_idle).unwrap_or(usize::MAX);
    let mut warm: Vec<&Member<I>> = members.iter().filter(|member| member.is_warm()).collect();
    // Those that run are worth more than those that have yet to come.
    warm.sort_by_key(|member| member.state != State::Running);
    let keep: Vec<I> = warm.iter().take(wanted).map(|member| member.id).collect();

    let missing = wanted - keep.len();
    let mut asleep: Vec<(u8, I)> = members
        .iter()
        .filter_map(|member| Some((member.effort()?, member.id)))
        .collect();
    asleep.sort_by_key(|&(effort, _)| effort);
    let start: Vec<I> = asleep.iter().take(missing).map(|&(_, id)| id).collect();

    let missing = count(missing - start.len());
    let alive = members.iter().filter(|member| !member.state.is_ending());
    let room = size
        .max
        .map_or(u32::MAX, |max| max.saturating_sub(count(alive.count())));
    let silent = members.iter().filter(|member| member.is_silent()).count();
    let idle = count(keep.len() + start.len() + silent);
    let make = missing
        .min(room)
        .min(size.min_idle.saturating_mul(2).saturating_sub(idle));
    PoolPlan {
        keep,
        start,
        make,
        short: missing - make,
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
