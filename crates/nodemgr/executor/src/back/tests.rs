use super::*;
use crate::files::Kind;

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

const FOLDER: Entry = Entry {
    kind: Kind::Folder,
    mode: 0o755,
    mtime: 5,
};

fn look<'a>(entries: impl IntoIterator<Item = (&'a str, Entry)>) -> Look {
    let mut look = Look::default();
    for (at, entry) in entries {
        look.tree.add(path(at), entry).unwrap();
    }
    look
}

/// What both sides held after the upload.
fn uploaded() -> Uploaded {
    let both = look([
        ("a", FOLDER),
        ("a/b", file(3, 9)),
        ("a/c", file(3, 9)),
        ("f", file(3, 9)),
    ]);
    let mut there = both.clone();
    there.tree.add(path("old"), file(1, 1)).unwrap();
    Uploaded { here: both, there }
}

fn with(look: &Look, changes: &[(&str, Option<Entry>)]) -> Look {
    let mut changed = Look {
        tree: Tree::default(),
        digests: look.digests.clone(),
    };
    let is_changed = |at: &RelPath| changes.iter().any(|(name, _)| path(name) == *at);
    for (at, entry) in look.tree.iter().filter(|(at, _)| !is_changed(at)) {
        changed.tree.add(at.clone(), entry.clone()).unwrap();
    }
    for (at, entry) in changes {
        if let Some(entry) = entry {
            changed.tree.add(path(at), entry.clone()).unwrap();
        }
    }
    changed
}

type Changes<'a> = &'a [(&'a str, Option<Entry>)];

fn back(here: Changes<'_>, there: Changes<'_>) -> Back {
    let first = uploaded();
    decide(&first, &with(&first.here, here), &with(&first.there, there))
}

fn brought(back: &Back) -> Vec<String> {
    back.brought
        .iter()
        .map(|(path, _)| path.to_string())
        .collect()
}

fn removed(back: &Back) -> Vec<String> {
    back.removed
        .iter()
        .map(|(path, _)| path.to_string())
        .collect()
}

fn kept(back: &Back) -> Vec<(String, KeptBecause)> {
    let kept = back.kept.iter();
    kept.map(|it| (it.path.to_string(), it.because)).collect()
}

#[test]
fn what_changed_nowhere_or_only_here_is_left_alone() {
    assert_eq!(back(&[], &[]), Back::default());
    let edited = back(&[("f", Some(file(4, 20))), ("new", Some(file(1, 20)))], &[]);
    assert_eq!(edited, Back::default());
    // What was there before the upload is not ours to bring, nor to miss.
    assert_eq!(back(&[], &[("old", None)]), Back::default());
    assert_eq!(back(&[], &[("old", Some(file(2, 20)))]).kept, []);
}

#[test]
fn what_changed_or_was_made_there_comes() {
    let back = back(
        &[],
        &[
            ("f", Some(file(3, 20))),
            ("out", Some(FOLDER)),
            ("out/x", Some(file(1, 20))),
        ],
    );
    assert_eq!(brought(&back), ["f", "out", "out/x"]);
    assert!(back.removed.is_empty() && back.kept.is_empty());
}

#[test]
fn what_was_removed_there_goes_with_folders_that_are_empty_then() {
    let all = back(&[], &[("a", None), ("a/b", None), ("a/c", None)]);
    assert_eq!(removed(&all), ["a/c", "a/b", "a"]);
    assert!(all.brought.is_empty() && all.kept.is_empty());
    // Something new of ours is in it.
    let gone: Changes<'_> = &[("a", None), ("a/b", None), ("a/c", None)];
    let some = back(&[("a/mine", Some(file(1, 20)))], gone);
    assert_eq!(removed(&some), ["a/c", "a/b"]);
    assert!(some.kept.is_empty());
}

#[test]
fn what_changed_on_both_sides_is_kept_and_named() {
    let mine = Some(file(7, 20));
    let edited = back(&[("f", mine.clone())], &[("f", Some(file(8, 21)))]);
    assert_eq!(
        kept(&edited),
        [("f".to_owned(), KeptBecause::ChangedOnBoth)]
    );
    assert!(edited.brought.is_empty() && edited.removed.is_empty());
    let there_gone = back(&[("f", mine.clone())], &[("f", None)]);
    assert_eq!(
        kept(&there_gone),
        [("f".to_owned(), KeptBecause::RemovedThere)]
    );
    let here_gone = back(&[("f", None)], &[("f", Some(file(8, 21)))]);
    assert_eq!(
        kept(&here_gone),
        [("f".to_owned(), KeptBecause::RemovedHere)]
    );
    assert!(here_gone.brought.is_empty());
    let new = back(&[("n", mine)], &[("n", Some(file(8, 21)))]);
    assert_eq!(kept(&new), [("n".to_owned(), KeptBecause::ChangedOnBoth)]);
    assert_eq!(
        edited.kept[0].to_string(),
        "f changed here and in the machine: yours is kept"
    );
}

#[test]
fn a_second_time_finds_what_came_the_first_time() {
    let there: Changes<'_> = &[("f", Some(file(8, 21))), ("a/b", None)];
    assert_eq!(back(there, there), Back::default());
}

#[test]
fn only_a_digest_shows_a_change_within_a_second() {
    let mut first = uploaded();
    first.here.digests.insert(path("f"), [1; 32]);
    first.there.digests.insert(path("f"), [1; 32]);
    let mut there = first.there.clone();
    there.digests.insert(path("f"), [2; 32]);
    let mut here = first.here.clone();
    let comes = decide(&first, &here, &there);
    assert_eq!(brought(&comes), ["f"]);
    // And the second time it is here.
    here.digests.insert(path("f"), [2; 32]);
    assert_eq!(decide(&first, &here, &there), Back::default());
    // Both sides may have done it.
    here.digests.insert(path("f"), [3; 32]);
    let both = decide(&first, &here, &there);
    assert_eq!(kept(&both), [("f".to_owned(), KeptBecause::ChangedOnBoth)]);
}

#[test]
fn files_and_folders_take_each_others_places() {
    let into_folder: Changes<'_> = &[("f", Some(FOLDER)), ("f/x", Some(file(1, 20)))];
    let comes = back(&[], into_folder);
    assert_eq!(removed(&comes), ["f"]);
    assert_eq!(brought(&comes), ["f", "f/x"]);
    let stays = back(&[("f", Some(file(7, 20)))], into_folder);
    assert_eq!(kept(&stays), [("f".to_owned(), KeptBecause::ChangedOnBoth)]);
    assert!(stays.brought.is_empty() && stays.removed.is_empty());

    let into_file: Changes<'_> = &[("a", Some(file(1, 20))), ("a/b", None), ("a/c", None)];
    let comes = back(&[], into_file);
    assert_eq!(removed(&comes), ["a/c", "a/b", "a"]);
    assert_eq!(brought(&comes), ["a"]);
    let stays = back(&[("a/b", Some(file(7, 20)))], into_file);
    assert_eq!(removed(&stays), ["a/c"]);
    assert!(stays.brought.is_empty());
    assert_eq!(
        kept(&stays),
        [
            ("a".to_owned(), KeptBecause::ChangedOnBoth),
            ("a/b".to_owned(), KeptBecause::RemovedThere)
        ]
    );
}

#[test]
fn what_is_new_there_comes_with_folders_that_went_here_but_through_nothing_else() {
    let new: Changes<'_> = &[("a/new", Some(file(1, 20)))];
    let gone: Changes<'_> = &[("a", None), ("a/b", None), ("a/c", None)];
    let comes = back(gone, new);
    assert_eq!(brought(&comes), ["a", "a/new"]);
    let link = Entry {
        kind: Kind::Link {
            target: b"/etc".to_vec(),
        },
        mode: 0o777,
        mtime: 20,
    };
    let led_away = back(&[("a", Some(link)), ("a/b", None), ("a/c", None)], new);
    assert!(led_away.brought.is_empty());
    assert_eq!(
        kept(&led_away),
        [("a/new".to_owned(), KeptBecause::ChangedOnBoth)]
    );
}

#[test]
fn permissions_that_changed_there_come_and_special_files_do_not() {
    let closed = Entry {
        mode: 0o700,
        ..FOLDER
    };
    let program = Entry {
        mode: 0o755,
        ..file(3, 9)
    };
    let back = back(
        &[],
        &[
            ("a", Some(closed)),
            ("f", Some(program)),
            (
                "pipe",
                Some(Entry {
                    kind: Kind::Special,
                    ..file(0, 20)
                }),
            ),
        ],
    );
    assert_eq!(brought(&back), ["a", "f"]);
}

#[tokio::test]
async fn of_a_folder_that_is_not_there_any_more_nothing_comes_back_and_nothing_goes() {
    use crate::executor::Executor as _;
    use crate::local::LocalExecutor;

    let folder = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("f"), "mine").unwrap();
    let machine = LocalExecutor::new();
    let up = Transfer::upload(&here, &there);
    let begun = Uploaded::begin(&here).await.unwrap();
    machine.sync(&up).await.unwrap();
    let uploaded = begun.end(&machine, &up).await.unwrap();
    // As a folder in memory after a reboot.
    std::fs::remove_dir_all(&there).unwrap();
    let down = Transfer::download(&there, &here);
    let error = bring_back(&machine, &down, &uploaded).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Io);
    assert!(error.to_string().contains(&*there.to_string_lossy()));
    assert_eq!(std::fs::read_to_string(here.join("f")).unwrap(), "mine");
    // One that is there and empty was emptied by somebody.
    std::fs::create_dir(&there).unwrap();
    let brought = bring_back(&machine, &down, &uploaded).await.unwrap();
    assert_eq!(brought.report.removed, 1);
    assert!(!here.join("f").exists());
    // What is brought to a machine is there, also if it is empty.
    std::fs::remove_dir(&there).unwrap();
    machine.sync(&up).await.unwrap();
    assert!(there.is_dir());
}
