//! `muster machine run` with containers of a real engine.

use std::collections::BTreeSet;
use std::fs;

use muster_lab::docker::Docker;
use serde_json::json;

use crate::rig::Site;
use crate::using::assert_no_commands;

#[test]
fn a_command_runs_in_a_container_with_a_folder_there_and_back() {
    muster_lab::require_docker!();
    let engine = Docker::start().unwrap();
    let containers = || engine.containers(None).unwrap();
    let site = Site::with(json!({
        "providers": { "docker": { "endpoint": engine.host() }, "local": {} },
        "templates": ["boxes.yaml"],
    }));
    site.write("boxes.yaml", "name: box\nimage: box\n");
    fs::create_dir_all(site.path("src/part")).unwrap();
    site.write("src/in", "hello");
    site.write("src/part/keep", "kept");

    let script = "cat in | tr a-z A-Z > out; rm part/keep; echo done; test -d /work || exit 5";
    let words = ["run", "-t", "box", "-f", "src", "--", "sh", "-c", script];
    let run = site.run(&words).code(5);
    assert_eq!(run.stdout, "done\n");
    assert_eq!(
        fs::read_to_string(site.path("src/out")).unwrap(),
        "HELLO",
        "also of one that failed"
    );
    assert_eq!(fs::read_to_string(site.path("src/in")).unwrap(), "hello");
    assert_eq!(containers(), BTreeSet::new(), "its machine is gone");

    // Without a template, at another place, and what changes there stays there.
    let words = [
        "run",
        "--image",
        "box",
        "-f",
        "src",
        "--to",
        "/work",
        "--no-back",
        "--",
        "sh",
        "-c",
    ];
    let run = site
        .run(&[&words[..], &["pwd; echo changed > in"]].concat())
        .ok();
    assert_eq!(run.stdout, "/work\n");
    assert_eq!(fs::read_to_string(site.path("src/in")).unwrap(), "hello");
    assert_eq!(containers(), BTreeSet::new(), "its machine is gone");

    let made = site.json(&["provision", "-t", "box", "--name", "dev"]);
    assert_eq!(
        made["provider"], "docker",
        "this machine is never chosen unasked"
    );
    site.run(&["cp", "src", "dev:/copied"]).ok();
    let run = site.run(&["exec", "dev", "--", "cat", "/copied/out"]).ok();
    assert_eq!(run.stdout, "HELLO");
    assert_no_commands(&site, "dev", "/copied/out");
    site.run(&["hibernate", "dev"])
        .refused(3, &["cannot do that"]);
    site.run(&["stop", "dev"]).ok();
    site.run(&["exec", "dev", "--", "true"])
        .refused(3, &["it can be used when it runs"]);
    site.run(&["start", "dev"]).ok();
    site.run(&["destroy", "dev"]).ok();
    assert_eq!(containers(), BTreeSet::new());
}
