//! Machines that bear a manager's mark and that nobody remembers, among those of others.

use std::collections::BTreeSet;

use muster_aws::testing::{ACCESS_KEY, FakeEc2, FakeSettings, IMAGE, SECRET_KEY};
use muster_lab::docker::Docker;
use serde_json::{Value, json};

use crate::rig::{Site, until};

fn resources(found: &Value) -> Vec<Value> {
    let found = found.as_array().expect("orphans").iter();
    found.map(|it| it["resource"].clone()).collect()
}

/// A machine that runs, whether or not anybody can get into it.
fn running(site: &Site, words: &[&str]) -> Value {
    let made = site.json(words);
    let id = made["id"].as_str().expect("a name");
    until("it runs", || site.state(id) == "running");
    site.json(&["show", id])
}

/// One machine is made and forgotten, and found; `seen` is what the provider's own tools show of all there are.
fn collect(site: &mut Site, words: &[&str], seen: impl Fn() -> BTreeSet<String>) {
    let before = seen();
    let made = running(site, words);
    let all = seen();
    assert_eq!(all.len(), before.len() + 1);
    assert_eq!(site.json(&["gc"]), json!([]), "it is known");
    site.lose_records();
    let found = site.json(&["gc"]);
    assert_eq!(resources(&found), [made["resource"].clone()], "{found}");
    assert_eq!(seen(), all, "it was only looked for");
    let destroyed = site.json(&["gc", "--destroy"]);
    assert_eq!(resources(&destroyed), resources(&found));
    assert_eq!(seen(), before, "and nothing of others");
    assert_eq!(site.json(&["gc"]), json!([]));
}

#[test]
fn orphans_among_containers_are_collected_and_those_of_others_left_alone() {
    muster_lab::require_docker!();
    let engine = Docker::start().unwrap();
    let providers = json!({ "docker": { "endpoint": engine.host() } });
    let config = json!({ "providers": providers, "templates": ["boxes.yaml"] });
    let mut site = Site::with(config.clone());
    // Another manager, and somebody without one.
    let other = Site::with(config);
    for site in [&site, &other] {
        site.write("boxes.yaml", "name: box\nimage: box\n");
    }
    let words = ["provision", "-t", "box", "-p", "docker"];
    other.run(&words).ok();
    let theirs = ["run", "--detach", "--init", "box", "sleep", "infinity"];
    engine.cli(&theirs).unwrap();
    let seen = || engine.containers(Some("status=running")).unwrap();
    assert_eq!(seen().len(), 2);
    collect(&mut site, &words, seen);
    assert_eq!(other.json(&["gc"]), json!([]), "it knows its own");
}

#[test]
fn orphans_among_machines_of_a_cloud_are_collected_and_those_of_others_left_alone() {
    let cloud = FakeEc2::start(FakeSettings::default());
    let config = json!({
        "templates": ["cloud.yaml"],
        "providers": {
            "docker": { "enabled": false },
            "aws": { "regions": ["eu-central-1"], "endpointUrl": cloud.url() },
        },
    });
    let keys = [
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    let mut site = Site::with_env(config.clone(), &keys);
    let other = Site::with_env(config, &keys);
    let template = "name: web\nuser: root\noverrides: { aws: { ami: IMAGE } }\n";
    for site in [&site, &other] {
        site.write("cloud.yaml", &template.replace("IMAGE", IMAGE));
    }
    let words = ["provision", "-t", "web", "-p", "aws", "--no-wait"];
    running(&other, &words);
    cloud.add_foreign(&[("Name", "somebody's")]);
    let seen = || {
        let machines = cloud.machines().into_iter();
        let alive = machines.filter(|it| !it.state.is_ending());
        alive.map(|it| it.id).collect()
    };
    assert_eq!(BTreeSet::len(&seen()), 2);
    collect(&mut site, &words, seen);
    assert_eq!(other.json(&["gc"]), json!([]), "it knows its own");
}
