//! What names of images meant, kept in the lock file.

use std::{fs, io};

use muster_lab::docker::Docker;
use serde_json::{Value, json};

use crate::rig::{Site, until};

/// What is pinned for the template `box`; `null` if nothing is.
fn pin(site: &Site) -> Value {
    let pins = site.json(&["lock"]);
    let mut pins = pins.as_array().into_iter().flatten();
    let found = pins.find(|it| it["template"] == "box" && it["provider"] == "docker");
    found.cloned().unwrap_or_default()
}

/// The manager goes on with another value of `lock`.
fn restart_with_lock(site: &mut Site, lock: &str) -> io::Result<()> {
    let config = fs::read(site.path("nodemgr.json"))?;
    let mut config: Value = serde_json::from_slice(&config)?;
    config["lock"] = lock.into();
    site.kill();
    site.write("nodemgr.json", &config.to_string());
    site.start();
    Ok(())
}

#[test]
fn what_a_container_was_made_of_is_pinned_and_is_all_that_a_frozen_lock_file_allows() {
    muster_lab::require_docker!();
    let engine = Docker::start().unwrap();
    let mut site = Site::with(json!({
        "providers": { "docker": { "endpoint": engine.host() } },
        "templates": ["boxes.yaml"],
    }));
    site.write(
        "boxes.yaml",
        "name: box\nimage: box\n---\nname: other\nimage: box:other\n",
    );
    // Whoever runs the engine builds the image anew.
    let rebuild = |container: &str| engine.cli(&["commit", container, "box:latest"]).unwrap();
    let id = || {
        let format = ["image", "inspect", "--format", "{{.Id}}", "box"];
        engine.cli(&format).unwrap()
    };
    let made_of = |machine: &Value| {
        let container = machine["details"]["container"].as_str().unwrap();
        let format = ["inspect", "--format", "{{.Image}}", container];
        engine.cli(&format).unwrap()
    };
    let provision = |site: &Site| site.json(&["provision", "-t", "box", "-p", "docker"]);

    assert_eq!(pin(&site)["state"], "open");
    let first = provision(&site);
    let container = first["details"]["container"].as_str().unwrap();
    assert_eq!(pin(&site)["pins"]["image"], format!("box@{}", id()));
    // What is built anew is what its builder wants next, and the pin follows, whether somebody waits or not.
    rebuild(container);
    let words = ["provision", "-t", "box", "-p", "docker", "--no-wait"];
    site.run(&words).ok();
    let pinned = format!("box@{}", id());
    until("the pin follows", || pin(&site)["pins"]["image"] == pinned);

    restart_with_lock(&mut site, "frozen").unwrap();
    let before = id();
    rebuild(container);
    assert_ne!(id(), before);
    let frozen = provision(&site);
    assert_eq!(made_of(&frozen), before, "nothing else was pinned");
    assert_eq!(pin(&site)["pins"]["image"], pinned);
    let words = ["provision", "-t", "other", "-p", "docker"];
    site.run(&words)
        .refused(3, &["nothing is pinned for template other for docker"]);
}

#[test]
fn what_a_pool_and_a_run_use_is_pinned() {
    muster_lab::require_docker!();
    let engine = Docker::start().unwrap();
    let site = Site::with(json!({
        "providers": { "docker": { "endpoint": engine.host() } },
        "templates": ["boxes.yaml"],
    }));
    site.write("boxes.yaml", "name: box\nimage: box\n");
    let is_pinned = || pin(&site)["state"] == "pinned";
    site.run(&["run", "-t", "box", "--", "true"]).ok();
    until("what the run found is pinned", is_pinned);
    site.run(&["lock", "--forget-all"]).ok();
    assert_eq!(pin(&site)["state"], "open");
    site.run(&["pool", "set", "warm", "-t", "box", "--min-idle", "1"])
        .ok();
    until("what the pool found is pinned", is_pinned);
}
