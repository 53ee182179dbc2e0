//! Layers made to hurt: each is refused with its reason, and nothing beside the destination changes.

mod cases;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;

use muster_layer::{Compression, DamageKind, Durability, Limits, Options, Rule, UnpackError};

use crate::rig::{Rig, chain};
use crate::tar::{self, Item};

/// Why a layer must be refused.
#[derive(Debug)]
enum Reason {
    Rule(Rule),
    Damage(DamageKind),
    Digest,
    DiffId,
}

/// A layer and how it is unpacked.
struct Attack {
    layer: Vec<u8>,
    compression: Compression,
    options: Options,
}

impl Attack {
    fn items(items: impl IntoIterator<Item = Item>) -> Self {
        Self::bytes(tar::tar(items), Compression::None)
    }

    fn bytes(layer: Vec<u8>, compression: Compression) -> Self {
        Self {
            layer,
            compression,
            options: Options {
                durability: Durability::None,
                ..Options::default()
            },
        }
    }

    fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.options.limits);
        self
    }

    fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }
}

/// Name, reason, and the layer for a canary at that path.
type Case = (&'static str, Reason, fn(&[u8]) -> Attack);

fn assert_refused(cases: impl IntoIterator<Item = Case>) -> usize {
    let mut names = BTreeSet::new();
    for (name, reason, build) in cases {
        assert!(names.insert(name), "two cases are called {name}");
        let rig = Rig::in_memory();
        let canary = rig.canary();
        let attack = build(canary.as_os_str().as_bytes());
        let result = rig.unpack(&attack.layer, attack.compression, &attack.options);
        let Err(error) = result else {
            panic!("{name} was not refused: {:?}", rig.tree().names());
        };
        let text = chain(&error);
        match (&reason, &error) {
            (Reason::Rule(rule), UnpackError::Refused { rule: found, .. }) => {
                assert_eq!(rule, found, "{name}: {text}");
            }
            (Reason::Damage(kind), UnpackError::Damaged { kind: found, .. }) => {
                assert_eq!(kind, found, "{name}: {text}");
            }
            (Reason::Digest, UnpackError::WrongDigest { .. }) => {}
            (Reason::DiffId, UnpackError::WrongDiffId { .. }) => {}
            _ => panic!("{name}: expected {reason:?}, got {text}"),
        }
        rig.assert_untouched();
        rig.clean();
        rig.assert_untouched();
    }
    names.len()
}

#[test]
fn every_hostile_layer_is_refused_with_its_reason() {
    muster_lab::require!(Root);
    let count = assert_refused(cases::all());
    assert!(count >= 40, "only {count} hostile layers");
    println!("{count} hostile layers refused");
}

#[test]
fn tricks_that_are_only_odd_stay_inside() {
    muster_lab::require!(Root);
    for (name, build, expected) in cases::harmless() {
        let rig = Rig::new();
        let canary = rig.canary();
        let attack = build(canary.as_os_str().as_bytes());
        let result = rig.unpack(&attack.layer, attack.compression, &attack.options);
        let report = result.unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
        assert!(report.entries > 0, "{name}");
        let tree = rig.tree();
        for path in expected {
            assert!(tree.has(path), "{name}: no {path} in {:?}", tree.names());
        }
        rig.assert_untouched();
        rig.clean();
        rig.assert_untouched();
    }
}

#[test]
fn a_refusal_names_entry_and_rule() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    let layer = tar::tar([tar::file("good"), tar::file("a/../../\x1bb")]);
    let error = rig
        .unpack(&layer, Compression::None, &Options::default())
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "entry 2 \"a/../../\\x1bb\" is refused: its name is not allowed: it has a `..` step"
    );
}

/// A gigabyte of zeros is a megabyte of gzip: it must be refused early, not after a gigabyte was written.
#[test]
fn a_bomb_is_refused_before_it_has_grown() {
    muster_lab::require!(Root);
    let rig = Rig::in_memory();
    let attack = cases::gigabyte_of_zeros();
    let error = rig
        .unpack(&attack.layer, attack.compression, &attack.options)
        .unwrap_err();
    assert!(
        matches!(
            error,
            UnpackError::Refused {
                rule: Rule::Ratio { .. },
                ..
            }
        ),
        "{error:?}"
    );
    let written = rig.tree().node("zeros").content.len() as u64;
    // The ratio is of what was read, and that is 64 KiB at a time.
    let most = attack.options.limits.ratio * (64 << 10) + (1 << 20);
    assert!(written <= most, "{written} bytes were written");
    rig.assert_untouched();
}
