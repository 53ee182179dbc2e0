//! Bus names of services of `Type=dbus`: one helper process knows the bus, and core reads what it says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;

use muster_engine::ids::UnitId;
use muster_engine::protocol::{Input, Severity};
use muster_exec::{ExecContext, Stream};
use muster_unit_file::config::UnitKind;
use serde::Deserialize;

use crate::core::Core;
use crate::platform::Token;

/// The helper's name, beside core's own program.
const HELPER: &str = "muster-buswatch";
/// A line of the helper is shorter than this.
const LONGEST_LINE: usize = 16 << 10;

/// Names that are watched, and the helper that watches them.
#[derive(Debug, Default)]
pub(super) struct BusTable {
    names: BTreeMap<UnitId, Box<str>>,
    helper: Option<Helper>,
}

#[derive(Debug)]
struct Helper {
    commands: File,
    reports: File,
    unread: Vec<u8>,
}

/// What the helper says about a name.
#[derive(Debug, Deserialize)]
struct Report {
    name: Box<str>,
    #[serde(default)]
    owner: Option<Box<str>>,
    #[serde(default)]
    error: Option<Box<str>>,
}

impl Core {
    /// Watches the bus name of a unit, or stops watching.
    pub(super) fn watch_bus_name(&mut self, unit: UnitId, on: bool) {
        if !on {
            if let Some(name) = self.activation.bus.names.remove(&unit) {
                // A helper that is gone watches nothing either.
                let _ = self.command(&format!("unwatch {name}"));
            }
            return;
        }
        let Some(name) = self.bus_name_of(unit) else {
            return;
        };
        self.activation.bus.names.insert(unit, name.clone());
        let watched = match self.activation.bus.helper {
            Some(_) => self.command(&format!("watch {name}")),
            None => self.start_bus_helper(),
        };
        if let Err(error) = watched {
            let message = format!("{HELPER}, which watches bus names, cannot be used: {error}.");
            self.say(Severity::Error, Some(unit), &message);
            self.tell(unit, Input::NoBus);
        }
    }

    fn bus_name_of(&mut self, unit: UnitId) -> Option<Box<str>> {
        let config = self.units.config(&self.name_of(unit)?);
        match &config.kind {
            UnitKind::Service(service) => service.bus_name.clone(),
            _ => None,
        }
    }

    /// Starts the helper, and tells it all names.
    fn start_bus_helper(&mut self) -> io::Result<()> {
        let (commands_end, commands) = io::pipe()?;
        let (reports, reports_end) = io::pipe()?;
        let program = self.options.helper(HELPER);
        let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
        let context = ExecContext {
            program: program.to_string_lossy().into(),
            argv: vec![HELPER.into()],
            environment: address
                .map(|address| format!("DBUS_SYSTEM_BUS_ADDRESS={address}").into())
                .into_iter()
                .collect(),
            stdin: Stream::Fd(0),
            stdout: Stream::Fd(1),
            ..ExecContext::default()
        };
        let ends = [commands_end.as_fd(), reports_end.as_fd()];
        self.platform.start_helper(&context, &ends)?;
        let (commands, reports) = (File::from(std::os::fd::OwnedFd::from(commands)), reports);
        let reports = File::from(std::os::fd::OwnedFd::from(reports));
        rustix::io::ioctl_fionbio(&reports, true)?;
        rustix::io::ioctl_fionbio(&commands, true)?;
        self.platform
            .watch(reports.as_fd(), Token::BusWatch, false)?;
        self.activation.bus.helper = Some(Helper {
            commands,
            reports,
            unread: Vec::new(),
        });
        let names: Vec<Box<str>> = self.activation.bus.names.values().cloned().collect();
        for name in names {
            self.command(&format!("watch {name}"))?;
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> io::Result<()> {
        let helper = self.activation.bus.helper.as_mut();
        let helper = helper.ok_or(io::ErrorKind::NotConnected)?;
        helper.commands.write_all(format!("{line}\n").as_bytes())
    }

    /// The helper said something, or ended.
    pub(super) fn bus_ready(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            let Some(helper) = &mut self.activation.bus.helper else {
                return;
            };
            match helper.reports.read(&mut bytes) {
                Ok(0) => return self.lose_bus_helper(),
                Ok(count) => helper.unread.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.lose_bus_helper(),
            }
            if helper.unread.len() > LONGEST_LINE {
                break;
            }
        }
        for report in self.take_reports() {
            self.hear_report(&report);
        }
    }

    fn take_reports(&mut self) -> Vec<Report> {
        let Some(helper) = &mut self.activation.bus.helper else {
            return Vec::new();
        };
        let end = helper.unread.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = helper
            .unread
            .drain(..end.map_or(0, |end| end + 1))
            .collect();
        whole
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    fn hear_report(&mut self, report: &Report) {
        let names = self.activation.bus.names.iter();
        let units: Vec<UnitId> = names
            .filter(|(_, name)| **name == report.name)
            .map(|(unit, _)| *unit)
            .collect();
        for unit in units {
            match &report.error {
                Some(error) => {
                    let message =
                        format!("Its bus name {} cannot be watched: {error}.", report.name);
                    self.say(Severity::Warning, Some(unit), &message);
                    self.tell(unit, Input::NoBus);
                }
                None => {
                    let owned = report.owner.is_some();
                    self.tell(unit, Input::BusName { owned });
                }
            }
        }
    }

    /// It ended. Whoever waits is told so; the next name that is to be watched starts it again, for all.
    fn lose_bus_helper(&mut self) {
        if let Some(helper) = self.activation.bus.helper.take() {
            self.platform.unwatch(helper.reports.as_fd());
        }
        let message = format!("{HELPER}, which watches bus names, ended.");
        self.say(Severity::Warning, None, &message);
        let units: Vec<UnitId> = self.activation.bus.names.keys().copied().collect();
        for unit in units {
            self.tell(unit, Input::NoBus);
        }
    }

    /// Names that were watched for a core before this one.
    pub(super) fn restore_bus_names(&mut self) {
        let watches = self.memory.watches.iter();
        let units: Vec<UnitId> = watches
            .filter(|(_, watches)| watches.bus_name)
            .map(|(unit, _)| *unit)
            .collect();
        for unit in units {
            self.watch_bus_name(unit, true);
        }
    }
}
