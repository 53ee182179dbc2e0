use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

fn file(size: u64, mtime: i64) -> Entry {
    Entry {
        kind: Kind::File { size },
        mode: 0o644,
        mtime,
    }
}

fn tree<'a>(entries: impl IntoIterator<Item = (&'a str, Entry)>) -> Tree {
    let mut tree = Tree::default();
    for (at, entry) in entries {
        tree.add(path(at), entry).unwrap();
    }
    tree
}

const FOLDER: Entry = Entry {
    kind: Kind::Folder,
    mode: 0o755,
    mtime: 5,
};

fn link(target: &str) -> Entry {
    Entry {
        kind: Kind::Link {
            target: target.into(),
        },
        mode: 0o777,
        mtime: 5,
    }
}

fn plan_of(source: &Tree, target: &Tree, wishes: Wishes) -> Result<Plan, Conflict> {
    plan(source, target, wishes, &BTreeSet::new())
}

#[test]
fn what_is_the_same_is_left_alone() {
    let same = tree([("a", FOLDER), ("a/b", file(3, 9)), ("l", link("a"))]);
    let plan = plan_of(&same, &same, Wishes::default()).unwrap();
    assert_eq!(plan.unchanged, 2);
    assert!(plan.batches.is_empty() && plan.folders.is_empty() && plan.links.is_empty());
}

#[test]
fn another_size_or_time_is_another_file_and_another_mode_is_not() {
    let source = tree([("f", file(3, 9))]);
    for there in [file(4, 9), file(3, 8)] {
        let plan = plan_of(&source, &tree([("f", there)]), Wishes::default()).unwrap();
        assert_eq!(plan.batches.len(), 1);
    }
    let there = Entry {
        mode: 0o600,
        ..file(3, 9)
    };
    let plan = plan_of(&source, &tree([("f", there)]), Wishes::default()).unwrap();
    assert!(plan.batches.is_empty());
    assert_eq!(plan.settled.len(), 1);
}

#[test]
fn a_folder_is_replaced_only_if_deletion_is_allowed() {
    let source = tree([("x", file(1, 1))]);
    let target = tree([("x", FOLDER), ("x/y", file(1, 1))]);
    let refused = plan_of(&source, &target, Wishes::default());
    assert_eq!(refused, Err(Conflict(path("x"))));
    let delete = Wishes {
        delete: true,
        ..Wishes::default()
    };
    let plan = plan_of(&source, &target, delete).unwrap();
    assert_eq!(plan.removals, [(path("x/y"), false), (path("x"), true)]);
}

#[test]
fn a_link_in_the_place_of_a_folder_is_removed_before_anything_is_written_below_it() {
    let source = tree([("d", FOLDER), ("d/passwd", file(1, 1))]);
    let target = tree([("d", link("/etc"))]);
    let plan = plan_of(&source, &target, Wishes::default()).unwrap();
    assert_eq!(plan.removals, [(path("d"), false)]);
    assert_eq!(plan.folders, [path("d")]);
}

#[test]
fn a_part_of_a_large_file_outlives_a_deletion() {
    let source = tree([("big", file(SMALL + 1, 1))]);
    let part = part_of(&path("big"));
    let mut target = tree([("other", file(1, 1))]);
    target.add(part.clone(), file(10, 3)).unwrap();
    let delete = Wishes {
        delete: true,
        ..Wishes::default()
    };
    let plan = plan_of(&source, &target, delete).unwrap();
    assert_eq!(plan.removals, [(path("other"), false)]);
    assert_eq!(plan.large.len(), 1);
}

#[test]
fn the_part_of_a_file_that_is_whole_is_removed_and_that_of_another_is_not() {
    let both = [("big", file(SMALL + 1, 1)), ("small", file(1, 1))];
    let source = tree(both.clone());
    let mut target = tree(both);
    for name in ["big", "small", "elsewhere"] {
        target.add(part_of(&path(name)), file(10, 3)).unwrap();
    }
    let plan = plan_of(&source, &target, Wishes::default()).unwrap();
    let removed: BTreeSet<RelPath> = plan.removals.into_iter().map(|(path, _)| path).collect();
    let expected = ["big", "small"].map(|name| part_of(&path(name)));
    assert_eq!(removed, BTreeSet::from(expected));
}

#[test]
fn only_what_a_cut_copy_leaves_is_a_part() {
    assert!(is_part(&part_of(&path("a/b"))) && is_part(&part_of(&path("a"))));
    assert!(is_part(&path(".muster-part-rsync/a")) && is_part(&path("d/.muster-part-rsync")));
    for other in [
        "a",
        ".muster-part-",
        ".muster-part-notes",
        ".muster-part-0123456789abcdeX",
        ".muster-part-0123456789abcdef0",
        "x.muster-part-0123456789abcdef",
    ] {
        assert!(!is_part(&path(other)), "{other}");
    }
}

#[test]
fn what_may_have_changed_twice_in_a_second_is_compared_by_what_it_holds() {
    let both = tree([("old", file(3, 9)), ("new", file(3, 10))]);
    let wishes = Wishes {
        doubtful_from: Some(10),
        ..Wishes::default()
    };
    assert_eq!(questions(&both, &both, wishes), [(path("new"), 3)]);
    assert_eq!(questions(&both, &both, Wishes::default()), []);
    let unlike = tree([("old", file(3, 8)), ("new", file(4, 10))]);
    assert_eq!(questions(&both, &unlike, wishes), []);
    let differ = BTreeSet::from([path("new")]);
    let planned = plan(&both, &both, wishes, &differ).unwrap();
    assert_eq!(planned.batches.concat().len(), 1);
    assert_eq!(planned.batches[0][0].path, path("new"));
    let alike = plan_of(&both, &both, wishes).unwrap();
    assert!(alike.batches.is_empty() && alike.unchanged == 2);
}

#[test]
fn batches_are_bounded() {
    let small = |index: usize, size| Planned {
        path: path(&index.to_string()),
        size,
        mode: 0,
        mtime: 0,
    };
    let many = batches((0..1000).map(|index| small(index, 1)).collect());
    assert!(many.iter().all(|it| it.len() <= BATCH_FILES));
    assert_eq!(many.iter().map(Vec::len).sum::<usize>(), 1000);
    let heavy = batches((0..100).map(|index| small(index, SMALL)).collect());
    let weight = |batch: &Vec<Planned>| batch.iter().map(|it| it.size).sum::<u64>();
    assert!(heavy.iter().all(|it| weight(it) <= BATCH_BYTES));
}

/// A file system in memory that refuses what a real one would.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk(BTreeMap<RelPath, Entry>);

impl Disk {
    fn of(tree: &Tree) -> Self {
        let entries = tree.iter();
        Self(
            entries
                .map(|(path, entry)| (path.clone(), entry.clone()))
                .collect(),
        )
    }

    fn put(&mut self, path: &RelPath, entry: Entry) {
        let (folder, _) = path.split().expect("nothing replaces the root");
        let parent = self.0.get(&folder);
        assert!(
            folder.is_root() || parent.is_some_and(Entry::is_folder),
            "{path} has no folder"
        );
        let there = self.0.get(path);
        assert!(!there.is_some_and(Entry::is_folder), "{path} is a folder");
        self.0.insert(path.clone(), entry);
    }

    fn carry_out(&mut self, plan: &Plan) {
        for (path, folder) in &plan.removals {
            assert!(
                !self.0.keys().any(|it| it.is_below(path)),
                "{path} is not empty"
            );
            let removed = self.0.remove(path).expect("it is there");
            assert_eq!(removed.is_folder(), *folder);
        }
        for path in &plan.folders {
            self.put(
                path,
                Entry {
                    mode: 0o700,
                    ..FOLDER
                },
            );
        }
        for (path, target) in &plan.links {
            let target = target.clone();
            let kind = Kind::Link { target };
            self.put(
                path,
                Entry {
                    kind,
                    mode: 0o777,
                    mtime: 0,
                },
            );
        }
        for it in plan.batches.iter().flatten().chain(&plan.large) {
            let there = self.0.get(&it.path);
            let through =
                there.is_some_and(|it| matches!(it.kind, Kind::Link { .. } | Kind::Special));
            assert!(!through, "{} would be written through", it.path);
            let kind = Kind::File { size: it.size };
            self.put(
                &it.path,
                Entry {
                    kind,
                    mode: it.mode,
                    mtime: it.mtime,
                },
            );
        }
        for it in &plan.settled {
            let entry = self.0.get_mut(&it.path).expect("it is there");
            (entry.mode, entry.mtime) = (it.mode, it.mtime);
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let kind = prop_oneof![
        3 => Just(Kind::Folder),
        3 => prop_oneof![0u64..4, SMALL..SMALL + 3].prop_map(|size| Kind::File { size }),
        1 => "[a-c/.]{1,4}".prop_map(|target| Kind::Link { target: target.into() }),
        1 => Just(Kind::Special),
    ];
    let mode = prop_oneof![Just(0o644u32), Just(0o755), Just(0o400)];
    let entry = (kind, mode, 0i64..3).prop_map(|(kind, mode, mtime)| Entry { kind, mode, mtime });
    proptest::collection::btree_map("[ab](/[ab]){0,3}", entry, 0..12).prop_map(|entries| {
        let mut tree = Tree::default();
        for (at, entry) in &entries {
            let at = path(at);
            let folder = at.split().map(|(folder, _)| folder).unwrap_or_default();
            let has_folder = folder.is_root() || tree.get(&folder).is_some_and(Entry::is_folder);
            if has_folder {
                tree.add(at, entry.clone()).unwrap();
            }
        }
        tree
    })
}

/// What a copy of a tree is: everything but what is never copied, and times of links.
fn copied(tree: &Tree) -> BTreeMap<RelPath, (Kind, u32, i64)> {
    let kept = tree.iter().filter(|(_, entry)| entry.kind != Kind::Special);
    let shown = kept.map(|(path, entry)| {
        let is_link = matches!(entry.kind, Kind::Link { .. });
        let rest = if is_link {
            (0, 0)
        } else {
            (entry.mode, entry.mtime)
        };
        (path.clone(), (entry.kind.clone(), rest.0, rest.1))
    });
    shown.collect()
}

proptest! {
    #[test]
    fn a_carried_out_plan_makes_the_target_like_the_source(source in trees(), target in trees()) {
        let wishes = Wishes { delete: true, ..Wishes::default() };
        let plan = plan_of(&source, &target, wishes).unwrap();
        let mut disk = Disk::of(&target);
        disk.carry_out(&plan);
        let mut result = Tree::default();
        for (path, entry) in disk.0 {
            // A special file of the source hides what the target has in its place.
            if source.get(&path).is_some_and(|it| it.kind == Kind::Special) {
                continue;
            }
            result.add(path, entry).unwrap();
        }
        prop_assert_eq!(copied(&result), copied(&source));
    }

    #[test]
    fn a_second_plan_copies_nothing(source in trees(), target in trees()) {
        let wishes = Wishes { delete: true, ..Wishes::default() };
        let mut disk = Disk::of(&target);
        disk.carry_out(&plan_of(&source, &target, wishes).unwrap());
        let mut result = Tree::default();
        for (path, entry) in disk.0 {
            result.add(path, entry).unwrap();
        }
        let again = plan_of(&source, &result, wishes).unwrap();
        prop_assert!(again.removals.is_empty() && again.folders.is_empty() && again.links.is_empty());
        prop_assert!(again.batches.is_empty() && again.large.is_empty());
    }

    #[test]
    fn without_deletion_nothing_of_the_target_is_lost(source in trees(), target in trees()) {
        if let Ok(plan) = plan_of(&source, &target, Wishes::default()) {
            for (path, _) in &plan.removals {
                prop_assert!(source.get(path).is_some(), "{} is not replaced", path);
            }
        }
    }
}
