//! The device that a kernel message is about, as far as `/sys` and udev's data know it.

use std::path::{Path, PathBuf};

use crate::entry::Fields;

/// The most links to a device that are told of.
const LINKS_MAX: usize = 32;

/// Adds `_UDEV_SYSNAME=`, `_UDEV_DEVNODE=` and `_UDEV_DEVLINK=` of a device that the kernel names `b8:0`,
/// `c1:3`, `n5` or `+subsystem:name`. What is not known is left out.
pub fn device_fields(fields: &mut Fields, root: &Path, device: &[u8]) {
    let Some(device) = std::str::from_utf8(device)
        .ok()
        .filter(|name| is_plain(name))
    else {
        return;
    };
    if let Some((_, name)) = device
        .strip_prefix('+')
        .and_then(|rest| rest.split_once(':'))
    {
        fields.push("_UDEV_SYSNAME", name);
    } else if let Some(folder) = sysfs_folder(root, device) {
        let Ok(target) = std::fs::canonicalize(&folder) else {
            return;
        };
        let name = target.file_name().map(|name| name.as_encoded_bytes());
        fields.push_some("_UDEV_SYSNAME", name);
        let uevent = std::fs::read_to_string(target.join("uevent")).unwrap_or_default();
        let node = uevent
            .lines()
            .find_map(|line| line.strip_prefix("DEVNAME="));
        fields.push_some("_UDEV_DEVNODE", node.map(|node| format!("/dev/{node}")));
    }
    let data = root.join("run/udev/data").join(device);
    let data = std::fs::read_to_string(data).unwrap_or_default();
    for link in data
        .lines()
        .filter_map(|line| line.strip_prefix("S:"))
        .take(LINKS_MAX)
    {
        fields.push("_UDEV_DEVLINK", format!("/dev/{link}"));
    }
}

/// A name that stays where it is put: it becomes part of paths.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && !name.contains('/') && name != "." && name != ".."
}

fn sysfs_folder(root: &Path, device: &str) -> Option<PathBuf> {
    let number = device.get(1..)?;
    match device.as_bytes().first()? {
        b'b' => Some(root.join("sys/dev/block").join(number)),
        b'c' => Some(root.join("sys/dev/char").join(number)),
        b'n' => interface(root, number),
        _ => None,
    }
}

/// The folder of a network interface by its index.
fn interface(root: &Path, index: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root.join("sys/class/net")).ok()?;
    let has_index = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("ifindex")).is_ok_and(|text| text.trim() == index)
    };
    folders.flatten().map(|entry| entry.path()).find(has_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(device: &str) -> Vec<String> {
        let mut fields = Fields::default();
        device_fields(&mut fields, Path::new("/"), device.as_bytes());
        fields
            .iter()
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect()
    }

    #[test]
    fn devices_are_named() {
        assert_eq!(
            fields("c1:3"),
            ["_UDEV_SYSNAME=null", "_UDEV_DEVNODE=/dev/null"]
        );
        assert_eq!(fields("n1"), ["_UDEV_SYSNAME=lo"]);
        assert_eq!(fields("+pci:0000:00:01.0"), ["_UDEV_SYSNAME=0000:00:01.0"]);
    }

    #[test]
    fn names_that_lead_elsewhere_are_left_alone() {
        for device in [
            "",
            "b../../../etc",
            "..",
            "b999:999",
            "x1",
            "+none",
            "n0/..",
        ] {
            assert_eq!(fields(device), Vec::<String>::new(), "{device}");
        }
    }
}
