//! How an instance is started, runs, and is stopped.

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosCode, AosError, Cause};
use muster_runtime::{Ended, RunId, RunState};

use super::{Fetch, Have, Instance, NotYet, Pulse, Up};
use crate::crashes::{Crashes, Verdict};
use crate::decide::saved::Rejected;
use crate::decide::{Facts, Now, StartFault, failed};
use crate::limits::Limits;
use crate::target::Target;

/// Before something is looked for again that was not there yet; each time in vain doubles it, up to the second.
const NOT_YET_WAIT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// So often it is doubled at most.
const MOST_DOUBLINGS: u32 = 5;

impl Instance {
    pub(in crate::decide) fn begin_start(&mut self, run: RunId) -> Option<Arc<Target>> {
        let target = self.want.clone()?;
        self.not_before = None;
        self.given_up_for = None;
        self.last = Some(Arc::new(target.info.clone()));
        let facts = self.facts_of(&target);
        self.holds.clone_from(&facts.scarce);
        self.have = Have::Starting {
            target: Arc::clone(&target),
            run,
            facts,
            told: None,
        };
        Some(target)
    }

    fn facts_of(&self, target: &Arc<Target>) -> Facts {
        match &self.fetch {
            Fetch::Done {
                target: known,
                facts,
            } if known == target => facts.clone(),
            _ => Facts::unknown(),
        }
    }

    pub(in crate::decide) fn started(
        &mut self,
        run: RunId,
        result: Result<(), StartFault>,
        limits: &Limits,
        now: Now,
    ) {
        let Have::Starting {
            target,
            run: expected,
            facts,
            told,
        } = &self.have
        else {
            return;
        };
        if *expected != run {
            return;
        }
        let (target, facts, told) = (Arc::clone(target), facts.clone(), told.clone());
        let in_vain = self.not_yet.take().map_or(0, |before| before.tries);
        match result {
            Ok(()) => {
                self.adopt_up(target, run, facts, now);
                if let Some(state) = told {
                    self.told(run, state, limits, now);
                }
            }
            Err(StartFault::NotYet(fault)) => {
                self.nothing_left();
                let (first, longest) = NOT_YET_WAIT;
                let wait = first * (1 << in_vain.min(MOST_DOUBLINGS));
                self.not_before = Some(now.awake + wait.min(longest));
                let tries = in_vain + 1;
                self.not_yet = Some(NotYet { fault, tries });
            }
            Err(StartFault::Failed(fault)) => {
                self.nothing_left();
                match self.crashes.ended(1, Duration::ZERO, &facts, limits) {
                    Verdict::GoOn => {
                        self.fault = Some(fault);
                        self.not_before = Some(now.awake + facts.policy.restart_interval);
                    }
                    Verdict::GiveUp => self.give_up(&target, fault, limits, now),
                }
            }
        }
    }

    /// What it waits for may be there now.
    pub(in crate::decide) fn look_again(&mut self, now: Now) {
        if let Some(not_yet) = &mut self.not_yet {
            not_yet.tries = 0;
            self.not_before = Some(now.awake);
        }
    }

    fn nothing_left(&mut self) {
        self.have = Have::Nothing;
        self.holds.clear();
    }

    /// From now on, this runs.
    pub(in crate::decide) fn adopt_up(
        &mut self,
        target: Arc<Target>,
        run: RunId,
        facts: Facts,
        now: Now,
    ) {
        self.holds.clone_from(&facts.scarce);
        self.have = Have::Up(Up {
            target,
            run,
            pulse: Pulse::Running,
            since: now.awake,
            ends: 0,
            facts,
            given_up: None,
        });
    }

    /// Its runtime says how a run is.
    pub(in crate::decide) fn told(
        &mut self,
        run: RunId,
        state: RunState,
        limits: &Limits,
        now: Now,
    ) {
        match &mut self.have {
            Have::Starting {
                run: expected,
                told,
                ..
            } if *expected == run => *told = Some(state),
            Have::Up(up) if up.run == run && up.given_up.is_none() => match state {
                RunState::Starting => up.pulse = Pulse::Starting,
                RunState::Running => {
                    if up.pulse != Pulse::Running {
                        up.pulse = Pulse::Running;
                        up.since = now.awake;
                    }
                }
                RunState::Restarting { last, restarts } => {
                    let uptime = up.uptime(now);
                    up.pulse = Pulse::Restarting;
                    let fault = describe(&last);
                    // An end that is told twice is one, and those that nobody told in between are more.
                    let ends = restarts.saturating_sub(up.ends);
                    up.ends = up.ends.max(restarts);
                    if self.crashes.ended(ends, uptime, &up.facts, limits) == Verdict::GiveUp {
                        up.given_up = Some(fault);
                    } else {
                        self.fault = Some(fault);
                    }
                }
                RunState::Ended(last) => up.given_up = Some(describe(&last)),
            },
            _ => {}
        }
    }

    fn give_up(&mut self, target: &Arc<Target>, fault: AosError, limits: &Limits, now: Now) {
        // Not where only what was set for a while is another: there is no other version to go back to.
        let has_other = self.good.is_some() && !self.is_good(target);
        let may_go_back = has_other && self.aim.as_ref() == Some(target);
        if may_go_back {
            let message = format!(
                "version {} failed before it had run for a healthy period, the version before runs again: {}",
                target.info.version, fault.message
            );
            self.rejected = Some(Rejected {
                target: Arc::clone(target),
                fault: AosError { message, ..fault },
            });
            self.crashes = Crashes::default();
            self.fault = None;
            self.not_before = None;
            self.given_up_for = None;
        } else {
            let wait = self.crashes.give_up(limits);
            self.fault = Some(fault);
            self.not_before = Some(now.awake + wait);
            self.given_up_for = Some(wait);
        }
    }

    /// Whether nothing but a free place keeps it from being stopped.
    pub(in crate::decide) fn stop_is_due(&self, now: Now) -> bool {
        match &self.have {
            Have::Up(up) => self.must_stop(up),
            Have::Left { .. } => true,
            Have::Stuck { retry, .. } => *retry <= now.awake,
            Have::Nothing | Have::Starting { .. } | Have::Stopping { .. } => false,
        }
    }

    /// Whether a stop of it is under way that counts.
    pub(in crate::decide) fn takes_a_stop(&self, limits: &Limits, now: Now) -> bool {
        let lasts = |since: Duration| now.awake.saturating_sub(since);
        matches!(self.have, Have::Stopping { since, .. } if lasts(since) < limits.stop_patience)
    }

    pub(in crate::decide) fn begin_stop(
        &mut self,
        now: Now,
    ) -> Option<(Arc<Target>, Option<Duration>)> {
        if !self.stop_is_due(now) {
            return None;
        }
        let (target, run) = self.have.target()?;
        let (target, run) = (Arc::clone(target), run);
        let mut grace = None;
        if let Have::Up(up) = &mut self.have {
            grace = up.facts.stop_timeout;
            self.after_stop = up.given_up.take();
        }
        self.have = Have::Stopping {
            target: Arc::clone(&target),
            run,
            since: now.awake,
        };
        Some((target, grace))
    }

    pub(in crate::decide) fn must_stop(&self, up: &Up) -> bool {
        let replaced = || self.want.as_ref() != Some(&up.target) && self.is_fetched();
        up.given_up.is_some() || self.want.is_none() || replaced()
    }

    pub(in crate::decide) fn stopped(
        &mut self,
        result: Result<(), AosError>,
        limits: &Limits,
        now: Now,
    ) {
        let Have::Stopping { target, run, .. } = &self.have else {
            return;
        };
        let (target, run) = (Arc::clone(target), *run);
        match result {
            Ok(()) => {
                self.nothing_left();
                // How something ended that is not wanted any more says nothing about what comes after it.
                let fault = self.after_stop.take();
                if let Some(fault) = fault.filter(|_| self.want.as_ref() == Some(&target)) {
                    self.give_up(&target, fault, limits, now);
                }
            }
            Err(fault) => {
                self.have = Have::Stuck {
                    target,
                    run,
                    retry: now.awake + limits.first_wait,
                    fault,
                };
            }
        }
    }

    /// Why it is being stopped, if not because it is no longer wanted.
    pub(in crate::decide) fn stop_fault(&self) -> Option<&AosError> {
        self.after_stop.as_ref()
    }
}

impl Up {
    fn uptime(&self, now: Now) -> Duration {
        match self.pulse {
            Pulse::Running => now.awake.saturating_sub(self.since),
            Pulse::Starting | Pulse::Restarting => Duration::ZERO,
        }
    }
}

fn describe(last: &Ended) -> AosError {
    match last {
        Ended::Exited(code) => AosError {
            cause: Cause::Code {
                code: AosCode::Failed,
                exit_code: *code,
            },
            message: format!("its program ended with exit code {code}"),
        },
        Ended::Signalled(signal) => failed(format!("its program was ended by signal {signal}")),
        Ended::OutOfMemory => AosError::new(
            AosCode::NoMemory,
            "its program used more memory than it may and was ended",
        ),
        Ended::NotStarted(why) => failed(format!("its program could not be started: {why}")),
    }
}
