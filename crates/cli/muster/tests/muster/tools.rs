//! Help, completions, manual pages, and what happens to answers that nobody reads.

use std::fs;
use std::process::Stdio;

use super::rig::Site;

#[test]
fn help_says_the_exit_codes_and_a_wrong_word_is_a_usage_error() {
    let site = Site::empty();
    let help = site.run(&["--help"]).ok().stdout;
    assert!(
        help.contains("Exit codes:") && help.contains("pki") && !help.contains('\x1b'),
        "{help}"
    );
    site.run(&["frobnicate"]).refused(2, &["--help"]);
    site.run(&["pki", "list", "--due", "soon"])
        .refused(2, &["--help"]);
    site.run(&[]).refused(2, &[]);
}

#[test]
fn completions_and_manual_pages_are_made_for_every_command() {
    let site = Site::empty();
    for shell in ["bash", "zsh", "fish"] {
        let text = site.run(&["completions", shell]).ok().stdout;
        assert!(
            text.contains("provision") && text.contains("same-key"),
            "{shell}"
        );
    }
    assert!(site.run(&["man"]).ok().stdout.starts_with(".ie"));
    site.run(&["man", "pages"]).ok();
    for page in ["muster.1", "muster-pki-issue.1", "muster-node-provision.1"] {
        assert!(site.path("pages").join(page).exists(), "{page}");
    }
    fs::write(site.path("file"), "").expect("a file");
    site.run(&["man", "file/pages"]).refused(1, &["file/pages"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_without_a_message() {
    let site = Site::empty();
    let mut child = site
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{output:?}");
}
