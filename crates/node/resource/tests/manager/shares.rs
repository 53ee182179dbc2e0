//! Who gets what, and who does not.

use std::collections::BTreeSet;
use std::path::Path;

use muster_api::domain::AosCode;
use muster_launcher::seams::Resources as _;
use muster_resource::SCHEMA;
use muster_store::testing::check_upgrades;

use crate::rig::{Rig, instance, item};

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

    let node = rig.start_unsorted().await;
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

#[tokio::test]
async fn what_only_so_many_may_have_is_known_by_name() {
    let rig = Rig::new();
    rig.describe(r#"[{"name": "camera", "sharedCount": 1}, {"name": "free"}]"#);
    let node = rig.start().await;
    let scarce = node.manager.scarce(&item(&["free", "camera", "unknown"]));
    assert_eq!(scarce, ["camera"]);
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
