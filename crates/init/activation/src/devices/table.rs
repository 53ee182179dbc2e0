//! Devices as units that appear and vanish.

use std::collections::{BTreeMap, BTreeSet};

use muster_unit_file::name::UnitName;

use super::Device;

/// A unit whose device appeared or vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChange {
    /// The unit.
    pub unit: UnitName,
    /// Whether the device is there now.
    pub present: bool,
    /// Its place in sysfs.
    pub sysfs: Box<str>,
    /// Units to be started, now that it is there. Told with one of its units only.
    pub wants: Vec<UnitName>,
}

/// All devices that have units.
#[derive(Clone, Debug, Default)]
pub struct DeviceTable {
    devices: BTreeMap<Box<str>, Device>,
    /// Which devices a unit stands for; a link may be claimed by more than one.
    claims: BTreeMap<UnitName, BTreeSet<Box<str>>>,
}

impl DeviceTable {
    /// A device is there, or has other units now.
    pub fn plug(&mut self, device: Device) -> Vec<DeviceChange> {
        let mut changes = Vec::new();
        let sysfs = device.sysfs.clone();
        let old = self.devices.insert(sysfs.clone(), device);
        let new = &self.devices[&sysfs];
        let known = old.as_ref().map_or(&[][..], |old| &old.units);
        for unit in known.iter().filter(|unit| !new.units.contains(unit)) {
            if unclaim(&mut self.claims, unit, &sysfs) {
                changes.push(gone(unit, &sysfs));
            }
        }
        for unit in new.units.iter().filter(|unit| !known.contains(unit)) {
            let claims = self.claims.entry(unit.clone()).or_default();
            if claims.is_empty() {
                changes.push(DeviceChange {
                    unit: unit.clone(),
                    present: true,
                    sysfs: sysfs.clone(),
                    wants: Vec::new(),
                });
            }
            claims.insert(sysfs.clone());
        }
        if old.is_none()
            && let Some(first) = changes.first_mut()
        {
            first.wants = new.wants.clone();
        }
        changes
    }

    /// A device is gone.
    pub fn unplug(&mut self, sysfs: &str) -> Vec<DeviceChange> {
        let Some(device) = self.devices.remove(sysfs) else {
            return Vec::new();
        };
        let claims = &mut self.claims;
        device
            .units
            .iter()
            .filter(|unit| unclaim(claims, unit, sysfs))
            .map(|unit| gone(unit, sysfs))
            .collect()
    }

    /// Exactly these devices are there.
    pub fn replace(&mut self, devices: Vec<Device>) -> Vec<DeviceChange> {
        let listed: BTreeSet<&str> = devices.iter().map(|device| &*device.sysfs).collect();
        let vanished: Vec<Box<str>> = self
            .devices
            .keys()
            .filter(|sysfs| !listed.contains(&***sysfs))
            .cloned()
            .collect();
        let mut changes: Vec<DeviceChange> = vanished
            .iter()
            .flat_map(|sysfs| self.unplug(sysfs))
            .collect();
        changes.extend(devices.into_iter().flat_map(|device| self.plug(device)));
        changes
    }

    /// The place in sysfs of the device that a unit stands for, if it is there.
    #[must_use]
    pub fn sysfs(&self, unit: &UnitName) -> Option<&str> {
        self.claims.get(unit)?.first().map(|sysfs| &**sysfs)
    }

    /// All units whose devices are there.
    pub fn units(&self) -> impl Iterator<Item = &UnitName> {
        self.claims.keys()
    }
}

/// Gives up a claim; whether it was the last.
fn unclaim(
    claims: &mut BTreeMap<UnitName, BTreeSet<Box<str>>>,
    unit: &UnitName,
    sysfs: &str,
) -> bool {
    let Some(claimants) = claims.get_mut(unit) else {
        return false;
    };
    claimants.remove(sysfs);
    let last = claimants.is_empty();
    if last {
        claims.remove(unit);
    }
    last
}

fn gone(unit: &UnitName, sysfs: &str) -> DeviceChange {
    DeviceChange {
        unit: unit.clone(),
        present: false,
        sysfs: sysfs.into(),
        wants: Vec::new(),
    }
}
