//! Environment variables of the cloud: set, refused, and taken back when their time is over.

use std::time::{Duration, SystemTime};

use muster_cloud::message::incoming::{EnvVar, EnvVars, OverrideEnvVars};
use muster_cloud::message::outgoing::EnvVarStatus;
use muster_cloud::message::{Identity, Outgoing, Timestamp};
use muster_cloud::testing::Seen;

use super::scene::{Scene, active};
use crate::node::Node;
use crate::rig::until;

fn variable(name: &str, value: &str, end: Option<SystemTime>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: value.to_owned().into(),
        ttl: end.map(|it| Timestamp::try_from(it).unwrap()),
    }
}

fn of_web(instance: Option<u64>, variables: Vec<EnvVar>) -> EnvVars {
    EnvVars {
        item: Some(Identity::id("web")),
        subject: None,
        instance,
        variables,
    }
}

/// What an instance has, as `NAME=value`.
fn set(node: &Node, instance: &str) -> Vec<String> {
    let running = node.running();
    let variables = running.get(instance).map(|it| &it.info.env_vars);
    let variables = variables.into_iter().flatten();
    let mut set: Vec<String> = variables
        .map(|it| format!("{}={}", it.name, it.value))
        .collect();
    set.sort();
    set
}

async fn until_set(node: &Node, instance: &str, wanted: &[&str]) {
    until(&format!("{wanted:?}"), || {
        let running = node.running().contains_key(instance);
        (running && set(node, instance) == wanted).then_some(())
    })
    .await;
}

/// What the cloud was told last about a variable of an instance.
fn status(seen: &Seen, instance: u64, name: &str) -> Option<EnvVarStatus> {
    let messages = seen.received.iter().filter_map(|it| match &it.message {
        Outgoing::OverrideEnvVarsStatus(told) => Some(&told.statuses),
        _ => None,
    });
    let of_it = |it: &&EnvVarStatus| it.instance == instance && it.name == name;
    messages.flatten().rfind(of_it).cloned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_of_the_cloud_reach_instances_and_it_is_told_which_are_set() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    node.refuse_variables(&["LD_PRELOAD"]);
    cloud.send(scene.wish(&[("web", 2)]), None);
    cloud.wait("active instances", |seen| active(seen, "web", 2));
    let all = of_web(None, vec![variable("COLOUR", "red", None)]);
    let second = of_web(Some(1), vec![variable("LD_PRELOAD", "/evil", None)]);
    let txn = cloud.send(
        OverrideEnvVars {
            items: vec![all, second],
        },
        None,
    );
    until_set(&node, "web:driver:0", &["COLOUR=red"]).await;
    until_set(&node, "web:driver:1", &["COLOUR=red", "LD_PRELOAD=/evil"]).await;
    for instance in [0, 1] {
        let told = cloud.wait("a status", |seen| status(seen, instance, "COLOUR"));
        assert_eq!(
            (told.item.name(), told.subject.name()),
            (Some("web"), Some("driver"))
        );
        assert_eq!(told.error_info, None);
    }
    let told = cloud.wait("a status", |seen| status(seen, 1, "LD_PRELOAD"));
    assert_eq!(told.error_info.unwrap().message, "it is not taken");
    assert!(cloud.seen().acknowledged.contains(&txn));
    assert!(!cm.log().contains("/evil"), "a value may be a secret");

    // A later wish keeps them, and later variables take their place.
    cloud.send(scene.wish(&[("web", 3)]), None);
    until_set(&node, "web:driver:2", &["COLOUR=red"]).await;
    let fewer = of_web(Some(2), vec![variable("COLOUR", "blue", None)]);
    cloud.send(OverrideEnvVars { items: vec![fewer] }, None);
    until_set(&node, "web:driver:2", &["COLOUR=blue"]).await;
    until_set(&node, "web:driver:0", &[]).await;
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_is_taken_back_when_its_time_is_over_also_after_a_restart() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    let soon = SystemTime::now() + Duration::from_secs(2);
    let far = soon + Duration::from_secs(3600);
    let both = vec![
        variable("BRIEF", "1", Some(soon)),
        variable("LONG", "1", Some(far)),
    ];
    cloud.send(
        OverrideEnvVars {
            items: vec![of_web(None, both)],
        },
        None,
    );
    until("the long one", || {
        set(&node, "web:driver:0")
            .contains(&"LONG=1".to_owned())
            .then_some(())
    })
    .await;
    until_set(&node, "web:driver:0", &["LONG=1"]).await;
    assert!(SystemTime::now() >= soon, "not before its time");

    // It ends while nobody is there.
    let soon = SystemTime::now() + Duration::from_secs(2);
    let brief = of_web(None, vec![variable("BRIEF", "2", Some(soon))]);
    let txn = cloud.send(OverrideEnvVars { items: vec![brief] }, None);
    cloud.wait("an acknowledgement", |seen| {
        seen.acknowledged.contains(&txn).then_some(())
    });
    cm.kill9();
    let over = || (SystemTime::now() >= soon).then_some(());
    until("its end", over).await;
    let cm = site.start();
    until_set(&node, "web:driver:0", &[]).await;
    cm.end();
}
