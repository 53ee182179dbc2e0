//! Devices: announced by the kernel or by udev, told to the units that wait for them.

use std::os::fd::AsFd;

use muster_activation::devices::{
    DeviceChange, DeviceScan, DeviceTable, UeventMonitor, UeventNotice, UeventSource,
};
use muster_engine::ids::UnitId;
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{ActiveState, Input, Severity};
use muster_engine::types::Machine;
use muster_unit_file::name::UnitName;

use super::chain;
use crate::core::Core;
use crate::platform::Token;

/// Messages taken before others get their turn.
const TAKEN_AT_ONCE: usize = 64;

/// Devices that are there. Units are made of those that are mentioned; the others are only known here.
#[derive(Debug, Default)]
pub(super) struct DeviceUnits {
    scan: DeviceScan,
    table: DeviceTable,
    monitor: Option<UeventMonitor>,
}

impl Core {
    /// Listens, and then looks at what is there: what comes in between is heard.
    pub(super) fn begin_devices(&mut self) {
        if !self.options.kernel_units {
            return;
        }
        let source = if self.activation.devices.scan.uses_udev() {
            UeventSource::Udev
        } else {
            UeventSource::Kernel
        };
        match UeventMonitor::open(source) {
            Ok(monitor) => {
                if let Err(error) = self.platform.watch(monitor.as_fd(), Token::Devices, false) {
                    let message = format!("Devices cannot be waited for: {error}.");
                    self.say(Severity::Warning, None, &message);
                }
                self.activation.devices.monitor = Some(monitor);
            }
            Err(error) => self.say(Severity::Warning, None, &chain(&error)),
        }
        self.scan_devices();
    }

    fn scan_devices(&mut self) {
        let devices = &mut self.activation.devices;
        let changes = devices.table.replace(devices.scan.devices());
        self.devices_changed(changes);
    }

    pub(super) fn devices_ready(&mut self) {
        for _ in 0..TAKEN_AT_ONCE {
            let Some(monitor) = &mut self.activation.devices.monitor else {
                return;
            };
            let table = &mut self.activation.devices.table;
            let changes = match monitor.receive() {
                Ok(None) => return,
                Ok(Some(UeventNotice::Present(device))) => table.plug(device),
                Ok(Some(UeventNotice::Absent { sysfs })) => table.unplug(&sysfs),
                Ok(Some(UeventNotice::Moved { from, to })) => {
                    let mut changes = table.unplug(&from);
                    changes.extend(to.map(|device| table.plug(device)).unwrap_or_default());
                    changes
                }
                Ok(Some(UeventNotice::Overrun)) => {
                    let message = "Device messages were lost; all devices are looked at again.";
                    self.say(Severity::Warning, None, message);
                    self.scan_devices();
                    continue;
                }
                Err(error) => return self.say(Severity::Error, None, &chain(&error)),
            };
            self.devices_changed(changes);
        }
    }

    fn devices_changed(&mut self, changes: Vec<DeviceChange>) {
        for change in changes {
            let present = change.present;
            if let Some(unit) = self.loaded_unit(change.unit.as_str()) {
                self.tell(unit, Input::Plugged { present });
            }
            for wanted in change.wants {
                self.want(wanted.as_str(), JobVerb::Start, JobMode::Fail);
            }
        }
    }

    /// Tells a unit that was just loaded whether its device is there.
    pub(super) fn tell_from_devices(&mut self, unit: UnitId) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        if !matches!(record.machine, Machine::Device(_)) {
            return;
        }
        let Ok(name) = UnitName::new(&record.name) else {
            return;
        };
        let present = self.activation.devices.table.sysfs(&name).is_some();
        if present != (record.active() == ActiveState::Active) {
            self.tell(unit, Input::Plugged { present });
        }
    }
}
