//! A machine whose rsync lies.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use muster_executor::{Executor as _, FailureClass, Report, Transfer};
use tempfile::TempDir;

use crate::server::Server;

/// An rsync that sends other folders than it was asked for, and on the way calls everything that is named `AAAA` differently.
const LIAR: &str = r#"#!/usr/bin/perl
use strict; use warnings;
if ("@ARGV" eq "--version") { exec "@RSYNC@", "--version" }
my ($asked, $byte) = ("", "");
while ($asked !~ /\0\0\z/) { sysread(STDIN, $byte, 1) == 1 or exit 12; $asked .= $byte }
s/^-s/-/ for @ARGV;
open my $sent, "-|", "@RSYNC@", @ARGV, ".", @SENT@ or exit 12;
$| = 1; binmode $sent; binmode STDOUT;
while (sysread $sent, my $piece, 65536) { $piece =~ s{AAAA}{@CALLED@}g; print $piece }
close $sent; exit $? >> 8;
"#;

fn rsync() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let all = std::env::split_paths(&path).map(|folder| folder.join("rsync"));
    all.into_iter().find(|it| it.is_file()).unwrap()
}

/// A machine, and a target with something beside it.
struct Rig {
    server: Server,
    here: TempDir,
}

impl Rig {
    fn new() -> Self {
        let rig = Self {
            server: Server::start(),
            here: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(rig.here.path().join("beside")).unwrap();
        fs::create_dir(rig.server.path("work/asked")).unwrap();
        rig
    }

    fn there(&self, name: &str) -> PathBuf {
        self.server.path("work").join(name)
    }

    /// What the machine sends from now on, whatever it is asked for.
    fn lie(&self, sent: &[&str], called: &str) {
        let sent = sent
            .iter()
            .map(|it| format!("'{}/'", self.there(it).display()));
        let text = LIAR
            .replace("@RSYNC@", rsync().to_str().unwrap())
            .replace("@SENT@", &sent.collect::<Vec<_>>().join(", "))
            .replace("@CALLED@", called);
        let program = self.server.path("bin/rsync");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn target(&self) -> PathBuf {
        self.here.path().join("target")
    }

    async fn download(&self) -> Result<Report, FailureClass> {
        let mut transfer = Transfer::download(self.there("asked"), self.target());
        transfer.patience = std::time::Duration::ZERO;
        // A folder is replaced by a link.
        transfer.delete = true;
        let done = self.server.executor().sync(&transfer).await;
        done.map_err(|error| error.class)
    }

    /// Nothing is there but what was there before.
    fn assert_nothing_beside(&self) {
        let mut names: Vec<_> = fs::read_dir(self.here.path())
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["beside", "target"]);
        let beside = fs::read_dir(self.here.path().join("beside")).unwrap();
        assert_eq!(beside.count(), 0);
    }
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "evil").unwrap();
}

#[tokio::test]
async fn names_of_rsync_that_lead_elsewhere_are_refused_and_nothing_is_written() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let rig = Rig::new();
    write(&rig.there("sent/AAAA/evil"));
    for called in ["../.", "/../", "/tmp"] {
        rig.lie(&["sent"], called);
        assert_eq!(rig.download().await, Err(FailureClass::Refused), "{called}");
        assert_eq!(fs::read_dir(rig.target()).unwrap().count(), 0, "{called}");
        rig.assert_nothing_beside();
    }
    // The same machine with a proper name is believed.
    rig.lie(&["sent"], "BBBB");
    let report = rig.download().await.unwrap();
    assert!(report.rsync && report.files == 1, "{report:?}");
    assert_eq!(fs::read(rig.target().join("BBBB/evil")).unwrap(), b"evil");
}

#[tokio::test]
async fn links_that_rsync_brought_are_not_followed_by_what_it_brings_next() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let rig = Rig::new();
    let beside = rig.here.path().join("beside");
    fs::create_dir(rig.there("links")).unwrap();
    symlink(&beside, rig.there("links/d")).unwrap();
    symlink(beside.join("file"), rig.there("links/f")).unwrap();
    write(&rig.there("files/d/evil"));
    write(&rig.there("files/f"));
    // A link and a folder of one name at once.
    rig.lie(&["links", "files"], "AAAA");
    // Whatever rsync makes of it.
    let _ = rig.download().await;
    rig.assert_nothing_beside();
    // One after the other.
    for sent in ["links", "files", "links", "files"] {
        rig.lie(&[sent], "AAAA");
        rig.download().await.unwrap();
        rig.assert_nothing_beside();
    }
    assert!(rig.target().join("d/evil").is_file());
    // What was cut is kept in a folder of a known name: a link that has it is not brought, let alone followed.
    fs::create_dir(rig.there("parts")).unwrap();
    symlink(&beside, rig.there("parts/AAAAter-part-rsync")).unwrap();
    rig.lie(&["parts"], ".mus");
    assert_eq!(rig.download().await, Err(FailureClass::Refused));
    let brought = fs::symlink_metadata(rig.target().join(".muster-part-rsync"));
    assert!(brought.is_err(), "{brought:?}");
    rig.assert_nothing_beside();
}
