mod fake;
mod images;
mod links;
mod objects;
mod properties;
mod world;

use self::fake::Fake;
use crate::{
    Action, Bind, Change, Folders, Fresh, Origin, Place, Plan, PlanError, PointKind, ProcOthers,
    ProtectHome, ProtectSystem, Root, Temporary, Tolerance, Tree, View, plan,
};

fn place(path: &str) -> Place {
    let (path, optional) = path
        .strip_prefix('-')
        .map_or((path, false), |path| (path, true));
    let (path, in_root) = path
        .strip_prefix('+')
        .map_or((path, false), |path| (path, true));
    Place {
        path: path.into(),
        optional,
        in_root,
    }
}

fn places(paths: &[&str]) -> Vec<Place> {
    paths.iter().copied().map(place).collect()
}

fn bind(source: &str, destination: &str) -> Bind {
    Bind {
        source: source.into(),
        destination: destination.into(),
        read_only: false,
        recursive: true,
        optional: false,
    }
}

fn temporary(path: &str, options: &str) -> Temporary {
    Temporary {
        path: path.into(),
        options: options.into(),
    }
}

/// A Debian with merged `/usr`.
fn debian() -> Fake {
    Fake::new(&[
        "/bin -> usr/bin",
        "/lib -> usr/lib",
        "/sbin -> usr/sbin",
        "/usr/bin/sh",
        "/usr/lib/modules/",
        "/usr/sbin/",
        "/etc/passwd",
        "/home/ada/notes",
        "/root/",
        "/boot/",
        "/dev/!",
        "/dev/kmsg",
        "/dev/null",
        "/dev/pts/!",
        "/dev/shm/!",
        "/proc/!",
        "/proc/sys/kernel/",
        "/proc/kcore",
        "/proc/kmsg",
        "/sys/!",
        "/sys/fs/cgroup/!",
        "/run/!",
        "/run/user/",
        "/run/credentials/a.service/",
        "/run/credentials/b.service/",
        "/srv/a/b/c/",
        "/srv/file",
        "/tmp/",
        "/var/lib/x/",
        "/var/lib/private/dyn/",
        "/var/lib/dyn -> private/dyn",
        "/var/tmp/",
    ])
}

/// Steps as texts, short enough to compare.
fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| show(&step.action)).collect()
}

fn show(action: &Action) -> String {
    match action {
        Action::Create { tree, point } => {
            let slash = if point.kind == PointKind::Folder {
                "/"
            } else {
                ""
            };
            format!("create {tree:?} {}{slash}", point.path)
        }
        Action::Copy {
            slot,
            origin,
            recursive,
            change,
        } => {
            let origin = match origin {
                Origin::Tree(Tree::Machine, path) => path.to_string(),
                Origin::Tree(Tree::Root, path) => format!("root:{path}"),
                Origin::Tree(Tree::Image(number), path) => format!("image{number}:{path}"),
                Origin::Tree(Tree::Extended(hierarchy), path) => format!("{hierarchy:?}:{path}"),
                Origin::View(path) => format!("view:{path}"),
                Origin::Objects => "objects".to_owned(),
            };
            let recursive = if *recursive { "" } else { " alone" };
            format!(
                "{} = copy {origin}{recursive}{}",
                slot.0,
                show_change(*change)
            )
        }
        Action::Make {
            slot,
            fresh,
            points,
            change,
        } => {
            let fresh = match fresh {
                Fresh::Devices => "devices".to_owned(),
                Fresh::Processes { .. } => "processes".to_owned(),
                Fresh::Queues => "queues".to_owned(),
                Fresh::Groups => "groups".to_owned(),
                Fresh::Memory(options) => {
                    let value = |(name, value): &(Box<str>, Option<Box<str>>)| {
                        value
                            .as_ref()
                            .map_or(name.to_string(), |value| format!("{name}={value}"))
                    };
                    let parameters: Vec<_> = options.parameters.iter().map(value).collect();
                    format!("memory({})", parameters.join(","))
                }
            };
            let points: Vec<_> = points.iter().map(|point| &*point.path).collect();
            format!("{} = {fresh}{points:?}{}", slot.0, show_change(*change))
        }
        Action::Attach { slot, at } => format!("{at} <- {}", slot.0),
        Action::Change { at, change } => format!("{at}{}", show_change(*change)),
        Action::Hide { at } => format!("hide {at}"),
    }
}

fn show_change(change: Change) -> String {
    let read_only = match change.read_only {
        Some(true) => " ro",
        Some(false) => " rw",
        None => "",
    };
    let exec = match change.exec {
        Some(true) => " exec",
        Some(false) => " noexec",
        None => "",
    };
    let plain = if change.plain { " plain" } else { "" };
    format!("{read_only}{exec}{plain}")
}

fn planned(view: &View) -> Vec<String> {
    steps(&plan(view, &debian()).expect("a plan"))
}

#[test]
fn an_empty_view_needs_nothing() {
    assert_eq!(planned(&View::default()), [""; 0]);
}

#[test]
fn read_write_inside_read_only_is_a_copy_from_before() {
    let view = View {
        read_only: places(&["/srv", "/srv/a/b/c"]),
        read_write: places(&["/srv/a"]),
        ..View::default()
    };
    let expected = [
        "1 = copy /srv/a",
        "2 = copy /srv/a/b/c ro",
        "0 = copy /srv ro",
        "/srv <- 0",
        "/srv/a <- 1",
        "/srv/a/b/c <- 2",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn what_is_a_mount_already_changes_in_place() {
    let view = View {
        read_only: places(&["/run", "/srv"]),
        ..View::default()
    };
    assert_eq!(planned(&view), ["/run ro", "0 = copy /srv ro", "/srv <- 0"]);
}

#[test]
fn entries_that_repeat_their_parent_vanish() {
    let view = View {
        read_only: places(&["/srv", "/srv/a", "/srv/a/b/c", "/srv"]),
        read_write: places(&["/var"]),
        ..View::default()
    };
    assert_eq!(planned(&view), ["0 = copy /srv ro", "/srv <- 0"]);
}

#[test]
fn nothing_is_done_below_what_is_hidden() {
    let view = View {
        inaccessible: places(&["/srv/a"]),
        read_only: places(&["/srv/a", "/srv/a/b"]),
        binds: vec![bind("/etc", "/srv/a/b/c")],
        ..View::default()
    };
    assert_eq!(planned(&view), ["hide /srv/a"]);
}

#[test]
fn read_only_beats_read_write_at_the_same_path() {
    let view = View {
        read_only: places(&["/srv/"]),
        read_write: places(&["/srv"]),
        ..View::default()
    };
    assert_eq!(planned(&view), ["0 = copy /srv ro", "/srv <- 0"]);
}

#[test]
fn writing_and_executing_are_two_questions() {
    let view = View {
        no_exec: places(&["/"]),
        exec: places(&["/usr"]),
        read_only: places(&["/usr/bin"]),
        binds: vec![bind("/srv/a", "/opt/a")],
        ..View::default()
    };
    let expected = [
        "create Machine /opt/a/",
        "0 = copy /srv/a noexec",
        "1 = copy /usr exec",
        "2 = copy /usr/bin ro exec",
        "/ noexec",
        "/opt/a <- 0",
        "/usr <- 1",
        "/usr/bin <- 2",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn a_missing_path_matters_unless_it_is_optional() {
    let view = View {
        read_only: places(&["-/nothing"]),
        ..View::default()
    };
    assert_eq!(planned(&view), [""; 0]);
    let view = View {
        read_only: places(&["/nothing"]),
        ..View::default()
    };
    let error = plan(&view, &debian()).expect_err("nothing is there");
    assert_eq!(error.errno(), 2);
    assert_eq!(error.to_string(), "ReadOnlyPaths: /nothing does not exist");
}

#[test]
fn protections_stand_for_their_paths() {
    let view = View {
        protect_system: ProtectSystem::Full,
        protect_home: ProtectHome::Yes,
        protect_kernel_modules: true,
        protect_kernel_logs: true,
        protect_control_groups: true,
        ..View::default()
    };
    let expected = [
        "0 = copy /boot ro",
        "/boot <- 0",
        "hide /dev/kmsg",
        "1 = copy /etc ro",
        "/etc <- 1",
        "hide /home",
        "hide /proc/kmsg",
        "hide /root",
        "hide /run/user",
        "/sys/fs/cgroup ro",
        "2 = copy /usr ro",
        "/usr <- 2",
        "hide /usr/lib/modules",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn strict_leaves_kernel_and_homes_to_others() {
    let view = View {
        protect_system: ProtectSystem::Strict,
        protect_kernel_tunables: true,
        protect_home: ProtectHome::ReadOnly,
        own_folders: vec!["/var/lib/x".into()],
        private_tmp: Some(Folders {
            tmp: "/srv/a".into(),
            var_tmp: "/srv/a/b".into(),
        }),
        ..View::default()
    };
    let expected = [
        "0 = copy /dev",
        "1 = copy /proc",
        "2 = copy /proc/sys ro",
        "3 = copy /sys/fs/cgroup",
        "4 = copy /srv/a alone",
        "5 = copy /var/lib/x",
        "6 = copy /srv/a/b alone",
        "/ ro",
        "/dev <- 0",
        "/proc <- 1",
        "hide /proc/kcore",
        "/proc/sys <- 2",
        "/sys/fs/cgroup <- 3",
        "/tmp <- 4",
        "/var/lib/x <- 5",
        "/var/tmp <- 6",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn empty_homes_keep_what_is_bound_into_them() {
    let view = View {
        protect_home: ProtectHome::Tmpfs,
        binds: vec![bind("/home/ada/notes", "/home/ada/notes")],
        ..View::default()
    };
    let expected = [
        "1 = copy /home/ada/notes",
        "0 = memory(mode=0755,size=4m,nr_inodes=1k)[\"ada/notes\"] ro",
        "/home <- 0",
        "/home/ada/notes <- 1",
        "2 = memory(mode=0700,size=4m,nr_inodes=1k)[] ro",
        "/root <- 2",
        "3 = memory(mode=0755,size=4m,nr_inodes=1k)[] ro",
        "/run/user <- 3",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn a_root_of_memory_holds_only_what_is_bound() {
    let view = View {
        temporary: vec![temporary("/", "ro,size=1M")],
        binds: vec![bind("/usr", "/usr"), bind("/srv/file", "/f")],
        ..View::default()
    };
    let expected = [
        "1 = copy /srv/file",
        "2 = copy /usr",
        "0 = memory(mode=0755,size=1M,nr_inodes=400k)[\"f\", \"usr\"] ro",
        "/ <- 0",
        "/f <- 1",
        "/usr <- 2",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn rules_reach_into_what_is_bound() {
    let view = View {
        binds: vec![bind("/srv/a", "/mnt")],
        read_only: places(&["/mnt/b"]),
        read_write: places(&["/mnt/b/c"]),
        ..View::default()
    };
    let expected = [
        "create Machine /mnt/",
        "1 = copy /srv/a/b ro",
        "2 = copy /srv/a/b/c",
        "0 = copy /srv/a",
        "/mnt <- 0",
        "/mnt/b <- 1",
        "/mnt/b/c <- 2",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn rules_in_fresh_processes_are_seen_to_when_they_are_there() {
    let view = View {
        others_processes: ProcOthers::Invisible,
        protect_kernel_tunables: true,
        ..View::default()
    };
    let plan = plan(&view, &debian()).expect("a plan");
    let texts = steps(&plan);
    assert!(texts.contains(&"hide /proc/kallsyms".to_owned()));
    let copies = |text: &String| text.contains("copy view:/proc/sys ro");
    assert!(texts.iter().any(copies), "{texts:?}");
    let make = plan
        .steps
        .iter()
        .find(|step| matches!(step.action, Action::Make { .. }));
    assert_eq!(make.map(|step| step.tolerance), Some(Tolerance::Refusal));
}

#[test]
fn devices_of_its_own_hold_the_machines_pseudo_terminals() {
    let view = View {
        private_devices: true,
        protect_kernel_logs: true,
        inaccessible: places(&["/dev/null", "-/dev/kvm"]),
        ..View::default()
    };
    let expected = [
        "1 = copy /dev/pts alone",
        "2 = copy /dev/shm alone",
        "0 = devices[\"null\", \"pts\", \"shm\"] ro",
        "/dev <- 0",
        "hide /dev/null",
        "/dev/pts <- 1",
        "/dev/shm <- 2",
        "hide /proc/kmsg",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn queues_of_its_own_are_shown_where_queues_are() {
    let mut view = View {
        own_queues: true,
        ..View::default()
    };
    assert_eq!(planned(&view), [""; 0]);
    view.private_devices = true;
    let expected = [
        "2 = copy /dev/pts alone",
        "3 = copy /dev/shm alone",
        "0 = devices[\"mqueue\", \"pts\", \"shm\"] ro",
        "/dev <- 0",
        "1 = queues[]",
        "/dev/mqueue <- 1",
        "/dev/pts <- 2",
        "/dev/shm <- 3",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn groups_of_its_own_stand_where_those_of_all_would() {
    let mut view = View {
        own_groups: true,
        protect_kernel_tunables: true,
        ..View::default()
    };
    let of_groups = |view: &View| {
        let steps = planned(view).into_iter();
        let steps = steps.filter(|step| step.contains("groups") || step.contains("cgroup"));
        steps.collect::<Vec<_>>()
    };
    assert_eq!(of_groups(&view), ["1 = groups[]", "/sys/fs/cgroup <- 1"]);
    view.protect_control_groups = true;
    assert_eq!(of_groups(&view), ["1 = groups[] ro", "/sys/fs/cgroup <- 1"]);
}

#[test]
fn a_bind_of_the_unit_goes_before_its_own_folder() {
    let machine = debian().with_root(&["/var/lib/"]);
    let view = View {
        root: Some(Root::Folder("/srv/a".into())),
        binds: vec![bind("/var/lib/private/dyn", "/var/lib/public")],
        own_folders: vec!["/var/lib/public".into()],
        ..View::default()
    };
    let expected = [
        "create Root /var/lib/public/",
        "0 = copy /var/lib/private/dyn",
        "/var/lib/public <- 0",
    ];
    assert_eq!(steps(&plan(&view, &machine).expect("a plan")), expected);
}

#[test]
fn folders_that_are_bound_plainly_bring_no_devices_but_devices_do() {
    let view = View {
        root: Some(Root::Folder("/srv/a".into())),
        plain: true,
        binds: vec![
            bind("/srv/a", "/a"),
            bind("/srv/file", "/f"),
            bind("/dev", "/devices"),
            bind("/dev/kmsg", "/k"),
        ],
        ..View::default()
    };
    let machine = debian().with_root(&["/a/", "/devices/", "/f", "/k"]);
    let expected = [
        "0 = copy /srv/a plain",
        "/a <- 0",
        "1 = copy /dev",
        "/devices <- 1",
        "2 = copy /srv/file",
        "/f <- 2",
        "3 = copy /dev/kmsg",
        "/k <- 3",
    ];
    assert_eq!(steps(&plan(&view, &machine).expect("a plan")), expected);
}

#[test]
fn nothing_is_made_in_what_is_bound_read_only_into_another_root() {
    let with = |read_only| View {
        root: Some(Root::Folder("/srv/a".into())),
        binds: vec![
            Bind {
                read_only,
                ..bind("/etc", "/etc")
            },
            bind("/srv/file", "/etc/new"),
            bind("/srv/file", "/etc/passwd"),
        ],
        ..View::default()
    };
    let machine = debian().with_root(&["/etc/"]);
    let made = |view: &View| {
        let steps = steps(&plan(view, &machine).expect("a plan"));
        steps.into_iter().filter(|step| step.starts_with("create"))
    };
    assert_eq!(made(&with(true)).count(), 0);
    let made: Vec<_> = made(&with(false)).collect();
    assert_eq!(made, ["create Machine /etc/new"]);
}

#[test]
fn of_several_things_at_one_place_one_is_left() {
    let view = View {
        private_tmp: Some(Folders {
            tmp: "/srv/a".into(),
            var_tmp: "/srv/a/b".into(),
        }),
        temporary: vec![temporary("/tmp", ""), temporary("/var/tmp", "ro")],
        binds: vec![bind("/srv/a/b/c", "/var/tmp")],
        ..View::default()
    };
    let expected = [
        "0 = copy /srv/a alone",
        "/tmp <- 0",
        "1 = copy /srv/a/b/c ro",
        "/var/tmp <- 1",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn credentials_of_others_are_not_seen() {
    let mut view = View {
        all_credentials: Some("/run/credentials".into()),
        ..View::default()
    };
    assert_eq!(planned(&view), ["hide /run/credentials"]);
    view.credentials = Some("/run/credentials/a.service".into());
    let expected = [
        "1 = copy /run/credentials/a.service alone ro",
        "0 = memory(mode=0755,size=4m,nr_inodes=1k)[\"a.service\"] ro",
        "/run/credentials <- 0",
        "/run/credentials/a.service <- 1",
    ];
    assert_eq!(planned(&view), expected);
}

#[test]
fn a_dynamic_users_folder_is_alone_among_private_ones() {
    let view = View {
        protect_system: ProtectSystem::Strict,
        own_folders: vec!["/var/lib/dyn".into()],
        ..View::default()
    };
    let steps = planned(&view);
    let memory = "memory(mode=0755,size=4m,nr_inodes=1k)[\"dyn\"] ro";
    assert!(steps.iter().any(|step| step.ends_with(memory)), "{steps:?}");
    assert!(
        steps
            .iter()
            .any(|step| step.starts_with("/var/lib/private/dyn <- "))
    );
}

#[test]
fn in_another_root_plain_paths_are_the_machines() {
    let machine = debian().with_root(&[
        "/etc/",
        "/usr/",
        "/var/lib/",
        "/proc/",
        "/sys/",
        "/dev/",
        "/run/",
    ]);
    let view = View {
        root: Some(Root::Folder("/srv/a".into())),
        kernel_file_systems: true,
        read_only: places(&["/etc", "/srv/a/etc", "+/usr"]),
        own_folders: vec!["/var/lib/x".into()],
        ..View::default()
    };
    let expected = [
        "create Root /var/lib/x/",
        "0 = copy /dev",
        "/dev <- 0",
        "1 = copy root:/etc ro",
        "/etc <- 1",
        "2 = processes[]",
        "/proc <- 2",
        "3 = memory(mode=0755,size=20%,nr_inodes=800k)[]",
        "/run <- 3",
        "4 = copy /sys",
        "/sys <- 4",
        "5 = copy root:/usr ro",
        "/usr <- 5",
        "6 = copy /var/lib/x",
        "/var/lib/x <- 6",
    ];
    assert_eq!(steps(&plan(&view, &machine).expect("a plan")), expected);
}

#[test]
fn symlinks_never_lead_out_of_the_root() {
    let machine = Fake::new(&["/secret/"]).with_root(&[
        "/a -> ../../../secret",
        "/b -> /c/d",
        "/c -> .",
        "/d/",
        "/loop -> loop",
        "/secret/",
    ]);
    let root = Some(Root::Folder("/image".into()));
    let view = View {
        root: root.clone(),
        read_only: places(&["+/a", "+/b"]),
        ..View::default()
    };
    let expected = [
        "0 = copy root:/d ro",
        "/d <- 0",
        "1 = copy root:/secret ro",
        "/secret <- 1",
    ];
    assert_eq!(steps(&plan(&view, &machine).expect("a plan")), expected);
    let view = View {
        root,
        read_only: places(&["+/loop"]),
        ..View::default()
    };
    let error = plan(&view, &machine).expect_err("a loop");
    assert!(matches!(error, PlanError::Links { .. }), "{error}");
}

#[test]
fn a_bind_is_seen_through_symlinks_that_another_one_brings() {
    let machine = Fake::new(&["/src/link -> /dst/real", "/src/real/", "/dst/", "/data/"]);
    let view = View {
        binds: vec![bind("/data", "/dst/link"), bind("/src", "/dst")],
        ..View::default()
    };
    let found = steps(&plan(&view, &machine).expect("a plan"));
    assert_eq!(found.last().map(String::as_str), Some("/dst/real <- 1"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for path in ["relative", "", "/zero\0byte"] {
        let view = View {
            read_only: places(&[path]),
            ..View::default()
        };
        let error = plan(&view, &debian()).expect_err("a bad path");
        assert!(matches!(error, PlanError::BadPath { .. }), "{error}");
    }
    let view = View {
        read_only: vec![place("/srv"); 5000],
        ..View::default()
    };
    let error = plan(&view, &debian()).expect_err("too many");
    assert_eq!(error.errno(), 7);
}
