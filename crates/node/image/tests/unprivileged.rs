//! A store of a user without root: what it keeps is whole to itself, and an image to the kernel.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::{TestLayout, open_with, settings};
use muster_lab::oci::{Compression, Image, LayerBuilder};

/// Set in the process that runs the test as somebody else.
const VARIABLE: &str = "MUSTER_IMAGE_UNPRIVILEGED";
const TEST: &str =
    "without_root_images_with_whiteouts_and_locked_files_are_installed_checked_and_mounted";

#[test]
fn without_root_images_with_whiteouts_and_locked_files_are_installed_checked_and_mounted() {
    if std::env::var_os(VARIABLE).is_some() || !rustix::process::geteuid().is_root() {
        return as_a_user();
    }
    muster_lab::require!(Root, Tool("setpriv"), Tool("unshare"));
    // The program must be readable to the user, wherever it was built.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(&program)
        .args(["--exact", TEST, "--nocapture"])
        .env(VARIABLE, "1")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(
        passed,
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn as_a_user() {
    assert!(!rustix::process::geteuid().is_root());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(install_check_and_mount());
}

async fn install_check_and_mount() {
    let lower = LayerBuilder::new()
        .folder("opt", 0o555)
        .file("opt/gone", "gone", 0o644)
        .file("opt/locked", "locked", 0o000)
        .folder("closed", 0o000)
        .file("closed/in", "in", 0o444)
        .folder("hidden", 0o755)
        .file("hidden/old", "old", 0o644);
    let upper = LayerBuilder::new()
        .folder("opt", 0o555)
        .whiteout("opt/gone")
        .folder("hidden", 0o755)
        .opaque("hidden")
        .file("hidden/new", "new", 0o644);
    let image = Image::new()
        .layer(lower.build(Compression::Gzip).unwrap())
        .layer(upper.build(Compression::None).unwrap());
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
    assert_eq!(
        seen(folder.path(), &installed.layers),
        ["closed/in", "hidden/new", "opt/locked"]
    );
    drop(store);

    // It is found again, and goes when its time is over.
    let (store, report) = open_with(settings(folder.path())).await;
    assert_eq!(report, Default::default());
    assert_eq!(store.installed(digest).await.unwrap(), Some(installed));
    let now = SystemTime::now();
    store.keep(&Default::default(), now).await.unwrap();
    let later = now + Duration::from_secs(365 * 24 * 60 * 60);
    store.collect(later).await.unwrap();
    let trash = std::fs::read_dir(folder.path().join("images/trash")).unwrap();
    assert_eq!((store.usage().used_bytes, trash.count()), (0, 0));
}

/// The files of an image, as an overlay of its layers shows them in a user namespace.
fn seen(folder: &Path, layers: &[std::path::PathBuf]) -> Vec<String> {
    let script =
        r#"mount -t overlay overlay -o "userxattr,lowerdir=$1" "$0" && cd "$0" && find . -type f"#;
    let merged = folder.join("merged");
    std::fs::create_dir(&merged).unwrap();
    // The uppermost first.
    let layers: Vec<_> = layers.iter().rev().map(|it| it.to_str().unwrap()).collect();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(&merged)
        .arg(layers.join(":"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<_> = found
        .lines()
        .map(|it| it.trim_start_matches("./").to_owned())
        .collect();
    found.sort();
    found
}
