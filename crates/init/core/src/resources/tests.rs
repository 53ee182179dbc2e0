use std::collections::HashMap;
use std::io;

use muster_cgroup::{DeviceAccess, DeviceKind, Family, FileLayout, Protocol};
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;

use super::*;

const READ: DeviceAccess = DeviceAccess {
    read: true,
    write: false,
    mknod: false,
};
const WRITE: DeviceAccess = DeviceAccess {
    read: false,
    write: true,
    mknod: false,
};

/// Devices that a test makes up.
struct Table(HashMap<&'static str, (DeviceKind, u32, u32)>);

impl DeviceNumbers for Table {
    fn node(&mut self, path: &str) -> io::Result<(DeviceKind, u32, u32)> {
        let found = self.0.get(path).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn disk(&mut self, path: &str) -> io::Result<(u32, u32)> {
        self.node(path).map(|(_, major, minor)| (major, minor))
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        match name {
            "lo" => Ok(1),
            "eth0" => Ok(2),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file_layout(&mut self) -> Result<FileLayout, String> {
        Err("the kernel has no BPF LSM".to_owned())
    }

    fn table(&mut self) -> String {
        "Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n 81 video4linux\n\n\
         Block devices:\n  7 loop\n  8 sd\n 65 sd\n"
            .to_owned()
    }
}

fn config(name: &str, lines: &str) -> UnitConfig {
    let mut fs = MemoryFs::default();
    let section = if name.ends_with(".slice") {
        "Slice"
    } else {
        "Service"
    };
    fs.write(&format!("/u/{name}"), format!("[{section}]\n{lines}\n"));
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    loader.load(&UnitName::new(name).unwrap()).config
}

fn asked_in(slices: &[&str], lines: &str) -> Asked {
    let host = Host {
        memory: 1 << 30,
        tasks: 1000,
        ..Host::default()
    };
    let above: Vec<Arc<UnitConfig>> = slices
        .iter()
        .map(|lines| Arc::new(config("a.slice", lines)))
        .collect();
    let mut numbers = Table(HashMap::from([
        ("/dev/sda", (DeviceKind::Block, 8, 0)),
        ("/dev/video0", (DeviceKind::Character, 81, 0)),
    ]));
    let service = config("x.service", lines);
    of(&service, &above, Phase::Running, &host, &mut numbers)
}

fn asked(lines: &str) -> Asked {
    asked_in(&[], lines)
}

#[test]
fn a_plain_service_has_accounts_and_the_default_number_of_tasks() {
    let asked = asked("ExecStart=/bin/true");
    let expected = Resources {
        counted: Controllers::parse("memory pids"),
        // 15 % of what the machine allows.
        tasks_max: Some(Amount::Exactly(150)),
        tasks_by_default: true,
        ..Resources::default()
    };
    assert_eq!(asked.resources, expected);
    assert!(asked.unapplied.is_empty());
}

#[test]
fn a_clock_that_is_not_there_is_missed_only_by_whoever_names_it() {
    let said = |lines| asked(lines).unapplied.len();
    assert_eq!(said("PrivateDevices=yes\nProtectClock=yes"), 0);
    assert_eq!(said("PrivateDevices=yes\nDeviceAllow=char-rtc r"), 1);
}

#[test]
fn what_takes_a_group_of_the_first_version_is_told_from_what_all_have() {
    let subsystems = |text| asked(text).resources.asks();
    assert!(subsystems("ExecStart=/bin/true").is_empty());
    assert!(subsystems("Delegate=yes\nMemoryLow=1M\nIPAccounting=yes").is_empty());
    assert_eq!(
        subsystems("CPUWeight=1\nTasksMax=5\nMemoryAccounting=yes\nIOAccounting=yes"),
        Subsystems::parse("cpu,pids,memory,blkio")
    );
    // A slice above that asks is asked for by all that are in it, also of what it counts.
    let slices = ["", "MemoryMax=1G\nCPUAccounting=yes"];
    let inside = asked_in(&slices, "ExecStart=/bin/true");
    assert_eq!(inside.resources.above, Subsystems::parse("memory,cpuacct"));
    assert!(inside.resources.asks().is_empty());
}

#[test]
fn amounts_and_shares_are_of_this_machine() {
    let resources = asked(
        "MemoryMax=50%\nMemoryHigh=infinity\nMemoryMin=1M\nTasksMax=10%\nCPUQuota=20%\nCPUQuotaPeriodSec=10ms\n\
         AllowedCPUs=0-2 5\nOOMPolicy=kill\nMemorySwapMax=0",
    )
    .resources;
    assert_eq!(resources.memory.max, Some(Amount::Exactly(1 << 29)));
    assert_eq!(resources.memory.high, Some(Amount::Infinity));
    assert_eq!(resources.memory.min, Some(Amount::Exactly(1 << 20)));
    assert_eq!(resources.memory.swap_max, Some(Amount::Exactly(0)));
    assert_eq!(resources.tasks_max, Some(Amount::Exactly(100)));
    assert_eq!(&*resources.cpus, "0-2,5");
    assert!(resources.ends_together);
    let quota = CpuQuota {
        per_second: Some(200_000),
        period: Some(10_000),
    };
    assert_eq!(resources.cpu_quota, Some(quota));
}

#[test]
fn older_settings_are_put_on_the_newer_scales() {
    let old = "CPUShares=512\nBlockIOWeight=1000\nMemoryLimit=1M\nBlockIODeviceWeight=/dev/sda 250";
    let resources = asked(old).resources;
    assert_eq!(resources.io.devices[0].1.weight, NonZeroU16::new(50));
    assert_eq!(resources.cpu_share, Some(CpuShare::Shares(512)));
    assert_eq!(resources.io.weight, NonZeroU16::new(200));
    assert_eq!(resources.memory.max, Some(Amount::Exactly(1 << 20)));
    let newer = asked("CPUShares=512\nCPUWeight=7\nMemoryLimit=1M\nMemoryMax=2M").resources;
    assert_eq!(newer.cpu_share, NonZeroU16::new(7).map(CpuShare::Weight));
    assert_eq!(newer.memory.max, Some(Amount::Exactly(2 << 20)));
}

#[test]
fn limits_of_a_device_are_gathered() {
    let asked = asked(
        "IOReadBandwidthMax=/dev/sda 1K\nIOWriteIOPSMax=/dev/sda 5\nIODeviceLatencyTargetSec=/dev/sda 25ms\n\
         IOReadBandwidthMax=/dev/gone 1",
    );
    let limits = DeviceLimits {
        read_bytes: Some(1000),
        write_operations: Some(5),
        latency: Some(25_000),
        ..DeviceLimits::default()
    };
    assert_eq!(asked.resources.io.devices, [((8, 0), limits)]);
    let said = asked.unapplied[0].to_string();
    assert!(said.starts_with("IOReadBandwidthMax: /dev/gone"), "{said}");
}

#[test]
fn slices_above_say_what_is_kept_and_what_is_the_default() {
    let slices = [
        "DisableControllers=io",
        "DefaultMemoryLow=2M\nDisableControllers=cpu",
        "DefaultMemoryLow=3M\nDefaultMemoryMin=1M",
    ];
    let resources = asked_in(&slices, "").resources;
    assert_eq!(resources.denied, Controllers::parse("io cpu"));
    assert_eq!(resources.memory.low, Some(Amount::Exactly(2 << 20)));
    assert_eq!(resources.memory.min, Some(Amount::Exactly(1 << 20)));
    let own = asked_in(&slices, "MemoryLow=4M\nDelegate=memory pids").resources;
    assert_eq!(own.memory.low, Some(Amount::Exactly(4 << 20)));
    assert_eq!(own.delegated, Controllers::parse("memory pids"));
}

#[test]
fn addresses_of_slices_count_for_services_and_slices_refuse_nothing() {
    let slices = ["IPAddressDeny=any"];
    let filter = asked_in(&slices, "IPAddressAllow=localhost")
        .resources
        .traffic
        .unwrap();
    assert!(filter.allows("127.0.0.1".parse().unwrap(), 1));
    assert!(!filter.allows("192.0.2.1".parse().unwrap(), 1));
    let host = Host::default();
    let slice = config("a.slice", "IPAddressDeny=any");
    let asked = of(
        &slice,
        &[],
        Phase::Running,
        &host,
        &mut Table(HashMap::new()),
    );
    assert_eq!(asked.resources.traffic, None);
    assert!(asked.resources.holds_units && asked.resources.tasks_max.is_none());
}

#[test]
fn who_lists_devices_gets_those_and_the_harmless_ones() {
    let listed = asked("DeviceAllow=/dev/video0 r\nDeviceAllow=block-sd rw\nDeviceAllow=/dev/gone");
    let filter = listed.resources.devices.unwrap();
    let character = |numbers, access| filter.allows(DeviceKind::Character, numbers, access);
    assert!(character((81, 0), READ) && !character((81, 0), WRITE) && !character((81, 1), READ));
    assert!(character((1, 3), WRITE) && character((136, 7), WRITE) && !character((1, 1), READ));
    for major in [8, 65] {
        assert!(filter.allows(DeviceKind::Block, (major, 3), WRITE));
    }
    assert!(!filter.allows(DeviceKind::Block, (7, 0), READ));
    let said = listed.unapplied[0].to_string();
    assert!(said.starts_with("DeviceAllow: /dev/gone"), "{said}");

    let strict = asked("DevicePolicy=strict\nDeviceAllow=char-* r").resources;
    let strict = strict.devices.unwrap();
    assert!(strict.allows(DeviceKind::Character, (1, 1), READ));
    assert!(!strict.allows(DeviceKind::Character, (1, 3), WRITE));
    assert!(asked("DevicePolicy=closed").resources.devices.is_some());
    assert!(asked("PrivateDevices=yes").resources.devices.is_some());
}

#[test]
fn devices_are_listed_by_numbers_before_they_are_there() {
    let listed = asked(
        "DevicePolicy=strict\nDeviceAllow=/dev/char/10:229 r\nDeviceAllow=/dev/block/8:16 w\n\
         DeviceAllow=char-189 r\nDeviceAllow=block-259 w\nDeviceAllow=/dev/char/10:x r\nDeviceAllow=char-189x r",
    );
    let filter = listed.resources.devices.unwrap();
    let character = |numbers| filter.allows(DeviceKind::Character, numbers, READ);
    let block = |numbers| filter.allows(DeviceKind::Block, numbers, WRITE);
    assert!(character((10, 229)) && !character((10, 230)) && !block((10, 229)));
    assert!(block((8, 16)) && !block((8, 17)));
    assert!(character((189, 7)) && block((259, 7)) && !character((259, 7)));
    let said = listed.unapplied.iter().map(ToString::to_string);
    let said: Vec<String> = said.collect();
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn ports_are_denied_unless_they_are_allowed() {
    let binds = asked("SocketBindAllow=tcp:80\nSocketBindDeny=any").resources;
    let binds = binds.binds.unwrap();
    assert!(binds.allows(Family::V6, Protocol::Tcp, 80));
    assert!(!binds.allows(Family::V4, Protocol::Udp, 80));
    assert_eq!(asked("SocketBindAllow=80").resources.binds, None);
}

#[test]
fn programs_of_others_are_asked_for_by_their_files() {
    let asked = asked(
        "BPFProgram=egress:/sys/fs/bpf/x\nIPIngressFilterPath=/sys/fs/bpf/y\nBPFProgram=egress:/sys/fs//bpf/x\n\
         IPIngressFilterPath=\nIPIngressFilterPath=/sys/fs/bpf/%n\nBPFProgram=sideways:/sys/fs/bpf/z\nBPFProgram=sysctl:z",
    );
    assert!(asked.unapplied.is_empty(), "{:?}", asked.unapplied);
    let found = asked.resources.pinned.iter();
    let found: Vec<&str> = found.map(|one| &*one.path).collect();
    assert_eq!(found, ["/sys/fs/bpf/x.service", "/sys/fs/bpf/x"]);
}

#[test]
fn while_the_machine_starts_other_values_may_hold() {
    let service = config(
        "x.service",
        "CPUWeight=10\nStartupCPUWeight=20\nIOWeight=30\nAllowedCPUs=1\nStartupAllowedCPUs=0",
    );
    let at = |phase| {
        of(
            &service,
            &[],
            phase,
            &Host::default(),
            &mut Table(HashMap::new()),
        )
        .resources
    };
    let weight = |number| NonZeroU16::new(number).map(CpuShare::Weight);
    let (startup, running) = (at(Phase::Startup), at(Phase::Running));
    assert_eq!((startup.cpu_share, &*startup.cpus), (weight(20), "0"));
    assert_eq!((running.cpu_share, &*running.cpus), (weight(10), "1"));
    assert_eq!(startup.io.weight, running.io.weight);
}

#[test]
fn interfaces_are_named_and_those_that_are_missing_too() {
    let listed = asked("RestrictNetworkInterfaces=lo eth7");
    let filter = listed.resources.traffic.unwrap();
    let peer = "192.0.2.1".parse().unwrap();
    assert!(filter.allows(peer, 1) && !filter.allows(peer, 2));
    let said = listed.unapplied[0].to_string();
    assert!(said.contains("no interface eth7"), "{said}");
    let others = asked("RestrictNetworkInterfaces=~lo").resources.traffic;
    assert!(!others.unwrap().allows(peer, 1));
    // Nobody is kept from one that is only denied before it is there.
    let open = asked("RestrictNetworkInterfaces=~eth7");
    let said = open.unapplied[0].to_string();
    assert!(said.ends_with("one that comes later is open"), "{said}");
    assert_eq!(open.closed, None);
}

#[test]
fn interfaces_of_slices_count_for_services() {
    let peer = "192.0.2.1".parse().unwrap();
    let allowed = |slices: &[&str], lines| {
        let filter = asked_in(slices, lines).resources.traffic.unwrap();
        [1, 2, 3].map(|interface| filter.allows(peer, interface))
    };
    let only = "RestrictNetworkInterfaces=lo eth0";
    let not = "RestrictNetworkInterfaces=~lo";
    assert_eq!(allowed(&["", only], ""), [true, true, false]);
    assert_eq!(allowed(&[only], not), [false, true, false]);
    assert_eq!(
        allowed(&[only, not], "IPAccounting=yes"),
        [false, true, false]
    );
    let own = "RestrictNetworkInterfaces=lo";
    assert_eq!(allowed(&[only], own), [true, false, false]);
}

/// So many networks of which none covers another, as a list is written.
fn many_networks(count: u32) -> String {
    let lines = (0..count).map(|number| {
        let [_, _, upper, lower] = number.to_be_bytes();
        format!("IPAddressDeny=10.{upper}.{lower}.0/24\n")
    });
    lines.collect()
}

#[test]
fn more_networks_than_a_filter_can_have_close_everything() {
    let fits = asked(&many_networks(2048));
    assert_eq!(fits.closed, None);
    let too_many = many_networks(2049);
    let closed = asked(&too_many);
    assert_eq!(closed.resources.traffic, Some(TrafficFilter::closed()));
    let reason = closed.closed.unwrap().to_string();
    assert!(
        reason.starts_with("IPAddressDeny: 2049 networks"),
        "{reason}"
    );
    assert!(closed.unapplied.is_empty());
    // In a slice it is the units that must not run.
    assert!(asked_in(&[&too_many], "").closed.is_some());
    let lenient = asked(&format!("{too_many}SandboxBestEffort=yes"));
    assert_eq!((lenient.closed, lenient.resources.traffic), (None, None));
    assert_eq!(lenient.unapplied.len(), 1);
    // What is too much takes nothing else with it.
    let lines = "SandboxBestEffort=yes\nRestrictNetworkInterfaces=lo\nIPAccounting=yes";
    let lenient = asked(&format!("{too_many}{lines}"));
    let only = Interfaces::Only(vec![1]);
    let rest = TrafficFilter::new(Vec::new(), Vec::new(), only, true).unwrap();
    assert_eq!(lenient.resources.traffic, Some(rest));
    assert_eq!(lenient.unapplied.len(), 1);
}

#[test]
fn sockets_belong_to_filters_of_traffic_and_of_ports() {
    for lines in [
        "IPAddressDeny=any",
        "IPAccounting=yes",
        "RestrictNetworkInterfaces=lo",
        "SocketBindDeny=any",
        "IPEgressFilterPath=/sys/fs/bpf/x",
    ] {
        assert!(
            filters_sockets(&config("x.service", lines).resources),
            "{lines}"
        );
    }
    for lines in [
        "",
        "IPAddressAllow=any",
        "SocketBindAllow=any",
        "DevicePolicy=closed",
    ] {
        assert!(
            !filters_sockets(&config("x.service", lines).resources),
            "{lines}"
        );
    }
}
