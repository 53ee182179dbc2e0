//! Timers of real time: moments, stamps, jumps of the clock, changes of the time zone.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use muster_activation::timers::{
    ClockWatch, StampFolder, TimeZone, ZONE_FILE, local_zone, next_elapses,
};
use muster_engine::ids::{Clock, Time, UnitId};
use muster_engine::protocol::{DeadlineKind, Input, Severity};
use muster_engine::types::Machine;
use muster_unit_file::config::UnitKind;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::chain;
use crate::core::Core;
use crate::platform::Token;

/// Folder of the stamps, below that of the state.
const STAMPS: &str = "timers";

/// What timers need from the machine.
#[derive(Debug, Default)]
pub(super) struct TimerTable {
    clock: Option<ClockWatch>,
    zone: Option<TimeZone>,
    /// Wakes a sleeping machine.
    alarm: Option<OwnedFd>,
    /// Moments that were told. A timer that is about to stop does not answer, and must not be told for ever.
    told: HashMap<UnitId, i64>,
}

impl TimerTable {
    fn is_told(&self, unit: UnitId, at: i64) -> bool {
        self.told.get(&unit) == Some(&at)
    }
}

/// The monotonic moment of a moment of real time.
fn on_monotonic(now: Clock, real: i64) -> Time {
    let left = u64::try_from(real.saturating_sub(now.real)).unwrap_or(0);
    Time(now.monotonic.0.saturating_add(left))
}

impl Core {
    pub(super) fn compute_elapse(&mut self, unit: UnitId, after: i64) {
        self.watch_zone();
        let zone = self
            .activation
            .timers
            .zone
            .get_or_insert_with(|| local_zone(Path::new(ZONE_FILE)))
            .clone();
        let at = self
            .name_of(unit)
            .map(|name| match &self.units.config(&name).kind {
                UnitKind::Timer(timer) => next_elapses(timer, after, &zone),
                _ => Vec::new(),
            });
        let at = at.unwrap_or_default();
        self.tell(unit, Input::NextElapse { after, at });
    }

    fn stamps(&self) -> StampFolder {
        StampFolder::new(&self.options.state.join(STAMPS))
    }

    pub(super) fn read_stamp(&mut self, unit: UnitId) {
        let read = self
            .name_of(unit)
            .map(|name| self.stamps().read(name.as_str()));
        let at = match read {
            Some(Ok(at)) => at,
            Some(Err(error)) => {
                self.say(Severity::Warning, Some(unit), &chain(&error));
                None
            }
            None => None,
        };
        self.tell(unit, Input::LastStamp { at });
    }

    pub(super) fn stamp_timer(&mut self, unit: UnitId) {
        let now = self.now().real;
        let written = self
            .name_of(unit)
            .map(|name| self.stamps().write(name.as_str(), now));
        if let Some(Err(error)) = written {
            self.say(Severity::Warning, Some(unit), &chain(&error));
        }
    }

    /// The next moment of real time that a timer waits for. What they wait for is in core's memory.
    pub(super) fn next_real_moment(&self) -> Option<Time> {
        let timers = &self.activation.timers;
        let waiting = self.memory.watches.iter();
        let moments = waiting.filter_map(|(unit, watches)| {
            let (at, _) = watches.real_deadline?;
            (!timers.is_told(*unit, at)).then_some(at)
        });
        Some(on_monotonic(self.now(), moments.min()?))
    }

    /// Sets the alarm to the next moment that the machine is to be woken for.
    pub(super) fn set_alarm(&mut self, unit: UnitId) {
        self.activation.timers.told.remove(&unit);
        let moments = self.memory.watches.values();
        let next = moments
            .filter_map(|watches| watches.real_deadline)
            .filter_map(|(at, wake)| wake.then_some(at))
            .min();
        if next.is_none() && self.activation.timers.alarm.is_none() {
            return;
        }
        if self.activation.timers.alarm.is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            match timerfd_create(TimerfdClockId::RealtimeAlarm, flags) {
                Ok(alarm) => {
                    // It only has to wake us: what is due is looked up anyway.
                    let _ = self
                        .platform
                        .watch(alarm.as_fd(), Token::ClockChange, false);
                    self.activation.timers.alarm = Some(alarm);
                }
                Err(error) => {
                    let message = format!("The machine cannot be woken for timers: {error}.");
                    return self.say(Severity::Warning, None, &message);
                }
            }
        }
        let at = next.unwrap_or(0).max(0);
        let moment = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: at / 1_000_000,
                tv_nsec: at % 1_000_000 * 1000,
            },
        };
        if let Some(alarm) = &self.activation.timers.alarm {
            let _ = timerfd_settime(alarm, TimerfdTimerFlags::ABSTIME, &moment);
        }
    }

    /// Tells timers whose moment has come.
    pub(super) fn tell_elapsed(&mut self) {
        let now = self.now().real;
        let waiting = self.memory.watches.iter();
        let due: Vec<(UnitId, i64)> = waiting
            .filter_map(|(unit, watches)| Some((*unit, watches.real_deadline?.0)))
            .filter(|(unit, at)| *at <= now && !self.activation.timers.is_told(*unit, *at))
            .collect();
        for (unit, at) in due {
            self.activation.timers.told.insert(unit, at);
            self.tell(unit, Input::Deadline(DeadlineKind::Elapse));
        }
    }

    /// Watches the clock.
    pub(super) fn begin_timers(&mut self) {
        match ClockWatch::open() {
            Ok(clock) => {
                if let Err(error) = self
                    .platform
                    .watch(clock.as_fd(), Token::ClockChange, false)
                {
                    let message = format!("Jumps of the clock cannot be waited for: {error}.");
                    self.say(Severity::Warning, None, &message);
                }
                self.activation.timers.clock = Some(clock);
            }
            Err(error) => self.say(Severity::Warning, None, &chain(&error)),
        }
    }

    /// The clock was set, or the alarm has gone off.
    pub(super) fn clock_ready(&mut self) {
        if let Some(alarm) = &self.activation.timers.alarm {
            let mut expirations = [0u8; 8];
            let _ = rustix::io::read(alarm, &mut expirations);
        }
        let Some(clock) = &self.activation.timers.clock else {
            return;
        };
        match clock.clock_was_set() {
            Ok(true) => self.tell_timers(&Input::ClockChanged),
            Ok(false) => {}
            Err(error) => self.say(Severity::Warning, None, &chain(&error)),
        }
    }

    pub(super) fn zone_changed(&mut self) {
        let zone = local_zone(Path::new(ZONE_FILE));
        self.units.host_mut().zone = zone.clone();
        if self.activation.timers.zone.replace(zone.clone()) != Some(zone) {
            self.tell_timers(&Input::TimezoneChanged);
        }
    }

    fn tell_timers(&mut self, input: &Input) {
        let timers: Vec<UnitId> = self
            .engine
            .units()
            .filter(|(_, record)| matches!(record.machine, Machine::Timer(_)))
            .filter(|(_, record)| !record.active().is_down())
            .map(|(unit, _)| unit)
            .collect();
        for unit in timers {
            self.tell(unit, input.clone());
        }
    }
}
