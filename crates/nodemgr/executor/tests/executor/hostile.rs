//! A machine that lies about its files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use muster_executor::{Executor as _, FailureClass, Transfer};

use crate::server::Server;

/// An SFTP server that shows one folder with one file of this name, and gives what it is told to give for it.
const LIAR: &str = r#"#!/usr/bin/perl
use strict; use warnings;
binmode STDIN; binmode STDOUT; $| = 1;
my ($name, $content, $listed) = (pack("H*", "@NAME@"), "evil" x 10, 0);
my $size = @SIZE@;
sub get { my $b = ""; while (length $b < $_[0]) { read(STDIN, $b, $_[0] - length $b, length $b) or exit 0 } $b }
sub put { my $p = join "", @_; print pack("N", length $p), $p }
sub text { pack("N", length $_[0]) . $_[0] }
sub attrs { my ($mode, $size) = @_; pack("N", 13) . pack("NN", 0, $size) . pack("N", $mode) . pack("NN", 5, 5) }
while (1) {
  my $p = get(unpack "N", get(4)); my $kind = ord $p;
  if ($kind == 1) { put(chr 2, pack("N", 3)); next }
  my $id = substr $p, 1, 4;
  if ($kind == 17) { put(chr 105, $id, attrs(040755, 0)) }
  elsif ($kind == 11 || $kind == 3) { put(chr 102, $id, text("h")) }
  elsif ($kind == 12 && !$listed++) { put(chr 104, $id, pack("N", 1), text($name), text("x"), attrs(@MODE@, $size)) }
  elsif ($kind == 12) { put(chr 101, $id, pack("N", 1), text("end"), text("")) }
  elsif ($kind == 5) {
    my ($upper, $lower, $asked) = unpack "NNN", substr $p, -12;
    my $data = @GIVEN@;
    length $data ? put(chr 103, $id, text($data)) : put(chr 101, $id, pack("N", 1), text("end"), text(""));
  }
  else { put(chr 101, $id, pack("N", 0), text("ok"), text("")) }
}
"#;

/// What came of a download from there.
struct Downloaded {
    copied: Result<(), FailureClass>,
    /// How many files and folders there are beside the target, and how many bytes are in it.
    beside: usize,
    bytes: u64,
}

async fn download(name: &[u8], given: &str) -> Downloaded {
    download_sized(name, "length $content", given).await
}

async fn download_sized(name: &[u8], size: &str, given: &str) -> Downloaded {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("liar");
    let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = LIAR
        .replace("@NAME@", &hex)
        .replace("@MODE@", "0100644")
        .replace("@SIZE@", size)
        .replace("@GIVEN@", given);
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start_with(program.to_str().unwrap());
    let into = folder.path().join("into");
    fs::create_dir(&into).unwrap();
    let mut transfer = Transfer::download("/anything", into.join("deep/folder"));
    transfer.patience = std::time::Duration::ZERO;
    let copied = server.executor().copy(&transfer).await;
    let beside = fs::read_dir(folder.path()).unwrap().count();
    let files = fs::read_dir(into.join("deep/folder"));
    let files = files.into_iter().flatten().map(Result::unwrap);
    Downloaded {
        copied: copied.map(drop).map_err(|it| it.class),
        beside,
        bytes: files.map(|it| it.metadata().unwrap().len()).sum(),
    }
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused_and_nothing_is_written() {
    if !crate::ssh::can_log_in() {
        return;
    }
    for name in ["../evil", "/evil", "a/../../../evil", "", "a\0b", "a/b"] {
        let came = download(name.as_bytes(), "$content").await;
        assert_eq!(came.copied, Err(FailureClass::Refused), "{name:?}");
        assert_eq!(came.beside, 2, "{name:?}");
    }
    // The same machine with a proper name is believed.
    let came = download(b"evil", "$content").await;
    assert_eq!((came.copied, came.beside, came.bytes), (Ok(()), 2, 40));
}

#[tokio::test]
async fn answers_that_are_longer_than_asked_for_are_refused() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let came = download(b"file", "'x' x 200000").await;
    assert_eq!(came.copied, Err(FailureClass::Refused));
}

#[tokio::test]
async fn a_file_that_is_longer_than_it_was_listed_does_not_fill_the_disk() {
    if !crate::ssh::can_log_in() {
        return;
    }
    // It would go on for 64 MB if it were let.
    let given = "$lower < 64_000_000 ? 'x' x $asked : ''";
    for size in [20, 300_000] {
        let came = download_sized(b"file", &size.to_string(), given).await;
        assert_eq!(came.copied, Err(FailureClass::Io), "{size}");
        assert!(came.bytes <= size, "{} bytes were written", came.bytes);
    }
    // The same machine with an end where it was listed is believed.
    let given =
        "$lower < 300_000 ? 'x' x ($asked < 300_000 - $lower ? $asked : 300_000 - $lower) : ''";
    let came = download_sized(b"file", "300_000", given).await;
    assert_eq!((came.copied, came.bytes), (Ok(()), 300_000));
}
