//! `DynamicUser=`: users that exist while a unit runs.
//!
//! A user's number follows from its name, so that files keep their owner from run to run: first the number that the unit's
//! folders have, then a hash of the name (systemd's, so that it is the same number there), then the next that is free. A
//! user that is in use has a file of its name in a folder of the machine's runtime state, a line as in `/etc/passwd`: it
//! outlives the manager, keeps others from the number, and tells whoever looks. The system's name services ask over a socket
//! of its own (`user_directory`).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

/// The numbers that systemd set aside for such users.
pub const NUMBERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// systemd's key for the hash of names.
const KEYS: (u64, u64) = (0xf548_cecf_317e_5337, 0x59ec_d98d_5739_bb8a);

/// Users that are in use.
#[derive(Debug)]
pub struct DynamicUsers {
    folder: PathBuf,
    /// `None` until the folder was read.
    by_name: Option<BTreeMap<Box<str>, u32>>,
}

impl DynamicUsers {
    /// Users whose files are in this folder, which is made when it is needed.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            by_name: None,
        }
    }

    /// The number of a user, which is in use from now on. `hints` are numbers that its files have.
    ///
    /// # Errors
    /// No number is free, or the user cannot be written down.
    pub fn take(
        &mut self,
        name: &str,
        hints: &[u32],
        is_taken: impl Fn(u32) -> bool,
    ) -> io::Result<u32> {
        if name.contains(['/', ':', '\n']) || name.starts_with('.') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let folder = self.folder.clone();
        let known = self.known();
        if let Some(number) = known.get(name) {
            return Ok(*number);
        }
        let used: BTreeSet<u32> = known.values().copied().collect();
        let number = choose(name, hints, |number| {
            !used.contains(&number) && !is_taken(number)
        })
        .ok_or(io::ErrorKind::QuotaExceeded)?;
        std::fs::create_dir_all(&folder)?;
        let line = format!("{name}:x:{number}:{number}:Dynamic user:/:/usr/sbin/nologin\n");
        // Not with its own name before it is whole: a user without a number would keep nobody from it.
        let unfinished = folder.join(format!(".{name}"));
        std::fs::write(&unfinished, line)?;
        std::fs::rename(&unfinished, folder.join(name))?;
        self.known().insert(name.into(), number);
        Ok(number)
    }

    /// The number of a user that is in use.
    pub fn number_of(&mut self, name: &str) -> Option<u32> {
        self.known().get(name).copied()
    }

    /// All that are in use, by name.
    pub fn all(&mut self) -> Vec<(Box<str>, u32)> {
        let known = self.known().iter();
        known
            .map(|(name, number)| (name.clone(), *number))
            .collect()
    }

    /// Users other than these are not in use any more.
    pub fn keep_only(&mut self, used: &BTreeSet<String>) {
        let folder = self.folder.clone();
        self.known().retain(|name, _| {
            let stays = used.contains(&**name);
            if !stays {
                // A file that cannot be removed keeps its number from others, which is safe.
                let _ = std::fs::remove_file(folder.join(&**name));
            }
            stays
        });
    }

    fn known(&mut self) -> &mut BTreeMap<Box<str>, u32> {
        let folder = &self.folder;
        self.by_name.get_or_insert_with(|| read(folder))
    }
}

fn read(folder: &Path) -> BTreeMap<Box<str>, u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let entries = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let line = std::fs::read_to_string(entry.path()).ok()?;
        let number = line.split(':').nth(2)?.parse().ok()?;
        (!name.starts_with('.')).then(|| (name.into(), number))
    });
    entries.collect()
}

/// The number that a user of this name gets.
fn choose(name: &str, hints: &[u32], is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let hinted = hints.iter().copied().filter(|n| NUMBERS.contains(n));
    let first = hashed(name);
    let then = (first..=*NUMBERS.end()).chain(*NUMBERS.start()..first);
    hinted.chain(then).find(|number| is_free(*number))
}

fn hashed(name: &str) -> u32 {
    #[expect(
        deprecated,
        reason = "the standard library has SipHash-2-4 nowhere else, and it is not used for a map"
    )]
    let mut hasher = std::hash::SipHasher::new_with_keys(KEYS.0, KEYS.1);
    hasher.write(name.as_bytes());
    let count = NUMBERS.end() - NUMBERS.start() + 1;
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    NUMBERS.start() + u32::from_le_bytes([a, b, c, d]) % count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn users_outlive_the_manager_and_go_when_nobody_needs_them() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("users");
        let mut users = DynamicUsers::in_folder(&place);
        let a = users.take("a", &[], |_| false).unwrap();
        assert_eq!(users.take("a", &[61_200], |_| true).unwrap(), a);
        let mut later = DynamicUsers::in_folder(&place);
        assert_eq!(later.take("a", &[], |_| false).unwrap(), a);
        let b = later.take("b", &[a], |_| false).unwrap();
        assert_ne!(a, b);
        let line = std::fs::read_to_string(place.join("b")).unwrap();
        assert!(line.starts_with(&format!("b:x:{b}:{b}:")), "{line}");
        later.keep_only(&BTreeSet::from(["b".to_owned()]));
        assert!(!place.join("a").exists() && place.join("b").exists());
        assert_eq!(later.take("c", &[a], |_| false).unwrap(), a);
        for name in ["../x", "a:b", ".b"] {
            assert!(later.take(name, &[], |_| false).is_err(), "{name}");
        }
    }

    /// The number that systemd gives a user of this name: its key, its hash, its range.
    #[test]
    fn numbers_are_those_of_systemd() {
        assert_eq!(hashed("hello"), 61_895);
    }

    proptest! {
        #[test]
        fn a_number_is_free_in_range_and_the_same_each_time(
            name in "[a-z]{1,12}",
            hints in prop::collection::vec(0u32..70_000, 0..3),
            taken in prop::collection::btree_set(61_184u32..=65_519, 0..40),
        ) {
            let number = choose(&name, &hints, |number| !taken.contains(&number)).unwrap();
            prop_assert!(NUMBERS.contains(&number) && !taken.contains(&number));
            prop_assert_eq!(choose(&name, &hints, |number| !taken.contains(&number)), Some(number));
            prop_assert_eq!(choose(&name, &hints, |_| false), None);
        }
    }
}
