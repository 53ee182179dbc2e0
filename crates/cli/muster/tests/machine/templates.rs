//! Templates that are added to a manager and removed from it.

use serde_json::{Value, json};

use crate::rig::Site;

fn added(site: &Site) -> Vec<Value> {
    let all = site.json(&["templates"]);
    let all = all.as_array().expect("a list");
    all.iter()
        .filter(|it| it["added"] == true)
        .cloned()
        .collect()
}

#[test]
fn templates_are_added_and_outlive_the_manager() {
    let mut site = Site::new();
    let text = "name: mine\nextends: small\nuserData: hunter2\n---\nname: more\nextends: mine\n";
    site.write("mine.yaml", text);
    let words = ["templates", "add", "mine.yaml"];
    let dry = site.json(&[&words[..], &["--dry-run"]].concat());
    assert_eq!(dry[0], json!({ "name": "mine", "outcome": "added" }));
    assert!(added(&site).is_empty(), "nothing was done");
    assert_eq!(site.json(&words), dry);
    // The file is not looked at again.
    std::fs::remove_file(site.path("mine.yaml")).expect("removed");
    site.kill();
    site.start();
    let kept = added(&site);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[1]["name"], "more");
    assert_eq!(kept[1]["fields"]["memoryMB"], "256", "of a file's template");
    let machine = site.json(&["provision", "-t", "more", "-p", "sim"]);
    assert_eq!(machine["image"], "debian:12");

    site.write("mine.yaml", "name: mine\ncpus: 4\n");
    assert_eq!(site.json(&words)[0]["outcome"], "replaced");
    assert_eq!(site.json(&words)[0]["outcome"], "unchanged");
    site.run(&["templates", "list"]).ok();
}

#[test]
fn a_template_that_is_added_is_read_like_a_file_and_shadows_none() {
    let site = Site::new();
    site.write("bad.yaml", "name: mine\nimag: debian\n");
    site.run(&["templates", "add", "bad.yaml"])
        .refused(2, &["bad.yaml:2", "did you mean `image`"]);
    site.write("bad.yaml", "name: mine\nextends: smal\n");
    site.run(&["templates", "add", "bad.yaml"])
        .refused(2, &["bad.yaml:2", "did you mean `small`"]);
    site.write("bad.yaml", "name: fine\n---\nname: small\n");
    site.run(&["templates", "add", "bad.yaml"])
        .refused(3, &["`small` is written at", "templates.yaml:1"]);
    site.run(&["templates", "remove", "small"])
        .refused(3, &["templates.yaml:1"]);
    site.run(&["templates", "add", "nowhere.yaml"])
        .refused(4, &["nowhere.yaml"]);
    assert!(added(&site).is_empty(), "all or none");
}

#[test]
fn a_template_in_use_is_not_removed_and_says_by_whom() {
    let site = Site::new();
    site.write("mine.yaml", "name: mine\n---\nname: child\nextends: mine\n");
    site.run(&["templates", "add", "mine.yaml"]).ok();
    let machine = site.json(&["provision", "-t", "child", "-p", "sim"]);
    let id = machine["id"].as_str().expect("an id");
    let set = ["pool", "set", "builders", "-t", "child", "-p", "sim"];
    site.run(&[&set[..], &["--min-idle", "0"]].concat()).ok();
    let remove = |name| site.run(&["templates", "remove", name]);
    remove("mine").refused(3, &["`child` extends it"]);
    remove("child").refused(3, &["in use", "the pool builders", id]);
    remove("chil").refused(4, &["did you mean `child`"]);
    remove("plain").refused(3, &["built in"]);
    site.run(&["templates", "remove", "--force", "child", "mine"])
        .ok();
    assert!(added(&site).is_empty());
    assert_eq!(site.state(id), "running", "it stays as it is");
}
