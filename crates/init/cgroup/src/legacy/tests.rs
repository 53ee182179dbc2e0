use proptest::prelude::*;

use super::*;

/// As distributions had it for years.
const MOUNTS: &str = "\
    30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n\
    31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
    32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
    33 30 0:29 / /sys/fs/cgroup/net_cls,net_prio rw - cgroup cgroup rw,net_cls,net_prio\n\
    34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct\n\
    35 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    36 30 0:32 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
    37 30 0:33 / /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n\
    38 30 0:34 /box /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
const GROUPS: &str = "\
    9:net_cls,net_prio:/\n\
    8:cpu,cpuacct:/system.slice/m.service\n\
    7:memory:/\n\
    6:freezer:/\n\
    5:pids:/\n\
    4:blkio:/box/inner\n\
    3:cpuset:/\n\
    1:name=systemd:/system.slice/m.service\n\
    0::/system.slice/m.service\n";

fn found(mounts: &str, groups: &str) -> Vec<(String, String)> {
    let places = Legacy::from_tables(mounts, groups).places;
    let rows = places.into_iter().map(|place| {
        let folder = place.folder.display().to_string();
        (place.name.into(), folder)
    });
    rows.collect()
}

fn rows<const N: usize>(rows: [(&str, &str); N]) -> Vec<(String, String)> {
    let rows = rows.map(|(name, folder)| (name.to_owned(), folder.to_owned()));
    rows.into()
}

#[test]
fn controllers_are_found_where_they_are_bound() {
    // Not what limits nothing, what is not mounted, and what cannot be written.
    let expected = rows([
        (
            "cpu,cpuacct",
            "/sys/fs/cgroup/cpu,cpuacct/system.slice/m.service",
        ),
        ("memory", "/sys/fs/cgroup/memory"),
        ("blkio", "/sys/fs/cgroup/blkio/inner"),
    ]);
    assert_eq!(found(MOUNTS, GROUPS), expected);
    let legacy = Legacy::from_tables(MOUNTS, GROUPS);
    assert_eq!(
        legacy.subsystems(),
        Subsystems::parse("cpu,cpuacct,memory,blkio")
    );
    assert_eq!(&*legacy.places[0].own, "/system.slice/m.service");
    assert_eq!(&*legacy.places[1].own, "");
}

#[test]
fn machines_without_controllers_of_the_first_version_have_none() {
    let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    assert_eq!(found(v2, "0::/\n"), []);
    // A namespace may show the groups but none of the mounts.
    assert_eq!(found(v2, GROUPS), []);
    let named = "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
    assert_eq!(found(named, "1:name=systemd:/\n0::/\n"), []);
}

#[test]
fn a_mount_that_shows_another_part_is_no_use() {
    let part = "38 30 0:34 /box /cg rw - cgroup cgroup rw,pids\n";
    assert_eq!(found(part, "4:pids:/boxer\n"), []);
    assert_eq!(found(part, "4:pids:/box\n"), rows([("pids", "/cg")]));
}

#[test]
fn a_place_that_is_named_has_the_same_place_everywhere() {
    let below = |place: &str| Legacy::below(MOUNTS, Path::new(place));
    let path = |text: &str| CgroupPath::parse(text).ok();
    assert_eq!(below("/sys/fs/cgroup/unified/demo/node"), path("demo/node"));
    assert_eq!(below("/sys/fs/cgroup/systemd"), path(""));
    assert_eq!(below("/sys/fs/cgroup/elsewhere"), None);
}

#[test]
fn sets_hold_what_was_put_in() {
    let all: Subsystems = Subsystem::ALL.into_iter().collect();
    assert_eq!(all.iter().count(), Subsystem::ALL.len());
    let two = Subsystems::parse("rw,cpu,cpuacct,net_cls");
    assert_eq!(format!("{two:?}"), "{Cpu, Cpuacct}");
    assert_eq!(all.without(two).within(two), Subsystems::NONE);
    assert!(two.contains(Subsystem::Cpu) && !two.contains(Subsystem::Pids));
}

proptest! {
    #[test]
    fn any_table_is_read(mounts in ".{0,200}", groups in ".{0,200}") {
        let legacy = Legacy::from_tables(&mounts, &groups);
        prop_assert!(legacy.places.iter().all(|place| !place.subsystems.is_empty()));
    }
}
