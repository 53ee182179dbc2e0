use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const TIME: Duration = Duration::from_secs(10);

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("its path");
    (folder, path)
}

fn armed(file: &Path, devices: &[PathBuf]) -> FolderWatch {
    let mut watch = FolderWatch::new().expect("a watch");
    let folders = Folders::around(file, devices.iter().map(PathBuf::as_path));
    watch.arm(&folders).expect("all folders");
    watch
}

async fn tells(watch: &FolderWatch) {
    let changed = tokio::time::timeout(TIME, watch.changed()).await;
    changed.expect("an event in time").expect("an event");
}

/// Whether there is nothing to tell. What was done is in the queue when the system call returns, so nobody has to wait.
async fn is_quiet(watch: &FolderWatch) -> bool {
    tokio::time::timeout(Duration::from_millis(1), watch.changed())
        .await
        .is_err()
}

#[tokio::test]
async fn names_that_come_and_go_are_told_and_writes_are_not() {
    let (_keep, path) = folder();
    let (devices, config) = (path.join("dev"), path.join("etc"));
    fs::create_dir(&devices).expect("a folder");
    fs::create_dir(&config).expect("a folder");
    let device = devices.join("device");
    fs::write(devices.join("null"), "").expect("a file");
    let watch = armed(&config.join("file"), std::slice::from_ref(&device));
    fs::write(devices.join("null"), "written to").expect("a write");
    assert!(is_quiet(&watch).await, "a write to a device is nothing new");
    symlink("null", &device).expect("a device");
    tells(&watch).await;
    fs::remove_file(&device).expect("removed");
    tells(&watch).await;
    assert!(is_quiet(&watch).await);
    fs::write(config.join("file"), "new").expect("a write");
    tells(&watch).await;
}

#[tokio::test]
async fn the_nearest_folder_tells_when_the_next_one_appears() {
    let (_keep, path) = folder();
    let device = path.join("bus/usb/001");
    let mut watch = armed(&path.join("file"), std::slice::from_ref(&device));
    for folder in ["bus", "bus/usb"] {
        fs::create_dir(path.join(folder)).expect("a folder");
        tells(&watch).await;
        let folders = Folders::around(&path.join("file"), [device.as_path()]);
        watch.arm(&folders).expect("all folders");
    }
    fs::write(&device, "").expect("a device");
    tells(&watch).await;
}

#[test]
fn every_link_on_the_way_to_a_device_is_watched() {
    let (_keep, path) = folder();
    for name in ["by-id", "nodes", "far"] {
        fs::create_dir(path.join(name)).expect("a folder");
    }
    symlink("../nodes/link", path.join("by-id/name")).expect("a link");
    symlink(path.join("far/gone"), path.join("nodes/link")).expect("a link that leads nowhere");
    symlink("circle", path.join("circle")).expect("a circle");
    let devices = [path.join("by-id/name"), path.join("circle")];
    let folders = Folders::around(&path.join("far/file"), devices.iter().map(PathBuf::as_path));
    let expected = ["by-id", "far", "nodes"].map(|name| path.join(name));
    let watched: Vec<_> = folders.0.keys().cloned().collect();
    assert_eq!(watched, [vec![path.clone()], expected.to_vec()].concat());
    assert!(
        folders.0[&path.join("far")].contains(WatchFlags::CLOSE_WRITE),
        "there is also the file"
    );
    assert!(!folders.0[&path.join("nodes")].contains(WatchFlags::CLOSE_WRITE));
}

#[tokio::test]
async fn what_is_not_asked_for_any_more_is_not_watched() {
    let (_keep, path) = folder();
    for name in ["a", "b"] {
        fs::create_dir(path.join(name)).expect("a folder");
    }
    let mut watch = armed(&path.join("a/file"), &[path.join("b/device")]);
    let folders = Folders::around(&path.join("a/file"), []);
    watch.arm(&folders).expect("all folders");
    // The kernel tells that it took the watch away; then it is quiet.
    tells(&watch).await;
    fs::write(path.join("b/device"), "").expect("a device");
    assert!(is_quiet(&watch).await);
}
