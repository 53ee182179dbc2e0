use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A root with nothing in it, and something beside it that no folder of a unit is to reach.
struct Rig {
    around: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(around.path().join("root")).unwrap();
        std::fs::create_dir_all(around.path().join("victim/b")).unwrap();
        std::fs::write(around.path().join("victim/b/file"), "precious").unwrap();
        Self { around }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.around.path().join("root").join(name)
    }

    fn text(&self, name: &str) -> Box<str> {
        self.at(name).to_str().unwrap().into()
    }

    fn victim(&self) -> PathBuf {
        self.around.path().join("victim")
    }

    fn folder(&self, name: &str) -> Folder {
        let stat = std::fs::metadata(self.around.path()).unwrap();
        Folder {
            kind: Kind::State,
            root: self.around.path().join("root").to_str().unwrap().into(),
            path: self.text(name),
            link: None,
            mode: 0o750,
            owner: Some((stat.uid(), stat.gid())),
            private: None,
        }
    }

    fn private(&self, name: &str) -> Folder {
        Folder {
            path: self.text(&format!("{PRIVATE}/{name}")),
            private: Some(Private {
                root: self.text(PRIVATE),
                public: self.text(name),
            }),
            ..self.folder(name)
        }
    }

    fn is_untouched(&self) {
        let names = |path: &Path| {
            let entries = std::fs::read_dir(path).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&self.victim()), ["b"]);
        assert_eq!(names(&self.victim().join("b")), ["file"]);
        let mode = mode(&self.victim().join("b"));
        assert_eq!(mode, 0o755, "{mode:o}");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_link_on_the_way_to_a_folder_stops_it() {
    let rig = Rig::new();
    std::fs::create_dir(rig.at("foo")).unwrap();
    symlink(rig.victim(), rig.at("foo/a")).unwrap();
    for name in ["foo/a/b", "foo/a/new", "foo/a/new/c"] {
        let (step, error) = make_all(&[rig.folder(name)], None).unwrap_err();
        assert_eq!((step, error.errno), (Step::StateDirectory, Errno::LOOP));
        assert!(error.detail.contains("foo/a in"), "{error}");
        assert_eq!(prepare(&rig.folder(name)).unwrap_err().errno, Errno::LOOP);
    }
    rig.is_untouched();
}

#[test]
fn a_link_on_the_way_to_a_folder_keeps_it_from_being_removed() {
    let rig = Rig::new();
    std::fs::create_dir(rig.at("foo")).unwrap();
    symlink(rig.victim(), rig.at("foo/a")).unwrap();
    let error = put_away(&rig.folder("foo/a/b"), "x").unwrap_err();
    assert_eq!(error.errno, Errno::LOOP);
    rig.is_untouched();
}

#[test]
fn nothing_becomes_private_or_public_through_a_link() {
    let rig = Rig::new();
    std::fs::create_dir(rig.at("foo")).unwrap();
    symlink(rig.victim(), rig.at("foo/a")).unwrap();
    // Whoever becomes private is moved from where he was.
    let (_, error) = make_all(&[rig.private("foo/a/b")], None).unwrap_err();
    assert_eq!(error.errno, Errno::LOOP);
    rig.is_untouched();
    // Whoever stops to be is moved from the private place.
    std::fs::remove_file(rig.at("foo/a")).unwrap();
    std::fs::create_dir_all(rig.at("foo/a")).unwrap();
    std::fs::remove_dir_all(rig.at(PRIVATE)).unwrap();
    std::fs::create_dir_all(rig.at("private/foo")).unwrap();
    symlink(rig.victim(), rig.at("private/foo/a")).unwrap();
    symlink(rig.at("private/foo/a/b"), rig.at("foo/a/b")).unwrap();
    make_all(&[rig.folder("foo/a/b")], None).unwrap_err();
    rig.is_untouched();
}

#[test]
fn links_are_not_made_through_links() {
    let rig = Rig::new();
    std::fs::create_dir(rig.at("foo")).unwrap();
    symlink(rig.victim(), rig.at("foo/a")).unwrap();
    let folder = Folder {
        link: Some(rig.text("foo/a/link")),
        ..rig.folder("other")
    };
    let (_, error) = make_all(std::slice::from_ref(&folder), None).unwrap_err();
    assert_eq!(error.errno, Errno::LOOP);
    assert_eq!(put_away(&folder, "x").unwrap(), None);
    rig.is_untouched();
}

#[test]
fn folders_in_private_folders_need_no_link_of_their_own() {
    let rig = Rig::new();
    // In any order, and from public ones with something in them.
    std::fs::create_dir_all(rig.at("a/b")).unwrap();
    std::fs::write(rig.at("a/b/file"), "x").unwrap();
    for _ in 0..2 {
        make_all(&[rig.private("a/b"), rig.private("a")], None).unwrap();
        assert_eq!(
            std::fs::read_link(rig.at("a")).unwrap(),
            rig.at("private/a")
        );
        assert!(rig.at("private/a/b").is_dir() && !rig.at("private/a/b").is_symlink());
        assert_eq!(std::fs::read(rig.at("a/b/file")).unwrap(), b"x");
        assert_eq!(mode(&rig.at(PRIVATE)), 0o700);
    }
    make_all(&[rig.folder("a/b"), rig.folder("a")], None).unwrap();
    assert!(!rig.at("a").is_symlink() && rig.at("a/b/file").exists());
}

#[test]
fn what_is_in_the_place_of_a_link_is_left_alone_and_named() {
    let rig = Rig::new();
    let folder = Folder {
        link: Some(rig.text("link")),
        ..rig.folder("a")
    };
    let refused = || {
        let (_, error) = make_all(std::slice::from_ref(&folder), None).unwrap_err();
        assert_eq!(error.errno, Errno::EXIST);
        assert!(error.detail.contains("link is in the way"), "{error}");
        // The end of the run takes away what is the unit's, not that.
        put_away(&folder, "x").unwrap();
        assert!(rig.at("link").symlink_metadata().is_ok());
    };
    symlink(rig.victim(), rig.at("link")).unwrap();
    refused();
    std::fs::remove_file(rig.at("link")).unwrap();
    std::fs::write(rig.at("link"), "").unwrap();
    refused();
    std::fs::remove_file(rig.at("link")).unwrap();
    std::fs::create_dir(rig.at("link")).unwrap();
    std::fs::write(rig.at("link/file"), "").unwrap();
    refused();
    assert!(rig.at("link/file").exists());
    std::fs::remove_dir_all(rig.at("link")).unwrap();
    // As another init writes it, and as it was while the folder was private.
    for target in ["a", "private/a", "./a", "../root/a"] {
        symlink(target, rig.at("link")).unwrap();
        make_all(std::slice::from_ref(&folder), None).unwrap();
        assert!(rig.at("link").is_dir(), "{target}");
        put_away(&folder, "x").unwrap();
        assert!(!rig.at("link").is_symlink() && !rig.at("a").exists());
    }
}

#[test]
fn a_full_folder_is_put_away_in_a_few_calls() {
    let rig = Rig::new();
    let folder = rig.folder("a/b");
    for number in 0..2 {
        make_all(std::slice::from_ref(&folder), None).unwrap();
        std::fs::write(rig.at("a/b/file"), "x").unwrap();
        let place = put_away(&folder, "tag").unwrap().unwrap();
        // Nothing in it was touched: that is for somebody with time.
        assert_eq!(
            Path::new(&place),
            rig.at(&format!("{PUT_AWAY}tag-{number}"))
        );
        assert!(Path::new(&place).join("file").exists() && !rig.at("a/b").exists());
    }
    make_all(std::slice::from_ref(&folder), None).unwrap();
    assert_eq!(put_away(&folder, "tag").unwrap(), None);
    assert_eq!(put_away(&folder, "tag").unwrap(), None);
    assert!(!rig.at("a/b").exists() && rig.at("a").exists());
}

/// Its files may be readable for all: what keeps others away is the folder around it.
#[test]
fn a_private_folder_that_is_put_away_stays_behind_the_closed_one() {
    let rig = Rig::new();
    for name in ["a", "b/c"] {
        let folder = Folder {
            mode: 0o755,
            link: Some(rig.text("link")),
            ..rig.private(name)
        };
        make_all(std::slice::from_ref(&folder), None).unwrap();
        std::fs::write(folder.path.to_string() + "/file", "secret").unwrap();
        let tag = name.replace('/', "-");
        let place = put_away(&folder, &tag).unwrap().unwrap();
        let expected = rig.at(&format!("{PRIVATE}/{PUT_AWAY}{tag}-0"));
        assert_eq!(Path::new(&place), expected);
        assert!(expected.join("file").exists());
        assert_eq!(mode(&rig.at(PRIVATE)), 0o700);
        assert!(!rig.at(name).is_symlink() && !rig.at("link").is_symlink());
    }
}

#[test]
fn a_new_owner_of_a_full_folder_is_left_to_whoever_has_the_time() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    let folder = Folder {
        owner: Some((4711, 4712)),
        ..rig.folder("a")
    };
    let owner = |name: &str| std::fs::symlink_metadata(rig.at(name)).unwrap().uid();
    assert!(prepare(&folder).unwrap(), "an empty one takes one call");
    assert_eq!(owner("a"), 4711);
    std::fs::create_dir(rig.at("a/deep")).unwrap();
    std::fs::write(rig.at("a/deep/file"), "").unwrap();
    symlink(rig.victim(), rig.at("a/deep/link")).unwrap();
    assert!(
        prepare(&folder).unwrap(),
        "what has its owner is not looked into"
    );
    assert_eq!(owner("a/deep"), 0);
    let other = Folder {
        owner: None,
        ..folder.clone()
    };
    let moved = Folder {
        owner: Some((4800, 4800)),
        ..folder
    };
    assert!(!prepare(&moved).unwrap());
    assert_eq!((owner("a"), owner("a/deep/file")), (4711, 0));
    make_all(&[other], Some((4800, 4800))).unwrap();
    for name in ["a", "a/deep", "a/deep/file", "a/deep/link"] {
        assert_eq!(owner(name), 4800, "{name}");
    }
    assert_eq!(std::fs::metadata(rig.victim()).unwrap().uid(), 0);
}

#[test]
fn places_are_below_their_root() {
    assert_eq!(beneath::name_in("/run", "/run/a/b"), Some("a/b"));
    assert_eq!(beneath::name_in("/run/", "/run/a"), Some("a"));
    for path in [
        "/run",
        "/run/",
        "/running/a",
        "/run/../etc",
        "/run/a//b",
        "/run/./a",
    ] {
        assert_eq!(beneath::name_in("/run", path), None, "{path}");
    }
}
