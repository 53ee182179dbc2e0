use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;

use proptest::prelude::*;

use super::*;

fn descriptor() -> OwnedFd {
    rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

fn names(kept: &Kept) -> Vec<&str> {
    let mut names: Vec<&str> = kept.iter_from(0).map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

fn is_open(raw: i32) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{raw}")).is_ok()
}

#[test]
fn same_name_is_replaced_and_the_old_one_closed() {
    let mut kept = Kept::with_room_for(4);
    let (reader, writer) = std::io::pipe().unwrap();
    kept.store("log:a", writer.into()).unwrap();
    kept.store("log:a", descriptor()).unwrap();
    assert_eq!(kept.len(), 1);
    // The end of the pipe is reported only when no writing end is left.
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
}

#[test]
fn prefix_drops_all_that_begin_so() {
    let mut kept = Kept::with_room_for(8);
    for name in ["fds:a:x:0", "fds:a:y:0", "fds:ab:x:0", "log:a", "fds:a:z:0"] {
        kept.store(name, descriptor()).unwrap();
    }
    kept.drop(Selector::Prefix("fds:a:"));
    assert_eq!(names(&kept), ["fds:ab:x:0", "log:a"]);
    kept.drop(Selector::Name("log:"));
    assert_eq!(kept.len(), 2);
    kept.drop(Selector::Name("log:a"));
    assert_eq!(names(&kept), ["fds:ab:x:0"]);
}

#[test]
fn bound_is_kept_and_the_refused_one_closed() {
    let mut kept = Kept::with_room_for(2);
    kept.store("a", descriptor()).unwrap();
    kept.store("b", descriptor()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(kept.store("c", writer.into()), Err(NoRoom));
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
    kept.store("b", descriptor()).unwrap();
    kept.drop(Selector::Name("a"));
    kept.store("c", descriptor()).unwrap();
    assert_eq!(names(&kept), ["b", "c"]);
}

#[test]
fn longest_names_fit_even_after_many_changes() {
    let mut kept = Kept::with_room_for(3);
    for round in 0..50 {
        for slot in 0..3 {
            let name = format!("{slot}{}", "n".repeat(MAX_NAME - 1 - round % 7));
            kept.store(&name, descriptor()).unwrap();
        }
        assert_eq!(kept.len(), 3);
        kept.drop(Selector::Prefix("1"));
        kept.drop(Selector::Prefix("0"));
        kept.drop(Selector::Prefix("2"));
        assert!(kept.is_empty());
    }
}

proptest! {
    /// The same as a map, also when names have to be moved together.
    #[test]
    fn behaves_as_a_map(
        steps in prop::collection::vec((0_u8..6, "[ab]{1,3}", 1_usize..300), 0..120)
    ) {
        const ROOM: usize = 6;
        let mut kept = Kept::with_room_for(ROOM);
        let mut model: BTreeMap<String, i32> = BTreeMap::new();
        for (step, stem, length) in steps {
            let name = format!("{stem}{}", "x".repeat(length.min(MAX_NAME - 3)));
            match step {
                0..=3 => {
                    let descriptor = descriptor();
                    let raw = descriptor.as_raw_fd();
                    let fits = model.contains_key(&name) || model.len() < ROOM;
                    prop_assert_eq!(kept.store(&name, descriptor).is_ok(), fits);
                    if fits {
                        model.insert(name, raw);
                    }
                }
                4 => {
                    kept.drop(Selector::Name(&name));
                    model.remove(&name);
                }
                _ => {
                    kept.drop(Selector::Prefix(&stem));
                    model.retain(|name, _| !name.starts_with(&stem));
                }
            }
            let found: BTreeMap<String, i32> =
                kept.iter_from(0).map(|(name, fd)| (name.to_owned(), fd.as_raw_fd())).collect();
            prop_assert_eq!(&found, &model);
            prop_assert!(model.values().all(|raw| is_open(*raw)));
        }
    }
}
