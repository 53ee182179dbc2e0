//! `muster sm run`: what it refuses, and with which words and codes.

use std::fs;

use super::rig::Site;

#[test]
fn files_that_make_no_sense_are_refused_with_their_places() {
    muster_lab::require!(Root);
    let site = Site::empty();
    let run = |words: &[&str]| {
        let folders = ["--state", "state", "--runtime", "run", "--once"];
        site.run(&[&["sm", "run"][..], words, &folders].concat())
    };
    run(&["missing.yaml"]).refused(4, &["missing.yaml"]);
    fs::write(site.path("set.yaml"), "items:\n- id: web\n  image: {}\n").expect("written");
    let refused = run(&["set.yaml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("set.yaml:2"), "{}", refused.stderr);
    let text = "items:\n- id: web\n  image: {layout: nowhere.tar}\n";
    fs::write(site.path("set.yaml"), text).expect("written");
    fs::create_dir(site.path("programs")).expect("made");
    fs::write(site.path("programs/muster-init"), "").expect("written");
    let programs = ["set.yaml", "--programs", "programs"];
    run(&programs).refused(4, &["item web", "nowhere.tar"]);
    let programs = ["set.yaml", "--programs", "nowhere"];
    fs::write(site.path("set.yaml"), "items: []\n").expect("written");
    run(&programs).refused(5, &["nowhere/muster-init is not there"]);
}
