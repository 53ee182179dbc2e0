//! Random sequences of entries against a model of what they mean.

mod model;

use muster_layer::{Compression, Durability, Options, UnpackError};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::rig::Rig;
use crate::tar::{empty, file, folder, hard_link, symlink, tar};
use model::{Model, Node, Step};

/// Few names, so that entries get into each other's way.
fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    proptest::collection::vec(name, 1..4).prop_map(|steps| steps.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(0o755), Just(0o700), Just(0o555)];
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, content)| Step::File(path, content)),
        4 => (path(), mode).prop_map(|(path, mode)| Step::Folder(path, mode)),
        1 => (path(), path()).prop_map(|(path, target)| Step::Symlink(path, target)),
        2 => (path(), path()).prop_map(|(path, target)| Step::HardLink(path, target)),
        2 => path().prop_map(Step::Whiteout),
        1 => path().prop_map(Step::Opaque),
    ]
}

/// A whiteout's name for a path.
fn hidden(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((parent, name)) => format!("{parent}/.wh.{name}"),
        None => format!(".wh.{path}"),
    }
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let layer = tar(steps.iter().map(|step| match step {
        Step::File(path, content) => file(path).content([*content; 700]),
        Step::Folder(path, mode) => folder(path).mode(*mode),
        Step::Symlink(path, target) => symlink(path, target),
        Step::HardLink(path, target) => hard_link(path, target),
        Step::Whiteout(path) => empty(hidden(path)),
        Step::Opaque(path) => empty(format!("{path}/.wh..wh..opq")),
    }));
    let rig = Rig::in_memory();
    let options = Options {
        durability: Durability::None,
        ..Options::default()
    };
    let result = rig.unpack(&layer, Compression::None, &options);
    let mut model = Model::default();
    let expected = steps.iter().enumerate().find_map(|(n, step)| {
        let rule = model.apply(step).err()?;
        Some((n as u64 + 1, rule))
    });
    rig.assert_untouched();
    match (result, expected) {
        (Ok(_), None) => {}
        (Err(UnpackError::Refused { entry, rule }), Some(expected)) => {
            prop_assert_eq!((entry.number, rule), expected);
            return Ok(());
        }
        (result, expected) => {
            return Err(TestCaseError::fail(format!(
                "expected {expected:?}, got {result:?}"
            )));
        }
    }
    let tree = rig.tree();
    let mut names: Vec<_> = tree
        .names()
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    names.retain(|name| !name.is_empty());
    prop_assert_eq!(names, model.0.keys().cloned().collect::<Vec<_>>());
    for (name, expected) in &model.0 {
        let found = tree.node(name);
        let opaque = found.xattrs.contains_key(&b"trusted.overlay.opaque"[..]);
        match expected {
            Node::File { content, inode } => {
                prop_assert_eq!(found.mode, 0o100_644);
                prop_assert_eq!(&found.content, &vec![*content; 700]);
                let first = model
                    .0
                    .iter()
                    .find(|(_, node)| node.inode() == Some(*inode))
                    .unwrap();
                let shared = found.same_as.as_ref().and_then(|path| path.to_str());
                prop_assert!(shared.is_none_or(|shared| shared == first.0), "{}", name);
            }
            Node::Symlink { target, .. } => prop_assert_eq!(&found.content, target.as_bytes()),
            Node::Folder {
                mode,
                described,
                opaque: expected,
            } => {
                let time = if *described { 1_000_000_000 } else { 0 };
                prop_assert_eq!(
                    (found.mode, found.mtime),
                    (0o040_000 | mode, (time, 0)),
                    "{}",
                    name
                );
                prop_assert_eq!(opaque, *expected, "{}", name);
            }
            Node::Whiteout => {
                prop_assert_eq!((found.mode & 0o170_000, found.device), (0o020_000, 0))
            }
        }
    }
    rig.clean();
    Ok(())
}

#[test]
fn any_sequence_of_entries_means_what_the_model_says() {
    muster_lab::require!(Root);
    let config = ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = proptest::collection::vec(step(), 1..14);
    let result = TestRunner::new(config).run(&steps, |steps| check(&steps));
    result.unwrap_or_else(|error| panic!("{error}"));
}
