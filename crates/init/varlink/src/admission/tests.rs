use proptest::prelude::*;

use super::*;

const PLACES: Places = Places {
    total: 8,
    per_user: 3,
};

fn guest(uid: u32) -> Guest {
    Guest {
        uid,
        privileged: uid == 0,
    }
}

fn ask(newcomer: u32, seated: &[Seated<usize>]) -> Verdict<usize> {
    let census = Census {
        total: seated.len(),
        same_user: seated
            .iter()
            .filter(|one| one.guest.uid == newcomer)
            .count(),
    };
    decide(PLACES, guest(newcomer), census, seated.iter().copied())
}

fn seat(key: usize, uid: u32, idle_since: Option<u64>) -> Seated<usize> {
    Seated {
        key,
        guest: guest(uid),
        idle_since,
    }
}

#[test]
fn a_user_with_its_share_replaces_its_own_oldest_idle_connection() {
    let seated = [
        seat(0, 7, Some(1)),
        seat(1, 5, Some(9)),
        seat(2, 5, Some(4)),
        seat(3, 5, None),
    ];
    assert_eq!(ask(5, &seated), Verdict::Replace(2));
    let busy = [seat(1, 5, None), seat(2, 5, None), seat(3, 5, None)];
    assert_eq!(ask(5, &busy), Verdict::Refuse);
    assert_eq!(ask(0, &busy), Verdict::Admit);
}

#[test]
fn when_root_has_all_places_others_wait_and_root_replaces_its_oldest() {
    let seated: Vec<_> = (0..8)
        .map(|key| seat(key, 0, Some(key as u64 + 1)))
        .collect();
    assert_eq!(ask(5, &seated), Verdict::Refuse);
    assert_eq!(ask(0, &seated), Verdict::Replace(0));
}

/// Everybody who asked in this order, each with its moment of last work or none.
fn visitors() -> impl Strategy<Value = Vec<(u32, bool)>> {
    prop::collection::vec((0u32..4, any::<bool>()), 0..60)
}

proptest! {
    #[test]
    fn places_are_kept_and_root_is_kept_out_by_nobody_else(visitors in visitors()) {
        let mut seated: Vec<Seated<usize>> = Vec::new();
        for (key, (uid, idle)) in visitors.into_iter().enumerate() {
            let before = seated.clone();
            let verdict = ask(uid, &seated);
            match verdict {
                Verdict::Admit => {}
                Verdict::Replace(old) => {
                    let closed = before.iter().find(|one| one.key == old).copied().unwrap();
                    // Root loses a place only to root, and only if no other's idle one could be had.
                    if closed.guest.privileged {
                        prop_assert_eq!(uid, 0);
                        prop_assert!(!before.iter().any(|o| o.guest.uid != 0 && o.idle_since.is_some()));
                    }
                    seated.retain(|one| one.key != old);
                }
                Verdict::Refuse => {
                    if uid == 0 {
                        prop_assert!(before.iter().all(|o| o.guest.privileged && o.idle_since.is_none()));
                    }
                    continue;
                }
            }
            seated.push(seat(key, uid, idle.then_some(key as u64)));
            prop_assert!(seated.len() <= PLACES.total);
            for user in 1..4 {
                let own = seated.iter().filter(|one| one.guest.uid == user).count();
                prop_assert!(own <= PLACES.per_user);
            }
        }
    }
}

#[test]
fn without_descriptors_others_idle_connections_go_first() {
    let seated = [seat(0, 0, Some(1)), seat(1, 5, Some(9)), seat(2, 5, None)];
    assert_eq!(least_needed(seated.iter().copied()), Some(1));
    assert_eq!(least_needed(seated[..1].iter().copied()), Some(0));
    assert_eq!(least_needed(seated[2..].iter().copied()), None);
}
