//! Compressed streams, digests, ends, and readers that fail.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;

use muster_layer::{Compression, Durability, EndOfLayer, Options, Ownership, UnpackError, unpack};
use sha2::{Digest as _, Sha256};

use crate::rig::{Rig, chain};
use crate::tar::{self, file, folder, tar};

fn layer() -> Vec<u8> {
    tar([folder("d"), file("d/x").content(noise(200_000))])
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(step).take(length).collect()
}

fn options() -> Options {
    Options {
        ownership: Ownership::Caller,
        durability: Durability::None,
        ..Options::default()
    }
}

fn sha(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[test]
fn digests_are_of_what_was_read_and_what_it_unpacks_to() {
    let plain = layer();
    for (compression, bytes) in [
        (Compression::None, plain.clone()),
        (Compression::Gzip, tar::gzip(&plain)),
        (Compression::Zstd, tar::zstd(&plain)),
    ] {
        let rig = Rig::new();
        let options = Options {
            digest: Some(sha(&bytes)),
            diff_id: Some(sha(&plain)),
            ..options()
        };
        let report = rig.unpack(&bytes, compression, &options).unwrap();
        assert_eq!((report.digest, report.diff_id), (sha(&bytes), sha(&plain)));
        assert_eq!(report.compressed_bytes, bytes.len() as u64);
        assert_eq!(report.archive_bytes, plain.len() as u64);
        assert_eq!((report.entries, report.files, report.folders), (2, 1, 1));
        assert_eq!(report.file_bytes, 200_000);
        assert_eq!(rig.tree().node("d/x").content, noise(200_000));
    }
}

#[test]
fn members_and_frames_are_one_stream() {
    let plain = layer();
    for cut in [0, 1, 511, 512, 70_000, plain.len()] {
        let (first, second) = plain.split_at(cut);
        let gzip = [tar::gzip(first), tar::gzip(b""), tar::gzip(second)].concat();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
        let zstd = [tar::zstd(first), skippable, tar::zstd(second)].concat();
        for (bytes, compression) in [(gzip, Compression::Gzip), (zstd, Compression::Zstd)] {
            let report = Rig::new().unpack(&bytes, compression, &options()).unwrap();
            assert_eq!(report.diff_id, sha(&plain));
        }
    }
}

/// A reader that gives any number of bytes but the wanted one, and is interrupted.
struct Dripping<'a>(&'a [u8], usize);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = (self.1 * 7919 % 4001)
            .clamp(1, buffer.len())
            .min(self.0.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn a_reader_may_give_bytes_as_it_likes() {
    let plain = layer();
    for (compression, bytes) in [
        (Compression::None, plain.clone()),
        (Compression::Gzip, tar::gzip(&plain)),
        (Compression::Zstd, tar::zstd(&plain)),
    ] {
        let rig = Rig::new();
        let folder = File::open(rig.destination()).unwrap();
        let reader = Dripping(&bytes, 0);
        let report = unpack(reader, compression, folder.as_fd(), &options()).unwrap();
        assert_eq!(report.diff_id, sha(&plain));
    }
}

/// Gives a gigabyte of a file, then says why there is no more.
struct Failing(Vec<u8>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("the link went down"));
        }
        let length = self.0.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0.drain(..length);
        Ok(length)
    }
}

#[test]
fn a_readers_error_is_told_with_the_entry() {
    let rig = Rig::new();
    let folder = File::open(rig.destination()).unwrap();
    let reader = Failing(layer()[..100_000].to_vec());
    let error = unpack(reader, Compression::None, folder.as_fd(), &options()).unwrap_err();
    assert!(matches!(error, UnpackError::Read { .. }));
    assert_eq!(
        chain(&error),
        "cannot read the layer at entry 2 \"d/x\": the link went down"
    );
}

/// A reader without end: a refusal must not wait for it.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(0xa5);
        Ok(buffer.len())
    }
}

#[test]
fn a_refusal_stops_the_reader() {
    let rig = Rig::new();
    let folder = File::open(rig.destination()).unwrap();
    let error = unpack(Endless, Compression::None, folder.as_fd(), &options()).unwrap_err();
    assert!(
        chain(&error).ends_with("its header has a wrong checksum"),
        "{error:?}"
    );
}

#[test]
fn a_lenient_end_ignores_what_follows_but_hashes_it() {
    let plain = layer();
    let whole = plain.len();
    let lenient = Options {
        end: EndOfLayer::Lenient,
        ..options()
    };
    let gzip_junk = [tar::gzip(&plain), b"junk\x1f\x8b".repeat(50_000)].concat();
    let zstd_junk = [tar::zstd(&plain), b"junk".repeat(50_000)].concat();
    for (compression, bytes, diff_id) in [
        (
            Compression::None,
            plain[..whole - 1024].to_vec(),
            sha(&plain[..whole - 1024]),
        ),
        (
            Compression::None,
            plain[..whole - 512].to_vec(),
            sha(&plain[..whole - 512]),
        ),
        (
            Compression::None,
            [&plain[..], b"junk"].concat(),
            sha(&[&plain[..], b"junk"].concat()),
        ),
        (Compression::Gzip, gzip_junk, sha(&plain)),
        (Compression::Zstd, zstd_junk, sha(&plain)),
    ] {
        let report = Rig::new().unpack(&bytes, compression, &lenient).unwrap();
        assert_eq!((report.digest, report.diff_id), (sha(&bytes), diff_id));
        assert_eq!(report.files, 1);
    }
    let cut = Rig::new().unpack(&plain[..whole - 2000], Compression::None, &lenient);
    assert!(matches!(cut, Err(UnpackError::Damaged { .. })), "{cut:?}");
}

#[test]
fn a_large_window_is_accepted_where_it_is_allowed() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    io::copy(&mut &*layer(), &mut encoder).unwrap();
    let bytes = encoder.finish().unwrap();
    let mut options = options();
    options.limits.zstd_window_log = 27;
    let report = Rig::new()
        .unpack(&bytes, Compression::Zstd, &options)
        .unwrap();
    assert_eq!(report.diff_id, sha(&layer()));
}

#[test]
fn the_destination_must_be_an_empty_folder() {
    let rig = Rig::new();
    rig.unpack(&layer(), Compression::None, &options()).unwrap();
    let again = rig.unpack(&layer(), Compression::None, &options());
    assert!(
        matches!(again, Err(UnpackError::DestinationNotEmpty)),
        "{again:?}"
    );
    let file = File::open(rig.destination().join("d/x")).unwrap();
    let into_file = unpack(&*layer(), Compression::None, file.as_fd(), &options());
    assert!(
        matches!(into_file, Err(UnpackError::Destination { .. })),
        "{into_file:?}"
    );
}
