//! Devices by their names.

use std::io;
use std::path::Path;

use muster_cgroup::{DeviceAccess, DeviceFilter, DeviceKind, DeviceRule, FileLayout, Unapplied};
use muster_unit_file::config::{DevicePolicy, UnitConfig};
use muster_unit_file::install::glob;
use muster_unit_file::value::access::DeviceRule as Wish;
use muster_units::effective;
use rustix::fs::{FileType, major, minor, stat};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};

use super::Asked;

/// Devices that a service can hardly do without; their numbers are the same everywhere: null, zero, full, random, urandom,
/// tty, ptmx.
const HARMLESS: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
/// The first number of pseudoterminals.
const PTS: u32 = 136;

/// What numbers devices have.
pub trait DeviceNumbers {
    /// The kind and the numbers of a device's node.
    ///
    /// # Errors
    /// There is no such node.
    fn node(&mut self, path: &str) -> io::Result<(DeviceKind, u32, u32)>;
    /// The numbers of a block device, or of the one that a file lies on; of the whole disk, if that is a part of one.
    ///
    /// # Errors
    /// There is none.
    fn disk(&mut self, path: &str) -> io::Result<(u32, u32)>;
    /// The kernel's table of names and first numbers.
    fn table(&mut self) -> String;
    /// The number of a network interface.
    ///
    /// # Errors
    /// There is none of that name.
    fn interface(&mut self, name: &str) -> io::Result<u32>;
    /// Where the kernel keeps what a filter of file systems looks at.
    ///
    /// # Errors
    /// It has no place for such filters; why, for people.
    fn file_layout(&mut self) -> Result<FileLayout, String>;
}

/// Those of this machine.
#[derive(Debug)]
pub struct RealDevices;

impl DeviceNumbers for RealDevices {
    fn node(&mut self, path: &str) -> io::Result<(DeviceKind, u32, u32)> {
        let found = stat(path)?;
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::CharacterDevice => DeviceKind::Character,
            FileType::BlockDevice => DeviceKind::Block,
            _ => return Err(rustix::io::Errno::NODEV.into()),
        };
        Ok((kind, major(found.st_rdev), minor(found.st_rdev)))
    }

    fn disk(&mut self, path: &str) -> io::Result<(u32, u32)> {
        let found = stat(path)?;
        let device = match FileType::from_raw_mode(found.st_mode) {
            FileType::BlockDevice => found.st_rdev,
            _ => found.st_dev,
        };
        let (major, minor) = (major(device), minor(device));
        if major == 0 {
            return Err(rustix::io::Errno::NODEV.into());
        }
        let folder = format!("/sys/dev/block/{major}:{minor}");
        if !Path::new(&folder).join("partition").exists() {
            return Ok((major, minor));
        }
        let whole = std::fs::read_to_string(format!("{folder}/../dev"))?;
        let numbers = whole
            .trim()
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        numbers.ok_or_else(|| rustix::io::Errno::NODEV.into())
    }

    fn table(&mut self) -> String {
        std::fs::read_to_string("/proc/devices").unwrap_or_default()
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let socket = rustix::net::socket(family, kind, None)?;
        Ok(name_to_index(&socket, name)?)
    }

    fn file_layout(&mut self) -> Result<FileLayout, String> {
        muster_exec::bpf::file_layout().map_err(|error| error.to_string())
    }
}

/// The filter that a unit asks for, if it asks for one.
pub(super) fn filter(config: &UnitConfig, numbers: &mut dyn DeviceNumbers, asked: &mut Asked) {
    if !effective::restricts_devices(config) {
        return;
    }
    let mut filter = DeviceFilter::default();
    if effective::device_policy(config) != DevicePolicy::Strict {
        let all = DeviceAccess {
            read: true,
            write: true,
            mknod: true,
        };
        filter
            .rules
            .extend(HARMLESS.map(|(major, minor)| character(major, Some(minor), all)));
        let used = DeviceAccess {
            mknod: false,
            ..all
        };
        filter.rules.push(character(PTS, None, used));
    }
    for wish in effective::device_allow(config) {
        // What only follows from other settings, and is not there, is missed by nobody.
        let is_stated = config.resources.device_allow.0.contains(&wish);
        if let Err(reason) = add(&wish, numbers, &mut filter.rules)
            && is_stated
        {
            asked.unapplied.push(Unapplied {
                setting: "DeviceAllow",
                reason,
            });
        }
    }
    asked.resources.devices = Some(filter);
}

fn character(major: u32, minor: Option<u32>, access: DeviceAccess) -> DeviceRule {
    DeviceRule {
        kind: DeviceKind::Character,
        major: Some(major),
        minor,
        access,
    }
}

fn add(
    wish: &Wish,
    numbers: &mut dyn DeviceNumbers,
    rules: &mut Vec<DeviceRule>,
) -> Result<(), String> {
    let access = DeviceAccess {
        read: wish.read,
        write: wish.write,
        mknod: wish.mknod,
    };
    let class = [
        ("char-", DeviceKind::Character, "Character devices:"),
        ("block-", DeviceKind::Block, "Block devices:"),
    ];
    let class = class
        .into_iter()
        .find_map(|(prefix, kind, title)| Some((wish.device.strip_prefix(prefix)?, kind, title)));
    let Some((pattern, kind, title)) = class else {
        let node = || numbers.node(&wish.device);
        let (kind, major, minor) = by_numbers(&wish.device)
            .map_or_else(node, Ok)
            .map_err(|error| format!("{}: {error}", wish.device))?;
        rules.push(DeviceRule {
            kind,
            major: Some(major),
            minor: Some(minor),
            access,
        });
        return Ok(());
    };
    let rule = |major| DeviceRule {
        kind,
        major,
        minor: None,
        access,
    };
    if pattern == "*" {
        rules.push(rule(None));
        return Ok(());
    }
    // A driver that is loaded later is known by its number alone.
    if let Ok(major) = pattern.parse() {
        rules.push(rule(Some(major)));
        return Ok(());
    }
    let table = numbers.table();
    let majors: Vec<u32> = majors(&table, title)
        .filter(|(_, name)| glob(pattern, name))
        .map(|(major, _)| major)
        .collect();
    if majors.is_empty() {
        return Err(format!("the kernel has no devices {}", wish.device));
    }
    rules.extend(majors.into_iter().map(|major| rule(Some(major))));
    Ok(())
}

/// The device that a path such as `/dev/char/1:3` says by itself, whether or not there is a node.
fn by_numbers(path: &str) -> Option<(DeviceKind, u32, u32)> {
    let folders = [
        ("/dev/char/", DeviceKind::Character),
        ("/dev/block/", DeviceKind::Block),
    ];
    folders.into_iter().find_map(|(folder, kind)| {
        let (major, minor) = path.strip_prefix(folder)?.split_once(':')?;
        Some((kind, major.parse().ok()?, minor.parse().ok()?))
    })
}

/// First numbers and names from one part of the kernel's table.
fn majors<'t>(table: &'t str, title: &'t str) -> impl Iterator<Item = (u32, &'t str)> {
    let lines = table.lines().skip_while(move |line| *line != title).skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (major, name) = line.trim_start().split_once(' ')?;
            Some((major.parse().ok()?, name.trim()))
        })
}
