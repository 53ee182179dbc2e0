//! rsync moves only what changed, and is done without where it is not there.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use muster_executor::ssh::SshExecutor;
use muster_executor::{Executor as _, FailureClass, Progress, Transfer, WithoutRsync};
use tokio::sync::watch;

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server};

/// Writes a file as of a moment within one and the same second, as programs do that write often.
fn write_at(path: &Path, content: &[u8], nanosecond: u32) {
    fs::write(path, content).unwrap();
    let moment = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, nanosecond);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(moment).unwrap();
}

#[tokio::test]
async fn rsync_moves_only_what_changed_inside_a_file() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let folder = tempfile::tempdir().unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    fs::create_dir(&from).unwrap();
    let mut content: Vec<u8> = (0..5_000_000u32).flat_map(|it| it.to_be_bytes()).collect();
    write_at(&from.join("image"), &content, 1);
    let upload = Transfer::upload(&from, server.path("work/tree"));
    let first = executor.sync(&upload).await.unwrap();
    assert!(first.rsync && first.bytes >= 20_000_000, "{first:?}");
    content[10_000_000] ^= 0xff;
    write_at(&from.join("image"), &content, 2);
    let before = proxy.passed();
    let second = executor.sync(&upload).await.unwrap();
    assert!(second.rsync && second.bytes < 200_000, "{second:?}");
    // On the wire too, with keys, packets and probes.
    assert!(proxy.passed() - before < 400_000);
    assert!(fs::read(server.path("work/tree/image")).unwrap() == content);
    let download = Transfer::download(server.path("work/tree"), &back);
    executor.sync(&download).await.unwrap();
    content[3] ^= 0xff;
    write_at(&server.path("work/tree/image"), &content, 3);
    let again = executor.sync(&download).await.unwrap();
    assert!(again.rsync && again.bytes < 200_000, "{again:?}");
    assert!(fs::read(back.join("image")).unwrap() == content);
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 5u64;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 32).to_be_bytes()[7]
    });
    bytes.take(length).collect()
}

/// Where rsync keeps what it could not finish.
const PARTS: &str = ".muster-part-rsync";

#[tokio::test]
async fn rsync_that_is_cut_again_and_again_goes_on_as_long_as_it_gets_on() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let folder = tempfile::tempdir().unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    fs::create_dir(&from).unwrap();
    let content = noise(24_000_000);
    fs::write(from.join("image"), &content).unwrap();
    let there = server.path("work/tree");
    let transfers = [
        Transfer::upload(&from, &there),
        Transfer::download(&there, &back),
    ];
    for (index, mut transfer) in (1..).zip(transfers) {
        // Less than all pauses together.
        transfer.patience = Duration::from_millis(600);
        let before = proxy.passed();
        proxy.cut_every(5_000_000, 4);
        let report = executor.sync(&transfer).await.unwrap();
        // A cut may come when the file is done, and not known to be.
        assert!(
            report.rsync && (1..=2).contains(&report.files),
            "{report:?}"
        );
        assert_eq!(proxy.cuts(), index * 4);
        // It did not begin again: what was there before a cut was used.
        let passed = proxy.passed() - before;
        assert!(passed < 36_000_000, "{passed} bytes passed, {report:?}");
    }
    for folder in [&there, &back] {
        assert!(fs::read(folder.join("image")).unwrap() == content);
        assert!(!folder.join(PARTS).exists());
    }
}

#[tokio::test]
async fn what_rsync_could_not_finish_never_has_the_name_of_the_file() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let folder = tempfile::tempdir().unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("image"), noise(24_000_000)).unwrap();
    let there = server.path("work/tree");
    let mut upload = Transfer::upload(&from, &there);
    upload.patience = Duration::ZERO;
    proxy.cut_after(10_000_000);
    let error = executor.sync(&upload).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Interrupted);
    // The machine's rsync ends by itself, and keeps what it has.
    let deadline = std::time::Instant::now() + PATIENCE;
    while !there.join(PARTS).join("image").exists() {
        assert!(std::time::Instant::now() < deadline, "nothing was kept");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!there.join("image").exists());
    // Nor does it come back as a file, whichever way.
    fs::write(there.join("other"), b"x").unwrap();
    let download = Transfer::download(&there, &back);
    for sync in [false, true] {
        let report = match sync {
            true => executor.sync(&download).await.unwrap(),
            false => executor.copy(&download).await.unwrap(),
        };
        assert_eq!(report.rsync, sync);
        assert_eq!(fs::read_dir(&back).unwrap().count(), 1);
    }
    // What was kept goes with the folder that it is in.
    upload.delete = true;
    fs::remove_file(from.join("image")).unwrap();
    fs::create_dir(there.join("gone")).unwrap();
    fs::rename(there.join(PARTS), there.join("gone").join(PARTS)).unwrap();
    executor.sync(&upload).await.unwrap();
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
}

#[tokio::test]
async fn rsync_tells_what_it_did_and_how_far_it_is() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let executor = server.executor();
    let folder = tempfile::tempdir().unwrap();
    let tree = server.path("work/tree");
    fs::create_dir_all(tree.join("deep")).unwrap();
    fs::write(tree.join("deep/large"), noise(3_000_000)).unwrap();
    fs::write(tree.join("small"), b"x").unwrap();
    fs::write(tree.join("line\nbreak"), b"y").unwrap();
    std::os::unix::fs::symlink("small", tree.join("link")).unwrap();
    let pipe = std::ffi::CString::new(tree.join("pi\npe").to_str().unwrap()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let to = folder.path().join("to");
    fs::create_dir_all(to.join("gone")).unwrap();
    fs::write(to.join("gone/file"), b"z").unwrap();
    let (sender, mut seen) = watch::channel(Progress::default());
    let mut download = Transfer::download(&tree, &to);
    download.delete = true;
    download.progress = Some(sender);
    let report = executor.sync(&download).await.unwrap();
    assert!(report.rsync, "{report:?}");
    assert_eq!((report.files, report.removed), (4, 2), "{report:?}");
    assert_eq!(report.skipped.len(), 1);
    assert_eq!(report.skipped[0].as_bytes(), b"pi\npe");
    let last = seen.borrow_and_update().clone();
    assert_eq!((last.files, last.files_done), (4, 4));
    assert_eq!(last.bytes_done, 3_000_002);
    assert!(last.bytes >= last.bytes_done);
    let again = executor.sync(&download).await.unwrap();
    assert_eq!((again.files, again.removed), (0, 0), "{again:?}");
}

/// The processes of rsync on this side: their group is led by a child of this process.
fn local_rsyncs() -> Vec<rustix::process::Pid> {
    let own = i32::try_from(std::process::id()).unwrap();
    let stat = |pid: i32| -> Option<(String, i32, i32)> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let mut words = rest.split_whitespace().skip(1);
        let parent = words.next()?.parse().ok()?;
        Some((name.to_owned(), parent, words.next()?.parse().ok()?))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            stat(*pid).is_some_and(|(name, _, group)| {
                name == "rsync" && stat(group).is_some_and(|(_, parent, _)| parent == own)
            })
        })
        .filter_map(rustix::process::Pid::from_raw)
        .collect()
}

#[tokio::test]
async fn a_disk_that_is_slower_than_the_network_holds_rsync_up_and_no_more() {
    use rustix::process::{Signal, kill_process};
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(server.path("work/tree")).unwrap();
    let content: Vec<u8> = (0..8_000_000u32).flat_map(|it| it.to_be_bytes()).collect();
    fs::write(server.path("work/tree/image"), &content).unwrap();
    let mut download = Transfer::download(server.path("work/tree"), folder.path());
    // A second try would hide that the first one failed.
    download.patience = Duration::ZERO;
    let before = proxy.passed();
    let hold = async {
        // As soon as content flows, nobody takes it here for a while ...
        while proxy.passed() - before < 1_000_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let held = local_rsyncs();
        assert!(!held.is_empty());
        held.iter()
            .for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        // ... until everything on the way is full.
        let mut passed = 0;
        while passed != proxy.passed() {
            passed = proxy.passed();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        held.iter()
            .for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    };
    let (report, ()) = tokio::join!(executor.sync(&download), hold);
    assert!(report.unwrap().rsync);
    assert!(fs::read(folder.path().join("image")).unwrap() == content);
}

#[tokio::test]
async fn without_rsync_in_the_machine_files_are_copied() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    // A program of that name that is none stands before the real one.
    let program = server.path("bin/rsync");
    fs::write(&program, "#!/bin/sh\nexit 127\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"content").unwrap();
    let upload = Transfer::upload(folder.path(), server.path("work/tree"));
    let report = server.executor().sync(&upload).await.unwrap();
    assert!(!report.rsync && report.files == 1, "{report:?}");
    assert_eq!(report.without_rsync, Some(WithoutRsync::There));
    let there = fs::read(server.path("work/tree/file")).unwrap();
    assert_eq!(there, b"content");
}

#[tokio::test]
async fn what_rsync_complains_about_is_said() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"content").unwrap();
    fs::write(server.path("work/tree"), b"a file").unwrap();
    let upload = Transfer::upload(folder.path(), server.path("work/tree"));
    let error = server.executor().sync(&upload).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(!source.is_empty());
    assert_eq!(fs::read(server.path("work/tree")).unwrap(), b"a file");
}
