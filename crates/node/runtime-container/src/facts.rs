//! Facts about the host that specifications are made from.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use muster_bundle::PlaceError;
use muster_runtime::ResourceGrant;

use crate::specification::DeviceNode;

/// Most nodes that one folder of devices may hold.
const MAX_NODES: usize = 256;

/// Whether memory can be limited together with swap: always by v2, by v1 if the kernel was told to count swap.
pub(crate) fn limits_swap() -> bool {
    let legacy = Path::new("/sys/fs/cgroup/memory");
    !legacy.is_dir() || legacy.join("memory.memsw.limit_in_bytes").exists()
}

/// Whether mounts can be changed together with those within them: since Linux 5.12.
pub(crate) fn has_mount_setattr() -> bool {
    let kernel = rustix::system::uname();
    is_at_least(&kernel.release().to_string_lossy(), (5, 12))
}

fn is_at_least(release: &str, least: (u32, u32)) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    let version = number().and_then(|major| Some((major, number()?)));
    version.is_some_and(|version| version >= least)
}

fn failed<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> PlaceError + 'a {
    move |source| PlaceError {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// The groups of the host that resources name, by `/etc/group`.
pub(crate) fn groups(resources: &[ResourceGrant]) -> HashMap<String, u32> {
    if resources.iter().all(|resource| resource.groups.is_empty()) {
        return HashMap::new();
    }
    parse_groups(&fs::read_to_string("/etc/group").unwrap_or_default())
}

fn parse_groups(text: &str) -> HashMap<String, u32> {
    let group = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().filter_map(group).collect()
}

/// The nodes that resources give; of a folder, those in it.
pub(crate) fn devices(resources: &[ResourceGrant]) -> Result<Vec<DeviceNode>, PlaceError> {
    let mut nodes = Vec::new();
    for (host, inside) in resources.iter().flat_map(|resource| &resource.devices) {
        let found = fs::metadata(host).map_err(failed("look at the device", host))?;
        if found.is_dir() {
            let entries = fs::read_dir(host).map_err(failed("list the devices in", host))?;
            for entry in entries.take(MAX_NODES) {
                let entry = entry.map_err(failed("list the devices in", host))?;
                // Folders in it (names by path and the like) hold links to the same nodes.
                if let Ok(node) = node(&entry.path(), &inside.join(entry.file_name())) {
                    nodes.push(node);
                }
            }
        } else {
            nodes.push(node(host, inside).map_err(failed("use the device", host))?);
        }
    }
    nodes.sort_by(|one, other| one.path.cmp(&other.path));
    nodes.dedup_by(|one, other| one.path == other.path);
    Ok(nodes)
}

fn node(host: &Path, inside: &Path) -> io::Result<DeviceNode> {
    let found = fs::metadata(host)?;
    let kind = found.file_type();
    if !kind.is_char_device() && !kind.is_block_device() {
        return Err(io::Error::other("it is no device"));
    }
    Ok(DeviceNode {
        path: PathBuf::from(inside),
        is_block: kind.is_block_device(),
        major: rustix::fs::major(found.rdev()),
        minor: rustix::fs::minor(found.rdev()),
        mode: found.mode() & 0o777,
        uid: found.uid(),
        gid: found.gid(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_the_host_writes_them() {
        let groups = parse_groups("root:x:0:\nvideo:x:44:alice,bob\nbroken\nodd:x:many:\n");
        assert_eq!(
            groups,
            HashMap::from([("root".to_owned(), 0), ("video".to_owned(), 44)])
        );
    }

    #[test]
    fn kernels_are_told_apart_by_their_first_two_numbers() {
        for (release, is_new) in [
            ("5.12.0", true),
            ("5.12-rc1", true),
            ("6.1.0-18-amd64", true),
            ("5.4.0-1-cloud", false),
            ("4.19", false),
            ("odd", false),
        ] {
            assert_eq!(is_at_least(release, (5, 12)), is_new, "{release}");
        }
    }

    #[test]
    fn a_device_has_its_hosts_numbers_and_a_file_is_none() {
        let grant = |host: &str| ResourceGrant {
            name: "r".into(),
            devices: vec![(host.into(), "/dev/inside".into())],
            ..ResourceGrant::default()
        };
        let nodes = devices(&[grant("/dev/null"), grant("/dev/null")]).unwrap();
        assert_eq!(nodes.len(), 1);
        assert_eq!(
            (nodes[0].major, nodes[0].minor, nodes[0].is_block),
            (1, 3, false)
        );
        assert_eq!(nodes[0].path, Path::new("/dev/inside"));
        let host = fs::metadata("/dev/null").unwrap();
        assert_eq!((nodes[0].uid, nodes[0].gid), (host.uid(), host.gid()));
        for other in ["/etc/passwd", "/nowhere"] {
            assert_eq!(devices(&[grant(other)]).unwrap_err().path, Path::new(other));
        }
    }
}
