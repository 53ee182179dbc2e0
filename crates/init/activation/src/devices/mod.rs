//! Devices: what the kernel has, what comes and goes, and which `.device` units stand for it.
//!
//! [`DeviceScan`] lists what is there, [`UeventMonitor`] tells of changes on a descriptor for the caller's event loop, and
//! [`DeviceTable`] makes both into units that appear and vanish. The three are independent: a monitor that lost events
//! ([`UeventNotice::Overrun`]) is followed by a new scan, whose difference the table gives.
//!
//! # With and without udev
//!
//! Where udev runs it has the word: a device has units if udev tagged it `systemd`, and udev's database and messages give
//! its links, `SYSTEMD_ALIAS`, `SYSTEMD_WANTS` and `SYSTEMD_READY`. Without udev the kernel is listened to, and every
//! block device, network interface and terminal has a unit.
//!
//! A device has several units: one for its place in sysfs, one for its node, one for each link and alias. They are
//! different names for the same thing and come and go together; a name that two devices claim stays until both are gone.

mod monitor;
mod scan;
mod table;
#[cfg(test)]
mod tests;
mod uevent;

use std::collections::BTreeMap;

use muster_unit_file::name::{UnitName, UnitType, escape_path};

pub use monitor::{
    OpenMonitorError, ReceiveUeventError, UeventMonitor, UeventNotice, UeventSource,
};
pub use scan::DeviceScan;
pub use table::{DeviceChange, DeviceTable};
pub use uevent::{ParseUeventError, Uevent, UeventAction};

/// Subsystems whose devices have units where there is no udev to say so.
const SUBSYSTEMS_WITHOUT_UDEV: [&str; 3] = ["block", "net", "tty"];
/// Names of one device; udev itself makes a few dozen at most.
const MAX_NAMES: usize = 1024;

/// What is known about a device, by the kernel's and udev's names for it.
pub(crate) type Properties = BTreeMap<Box<str>, Box<str>>;

/// A device and the units that stand for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its place in sysfs, as in `/sys/devices/...`.
    pub sysfs: Box<str>,
    /// Its units; the first is that of its place in sysfs.
    pub units: Vec<UnitName>,
    /// Units that are to be started when it appears.
    pub wants: Vec<UnitName>,
}

impl Device {
    /// The device that properties describe; `None` if it has no units, or is not ready yet.
    fn from_properties(sysfs: &str, properties: &Properties, udev: bool) -> Option<Self> {
        let get = |key: &str| properties.get(key).map(|value| &**value);
        let subsystem = get("SUBSYSTEM")?;
        let has_units = if udev {
            let tagged = |tags: &str| tags.split(':').any(|tag| tag == "systemd");
            get("CURRENT_TAGS")
                .or_else(|| get("TAGS"))
                .is_some_and(tagged)
        } else {
            SUBSYSTEMS_WITHOUT_UDEV.contains(&subsystem)
        };
        if !has_units || get("SYSTEMD_READY").is_some_and(|ready| ready == "0") {
            return None;
        }
        let mut paths: Vec<String> = vec![sysfs.to_owned()];
        if let Some(node) = get("DEVNAME") {
            paths.push(if node.starts_with('/') {
                node.to_owned()
            } else {
                format!("/dev/{node}")
            });
        }
        if let (false, "net", Some(name)) = (udev, subsystem, get("INTERFACE")) {
            paths.push(format!("/sys/subsystem/net/devices/{name}"));
        }
        for key in ["DEVLINKS", "SYSTEMD_ALIAS"] {
            let words = get(key).unwrap_or_default().split_whitespace();
            paths.extend(words.map(str::to_owned));
        }
        paths.truncate(MAX_NAMES);
        let mut units: Vec<UnitName> = Vec::with_capacity(paths.len());
        for path in paths
            .iter()
            .filter(|path| path.starts_with("/dev/") || path.starts_with("/sys/"))
        {
            // Paths that are too long for a name have none.
            if let Ok(unit) = UnitName::from_path(path, UnitType::Device)
                && !units.contains(&unit)
            {
                units.push(unit);
            }
        }
        let wants = get("SYSTEMD_WANTS").unwrap_or_default().split_whitespace();
        Some(Self {
            sysfs: sysfs.into(),
            wants: wants.filter_map(|name| wanted(name, sysfs)).collect(),
            units,
        })
    }
}

/// A unit that a device wants; a template stands for its instance for the device.
fn wanted(name: &str, sysfs: &str) -> Option<UnitName> {
    let unit = UnitName::new(name).ok()?;
    if unit.is_template() {
        return unit.with_instance(&escape_path(sysfs).ok()?).ok();
    }
    Some(unit)
}
