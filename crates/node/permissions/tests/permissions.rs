//! Registrations over a real store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
use muster_permissions::{
    Grants, Limits, LookUpError, OverLimit, Permissions, RegisterError, SCHEMA, Secret,
};
use muster_store::testing::{Weakness, check_upgrades};
use muster_store::{OnDamage, Store, StoreConfig};
use proptest::prelude::*;
use tempfile::TempDir;

fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn grants(mode: &str) -> Grants {
    let mut grants = Grants::default();
    grants.allow("vis", "Signal", mode).expect("a permission");
    grants
}

fn open_with(folder: &Path, limits: Limits) -> Permissions {
    // These tests are about content; durability has tests of its own.
    let config = StoreConfig::new(folder.join("iam.db"), "test 1", OnDamage::Refuse)
        .schema(&SCHEMA)
        .weakened(Weakness::NoFlush);
    let store = Store::open(&config).expect("the store").store;
    Permissions::open(store, &folder.join("permissions.key"), limits).expect("the key")
}

fn open(folder: &Path) -> Permissions {
    open_with(folder, Limits::default())
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

async fn register(permissions: &Permissions, number: u64, mode: &str) -> Secret {
    let registered = permissions.register(&instance(number), &grants(mode)).await;
    registered.expect("a secret")
}

#[tokio::test]
async fn after_clearing_no_secret_counts_and_new_ones_are_drawn() {
    let folder = folder();
    let permissions = open(folder.path());
    let (first, second) = (
        register(&permissions, 0, "r").await,
        register(&permissions, 1, "r").await,
    );
    permissions.clear().await.expect("cleared");
    for secret in [&first, &second] {
        let found = permissions.look_up(secret.expose(), "vis").await;
        assert!(
            matches!(found, Err(LookUpError::UnknownSecret)),
            "{found:?}"
        );
    }
    assert_ne!(register(&permissions, 0, "r").await, first);
}

#[tokio::test]
async fn a_repeat_answers_the_same_secret_and_replaces_what_is_allowed() {
    let folder = folder();
    let permissions = open(folder.path());
    let first = register(&permissions, 0, "r").await;
    let again = register(&permissions, 0, "rw").await;
    assert_eq!(first, again);
    let granted = permissions
        .look_up(first.expose(), "vis")
        .await
        .expect("known");
    assert_eq!(granted.permissions["Signal"], "rw");

    // The type of the item is not part of who an instance is.
    let mut as_component = instance(0);
    as_component.item_type = ItemType::Component;
    let registered = permissions.register(&as_component, &grants("r")).await;
    assert_eq!(registered.expect("a secret"), first);

    drop(permissions);
    let permissions = open(folder.path());
    assert_eq!(
        register(&permissions, 0, "r").await,
        first,
        "after a restart"
    );
    assert!(permissions.look_up(first.expose(), "vis").await.is_ok());
}

#[tokio::test]
async fn a_secret_that_was_taken_back_never_returns() {
    let folder = folder();
    let permissions = open(folder.path());
    let old = register(&permissions, 0, "r").await;
    assert!(permissions.unregister(&instance(0)).await.expect("removed"));
    assert!(
        !permissions
            .unregister(&instance(0))
            .await
            .expect("nothing to remove")
    );
    let gone = permissions.look_up(old.expose(), "vis").await;
    assert!(matches!(gone, Err(LookUpError::UnknownSecret)), "{gone:?}");
    let new = register(&permissions, 0, "r").await;
    assert_ne!(old, new);
    let gone = permissions.look_up(old.expose(), "vis").await;
    assert!(matches!(gone, Err(LookUpError::UnknownSecret)), "{gone:?}");
}

#[tokio::test]
async fn a_stranger_and_another_server_are_told_apart() {
    let folder = folder();
    let permissions = open(folder.path());
    let secret = register(&permissions, 0, "r").await;
    for shown in [
        "",
        "x",
        &secret.expose()[1..],
        &secret.expose().to_uppercase(),
        &"f".repeat(1 << 20),
    ] {
        let error = permissions
            .look_up(shown, "vis")
            .await
            .expect_err("a stranger");
        assert!(matches!(error, LookUpError::UnknownSecret), "{error}");
    }
    let error = permissions
        .look_up(secret.expose(), "doors")
        .await
        .expect_err("not granted");
    assert_eq!(
        error.to_string(),
        "instance item:subject:0 has no permissions for the functional server \"doors\""
    );
}

#[tokio::test]
async fn no_secret_and_no_key_is_on_the_disk_or_in_debug_output() {
    let folder = folder();
    let permissions = open(folder.path());
    let secret = register(&permissions, 0, "r").await;
    let raw: Vec<u8> = (0..64)
        .step_by(2)
        .map(|at| u8::from_str_radix(&secret.expose()[at..at + 2], 16).expect("hexadecimal"))
        .collect();
    let printed = format!("{permissions:?} {secret:?}");
    assert!(!printed.contains(secret.expose()));
    drop(permissions);
    for entry in fs::read_dir(folder.path()).expect("the folder") {
        let content = fs::read(entry.expect("an entry").path()).expect("a file");
        for needle in [secret.expose().as_bytes(), &raw] {
            assert!(!content.windows(needle.len()).any(|window| window == needle));
        }
    }
}

#[tokio::test]
async fn with_another_key_running_instances_stay_known_until_they_register_again() {
    let folder = folder();
    let permissions = open(folder.path());
    let old = register(&permissions, 0, "r").await;
    drop(permissions);
    fs::remove_file(folder.path().join("permissions.key")).expect("the key");
    let permissions = open(folder.path());
    assert!(permissions.look_up(old.expose(), "vis").await.is_ok());
    let new = register(&permissions, 0, "r").await;
    assert_ne!(old, new);
    assert!(permissions.look_up(new.expose(), "vis").await.is_ok());
    assert!(permissions.look_up(old.expose(), "vis").await.is_err());
    assert_eq!(register(&permissions, 0, "r").await, new);
}

#[tokio::test]
async fn limits_are_exact_and_change_nothing_that_is_there() {
    let folder = folder();
    let limits = Limits {
        instances: 2,
        servers: 2,
        registration_bytes: 100,
    };
    let permissions = open_with(folder.path(), limits);
    let kept = register(&permissions, 0, "r").await;
    register(&permissions, 1, "r").await;
    let refusal = |error: RegisterError| match error {
        RegisterError::OverLimit { source, .. } => source,
        other => panic!("{other}"),
    };
    let refused = permissions.register(&instance(2), &grants("r")).await;
    assert_eq!(
        refusal(refused.expect_err("full")),
        OverLimit::Instances { limit: 2 }
    );
    assert_eq!(
        register(&permissions, 0, "rw").await,
        kept,
        "a repeat is not one more"
    );

    let mut many = grants("r");
    for server in ["a", "b"] {
        many.allow(server, "p", "r").expect("a permission");
    }
    let refused = permissions.register(&instance(0), &many).await;
    let expected = OverLimit::Servers {
        servers: 3,
        limit: 2,
    };
    assert_eq!(refusal(refused.expect_err("too many")), expected);
    let refused = permissions
        .register(&instance(0), &grants(&"r".repeat(100)))
        .await;
    assert!(matches!(
        refusal(refused.expect_err("too long")),
        OverLimit::Bytes { limit: 100, .. }
    ));

    let granted = permissions
        .look_up(kept.expose(), "vis")
        .await
        .expect("still there");
    assert_eq!(granted.permissions["Signal"], "rw");
    permissions.unregister(&instance(1)).await.expect("removed");
    register(&permissions, 2, "r").await;
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let sql = "INSERT INTO permissions_instances VALUES
                       ('item:subject:0', zeroblob(32), x'01', x'0a00')";
            db.execute(sql, []).map(|_| ())
        },
        |db, version| {
            let sql = "SELECT ident FROM permissions_instances WHERE secret_hash = x'01'";
            let ident: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(ident, "item:subject:0", "version {version}");
        },
    );
}

#[derive(Debug, Clone)]
enum Step {
    Register(u64, &'static str),
    Unregister(u64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..5, prop_oneof![Just("r"), Just("rw")]).prop_map(|(n, mode)| Step::Register(n, mode)),
        2 => (0_u64..5).prop_map(Step::Unregister),
        1 => Just(Step::Restart),
    ]
}

/// What must be known after some steps.
#[derive(Debug, Default)]
struct Model {
    current: BTreeMap<u64, (Secret, &'static str)>,
    worthless: BTreeSet<String>,
}

impl Model {
    async fn check(&self, permissions: &Permissions) {
        for (number, (secret, mode)) in &self.current {
            let granted = permissions
                .look_up(secret.expose(), "vis")
                .await
                .expect("known");
            assert_eq!(granted.instance, instance(*number));
            assert_eq!(granted.permissions["Signal"], *mode);
        }
        for secret in &self.worthless {
            let error = permissions
                .look_up(secret, "vis")
                .await
                .expect_err("worthless");
            assert!(matches!(error, LookUpError::UnknownSecret), "{error}");
        }
    }
}

async fn play(steps: Vec<Step>) {
    let folder = folder();
    let mut permissions = open(folder.path());
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Register(number, mode) => {
                let secret = register(&permissions, number, mode).await;
                assert!(
                    !model.worthless.contains(secret.expose()),
                    "an old secret is back"
                );
                if let Some((before, _)) = model.current.insert(number, (secret.clone(), mode)) {
                    assert_eq!(before, secret);
                }
            }
            Step::Unregister(number) => {
                let removed = permissions
                    .unregister(&instance(number))
                    .await
                    .expect("an answer");
                let known = model.current.remove(&number);
                assert_eq!(removed, known.is_some());
                model
                    .worthless
                    .extend(known.map(|(secret, _)| secret.expose().to_owned()));
            }
            Step::Restart => {
                drop(permissions);
                permissions = open(folder.path());
            }
        }
        model.check(&permissions).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_order_of_requests_and_restarts(steps in proptest::collection::vec(step(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(play(steps));
    }
}
