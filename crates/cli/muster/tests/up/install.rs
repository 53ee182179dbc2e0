//! `make install`: what is where, and that it works from there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::all_active;
use crate::rig::{Programs, Site};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn text(output: &Output) -> String {
    let (said, errors) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(&[said.as_slice(), errors].concat()).into_owned()
}

#[track_caller]
fn ok(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// Every file below a folder, with its mode.
fn tree(folder: &Path) -> BTreeSet<(String, u32)> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mode = path.metadata().expect("a file").permissions().mode() & 0o7777;
            let name = path.strip_prefix(folder).expect("below it");
            found.insert((format!("/{}", name.display()), mode));
        }
    }
    found
}

/// Installs programs that are there already.
fn install(programs: &Path, destination: &Path) -> String {
    let mut script = Command::new(repository().join("scripts/install"));
    ok(script.env("PROGRAMS", programs).env("DESTDIR", destination))
}

#[test]
fn what_is_installed_is_complete_runs_a_unit_and_can_be_removed() {
    require_unit!(Tool("systemd-analyze"));
    let programs = Programs::build();
    let built = tempfile::tempdir().expect("a folder");
    programs.copy_to(built.path());
    let target = tempfile::tempdir().expect("a folder");
    install(built.path(), target.path());
    let installed = tree(target.path());
    for (path, mode) in &installed {
        let is_program = path.starts_with("/usr/bin/")
            || (path.starts_with("/usr/lib/muster/muster-") && !path.ends_with("/installed"));
        let expected = if is_program { 0o755 } else { 0o644 };
        assert_eq!(*mode, expected, "{path} has mode {mode:o}");
    }
    let has = |path: &str| installed.iter().any(|(it, _)| it == path);
    for path in [
        "/usr/bin/muster",
        "/usr/bin/sctl",
        "/usr/lib/muster/muster-cm",
        "/usr/lib/muster/muster-nodemgr",
        "/usr/lib/muster/units/muster-nodemgr.service",
        "/usr/share/doc/muster/examples/machines/nodemgr.yaml",
        "/usr/lib/muster/muster-demo-worker",
        "/usr/lib/muster/units/muster-cm.service",
        "/usr/lib/muster/units/exit.target",
        "/usr/lib/tmpfiles.d/muster.conf",
        "/usr/share/doc/muster/examples/iam.json",
        "/usr/share/man/man1/muster.1",
        "/usr/share/man/man1/muster-up.1",
        "/usr/share/man/man1/sctl.1",
        "/usr/share/bash-completion/completions/muster",
        "/usr/share/zsh/vendor-completions/_sctl",
        "/usr/share/fish/vendor_completions.d/muster.fish",
    ] {
        assert!(has(path), "{path} is not installed");
    }
    install(built.path(), target.path());
    assert_eq!(tree(target.path()), installed, "a second run is an update");

    // Completions are for their shells, examples for their daemons, and units for any init.
    ok(Command::new("bash").arg("-n").arg(
        target
            .path()
            .join("usr/share/bash-completion/completions/muster"),
    ));
    let examples = target.path().join("usr/share/doc/muster/examples");
    for (daemon, example) in [
        ("muster-iam", "iam.json"),
        ("muster-iam", "iam-secondary.json"),
        ("muster-cm", "cm.json"),
        ("muster-sm", "sm.json"),
    ] {
        ok(
            Command::new(target.path().join("usr/lib/muster").join(daemon))
                .arg("--check-config")
                .arg("--config")
                .arg(examples.join(example)),
        );
    }

    // From wherever it was installed to, it finds its own parts.
    let site = Site::boot_with(programs, &[(target.path(), "/opt/muster")]);
    let before = site.picture();
    let done = site.try_up_with("/opt/muster/usr/bin/muster", &[]);
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    assert!(all_active(&site.instances()), "{:#?}", site.instances());
    let done = site.command(&["/opt/muster/usr/bin/muster", "down"]);
    assert!(done.status.success(), "{}", done.stderr);
    site.assert_as(&before);
    // systemd's own opinion of the units, where the programs are where the units say.
    let verified = site.command(&[
        "sh",
        "-c",
        "systemd-analyze verify --man=no /opt/muster/usr/lib/muster/units/muster-*.service 2>&1",
    ]);
    let complaints: Vec<&str> = verified
        .stdout
        .lines()
        .filter(|line| line.contains("/opt/muster/usr/lib/muster/units/"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");

    // The way to remove it that the script tells.
    drop(site);
    let script = fs::read_to_string(repository().join("scripts/install")).expect("a script");
    let told = script.lines().find_map(|it| it.strip_prefix("#   sed "));
    let remove = format!("sed {}", told.expect("it tells"));
    ok(Command::new("bash")
        .args(["-c", &remove])
        .env("DESTDIR", target.path()));
    assert_eq!(tree(target.path()), BTreeSet::new());
}
