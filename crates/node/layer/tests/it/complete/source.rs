//! A tree with everything that a layer can have.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, makedev, mknodat, setxattr,
    utimensat,
};

/// What the format in question can say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// Names and targets of more than a hundred bytes.
    pub(crate) long_names: bool,
    /// Ids beyond what seven octal digits hold.
    pub(crate) large_ids: bool,
    /// Fractions of seconds, and times before the epoch.
    pub(crate) exact_times: bool,
    /// Extended attributes, capabilities among them.
    pub(crate) xattrs: bool,
    /// A file with holes is packed as such.
    pub(crate) holes: bool,
    /// Devices and named pipes.
    pub(crate) specials: bool,
}

pub(crate) fn make(root: &Path, features: Features) {
    fs::create_dir(root).unwrap();
    fill(root, features);
    finish(root, features);
}

/// Everything but times, which later changes would change.
pub(crate) fn fill(root: &Path, features: Features) {
    let folder = |name: &str, mode| {
        fs::create_dir_all(root.join(name)).unwrap();
        set_mode(&root.join(name), mode);
    };
    let file = |name: &str, mode, content: &[u8]| {
        fs::write(root.join(name), content).unwrap();
        set_mode(&root.join(name), mode);
    };
    folder("bin", 0o755);
    folder("empty", 0o700);
    folder("shared", 0o2775);
    folder("tmp", 0o1777);
    folder("locked", 0o000);
    file("bin/sh", 0o755, &[0x5a; 100_000]);
    file("bin/sudo", 0o4755, b"set-user-id");
    file("bin/wall", 0o2755, b"set-group-id");
    file("nothing", 0o600, b"");
    file("block", 0o644, &[1; 512]);
    file("more than a block", 0o444, &[2; 513]);
    file("\u{fc}n\u{ef}c\u{f6}d\u{e9} \u{1f980}", 0o644, b"unicode");
    file("line\nbreak\\ and \"quotes\"", 0o644, b"odd");
    fs::hard_link(root.join("bin/sh"), root.join("bin/bash")).unwrap();
    fs::hard_link(root.join("bin/sh"), root.join("shell")).unwrap();
    symlink("bin/sh", root.join("link")).unwrap();
    symlink("/nowhere/../at/all", root.join("bin/dangling")).unwrap();
    fs::hard_link(root.join("link"), root.join("link to the link")).unwrap();
    chown(root.join("nothing"), Some(1000), Some(2000)).unwrap();
    lchown(root.join("link"), Some(3), Some(4)).unwrap();
    chown(root.join("shared"), Some(5), Some(6)).unwrap();
    sparse(&root.join("sparse"));
    if features.long_names {
        let deep = vec!["a rather long step of a name"; 20].join("/");
        folder(&deep, 0o750);
        file(&format!("{deep}/{}", "x".repeat(255)), 0o640, b"long");
        symlink("t".repeat(300), root.join("long link")).unwrap();
        fs::hard_link(
            root.join(format!("{deep}/{}", "x".repeat(255))),
            root.join("zz"),
        )
        .unwrap();
    }
    if features.large_ids {
        file("far away", 0o644, b"ids");
        chown(root.join("far away"), Some(4_000_000_000), Some(3_000_000)).unwrap();
    }
    if features.xattrs {
        let set = |name: &str, key: &str, value: &[u8]| {
            setxattr(root.join(name), key, value, XattrFlags::empty()).unwrap();
        };
        set("block", "user.note", b"any\0bytes\n=");
        set("block", "user.empty", b"");
        set("shared", "user.folder", b"too");
        // cap_net_bind_service, effective and permitted, in version 2 of the format.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        set("bin/sh", "security.capability", &capability);
    }
    if features.specials {
        let make = |name: &str, kind, mode, device| {
            mknodat(CWD, root.join(name), kind, Mode::empty(), device).unwrap();
            set_mode(&root.join(name), mode);
        };
        make("null", FileType::CharacterDevice, 0o666, makedev(1, 3));
        make("disk", FileType::BlockDevice, 0o660, makedev(259, 70_000));
        make("pipe", FileType::Fifo, 0o620, 0);
    }
}

/// Many pieces, so that no form can keep the map in the header, and a hole at the end.
fn sparse(path: &Path) {
    let file = File::create(path).unwrap();
    for piece in 0..40_u64 {
        file.write_all_at(&[7; 5000], piece * 65_536).unwrap();
    }
    file.set_len(4 << 20).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Sets times, what is inside first.
pub(crate) fn finish(root: &Path, features: Features) {
    let mut paths = vec![root.to_owned()];
    let mut at = 0;
    while at < paths.len() {
        if fs::symlink_metadata(&paths[at]).unwrap().is_dir() {
            let inner = fs::read_dir(&paths[at])
                .unwrap()
                .map(|entry| entry.unwrap().path());
            let inner: Vec<_> = inner.collect();
            paths.extend(inner);
        }
        at += 1;
    }
    paths.sort();
    for (n, path) in paths.iter().enumerate().rev() {
        let n = i64::try_from(n).unwrap();
        let time = match (features.exact_times, n % 3) {
            (true, 0) => Timespec {
                tv_sec: -1_000_000 - n,
                tv_nsec: 123_456_789,
            },
            (true, _) => Timespec {
                tv_sec: 1_600_000_000 + n,
                tv_nsec: 5 * n,
            },
            (false, _) => Timespec {
                tv_sec: 1_500_000_000 + n,
                tv_nsec: 0,
            },
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}
