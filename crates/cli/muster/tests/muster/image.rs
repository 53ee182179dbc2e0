//! `muster image`.

use std::fs;

use muster_lab::registry::{Login, Registry};

use super::rig::Site;

/// A folder to pack and an item configuration.
fn site() -> Site {
    let site = Site::empty();
    fs::create_dir_all(site.path("rootfs/bin")).expect("made");
    fs::write(site.path("rootfs/bin/run"), "#!/bin/sh\n").expect("written");
    fs::write(
        site.path("item.json"),
        r#"{"hostname": "web", "quotas": {"ramLimit": 1048576}}"#,
    )
    .expect("written");
    site
}

const BUILD: [&str; 12] = [
    "image",
    "build",
    "--folder",
    "rootfs",
    "--item-config",
    "item.json",
    "--entrypoint",
    "/bin/run",
    "--name",
    "web",
    "-o",
    "json",
];

#[test]
fn an_image_is_built_inspected_and_validated() {
    let site = site();
    let folder = site.run(&[&BUILD[..], &["web"]].concat()).json();
    let archive = site.run(&[&BUILD[..], &["web.tar"]].concat()).json();
    assert_eq!(
        folder["digest"], archive["digest"],
        "the same input gives the same image"
    );
    for layout in ["web", "web.tar"] {
        let shown = site.run(&["image", "inspect", layout, "-o", "json"]).json();
        assert_eq!(shown[0]["digest"], folder["digest"]);
        assert_eq!(shown[0]["command"][0], "/bin/run");
        assert_eq!(shown[0]["itemConfig"]["hostname"], "web");
        let table = site
            .run(&["image", "inspect", layout, "--name", "web"])
            .ok()
            .stdout;
        assert!(table.contains("/bin/run"), "{table}");
        let found = site
            .run(&["image", "validate", layout, "-o", "json"])
            .json();
        assert_eq!(found, serde_json::json!([]));
    }
    let again = [
        "image",
        "build",
        "--layout",
        "web",
        "--item-config",
        "item.json",
        "again.tar",
        "-o",
        "json",
    ];
    assert_eq!(site.run(&again).json()["digest"], folder["digest"]);
}

#[test]
fn what_is_wrong_is_said_with_its_exit_code() {
    let site = site();
    site.run(&[&BUILD[..], &["web"]].concat()).ok();
    site.run(&[&BUILD[..], &["web"]].concat())
        .refused(3, &["web is there and not empty"]);
    site.run(&["image", "inspect", "nothing"])
        .refused(4, &["nothing"]);
    site.run(&["image", "inspect", "web", "--name", "other"])
        .refused(4, &["other", "web"]);
    site.run(&[
        "image",
        "build",
        "--folder",
        "rootfs",
        "--platform",
        "linux",
        "x",
    ])
    .refused(2, &["linux/arm64"]);
    fs::write(
        site.path("item.json"),
        r#"{"quotas": {"ramLimit": "much"}}"#,
    )
    .expect("written");
    let refused = site.run(&[&BUILD[..], &["other"]].concat());
    refused.refused(1, &["quotas.ramLimit", "expected a whole number"]);
    assert!(!site.path("other").exists());
    let blobs = fs::read_dir(site.path("web/blobs/sha256")).expect("blobs");
    let largest = blobs
        .map(|blob| blob.expect("a blob").path())
        .max_by_key(|path| path.metadata().expect("its size").len());
    fs::write(largest.expect("a blob"), "damage").expect("written");
    site.run(&["image", "validate", "web"])
        .refused(3, &["errors"]);
}

#[test]
fn an_image_goes_to_a_registry_and_back() {
    muster_lab::require!(Tool("docker-registry"), Tool("htpasswd"));
    let registry = Registry::start_for(Login::new("op", "secret")).expect("a registry");
    let site = site();
    let built = site.run(&[&BUILD[..], &["web"]].concat()).json();
    let reference = format!("{}/team/web:1", registry.address());
    fs::write(site.path("password"), "secret\n").expect("written");
    fs::write(site.path("wrong"), "guess\n").expect("written");
    let access = |file| ["--user", "op", "--password-file", file];
    site.run(&[&["image", "push", "web", &reference][..], &access("wrong")].concat())
        .refused(1, &["team/web:1"]);
    site.run(
        &[
            &["image", "push", "web", &reference][..],
            &access("password"),
        ]
        .concat(),
    )
    .ok();
    let pull = [
        &["image", "pull", &reference, "back.tar", "-o", "json"][..],
        &access("password"),
    ]
    .concat();
    assert_eq!(site.run(&pull).json()["digest"], built["digest"]);
    let shown = site
        .run(&["image", "inspect", "back.tar", "--name", "1", "-o", "json"])
        .json();
    assert_eq!(shown[0]["itemConfig"]["hostname"], "web");
}
