//! What is shown, planned and asked of the simulated cloud.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::rig::{Site, until};

#[test]
fn templates_and_providers_are_shown_as_they_are() {
    let site = Site::new();
    let templates = site.json(&["templates"]);
    let names: Vec<&str> = templates
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["plain", "small", "smaller"]);
    assert_eq!(templates[2]["fields"]["cpus"], "1", "the child's");
    assert_eq!(templates[2]["fields"]["memoryMB"], "256", "its parent's");
    let providers = site.json(&["providers"]);
    assert_eq!(providers[0]["id"], "sim");
    assert_eq!(providers[1]["id"], "local");
    assert!(
        providers[1]["insecure"]
            .as_str()
            .unwrap()
            .contains("own user")
    );
    let table = site.run(&["providers"]).ok().stdout;
    assert!(table.starts_with("PROVIDER"), "{table}");
}

#[test]
fn a_template_is_explained_field_by_field() {
    let site = Site::new();
    let told = site.json(&["explain", "smaller", "-p", "sim", "--set", "cpus=4"]);
    let field = |name: &str| -> Vec<Value> {
        let fields = told["fields"].as_array().unwrap();
        let found = fields.iter().find(|it| it["field"] == name).unwrap();
        found["steps"].as_array().unwrap().clone()
    };
    let cpus = field("cpus");
    assert_eq!(cpus.last().unwrap()["value"], "4");
    assert_eq!(cpus.last().unwrap()["by"], "request");
    let image = field("image");
    assert_eq!(image.last().unwrap()["value"], "debian:12");
    assert!(
        image.last().unwrap()["by"]
            .as_str()
            .unwrap()
            .contains("mapping #1")
    );
    let table = site.run(&["explain", "smaller", "-p", "sim"]).ok().stdout;
    assert!(table.contains("instead of"), "{table}");
    site.run(&["explain", "smal"])
        .refused(4, &["did you mean `small`"]);
}

#[test]
fn a_plan_says_why_for_every_candidate_and_does_nothing() {
    let site = Site::new();
    let plan = site.json(&["plan", "-t", "small"]);
    assert_eq!(plan[0]["chosen"], true);
    assert_eq!(plan[0]["provider"], "sim");
    assert_eq!(plan[1]["place"], Value::Null);
    assert!(
        plan[1]["why"][0]
            .as_str()
            .unwrap()
            .contains("insecure=local")
    );
    let dry = site.json(&["provision", "-t", "small", "--dry-run"]);
    assert_eq!(dry, plan);
    assert_eq!(site.json(&["list", "--all"]), json!([]));
    site.run(&["plan", "-t", "small", "-p", "aws"])
        .refused(3, &["aws is not configured"]);
    site.run(&["plan", "-p", "vmware"]).refused(2, &["vmware"]);
}

#[test]
fn machines_are_made_named_shown_and_asked() {
    let site = Site::new();
    let id = site.provision(&["--name", "dev", "--label", "for=me"]);
    let shown = site.json(&["show", "dev"]);
    assert_eq!(shown["id"], id.as_str());
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["image"], "debian:12");
    assert_eq!(shown["labels"]["for"], "me");
    for (verb, state) in [
        (&["hibernate"][..], "hibernated"),
        (&["resume"], "running"),
        (&["stop"], "stopped"),
        (&["start"], "running"),
        (&["reboot"], "running"),
        (&["stop", "--force"], "stopped"),
    ] {
        site.run(&[verb, &["dev"]].concat()).ok();
        assert_eq!(site.state("dev"), state, "{verb:?}");
    }
    let again = site.run(&["stop", "dev"]).ok();
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    site.run(&["reboot", "dev"]).refused(3, &["cannot do that"]);
    let dry = site.run(&["destroy", "--dry-run", "dev"]).ok();
    assert!(dry.stderr.contains("could be done"), "{}", dry.stderr);
    assert_eq!(site.state("dev"), "stopped");
    site.run(&["destroy", &id[..8]]).ok();
    assert_eq!(site.json(&["list"]), json!([]));
    assert_eq!(site.json(&["list", "--all"])[0]["state"], "terminated");
    site.run(&["show", "dev"])
        .refused(4, &["there is no machine"]);
    site.run(&["destroy", "m-x", "m-y"])
        .refused(1, &["2 of them failed"]);
}

#[test]
fn the_same_key_is_the_same_machine_and_a_free_one_is_taken_again() {
    let site = Site::new();
    let first = site.provision(&["--key", "k"]);
    assert_eq!(site.provision(&["--key", "k"]), first);
    assert_ne!(site.provision(&[]), first);
    site.run(&["stop", &first]).ok();
    // Of two that are free, one that runs goes before one that is stopped.
    let taken = site.provision(&["--reuse"]);
    assert_ne!(taken, first);
    let next = site.provision(&["--reuse"]);
    assert_eq!(next, first, "the other one was just given away");
    assert_eq!(site.state(&first), "running");
}

#[test]
fn what_this_machine_cannot_do_is_refused_before_anything_happens() {
    let site = Site::new();
    let words = ["provision", "-p", "local", "--name", "here", "-o", "json"];
    site.run(&words).ok();
    site.run(&["stop", "here"]).refused(3, &["cannot do that"]);
    site.run(&["ssh", "nobody", "--", "true"])
        .refused(4, &["there is no machine"]);
    let sim = site.provision(&[]);
    site.run(&["exec", &sim, "--", "true"])
        .refused(3, &["no way into them"]);
}

#[test]
fn quotas_and_capacity_lead_to_the_next_candidate() {
    let providers = json!({
        "docker": { "enabled": false },
        "sim": { "quota": { "machines": 1 }, "price": 0.5 },
        "local": { "price": 1.0 },
    });
    let site = Site::with(json!({ "providers": providers, "policy": { "insecure": true } }));
    let first = site.json(&["provision", "-t", "small"]);
    assert_eq!(first["provider"], "sim", "it is cheaper");
    let second = site.json(&["provision", "-t", "small"]);
    assert_eq!(second["provider"], "local");
    site.run(&["provision", "-t", "small", "-p", "sim"])
        .refused(3, &["nothing fits", "quota of sim"]);
}

#[test]
fn pools_keep_machines_ready_and_give_them_out() {
    let site = Site::new();
    let set = [
        "pool",
        "set",
        "builders",
        "-t",
        "small",
        "-p",
        "sim",
        "--min-idle",
        "2",
        "--max",
        "3",
    ];
    let planned = site.json(&[&set[..], &["--dry-run"]].concat());
    assert_eq!(planned[0]["provider"], "sim", "{planned}");
    assert_eq!(site.json(&["pool", "list"]), json!([]));
    site.run(&set).ok();
    let claimed = site.json(&["pool", "claim", "builders", "--by", "anna", "--wait", "60s"]);
    assert_eq!(claimed["claimed"], "anna");
    let id = claimed["id"].as_str().unwrap();
    until("the pool fills up again", || {
        let pools = site.json(&["pool", "list"]);
        pools[0]["ready"] == 2 && pools[0]["claimed"] == 1
    });
    site.run(&["pool", "release", id]).ok();
    until("it is given back", || {
        site.json(&["pool", "list"])[0]["ready"] == 3
    });
    site.run(&["pool", "remove", "builders"]).ok();
    assert_eq!(site.json(&["pool", "list"]), json!([]));
    site.run(&["pool", "claim", "builders"])
        .refused(4, &["builders"]);
    site.run(&["pool", "set", "x", "--min-idle", "2", "--max", "1"])
        .refused(2, &["most machines"]);
}

#[test]
fn a_machine_of_a_pool_is_ready_when_it_has_answered() {
    let mut site = Site::new();
    let set = [
        "pool", "set", "here", "-t", "small", "-p", "local", "--max", "1",
    ];
    site.run(&set).ok();
    let ready = || site.json(&["pool", "list"])[0]["ready"] == 1;
    until("it was tried", ready);
    // A manager that starts anew has not tried it yet, and does.
    site.kill();
    site.start();
    let claimed = site.json(&["pool", "claim", "here", "--wait", "60s"]);
    assert_eq!(claimed["provider"], "local", "{claimed}");
}

#[test]
fn events_and_changes_are_followed() {
    let site = Site::new();
    let mut watch = site.command(&["list", "--watch", "-o", "json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["event"], "synced");
    let id = site.provision(&[]);
    let mut states = vec![];
    while states.last().map(String::as_str) != Some("running") {
        let news = next();
        assert_eq!(news["key"], id.as_str());
        states.push(news["object"]["state"].as_str().unwrap().to_owned());
    }
    site.run(&["destroy", &id]).ok();
    while next()["event"] != "gone" {}
    watch.kill().unwrap();
    watch.wait().unwrap();

    let events = site.json(&["events", &id]);
    let kinds: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.first(), Some(&"ordered"));
    assert_eq!(kinds.last(), Some(&"gone"));
    let after = events[1]["number"].to_string();
    let rest = site.json(&["events", "--after", &after]);
    assert_eq!(rest.as_array().unwrap().len(), kinds.len() - 2);
}

#[test]
fn health_orphans_and_pins_are_told() {
    let site = Site::new();
    let checks = site.json(&["doctor"]);
    let state = |id: &str| {
        let checks = checks.as_array().unwrap();
        checks.iter().find(|it| it["check"] == id).unwrap()["state"].clone()
    };
    assert_eq!(state("descriptions"), "ok");
    assert_eq!(state("provider-sim"), "ok");
    assert_eq!(state("provider-local"), "warning");
    assert_eq!(site.json(&["gc"]), json!([]));
    let pins = site.json(&["lock"]);
    assert!(
        pins.as_array()
            .unwrap()
            .iter()
            .any(|it| it["template"] == "small" && it["state"] == "open")
    );
    site.run(&["lock", "--forget", "nothing"])
        .refused(4, &["nothing"]);
    let manager = site.json(&["manager"]);
    assert!(manager["id"].as_str().unwrap().starts_with("muster-"));

    site.write("templates.yaml", "name: small\nimag: debian\n");
    site.run(&["templates"])
        .refused(3, &["templates.yaml:2", "did you mean `image`"]);
    site.run(&["doctor"]).refused(1, &["1 error"]);
}
