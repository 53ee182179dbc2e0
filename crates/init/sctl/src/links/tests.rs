use std::fs;

use proptest::prelude::*;

use super::*;

fn link(path: &str, target: &str) -> Change {
    Change::Link {
        path: path.into(),
        target: target.into(),
    }
}

fn remove(path: &str) -> Change {
    Change::Remove { path: path.into() }
}

/// Carries changes out below a folder and tells how many of them there were to make.
fn apply(root: &Path, changes: &[Change]) -> Result<usize, LinkError> {
    let mut count = 0;
    carry_out(&RealFs::with_root(root), changes, |_| count += 1).map(|()| count)
}

#[test]
fn links_are_made_once() {
    let root = tempfile::tempdir().unwrap();
    let changes = [link("/etc/x.wants/a", "/lib/a")];
    assert_eq!(apply(root.path(), &changes).unwrap(), 1);
    assert_eq!(apply(root.path(), &changes).unwrap(), 0);
    let made = fs::read_link(root.path().join("etc/x.wants/a")).unwrap();
    assert_eq!(made, Path::new("/lib/a"));
}

#[test]
fn only_links_are_replaced_and_only_on_request() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    let place = root.path().join("etc/a");
    symlink("/old", &place).unwrap();
    let error = apply(root.path(), &[link("/etc/a", "/new")]).unwrap_err();
    assert!(error.to_string().ends_with("etc/a"), "{error}");
    let replacing = [remove("/etc/a"), link("/etc/a", "/new")];
    assert_eq!(apply(root.path(), &replacing).unwrap(), 2);
    assert_eq!(fs::read_link(&place).unwrap(), Path::new("/new"));
    // Nothing temporary is left.
    assert_eq!(fs::read_dir(root.path().join("etc")).unwrap().count(), 1);

    fs::remove_file(&place).unwrap();
    fs::write(&place, "precious").unwrap();
    apply(root.path(), &replacing).unwrap_err();
    assert_eq!(fs::read_to_string(&place).unwrap(), "precious");
}

/// The folder comes and goes with its last link, thousands of times: sometimes between two steps of whoever makes it.
#[test]
fn a_folder_that_comes_and_goes_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let root = root.path();
            scope.spawn(move || {
                let path = format!("/etc/x.wants/{n}");
                for _ in 0..3000 {
                    apply(root, &[link(&path, "/a")]).unwrap();
                    apply(root, &[remove(&path)]).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_file_in_a_folders_place_is_named() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/x.wants"), "precious").unwrap();
    let error = apply(root.path(), &[link("/etc/x.wants/a", "/a")]).unwrap_err();
    assert!(error.to_string().contains("create folder"), "{error}");
}

#[test]
fn empty_folders_go_with_their_last_link() {
    let root = tempfile::tempdir().unwrap();
    let both = [link("/etc/x.wants/a", "/a"), link("/etc/x.wants/b", "/b")];
    apply(root.path(), &both).unwrap();
    let folder = root.path().join("etc/x.wants");
    assert_eq!(apply(root.path(), &[remove("/etc/x.wants/a")]).unwrap(), 1);
    assert!(folder.exists());
    assert_eq!(apply(root.path(), &[remove("/etc/x.wants/b")]).unwrap(), 1);
    assert!(!folder.exists() && root.path().join("etc").exists());
    assert_eq!(apply(root.path(), &[remove("/etc/x.wants/b")]).unwrap(), 0);
}

#[test]
fn folders_go_with_what_is_in_them() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("etc/a.d");
    fs::create_dir_all(folder.join("deeper")).unwrap();
    fs::write(folder.join("x.conf"), "").unwrap();
    symlink("/", folder.join("y.conf")).unwrap();
    let changes = [Change::RemoveFolder {
        path: "/etc/a.d".into(),
    }];
    assert_eq!(apply(root.path(), &changes).unwrap(), 4);
    assert_eq!(apply(root.path(), &changes).unwrap(), 0);
    assert!(!folder.exists() && Path::new("/etc").exists());
}

#[test]
fn a_link_in_the_way_does_not_lead_out_of_the_root() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.path().join("etc")).unwrap();
    apply(root.path(), &[link("/etc/a", "/b")]).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_failure_names_the_path_and_the_cause() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("etc"), "a file").unwrap();
    let error = apply(root.path(), &[link("/etc/a", "/b")]).unwrap_err();
    assert!(error.to_string().contains("etc"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any plan the last word about each path holds, and a second run changes nothing.
    #[test]
    fn plans_are_carried_out_once(steps in prop::collection::vec((0..3usize, prop::option::of(0..3usize)), 0..12)) {
        let root = tempfile::tempdir().unwrap();
        let mut changes = Vec::new();
        let mut expected = [None; 3];
        for (path, target) in steps {
            let place = format!("/etc/x.wants/{path}");
            changes.push(remove(&place));
            if let Some(target) = target {
                changes.push(link(&place, &format!("/lib/{target}")));
            }
            expected[path] = target;
        }
        apply(root.path(), &changes).unwrap();
        for (path, target) in expected.iter().enumerate() {
            let found = fs::read_link(root.path().join(format!("etc/x.wants/{path}"))).ok();
            prop_assert_eq!(found, target.map(|target| PathBuf::from(format!("/lib/{target}"))));
        }
        let links: Vec<Change> = expected
            .iter()
            .enumerate()
            .filter_map(|(path, target)| {
                Some(link(&format!("/etc/x.wants/{path}"), &format!("/lib/{}", (*target)?)))
            })
            .collect();
        prop_assert_eq!(apply(root.path(), &links).unwrap(), 0);
    }
}
