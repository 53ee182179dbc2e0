//! Devices that come and go, and a resources file that changes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use muster_launcher::seams::Resources as _;

use crate::rig::{Rig, instance};

#[tokio::test]
async fn a_device_that_is_plugged_in_is_announced_and_one_that_is_pulled_is_not() {
    let rig = Rig::new();
    let (camera, far) = (
        rig.path().join("dev/camera"),
        rig.path().join("dev/bus/001/far"),
    );
    fs::create_dir(rig.path().join("dev")).expect("a folder");
    rig.describe(&format!(
        r#"[{{"name": "always"}}, {{"name": "camera", "sharedCount": 2, "devices": ["{}"]}}, {{"name": "far", "devices": ["{}"]}}]"#,
        camera.display(),
        far.display()
    ));
    let node = rig.start().await;
    assert_eq!(node.names(), ["always"]);
    symlink("/dev/null", &camera).expect("plugged in");
    node.until(&["always", "camera"]).await;
    let info = node
        .manager
        .resources()
        .into_iter()
        .find(|it| it.name() == "camera");
    assert_eq!(
        info.and_then(|it| it.shared_count()).map(u64::from),
        Some(2)
    );
    fs::create_dir_all(far.parent().expect("a folder")).expect("a bus");
    symlink("/dev/zero", &far).expect("plugged in");
    node.until(&["always", "camera", "far"]).await;
    fs::remove_file(&camera).expect("pulled");
    node.until(&["always", "far"]).await;
    fs::remove_dir_all(rig.path().join("dev/bus")).expect("pulled");
    node.until(&["always"]).await;
    assert!(node.alerts().is_empty(), "nobody had any of it");
}

#[tokio::test]
async fn a_device_made_by_the_kernel_is_noticed() {
    let rig = Rig::new();
    let open = || {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let terminal = rustix::pty::openpt(flags).expect("a terminal");
        let name = rustix::pty::ptsname(&terminal, Vec::new()).expect("its name");
        (terminal, name.into_string().expect("text"))
    };
    let (terminal, name) = open();
    rig.describe(&format!(
        r#"[{{"name": "serial", "devices": ["{name}:/dev/ttyS0"]}}]"#
    ));
    let node = rig.start().await;
    assert_eq!(node.names(), ["serial"]);
    let grants = node.take(1, &["serial"]).await.expect("grants");
    assert_eq!(
        grants[0].devices,
        [(name.clone().into(), "/dev/ttyS0".into())]
    );
    drop(terminal);
    node.until(&[]).await;
    let alerts = node.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(
        (&alerts[0].0, alerts[0].1.as_str()),
        (&instance(1), "serial")
    );
    assert!(alerts[0].2.contains(&name), "{alerts:?}");
}

#[tokio::test]
async fn a_device_node_that_vanishes_under_an_instance_is_one_alert_each_time() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    let device = rig.path().join("device");
    let other = rig.path().join("other");
    let make = || {
        let numbers = rustix::fs::makedev(1, 3);
        let kind = rustix::fs::FileType::CharacterDevice;
        rustix::fs::mknodat(rustix::fs::CWD, &device, kind, 0o600.into(), numbers)
            .expect("a device");
    };
    make();
    rig.describe(&format!(
        r#"[{{"name": "r", "devices": ["{}"]}}, {{"name": "other", "devices": ["{}"]}}]"#,
        device.display(),
        other.display()
    ));
    let node = rig.start().await;
    node.take(1, &["r"]).await.expect("grants");
    node.take(2, &["r"]).await.expect("grants");
    fs::remove_file(&device).expect("pulled");
    node.until(&[]).await;
    let told: BTreeSet<_> = node.alerts().into_iter().map(|it| it.0).collect();
    assert_eq!(
        told,
        BTreeSet::from([instance(1), instance(2)]),
        "once for each who has it"
    );
    symlink("/dev/null", &other).expect("another device");
    node.until(&["other"]).await;
    assert!(node.alerts().is_empty(), "it has been told");
    make();
    node.until(&["other", "r"]).await;
    node.manager.release(&instance(2)).await.expect("released");
    fs::remove_file(&device).expect("pulled again");
    node.until(&["other"]).await;
    let alerts = node.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(alerts[0].0, instance(1));
}

#[tokio::test]
async fn a_device_that_vanished_while_nobody_looked_is_told_at_the_start() {
    let rig = Rig::new();
    let device = rig.path().join("device");
    symlink("/dev/null", &device).expect("a device");
    rig.describe(&format!(
        r#"[{{"name": "r", "devices": ["{}"]}}]"#,
        device.display()
    ));
    let node = rig.start().await;
    node.take(1, &["r"]).await.expect("grants");
    node.take(2, &["r"]).await.expect("grants");
    node.stop().await;
    fs::remove_file(&device).expect("pulled");
    let node = rig.start_unsorted().await;
    node.manager.keep_only(BTreeSet::from([instance(1)])).await;
    let told: Vec<_> = node.alerts().into_iter().map(|it| it.0).collect();
    assert_eq!(
        told,
        [instance(1)],
        "the other one is gone and lacks nothing"
    );
}

#[tokio::test]
async fn a_changed_file_counts_at_once_and_a_broken_one_not_at_all() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 1}]"#);
    let node = rig.start().await;
    node.take(1, &["a"]).await.expect("grants");
    let device = rig.path().join("device");
    let text =
        r#"[{"name": "a", "sharedCount": 2}, {"name": "b"}, {"name": "x", "devices": ["DEVICE"]}]"#;
    rig.describe(&text.replace("DEVICE", &device.to_string_lossy()));
    node.until(&["a", "b"]).await;
    node.take(2, &["a"]).await.expect("a second share");

    for broken in [r#"[{"name": "a", "colour": "red"}]"#, r#"[{"name": "a"}, "#] {
        rig.replace_atomically(broken);
        // Something that shows: when it does, the file has been looked at.
        symlink("/dev/null", &device).expect("plugged in");
        node.until(&["a", "b", "x"]).await;
        fs::remove_file(&device).expect("pulled");
        node.until(&["a", "b"]).await;
    }
    node.take(3, &["b"]).await.expect("what was before");
    rig.replace_atomically(r#"[{"name": "c"}]"#);
    node.until(&["c"]).await;
    let told: BTreeSet<_> = node.alerts().into_iter().map(|it| (it.0, it.1)).collect();
    let expected =
        [(1, "a"), (2, "a"), (3, "b")].map(|(number, name)| (instance(number), name.to_owned()));
    assert_eq!(
        told,
        BTreeSet::from(expected),
        "they have what is not described any more"
    );
    fs::remove_file(rig.file()).expect("removed");
    node.until(&[]).await;
    rig.describe(r#"[{"name": "a"}]"#);
    node.until(&["a"]).await;
}

#[tokio::test]
async fn a_file_that_is_broken_at_the_start_can_be_mended() {
    let rig = Rig::new();
    rig.describe("[{]");
    let node = rig.start().await;
    assert!(node.names().is_empty());
    node.take(1, &["a"]).await.expect_err("there is nothing");
    rig.describe(r#"[{"name": "a"}]"#);
    node.until(&["a"]).await;
    node.take(1, &["a"]).await.expect("grants");
}

#[tokio::test]
async fn a_busy_folder_holds_nobody_up() {
    let rig = Rig::new();
    let (folder, device) = (rig.path().join("dev"), rig.path().join("dev/device"));
    fs::create_dir(&folder).expect("a folder");
    rig.describe(&format!(
        r#"[{{"name": "a"}}, {{"name": "r", "devices": ["{}"]}}]"#,
        device.display()
    ));
    let node = rig.start().await;
    let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
    let busy = std::thread::spawn(move || {
        let name = folder.join("busy");
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            fs::write(&name, "").expect("a file");
            fs::remove_file(&name).expect("removed");
        }
    });
    symlink("/dev/null", &device).expect("plugged in");
    node.until(&["a", "r"]).await;
    for number in 0..20 {
        node.take(number, &["a", "r"]).await.expect("grants");
    }
    fs::remove_file(&device).expect("pulled");
    node.until(&["a"]).await;
    drop(stop);
    busy.join().expect("the busy thread");
}
