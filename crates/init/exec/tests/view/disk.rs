//! Images for tests, and disks with partitions.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use muster_mounts::{Image, Part, PartOptions};

pub(crate) const SECTOR: u64 = 512;
/// Where the first partition begins.
const FIRST: u64 = 64;
/// Types of partitions as they are on disk.
pub(crate) const ROOT: [u8; 16] = [
    0xE3, 0xBC, 0x68, 0x4F, 0xCD, 0xE8, 0xB1, 0x4D, 0x96, 0xE7, 0xFB, 0xCA, 0xF9, 0x84, 0xB7, 0x09,
];
pub(crate) const USR: [u8; 16] = [
    0x0C, 0x68, 0x84, 0x84, 0x21, 0x95, 0xC6, 0x48, 0x9C, 0x11, 0xB0, 0x72, 0x06, 0x56, 0xF6, 0x9E,
];
pub(crate) const HOME: [u8; 16] = [
    0xE1, 0xC7, 0x3A, 0x93, 0xB4, 0x2E, 0x13, 0x4F, 0xB8, 0x44, 0x0E, 0x14, 0xE2, 0xAE, 0xF9, 0x15,
];
pub(crate) const LINUX: [u8; 16] = [
    0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4,
];
/// The attribute of a partition that nobody writes.
pub(crate) const READ_ONLY: u64 = 1 << 60;

/// Runs a program that makes an image.
pub(crate) fn make(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
}

/// An ext4 of four MiB with the files of a folder.
pub(crate) fn make_ext4(source: &str, path: &str) {
    fs::File::create(path).unwrap().set_len(4 << 20).unwrap();
    make("/usr/sbin/mkfs.ext4", &["-q", "-d", source, path]);
}

pub(crate) fn make_squashfs(source: &str, path: &str) {
    make(
        "/usr/bin/mksquashfs",
        &[source, path, "-quiet", "-no-progress"],
    );
}

pub(crate) fn image(path: &str, options: &[(Part, &str)]) -> Image {
    let options = options.iter().map(|(part, words)| PartOptions {
        part: *part,
        words: (*words).into(),
    });
    Image {
        path: path.into(),
        options: options.collect(),
    }
}

/// A partition: its type, its attributes, and the file with what is in it.
pub(crate) type Content<'a> = ([u8; 16], u64, &'a str);

/// Makes a disk with these partitions, one after the other.
pub(crate) fn make_disk(path: &str, contents: &[Content<'_>]) {
    const COUNT: u32 = 16;
    let mut list = vec![0; usize::try_from(COUNT).unwrap() * 128];
    let mut disk = fs::File::create(path).unwrap();
    let mut next = FIRST;
    for ((kind, attributes, file), entry) in contents.iter().zip(list.chunks_exact_mut(128)) {
        let bytes = fs::read(file).unwrap();
        let sectors = u64::try_from(bytes.len()).unwrap().div_ceil(SECTOR);
        entry[..16].copy_from_slice(kind);
        entry[32..40].copy_from_slice(&next.to_le_bytes());
        entry[40..48].copy_from_slice(&(next + sectors - 1).to_le_bytes());
        entry[48..56].copy_from_slice(&attributes.to_le_bytes());
        disk.seek(SeekFrom::Start(next * SECTOR)).unwrap();
        disk.write_all(&bytes).unwrap();
        next += sectors;
    }
    disk.set_len((next + FIRST) * SECTOR).unwrap();
    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[24..32].copy_from_slice(&1_u64.to_le_bytes());
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&COUNT.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..].copy_from_slice(&checksum(&list).to_le_bytes());
    let sum = checksum(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    disk.seek(SeekFrom::Start(SECTOR)).unwrap();
    disk.write_all(&header).unwrap();
    disk.seek(SeekFrom::Start(2 * SECTOR)).unwrap();
    disk.write_all(&list).unwrap();
}

/// The checksum of partition tables, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & 0_u32.wrapping_sub(sum & 1))
        })
    });
    !sum
}

/// Whether a loop device has the file behind it, of which it knows the path in its file system.
fn has_loop_device(path: &str) -> bool {
    let devices = fs::read_dir("/sys/block").unwrap();
    devices.flatten().any(|device| {
        let file = device.path().join("loop/backing_file");
        fs::read_to_string(file).is_ok_and(|file| path.ends_with(file.trim()))
    })
}

/// A device is free again a moment after the last mount is gone.
pub(crate) fn assert_free(path: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while has_loop_device(path) {
        assert!(Instant::now() < deadline, "{path} is still in use");
        std::thread::yield_now();
    }
}
