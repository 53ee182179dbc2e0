use std::error::Error as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::time::poll_until;

const FILES: usize = 12;

/// How careful the writer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    Careful,
    ForgetsFile,
    ForgetsFolder,
}

/// Replaces files the classic way (new file, rename over the old one) and acknowledges each.
fn write_files(writer: Writer, folder: &Path) {
    for index in 0..FILES {
        let (name, content) = (file_name(folder, index), content(index));
        let fresh = name.with_extension("new");
        let mut file = File::create(&fresh).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        if writer != Writer::ForgetsFile {
            file.sync_all().unwrap();
        }
        fs::rename(&fresh, &name).unwrap();
        if writer != Writer::ForgetsFolder {
            File::open(folder).unwrap().sync_all().unwrap();
        }
        ack(&index.to_string()).unwrap();
    }
}

fn file_name(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("file-{index}"))
}

fn content(index: usize) -> String {
    format!("content {index} ").repeat(700)
}

fn check_files(mount: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    for ack in acks {
        let index: usize = ack.text.parse()?;
        let name = file_name(mount, index);
        let found = fs::read_to_string(&name).map_err(|error| format!("{index}: {error}"))?;
        if found != content(index) {
            return Err(format!("{index}: {} bytes differ", found.len()).into());
        }
    }
    Ok(())
}

fn cut_test(test: &str, writer: Writer, seed: u64) -> Result<CutReport, CutTestError> {
    let test = format!("powercut::tests::{test}");
    CutTest::new(|mount| reexec(&test, "writer", mount), check_files)
        .rounds(24)
        .seed(seed)
        .run()
        .inspect(|report| println!("{writer:?}: {} acks, {report:?}", report.acks.len()))
}

fn assert_loss(outcome: Result<CutReport, CutTestError>) {
    match outcome {
        Err(CutTestError::Lost(cut, _)) => assert!(cut.acks > 0),
        other => panic!("no loss was found: {other:?}"),
    }
}

#[test]
fn a_careful_writer_never_loses_what_it_acknowledged() {
    if let Some(role) = role() {
        return write_files(Writer::Careful, &role.folder);
    }
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let test = "a_careful_writer_never_loses_what_it_acknowledged";
    for seed in [1, 2, 3] {
        let report = cut_test(test, Writer::Careful, seed).unwrap();
        assert_eq!((report.cuts, report.acks.len()), (24, FILES));
        assert!(report.flushes >= 2 * FILES, "{report:?}");
        let a_round = report.cut_time / 24;
        assert!(a_round < Duration::from_secs(1), "{a_round:?} a cut");
    }
}

#[test]
fn a_missing_fsync_of_the_file_is_found() {
    if let Some(role) = role() {
        return write_files(Writer::ForgetsFile, &role.folder);
    }
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    for seed in 1..=5 {
        assert_loss(cut_test(
            "a_missing_fsync_of_the_file_is_found",
            Writer::ForgetsFile,
            seed,
        ));
    }
}

#[test]
fn a_missing_fsync_of_the_folder_is_found() {
    if let Some(role) = role() {
        return write_files(Writer::ForgetsFolder, &role.folder);
    }
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    for seed in 1..=5 {
        assert_loss(cut_test(
            "a_missing_fsync_of_the_folder_is_found",
            Writer::ForgetsFolder,
            seed,
        ));
    }
}

#[test]
fn prepared_content_survives_every_cut() {
    if let Some(role) = role() {
        return write_files(Writer::Careful, &role.folder);
    }
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let check = |mount: &Path, acks: &[Ack]| {
        assert_eq!(fs::read_to_string(mount.join("old")).unwrap(), "before");
        check_files(mount, acks)
    };
    let test = "powercut::tests::prepared_content_survives_every_cut";
    CutTest::new(|mount| reexec(test, "writer", mount), check)
        .rounds(10)
        .run_prepared(|mount| fs::write(mount.join("old"), "before"))
        .unwrap();
}

#[test]
fn a_program_that_fails_hangs_or_promises_nothing_is_an_error() {
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let run = |script: &'static str| {
        CutTest::new(
            |_: &Path| {
                let mut command = Command::new("sh");
                command.args(["-c", script]);
                Ok(command)
            },
            check_files,
        )
        .disk_size(16 << 20)
        .deadline(Duration::from_millis(500))
        .run()
    };
    assert!(
        matches!(run("exit 3"), Err(CutTestError::Program(status)) if status.code() == Some(3))
    );
    assert!(matches!(run("exit 0"), Err(CutTestError::NoAcks)));
    let started = Instant::now();
    assert!(matches!(
        run("sleep 60"),
        Err(CutTestError::Protocol { acks: 0, .. })
    ));
    // The program closed the socket, so only its end is waited for.
    assert!(matches!(
        run("exec <&-; sleep 60"),
        Err(CutTestError::Protocol { acks: 0, .. })
    ));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn impossible_sizes_are_refused() {
    for size in [0, 4096, (16 << 20) + 1, 1 << 40] {
        assert!(
            matches!(LoggedDisk::create(size), Err(DiskError::Size(refused)) if refused == size)
        );
    }
}

#[test]
fn the_disk_is_a_file_for_other_namespaces() {
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let disk = LoggedDisk::create(16 << 20).unwrap();
    let path = disk.path();
    let before = disk.position();
    let size = std::thread::spawn(move || {
        let file = File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"boot", 0).unwrap();
        file.sync_data().unwrap();
        file.metadata().unwrap().len()
    });
    assert_eq!(size.join().unwrap(), 16 << 20);
    let log = disk.log();
    assert_eq!((log.end() - before, log.flushes(before, log.end())), (2, 1));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.img");
    log.image_at(log.end(), Unflushed::DropAll)
        .write_to(&copy)
        .unwrap();
    assert_eq!(&fs::read(copy).unwrap()[..4], b"boot");
}

/// The loop device under a mount, named for good: its number and its sequence number.
fn loop_under(mount: &Path) -> String {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.contains(mount.to_str().unwrap()));
    let device = line
        .unwrap()
        .strip_prefix("/dev/")
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let sequence = fs::read_to_string(format!("/sys/block/{device}/diskseq")).unwrap();
    format!("{device} {sequence}")
}

fn loop_is_attached(named: &str) -> bool {
    let (device, sequence) = named.split_once(' ').unwrap();
    let block = Path::new("/sys/block").join(device);
    fs::read_to_string(block.join("diskseq")).unwrap() == sequence
        && block.join("loop/backing_file").exists()
}

#[test]
fn a_killed_rig_leaves_nothing() {
    if let Some(role) = role() {
        return be_busy(&role.folder);
    }
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let test = "powercut::tests::a_killed_rig_leaves_nothing";
        let mut rig = reexec(test, "rig", folder.path()).unwrap().spawn().unwrap();
        poll_until(Duration::from_secs(20), "the rig is busy", || {
            ready.exists()
        });
        let named = fs::read_to_string(&ready).unwrap();
        assert!(loop_is_attached(&named));
        rig.kill().unwrap();
        rig.wait().unwrap();
        poll_until(Duration::from_secs(20), "its loop device is free", || {
            !loop_is_attached(&named)
        });
    }
}

/// Keeps a disk busy until the process is killed.
fn be_busy(folder: &Path) {
    let disk = LoggedDisk::create(16 << 20).unwrap();
    let mounted = disk.mount().unwrap();
    let (ready, unfinished) = (folder.join("ready"), folder.join("unfinished"));
    fs::write(&unfinished, loop_under(mounted.path())).unwrap();
    fs::rename(unfinished, ready).unwrap();
    for round in 0_u64.. {
        let name = mounted.path().join((round % 50).to_string());
        fs::write(&name, vec![7; 100_000]).unwrap();
        if round % 7 == 0 {
            File::open(name).unwrap().sync_all().unwrap();
        }
    }
}

#[test]
fn a_panic_leaves_nothing() {
    crate::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let (send, named) = std::sync::mpsc::sync_channel(1);
    let rig = std::thread::spawn(move || {
        let disk = LoggedDisk::create(16 << 20).unwrap();
        let mounted = disk.mount().unwrap();
        let image = disk.log().image_at(0, Unflushed::DropAll).mount().unwrap();
        let names = [mounted.path(), image.path()].map(loop_under);
        send.send(names).unwrap();
        panic!("on purpose");
    });
    assert!(rig.join().is_err());
    for named in named.recv().unwrap() {
        assert!(!loop_is_attached(&named));
    }
}

#[test]
fn errors_name_the_cut_and_keep_their_cause() {
    let cut = Cut {
        position: 7,
        unflushed: Unflushed::Torn(3),
        acks: 2,
    };
    let error = CutTestError::Lost(cut, "row 2 is missing".into());
    assert_eq!(
        error.to_string(),
        "data was lost by a power cut at position 7 (Torn(3)), with 2 acknowledged"
    );
    assert_eq!(error.source().unwrap().to_string(), "row 2 is missing");
}
