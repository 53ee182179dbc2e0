//! A manager over a real store, real files and real devices.

mod rig;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use muster_api::domain::AosCode;
use muster_launcher::seams::Resources as _;
use muster_resource::SCHEMA;
use muster_store::testing::check_upgrades;

use rig::{Rig, instance, item};

#[tokio::test]
async fn a_share_is_given_once_and_comes_back() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "camera", "sharedCount": 1, "env": ["A=b"]}, {"name": "free"}]"#);
    let node = rig.start().await;
    let grants = node.take(1, &["camera", "free"]).await.expect("grants");
    let names: Vec<_> = grants.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["camera", "free"]);
    assert_eq!(
        node.take(1, &["camera", "free"]).await.expect("grants"),
        grants,
        "asking again changes nothing"
    );
    assert!(node.alerts().is_empty());

    let refused = node.take(2, &["free", "camera"]).await.expect_err("taken");
    assert_eq!(refused.code, AosCode::OutOfRange);
    assert!(
        refused.source.to_string().contains("\"camera\"")
            && refused.source.to_string().contains("item:subject:1")
    );
    let alerts = node.alerts();
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        (&alerts[0].0, alerts[0].1.as_str()),
        (&instance(2), "camera")
    );
    assert!(alerts[0].2.contains("item:subject:1"), "{alerts:?}");

    node.manager.release(&instance(1)).await.expect("released");
    node.manager
        .release(&instance(1))
        .await
        .expect("releasing again is nothing");
    node.take(2, &["camera"]).await.expect("grants");
}

#[tokio::test]
async fn what_is_missing_unknown_or_asked_for_wrongly_is_an_alert_and_an_error() {
    let rig = Rig::new();
    rig.describe(&format!(
        r#"[{{"name": "gone", "devices": ["{0}/gone:/dev/gone"]}}, {{"name": "file", "devices": ["{0}/resources.json"]}}]"#,
        rig.path().display()
    ));
    let node = rig.start().await;
    for (name, code, words) in [
        ("gone", AosCode::NotFound, "is not there"),
        (
            "file",
            AosCode::NotFound,
            "is neither a device nor a folder",
        ),
        ("nobody", AosCode::NotFound, "does not describe it"),
    ] {
        let refused = node.take(1, &[name]).await.expect_err(name);
        assert_eq!(refused.code, code);
        assert!(
            refused.source.to_string().contains(words),
            "{:?}",
            refused.source
        );
        let alerts = node.alerts();
        assert_eq!(alerts.len(), 1, "{alerts:?}");
        assert_eq!(alerts[0].1, name);
        assert!(alerts[0].2.contains(words), "{alerts:?}");
    }
    let refused = node
        .take_with_mode(1, "file", "x")
        .await
        .expect_err("no mode");
    assert_eq!(refused.code, AosCode::InvalidArgument);
}

#[tokio::test]
async fn a_refused_instance_has_nothing() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 1}, {"name": "b", "sharedCount": 1}]"#);
    let node = rig.start().await;
    node.take(1, &["b"]).await.expect("grants");
    node.take(2, &["a", "b"]).await.expect_err("b is taken");
    node.take(3, &["a"]).await.expect("a stayed free");
}

#[tokio::test]
async fn a_restarted_manager_knows_who_has_what() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 1}, {"name": "b", "sharedCount": 1}]"#);
    let node = rig.start().await;
    node.take(1, &["a"]).await.expect("grants");
    node.take(2, &["b"]).await.expect("grants");
    node.stop().await;

    let node = rig.start().await;
    node.manager.keep_only(BTreeSet::from([instance(1)])).await;
    node.take(3, &["a"])
        .await
        .expect_err("its holder still runs");
    node.take(3, &["b"]).await.expect("its holder is gone");
    node.stop().await;

    let node = rig.start().await;
    node.take(2, &["b"])
        .await
        .expect_err("it belongs to the third now, also on disk");
    node.take(1, &["a"]).await.expect("the first may ask again");
}

#[tokio::test]
async fn a_new_version_of_an_item_gives_back_what_it_does_not_ask_for() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 1}, {"name": "b", "sharedCount": 1}]"#);
    let node = rig.start().await;
    node.take(1, &["a"]).await.expect("grants");
    node.take(1, &["b"]).await.expect("grants");
    node.take(2, &["a"]).await.expect("a is free again");
    assert!(node.take(1, &[]).await.expect("nothing").is_empty());
    node.take(3, &["b"]).await.expect("b is free again");
}

#[tokio::test]
async fn as_many_as_may_get_a_share_of_those_who_ask_at_once() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 3}]"#);
    let node = rig.start().await;
    let asking = (0..50).map(|number| {
        let manager = node.manager.clone();
        tokio::spawn(async move { manager.take(&instance(number), &item(&["a"])).await.is_ok() })
    });
    let mut given = 0;
    for asked in asking.collect::<Vec<_>>() {
        given += usize::from(asked.await.expect("an answer"));
    }
    assert_eq!(given, 3);
    assert_eq!(node.alerts().len(), 47);
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_given() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "a", "sharedCount": 1}]"#);
    let node = rig.start().await;
    node.take(1, &["a"]).await.expect("grants");
    node.store.clone().close().await.expect("a close");
    let failed = node
        .manager
        .release(&instance(1))
        .await
        .expect_err("not off the disk");
    assert_eq!(failed.code, AosCode::Failed);
    node.take(2, &["a"])
        .await
        .expect_err("the first still has it");
    node.stop_dirty().await;
    let node = rig.start().await;
    node.take(2, &["a"])
        .await
        .expect_err("the first still has it");
}

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
    node.stop().await;
    fs::remove_file(&device).expect("pulled");
    let node = rig.start().await;
    // Answered after the first look.
    node.manager.keep_only(BTreeSet::from([instance(1)])).await;
    assert_eq!(node.alerts().len(), 1);
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
async fn requests_are_answered_also_when_the_task_is_gone() {
    let rig = Rig::new();
    rig.describe("[]");
    let node = rig.start().await;
    node.abort().await;
    let refused = node
        .manager
        .take(&instance(1), &item(&[]))
        .await
        .expect_err("nobody gives");
    assert_eq!(refused.code, AosCode::Cancelled);
    assert_eq!(
        node.manager
            .release(&instance(1))
            .await
            .expect_err("nobody takes")
            .code,
        AosCode::Cancelled
    );
    node.manager.keep_only(BTreeSet::new()).await;
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            db.execute(
                "INSERT INTO resource_holds VALUES ('item:subject:0', x'0a00')",
                [],
            )
            .map(drop)
        },
        |db, version| {
            let sql = "SELECT ident FROM resource_holds WHERE record = x'0a00'";
            let ident: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(ident, "item:subject:0", "version {version}");
        },
    );
}
