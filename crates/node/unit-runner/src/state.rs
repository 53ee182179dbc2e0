//! What is seen of a unit, what that means, and what of it is news. Pure.
//!
//! Both init systems tell *that* a unit changed; what it is like is read after that, and may have changed again meanwhile.
//! [`Tracker`] makes a story of these looks that leaves nothing out that matters: a restart that came and went between two
//! looks is told all the same, because restarts are counted.

use std::collections::HashMap;

use crate::spec::UnitName;

/// One look at a unit, in the properties that both init systems have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// `ActiveState`.
    pub active: String,
    /// `SubState`.
    pub sub: String,
    /// `Result`.
    pub result: String,
    /// `ExecMainCode`: 0 nothing ran, 1 exited, 2 killed, 3 dumped.
    pub main_code: i32,
    /// `ExecMainStatus`: exit status or signal.
    pub main_status: i32,
    /// `NRestarts`.
    pub restarts: u32,
    /// `MainPID`; 0 where there is none.
    pub main_pid: u32,
}

/// How a unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitState {
    /// Its command runs and it is not up yet.
    Starting,
    /// It is up.
    Running,
    /// It is being ended.
    Stopping,
    /// It has ended and will be started again.
    Restarting {
        /// How it ended.
        last: UnitEnd,
        /// How often it has ended so far, with this time.
        restarts: u32,
    },
    /// It is down and stays so.
    Ended(UnitEnd),
}

/// How a unit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitEnd {
    /// Its main process ended with this code.
    Exited(i32),
    /// Its main process was ended by this signal.
    Signalled(i32),
    /// The kernel ended it for want of memory.
    OutOfMemory,
    /// There was no main process; the init system's word for why.
    NotStarted(String),
}

/// A unit is in another state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitEvent {
    /// Which.
    pub unit: UnitName,
    /// Its state now.
    pub state: UnitState,
}

impl Observation {
    /// What is known of a unit that was told about and could not be looked at: that it was up, or on its way.
    pub(crate) fn told(active: String, sub: String) -> Self {
        let was_up = matches!(active.as_str(), "active" | "activating" | "deactivating");
        if !was_up || sub.starts_with("auto-restart") {
            return Self::default();
        }
        Self {
            active,
            sub,
            ..Self::default()
        }
    }

    /// What it means; nothing, for a unit that was made and not started yet.
    #[must_use]
    pub fn state(&self) -> Option<UnitState> {
        Some(match self.active.as_str() {
            "active" | "reloading" => UnitState::Running,
            // Both init systems count a restart when it is made, not when it becomes due.
            "activating" if self.sub.starts_with("auto-restart") => UnitState::Restarting {
                last: self.end(),
                restarts: self.restarts.saturating_add(1),
            },
            "activating" => UnitState::Starting,
            "deactivating" => UnitState::Stopping,
            "failed" => UnitState::Ended(self.end()),
            "inactive" if self.main_code != 0 => UnitState::Ended(self.end()),
            _ => return None,
        })
    }

    /// Whether it is up, coming up, or will come up again.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        matches!(
            self.state(),
            Some(UnitState::Starting | UnitState::Running | UnitState::Restarting { .. })
        )
    }

    fn end(&self) -> UnitEnd {
        match (self.result.as_str(), self.main_code) {
            ("oom-kill", _) => UnitEnd::OutOfMemory,
            (_, 1) => UnitEnd::Exited(self.main_status),
            (_, 2 | 3) => UnitEnd::Signalled(self.main_status),
            (result, _) => UnitEnd::NotStarted(result.to_owned()),
        }
    }
}

#[derive(Debug)]
struct Seen {
    state: UnitState,
    /// How many ends are known.
    ends: u32,
    /// What the init system's counter said.
    counter: u32,
    /// How many ends were known when that counter last began anew: somebody reset it, or started the unit himself.
    base: u32,
}

/// Turns looks into news. The number of ends that it tells only grows, also where the init system's counter begins anew.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    units: HashMap<UnitName, Seen>,
}

impl Tracker {
    /// A unit looks like this now; `None` if it is not there.
    pub(crate) fn look(&mut self, unit: &UnitName, look: Option<&Observation>) -> Vec<UnitEvent> {
        let event = |state| UnitEvent {
            unit: unit.clone(),
            state,
        };
        let Some(look) = look else {
            // A unit that ended well is forgotten by the init system at once; one that failed is not.
            return match self.units.remove(unit) {
                None
                | Some(Seen {
                    state: UnitState::Ended(_),
                    ..
                }) => Vec::new(),
                Some(_) => vec![event(UnitState::Ended(UnitEnd::Exited(0)))],
            };
        };
        let Some(state) = look.state() else {
            return Vec::new();
        };
        let mut news = Vec::new();
        let before = self.units.get(unit);
        let told = before.map_or(0, |seen| seen.ends);
        let waited = before.is_some_and(|it| matches!(it.state, UnitState::Restarting { .. }));
        let still_waits = waited && matches!(state, UnitState::Restarting { .. });
        let base = match before {
            // The restart that it waits for will be counted anew, and its end is known.
            Some(seen) if look.restarts < seen.counter && still_waits => {
                seen.ends.saturating_sub(1)
            }
            Some(seen) if look.restarts < seen.counter => seen.ends,
            Some(seen) => seen.base,
            None => 0,
        };
        let counter = base.saturating_add(look.restarts);
        let (state, ends) = match state {
            UnitState::Restarting { last, restarts } => {
                // While it waits, the counter may go on before the state does: that is no other end.
                let counted = if waited { look.restarts } else { restarts };
                let restarts = base.saturating_add(counted).max(told);
                (UnitState::Restarting { last, restarts }, restarts)
            }
            state => {
                if counter > told && before.is_some() {
                    news.push(event(UnitState::Restarting {
                        last: look.end(),
                        restarts: counter,
                    }));
                }
                (state, counter.max(told))
            }
        };
        if before.is_none_or(|seen| seen.state != state) || !news.is_empty() {
            news.push(event(state.clone()));
        }
        let seen = Seen {
            state,
            ends,
            counter: look.restarts,
            base,
        };
        self.units.insert(unit.clone(), seen);
        news
    }

    /// All units that there are look like this now; those that were known and are not among them are gone.
    pub(crate) fn look_at_all(&mut self, all: &[(UnitName, Observation)]) -> Vec<UnitEvent> {
        let mut gone: Vec<UnitName> = self.units.keys().cloned().collect();
        gone.retain(|unit| all.iter().all(|(other, _)| other != unit));
        gone.sort_unstable();
        let gone = gone
            .iter()
            .flat_map(|unit| self.look(unit, None))
            .collect::<Vec<_>>();
        let seen = all
            .iter()
            .flat_map(|(unit, look)| self.look(unit, Some(look)));
        gone.into_iter().chain(seen).collect()
    }
}

#[cfg(test)]
mod tests;
