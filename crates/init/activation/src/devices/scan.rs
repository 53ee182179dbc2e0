//! Listing the devices that are there.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Device, Properties, SUBSYSTEMS_WITHOUT_UDEV};

/// Files of sysfs and of udev's database are a few lines long.
const MAX_FILE: u64 = 1 << 20;

/// Where devices are looked for.
#[derive(Clone, Debug)]
pub struct DeviceScan {
    sys: PathBuf,
    udev: PathBuf,
}

impl Default for DeviceScan {
    fn default() -> Self {
        Self::new(Path::new("/sys"), Path::new("/run/udev"))
    }
}

impl DeviceScan {
    /// Looks in other folders than `/sys` and `/run/udev`.
    #[must_use]
    pub fn new(sys: &Path, udev: &Path) -> Self {
        Self {
            // Devices are told apart by where their links lead, and that is without links.
            sys: sys.canonicalize().unwrap_or_else(|_| sys.to_path_buf()),
            udev: udev.to_path_buf(),
        }
    }

    /// Whether udev runs, and so decides which devices have units.
    #[must_use]
    pub fn uses_udev(&self) -> bool {
        self.udev.join("control").exists()
    }

    /// All devices that have units, in no particular order. What vanishes while it is looked at is left out.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        if self.uses_udev() {
            let ids = names_in(&self.udev.join("tags/systemd"));
            ids.iter().filter_map(|id| self.tagged(id)).collect()
        } else {
            SUBSYSTEMS_WITHOUT_UDEV
                .iter()
                .flat_map(|subsystem| {
                    let class = self.sys.join("class").join(subsystem);
                    names_in(&class)
                        .into_iter()
                        .filter_map(move |name| self.read(&class.join(name), subsystem, None))
                })
                .collect()
        }
    }

    /// The device of an id in udev's database.
    fn tagged(&self, id: &str) -> Option<Device> {
        let place = if let Some(number) = id.strip_prefix('b') {
            self.sys.join("dev/block").join(number)
        } else if let Some(number) = id.strip_prefix('c') {
            self.sys.join("dev/char").join(number)
        } else if let Some(index) = id.strip_prefix('n') {
            self.interface(index)?
        } else {
            let (subsystem, name) = id.strip_prefix('+')?.split_once(':')?;
            let of_class = self.sys.join("class").join(subsystem).join(name);
            let of_bus = self.sys.join("bus").join(subsystem).join("devices");
            if of_class.exists() {
                of_class
            } else {
                of_bus.join(name)
            }
        };
        let subsystem = fs::read_link(place.canonicalize().ok()?.join("subsystem")).ok()?;
        let subsystem = subsystem.file_name()?.to_str()?.to_owned();
        self.read(&place, &subsystem, Some(id))
    }

    fn interface(&self, index: &str) -> Option<PathBuf> {
        let class = self.sys.join("class/net");
        names_in(&class)
            .into_iter()
            .map(|name| class.join(name))
            .find(|place| read(&place.join("ifindex")).is_some_and(|found| found.trim() == index))
    }

    fn read(&self, place: &Path, subsystem: &str, id: Option<&str>) -> Option<Device> {
        let real = place.canonicalize().ok()?;
        let below = real.strip_prefix(&self.sys).ok()?;
        let sysfs = format!("/sys/{}", below.to_str()?);
        let mut properties = Properties::new();
        properties.insert("SUBSYSTEM".into(), subsystem.into());
        let assignments = read(&real.join("uevent"))?;
        for (key, value) in assignments.lines().filter_map(|line| line.split_once('=')) {
            properties.insert(key.into(), value.into());
        }
        if let Some(id) = id {
            add_from_udev(&read(&self.udev.join("data").join(id))?, &mut properties);
        }
        Device::from_properties(&sysfs, &properties, id.is_some())
    }
}

/// Adds what udev's database says: `E:KEY=value` properties, `S:` links, `G:` and `Q:` tags.
fn add_from_udev(text: &str, properties: &mut Properties) {
    let (mut links, mut tags, mut current) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        match line.split_once(':') {
            Some(("E", assignment)) => {
                if let Some((key, value)) = assignment.split_once('=') {
                    properties.insert(key.into(), value.into());
                }
            }
            Some(("S", link)) => {
                links.push_str("/dev/");
                links.push_str(link);
                links.push(' ');
            }
            Some(("G", tag)) => {
                tags.push(':');
                tags.push_str(tag);
            }
            Some(("Q", tag)) => {
                current.push(':');
                current.push_str(tag);
            }
            _ => {}
        }
    }
    let found = [
        ("DEVLINKS", links),
        ("TAGS", tags),
        ("CURRENT_TAGS", current),
    ];
    for (key, value) in found {
        if !value.is_empty() {
            properties.insert(key.into(), value.into());
        }
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn read(path: &Path) -> Option<String> {
    crate::files::read_text(path, MAX_FILE).ok()
}
