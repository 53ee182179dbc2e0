use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const TIME: Duration = Duration::from_secs(10);

fn unit(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn kernel_message(fields: &[&str]) -> Vec<u8> {
    fields.join("\0").into_bytes()
}

fn udev_message(properties: &[u8]) -> Vec<u8> {
    let mut message = b"libudev\0".to_vec();
    message.extend(0xfeed_cafe_u32.to_be_bytes());
    let header = 40u32;
    message.extend(header.to_ne_bytes());
    message.extend(header.to_ne_bytes());
    message.extend(u32::try_from(properties.len()).unwrap().to_ne_bytes());
    message.extend([0; 16]);
    message.extend(properties);
    message
}

#[test]
fn messages_of_kernel_and_udev_are_read() {
    let message = kernel_message(&[
        "add@/devices/x",
        "ACTION=add",
        "DEVPATH=/devices/x",
        "SUBSYSTEM=block",
        "DEVNAME=sda",
        "SEQNUM=7",
        "",
    ]);
    let event = Uevent::parse(&message).unwrap();
    assert_eq!(
        (event.action, event.device),
        (UeventAction::Add, "/devices/x")
    );
    assert_eq!(event.get("DEVNAME"), Some("sda"));
    assert_eq!(event.get("NONE"), None);
    let message = udev_message(b"ACTION=remove\0DEVPATH=/devices/y\0odd\0X=a=b\0");
    let event = Uevent::parse(&message).unwrap();
    assert_eq!(event.action, UeventAction::Remove);
    assert_eq!(event.get("X"), Some("a=b"));
}

#[test]
fn broken_messages_are_refused() {
    let good = b"ACTION=add\0DEVPATH=/devices/y\0";
    let mut short = udev_message(good);
    short.truncate(50);
    let mut foreign = udev_message(good);
    foreign[8] = 0;
    let mut far = udev_message(good);
    far[16..20].copy_from_slice(&u32::MAX.to_ne_bytes());
    let header = ParseUeventError::Header;
    let missing = |property| ParseUeventError::Missing { property };
    let many: Vec<u8> = std::iter::once(b"add@/x\0".to_vec())
        .chain((0..2000).map(|n| format!("K{n}=v\0").into_bytes()))
        .flatten()
        .collect();
    let cases: Vec<(Vec<u8>, ParseUeventError)> = vec![
        (Vec::new(), header),
        (b"no end".to_vec(), header),
        (b"no at sign\0A=b\0".to_vec(), header),
        (b"add@/x\0".to_vec(), missing("ACTION")),
        (b"add@/x\0ACTION=dance\0".to_vec(), missing("ACTION")),
        (b"add@/x\0ACTION=add\0".to_vec(), missing("DEVPATH")),
        (
            b"add@/x\0ACTION=add\0DEVPATH=/a/../b\0".to_vec(),
            missing("DEVPATH"),
        ),
        (b"add@/x\0ACTION=\xff\0".to_vec(), ParseUeventError::NotUtf8),
        (short, header),
        (foreign, header),
        (far, header),
        (many, ParseUeventError::TooLong),
        (vec![b'x'; 100_000], ParseUeventError::TooLong),
    ];
    for (message, error) in cases {
        let shown = String::from_utf8_lossy(&message[..message.len().min(40)]).into_owned();
        assert_eq!(Uevent::parse(&message), Err(error), "{shown}");
    }
}

fn properties(list: &[(&str, &str)]) -> Properties {
    list.iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

#[test]
fn devices_have_the_names_that_systemd_gives_them() {
    let disk = properties(&[
        ("SUBSYSTEM", "block"),
        ("DEVNAME", "/dev/sda1"),
        (
            "DEVLINKS",
            "/dev/disk/by-label/my-root /dev/disk/by-uuid/1 /dev/sda1",
        ),
        ("TAGS", ":systemd:other:"),
        ("SYSTEMD_ALIAS", "/dev/alias relative /sys/x"),
        ("SYSTEMD_WANTS", "a.service b@.service nonsense"),
    ]);
    let device = Device::from_properties("/sys/devices/pci/sda1", &disk, true).unwrap();
    let names: Vec<_> = device.units.iter().map(UnitName::as_str).collect();
    assert_eq!(
        names,
        [
            "sys-devices-pci-sda1.device",
            "dev-sda1.device",
            r"dev-disk-by\x2dlabel-my\x2droot.device",
            r"dev-disk-by\x2duuid-1.device",
            "dev-alias.device",
            "sys-x.device",
        ]
    );
    let wants: Vec<_> = device.wants.iter().map(UnitName::as_str).collect();
    assert_eq!(wants, ["a.service", "b@sys-devices-pci-sda1.service"]);
    // Not tagged any more, or not ready yet.
    let with = |key: &str, value: &str| {
        let mut changed = disk.clone();
        changed.insert(key.into(), value.into());
        Device::from_properties("/sys/x", &changed, true)
    };
    assert_eq!(with("CURRENT_TAGS", ":other:"), None);
    assert_eq!(with("SYSTEMD_READY", "0"), None);
    assert!(with("SYSTEMD_READY", "1").is_some());
    // Without udev the kernel's own names do.
    let link = properties(&[("SUBSYSTEM", "net"), ("INTERFACE", "eth0")]);
    assert_eq!(Device::from_properties("/sys/n", &link, true), None);
    let device = Device::from_properties("/sys/n", &link, false).unwrap();
    assert!(
        device
            .units
            .contains(&unit("sys-subsystem-net-devices-eth0.device"))
    );
    let usb = properties(&[("SUBSYSTEM", "usb")]);
    assert_eq!(Device::from_properties("/sys/u", &usb, false), None);
}

fn device(sysfs: &str, units: &[&str]) -> Device {
    Device {
        sysfs: sysfs.into(),
        units: units.iter().map(|name| unit(name)).collect(),
        wants: vec![unit("w.service")],
    }
}

fn shown(changes: &[DeviceChange]) -> Vec<String> {
    let sign = |present| if present { '+' } else { '-' };
    changes
        .iter()
        .map(|change| format!("{}{}", sign(change.present), change.unit.stem()))
        .collect()
}

#[test]
fn a_name_stays_while_anybody_claims_it() {
    let mut table = DeviceTable::default();
    let changes = table.plug(device("/sys/1", &["s1.device", "link.device"]));
    assert_eq!(shown(&changes), ["+s1", "+link"]);
    assert_eq!(changes[0].wants, [unit("w.service")]);
    assert_eq!(changes[1].wants, []);
    let changes = table.plug(device("/sys/2", &["s2.device", "link.device"]));
    assert_eq!(shown(&changes), ["+s2"]);
    // Told again, as it is: nothing is new, and nothing is wanted again.
    assert_eq!(
        table.plug(device("/sys/2", &["s2.device", "link.device"])),
        []
    );
    assert_eq!(shown(&table.unplug("/sys/1")), ["-s1"]);
    assert_eq!(table.sysfs(&unit("link.device")), Some("/sys/2"));
    let changes = table.plug(device("/sys/2", &["s2.device", "new.device"]));
    assert_eq!(shown(&changes), ["-link", "+new"]);
    assert_eq!(changes[0].wants, []);
    assert_eq!(table.unplug("/sys/none"), []);
    let changes = table.replace(vec![device("/sys/3", &["s3.device"])]);
    assert_eq!(shown(&changes), ["-s2", "-new", "+s3"]);
    assert_eq!(table.units().count(), 1);
}

#[test]
fn devices_are_listed_from_sysfs_and_from_udevs_database() {
    let dir = tempfile::tempdir().unwrap();
    let (sys, udev) = (dir.path().join("sys"), dir.path().join("udev"));
    let disk = sys.join("devices/pci/block/sda");
    let link = sys.join("devices/virtual/net/lo");
    for folder in [
        &disk,
        &link,
        &sys.join("class/block"),
        &sys.join("class/net"),
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::create_dir_all(sys.join("dev/block")).unwrap();
    fs::create_dir_all(udev.join("tags/systemd")).unwrap();
    fs::create_dir_all(udev.join("data")).unwrap();
    fs::write(disk.join("uevent"), "MAJOR=8\nMINOR=0\nDEVNAME=sda\n").unwrap();
    fs::write(link.join("uevent"), "INTERFACE=lo\nIFINDEX=1\n").unwrap();
    fs::write(link.join("ifindex"), "1\n").unwrap();
    symlink("../../devices/pci/block/sda", sys.join("class/block/sda")).unwrap();
    symlink("../../devices/virtual/net/lo", sys.join("class/net/lo")).unwrap();
    symlink("../../devices/pci/block/sda", sys.join("dev/block/8:0")).unwrap();
    symlink("../../../../class/block", disk.join("subsystem")).unwrap();
    symlink("../../../../class/net", link.join("subsystem")).unwrap();
    // A link that leads nowhere is a device that vanished.
    symlink("nowhere", sys.join("class/block/gone")).unwrap();
    let scan = DeviceScan::new(&sys, &udev);
    assert!(!scan.uses_udev());
    let mut places: Vec<_> = scan.devices().into_iter().map(|d| d.sysfs).collect();
    places.sort();
    let expected = ["/sys/devices/pci/block/sda", "/sys/devices/virtual/net/lo"];
    assert_eq!(places, expected.map(Box::from));

    fs::write(udev.join("control"), "").unwrap();
    for id in ["b8:0", "n1", "b9:9", "+usb:none", "x"] {
        fs::write(udev.join("tags/systemd").join(id), "").unwrap();
    }
    let data = "S:disk/by-id/x\nE:SYSTEMD_WANTS=a.service\nG:systemd\nQ:systemd\nV:1\nodd\n";
    fs::write(udev.join("data/b8:0"), data).unwrap();
    fs::write(udev.join("data/n1"), "G:systemd\n").unwrap();
    assert!(scan.uses_udev());
    let mut devices = scan.devices();
    devices.sort_by(|one, other| one.sysfs.cmp(&other.sysfs));
    assert_eq!(devices.len(), 2);
    assert!(
        devices[0]
            .units
            .contains(&unit(r"dev-disk-by\x2did-x.device"))
    );
    assert!(devices[0].units.contains(&unit("dev-sda.device")));
    assert_eq!(devices[0].wants, [unit("a.service")]);
}

#[test]
fn this_machines_devices_are_listed() {
    let scan = DeviceScan::default();
    if scan.uses_udev() || !Path::new("/sys/class/tty/tty").exists() {
        println!("skipped: this_machines_devices_are_listed: udev decides, or there is no /sys");
        return;
    }
    let devices = scan.devices();
    let has = |name: &str| {
        devices
            .iter()
            .any(|device| device.units.contains(&unit(name)))
    };
    assert!(has("dev-tty.device"));
    assert!(has("sys-subsystem-net-devices-lo.device"));
    assert!(
        devices
            .iter()
            .all(|device| device.sysfs.starts_with("/sys/devices/"))
    );
}

#[test]
fn the_kernel_announces_devices() {
    muster_lab::require!(Root, File("/sys/class/tty/tty/uevent"));
    let mut monitor = UeventMonitor::open(UeventSource::Kernel).unwrap();
    // The kernel announces an existing device again for whoever asks; only in the namespace that owns the machine.
    let place = fs::canonicalize("/sys/class/tty/tty").unwrap();
    if fs::write(place.join("uevent"), "add").is_err() {
        println!("skipped: the_kernel_announces_devices: cannot write to uevent files");
        return;
    }
    let sysfs = place.to_str().unwrap();
    let found = muster_lab::poll_for(TIME, "the device to be announced", || {
        match monitor.receive().unwrap() {
            Some(UeventNotice::Present(device)) if &*device.sysfs == sysfs => Some(device),
            _ => None,
        }
    });
    assert!(found.units.contains(&unit("dev-tty.device")));
    fs::write(place.join("uevent"), "remove").unwrap();
    muster_lab::poll_until(TIME, "its removal to be announced", || {
        let gone = UeventNotice::Absent {
            sysfs: sysfs.into(),
        };
        monitor.receive().unwrap() == Some(gone)
    });
    fs::write(place.join("uevent"), "add").unwrap();
    muster_lab::poll_until(TIME, "its return to be announced", || {
        matches!(monitor.receive().unwrap(), Some(UeventNotice::Present(_)))
    });
}

#[test]
fn lost_messages_are_told() {
    muster_lab::require!(Root, File("/sys/class/tty/tty/uevent"));
    let mut monitor = UeventMonitor::open(UeventSource::Kernel).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&monitor, 1).unwrap();
    if fs::write("/sys/class/tty/tty/uevent", "change").is_err() {
        println!("skipped: lost_messages_are_told: cannot write to uevent files");
        return;
    }
    for _ in 0..100 {
        fs::write("/sys/class/tty/tty/uevent", "change").unwrap();
    }
    muster_lab::poll_until(TIME, "the loss to be told", || {
        monitor.receive().unwrap() == Some(UeventNotice::Overrun)
    });
}

#[test]
fn messages_of_other_senders_are_not_believed() {
    muster_lab::require!(Root);
    let mut monitor = UeventMonitor::open(UeventSource::Kernel).unwrap();
    let mut udev = UeventMonitor::open(UeventSource::Udev).unwrap();
    let sender = UeventMonitor::open(UeventSource::Udev).unwrap();
    let sysfs = "/devices/virtual/tty/muster-test";
    let kernel = kernel_message(&[
        &format!("add@{sysfs}"),
        "ACTION=add",
        &format!("DEVPATH={sysfs}"),
        "SUBSYSTEM=tty",
        "DEVNAME=muster-test",
        "",
    ]);
    let properties = format!("ACTION=add\0DEVPATH={sysfs}\0SUBSYSTEM=tty\0TAGS=:systemd:\0");
    let group = |group| rustix::net::netlink::SocketAddrNetlink::new(0, group);
    let flags = rustix::net::SendFlags::empty();
    // Sent to the kernel's group by a process: whoever listens to the kernel must not take it.
    rustix::net::sendto(&sender, &kernel, flags, &group(1)).unwrap();
    let message = udev_message(properties.as_bytes());
    rustix::net::sendto(&sender, &message, flags, &group(2)).unwrap();
    let is_ours = |notice: &UeventNotice| matches!(notice, UeventNotice::Present(device) if device.sysfs.contains("muster-test"));
    muster_lab::poll_until(TIME, "udev's message", || {
        udev.receive()
            .unwrap()
            .is_some_and(|notice| is_ours(&notice))
    });
    while let Some(notice) = monitor.receive().unwrap() {
        assert!(!is_ours(&notice), "{notice:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        offset in any::<u32>(),
        length in any::<u32>(),
    ) {
        let _ = Uevent::parse(&bytes);
        let mut message = udev_message(&bytes);
        message[16..20].copy_from_slice(&offset.to_ne_bytes());
        message[20..24].copy_from_slice(&length.to_ne_bytes());
        let _ = Uevent::parse(&message);
    }

    /// Whatever is plugged and unplugged, the units are those of the devices that are there.
    #[test]
    fn units_are_those_of_the_devices_that_are_there(
        steps in prop::collection::vec((0..4u8, prop::collection::vec(0..5u8, 0..4), any::<bool>()), 0..20)
    ) {
        let mut table = DeviceTable::default();
        let mut model = BTreeMap::<u8, Vec<u8>>::new();
        let mut present = std::collections::BTreeSet::new();
        for (number, names, plug) in steps {
            let sysfs = format!("/sys/{number}");
            let changes = if plug {
                let mut names = names;
                names.sort_unstable();
                names.dedup();
                let units: Vec<_> = names.iter().map(|n| format!("u{n}.device")).collect();
                let units: Vec<_> = units.iter().map(String::as_str).collect();
                model.insert(number, names);
                table.plug(device(&sysfs, &units))
            } else {
                model.remove(&number);
                table.unplug(&sysfs)
            };
            for change in changes {
                let news = if change.present {
                    present.insert(change.unit)
                } else {
                    present.remove(&change.unit)
                };
                prop_assert!(news, "told twice");
            }
            let expected: std::collections::BTreeSet<_> = model
                .values()
                .flatten()
                .map(|n| unit(&format!("u{n}.device")))
                .collect();
            prop_assert_eq!(&present, &expected);
            prop_assert!(table.units().eq(expected.iter()));
        }
    }
}
