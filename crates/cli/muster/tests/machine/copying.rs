//! Files and folders to a machine and from it, as `cp -r` would put them.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::rig::Site;
use crate::using::here;

/// A folder of this site, as a path of the machine.
fn there(site: &Site, path: &str) -> String {
    format!("here:{}/{path}", site.folder.path().display())
}

fn tree(site: &Site) {
    fs::create_dir_all(site.path("tree/inner")).expect("folders");
    site.write("tree/a", "one");
    site.write("tree/inner/b", "two");
}

fn read(site: &Site, path: &str) -> Option<String> {
    fs::read_to_string(site.path(path)).ok()
}

#[test]
fn files_go_there_and_back() {
    let site = Site::new();
    here(&site);
    tree(&site);
    let remote = there(&site, "there");
    site.run(&["cp", "tree", &remote]).ok();
    assert_eq!(read(&site, "there/inner/b").as_deref(), Some("two"));
    site.write("there/c", "three");
    let copied = site.json(&["sync", &remote, "tree", "--delete"]);
    assert_eq!(copied["files"], 1, "only what changed: {copied}");
    assert_eq!(read(&site, "tree/c").as_deref(), Some("three"));
    site.run(&["cp", &format!("{remote}/c"), "."]).ok();
    assert_eq!(read(&site, "c").as_deref(), Some("three"));
    site.run(&["cp", "a", "b"]).refused(2, &["MACHINE:PATH"]);
    site.run(&["cp", "nothing", &remote])
        .refused(4, &["there is no nothing"]);
    site.run(&["cp", &format!("{remote}/nothing"), "."])
        .refused(4, &["there is no here:", "there/nothing"]);
}

#[test]
fn a_copy_goes_where_cp_would_put_it_both_ways() {
    let site = Site::new();
    here(&site);
    tree(&site);
    fs::create_dir(site.path("into")).unwrap();
    let into = there(&site, "into");
    // Up, into a folder that is there, also the one in which commands begin.
    site.run(&["cp", "tree/a", &into]).ok();
    assert_eq!(read(&site, "into/a").as_deref(), Some("one"));
    site.run(&["cp", "tree", &into]).ok();
    assert_eq!(read(&site, "into/tree/inner/b").as_deref(), Some("two"));
    site.run(&["cp", "tree/inner/b", "here:"]).ok();
    assert_eq!(read(&site, "b").as_deref(), Some("two"));
    // By another name, and what a folder holds.
    site.run(&["cp", "tree/a", &there(&site, "into/new")]).ok();
    assert_eq!(read(&site, "into/new").as_deref(), Some("one"));
    site.run(&["cp", "tree/inner/.", &into]).ok();
    assert_eq!(read(&site, "into/b").as_deref(), Some("two"));
    // Down, the same.
    fs::create_dir(site.path("back")).unwrap();
    site.run(&["cp", &there(&site, "tree"), "back"]).ok();
    assert_eq!(read(&site, "back/tree/inner/b").as_deref(), Some("two"));
    site.run(&["cp", &there(&site, "tree/a"), "back/new"]).ok();
    assert_eq!(read(&site, "back/new").as_deref(), Some("one"));

    // A folder does not take the place of a file, nor a file that of a folder.
    site.run(&["cp", "tree", &there(&site, "into/a")])
        .refused(3, &["into/a is no folder"]);
    fs::create_dir(site.path("into/inner")).unwrap();
    site.write("inner", "a file");
    site.run(&["cp", "inner", &into])
        .refused(3, &["into/inner is a folder"]);
    assert_eq!(read(&site, "into/a").as_deref(), Some("one"));
}

#[test]
fn a_link_that_is_named_is_followed() {
    let site = Site::new();
    here(&site);
    tree(&site);
    fs::create_dir(site.path("into")).unwrap();
    symlink("tree/a", site.path("first")).unwrap();
    symlink("first", site.path("link")).unwrap();
    symlink("tree", site.path("folder")).unwrap();
    let into = there(&site, "into");
    site.run(&["cp", "link", &into]).ok();
    site.run(&["cp", "folder", &into]).ok();
    site.run(&["cp", &there(&site, "link"), "into/down"]).ok();
    site.run(&["cp", &there(&site, "folder"), "into/tree"]).ok();
    for name in ["into/link", "into/folder/a", "into/down", "into/tree/a"] {
        let kind = fs::symlink_metadata(site.path(name)).unwrap().file_type();
        assert!(kind.is_file(), "{name}");
        assert_eq!(read(&site, name).as_deref(), Some("one"), "{name}");
    }
    symlink("nowhere", site.path("broken")).unwrap();
    site.run(&["cp", "broken", &into])
        .refused(4, &["there is no broken"]);
}

#[test]
fn what_a_copy_would_do_is_shown_and_not_done() {
    let site = Site::new();
    here(&site);
    tree(&site);
    fs::create_dir(site.path("there")).unwrap();
    site.write("there/old", "old");
    let remote = there(&site, "there");
    let shown = |words: &[&str]| -> Vec<(String, String)> {
        let steps = site.json(words);
        let step = |it: &Value| {
            let path = it["path"].as_str().expect("a path");
            let path = path.strip_prefix(&remote).unwrap_or(path);
            (
                it["action"].as_str().expect("a word").to_owned(),
                path.to_owned(),
            )
        };
        steps.as_array().expect("a list").iter().map(step).collect()
    };
    let step = |action: &str, path: &str| (action.to_owned(), path.to_owned());
    let sync = shown(&["sync", "tree", &remote, "--delete", "--dry-run"]);
    let expected = [
        step("remove", "/old"),
        step("make", "/inner"),
        step("copy", "/a"),
        step("copy", "/inner/b"),
    ];
    assert_eq!(sync, expected);
    let copy = shown(&["cp", "tree", &remote, "-n"]);
    assert_eq!(copy[0], step("make", "/tree"), "{copy:?}");
    let file = shown(&["cp", "tree/a", &remote, "-n"]);
    assert_eq!(file, [step("copy", "/a")]);
    let down = site.json(&["cp", &there(&site, "tree/a"), "there", "-n"]);
    assert_eq!(
        down,
        json!([{ "action": "copy", "path": "there/a", "bytes": 3 }])
    );
    let names = fs::read_dir(site.path("there")).unwrap().count();
    assert_eq!(
        (names, read(&site, "there/old").as_deref()),
        (1, Some("old"))
    );
    // What is the same already is not named.
    site.run(&["sync", "tree", &remote, "--delete"]).ok();
    let run = site
        .run(&["sync", "tree", &remote, "--delete", "-n", "-o", "json"])
        .ok();
    assert_eq!(run.stdout, "[]\n");
    assert!(run.stderr.contains("2 files would stay"), "{}", run.stderr);
}
