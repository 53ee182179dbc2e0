//! Live upgrade: another program takes over, and nobody but the manager is replaced.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use muster_lab::machine::{Binaries, Build};
use muster_lab::muster;
use muster_lab::poll_until;

use crate::rig::{Rig, TIME, programs};
use crate::scene::{self, Scene, Size};

const SIZE: Size = Size {
    daemons: 40,
    sockets: 5,
    timers: 3,
};

/// Puts other programs in the place of those that run, as a package manager does.
fn install(from: &Binaries, into: &Binaries) {
    for (_, name) in muster::PROGRAMS {
        let staged = into.path(&format!(".{name}.new"));
        fs::copy(from.path(name), &staged).unwrap();
        fs::rename(staged, into.path(name)).unwrap();
    }
}

/// The file that a process executes, wherever it has gone since.
fn file_of(host_pid: i32) -> (u64, u64) {
    let metadata = fs::metadata(format!("/proc/{host_pid}/exe")).unwrap();
    (metadata.dev(), metadata.ino())
}

fn upgrade_to(new: &Binaries, rig: &Rig) {
    let core = rig.core().expect("a core runs");
    let old_file = file_of(core.host_pid);
    install(new, rig.programs());
    rig.ok(&["daemon-reexec"]);
    poll_until(TIME, "the new program runs", || {
        rig.core()
            .is_some_and(|core| file_of(core.host_pid) != old_file)
    });
    rig.ok(&["is-active", "basic.target"]);
}

/// Has other files of the same programs take over.
pub(crate) fn upgrade(rig: &Rig) {
    upgrade_to(&programs(), rig);
}

fn upgrade_from(old: Binaries) {
    let new = programs();
    let rig = Rig::boot_with(old, |builder| scene::build(builder, SIZE));
    let scene = Scene::start(&rig, SIZE);
    upgrade_to(&new, &rig);
    scene.assert_goes_on(&rig, "the upgrade");
    assert_eq!(rig.ok(&["is-active", "scene.target"]), "active\n");
    scene.finish(&rig);
}

#[test]
fn another_file_of_the_same_program_takes_over() {
    muster_lab::require!(Root, Cgroup2);
    upgrade_from(programs());
}

/// Builds the programs of the commit before this one; none when it has none of them or history is cut off.
fn previous_programs(folder: &Path) -> Option<Binaries> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(&workspace)
            .args(arguments)
            .output()
            .ok()?;
        output.status.success().then_some(output.stdout)
    };
    let archive = git(&["archive", "HEAD~1"])?;
    let mut unpack = Command::new("tar")
        .args(["-x", "-C"])
        .arg(folder)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut unpack.stdin.take()?, &archive).ok()?;
    unpack.wait().ok()?.success().then_some(())?;
    let target = workspace.join("target/previous");
    Binaries::build_in(
        folder,
        &target,
        Build::Test,
        muster::PROGRAMS,
        &["muster-core/fault-points"],
    )
    .ok()
}

/// Building another commit takes minutes, so this runs only with `make soak`.
#[test]
fn soak_previous_commit_hands_over_to_this_one() {
    muster_lab::require!(Root, Cgroup2);
    if muster_lab::rounds(0, 1) == 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = previous_programs(folder.path()) else {
        eprintln!(
            "skipped: soak_previous_commit_hands_over_to_this_one: no earlier commit can be built"
        );
        return;
    };
    upgrade_from(old);
}
