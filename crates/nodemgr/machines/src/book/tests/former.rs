//! Pools that are changed.

use muster_lifecycle::pool::PoolSize;

use super::*;
use crate::error::ClaimError;

const POOL: &str = "ci";

/// A pool of one machine, with an image that was found from this.
fn pool(image: &str, found_from: char) -> Pool {
    let digits: String = std::iter::repeat_n(found_from, 64).collect();
    let spec = serde_json::json!({ "image": image, "found_from": format!("sha256:{digits}") });
    Pool {
        size: PoolSize {
            min_idle: 1,
            max: None,
        },
        order: MachineOrder {
            spec: serde_json::from_value(spec).unwrap(),
            ..order()
        },
        others: Vec::new(),
        configured: false,
    }
}

fn pinned() -> String {
    format!("debian@sha256:{}", "a".repeat(64))
}

fn set(rig: &mut Rig, pool: Pool) {
    rig.book.set_pool(POOL.to_owned(), pool);
    rig.carry_out();
    rig.answer_all();
}

fn running(rig: &Rig) -> Vec<MachineId> {
    let entries = rig.book.entries.values().map(|it| &it.record);
    let running = entries.filter(|it| it.state() == State::Running);
    running.map(|it| it.id.clone()).collect()
}

#[test]
fn a_pin_does_not_change_a_pool_and_another_image_does() {
    let mut rig = Rig::new();
    set(&mut rig, pool("debian:12", '1'));
    let first = running(&rig);
    assert_eq!(first.len(), 1);
    // As the next manager sets it: the image has been found and pinned meanwhile.
    set(&mut rig, pool(&pinned(), '1'));
    assert_eq!(running(&rig), first);
    set(&mut rig, pool("debian:12", '1'));
    assert_eq!(running(&rig), first);

    set(&mut rig, pool("debian:13", '2'));
    let second = running(&rig);
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    let gone = rig.book.record(&first[0]).unwrap();
    assert_eq!(gone.end(), Some(Reason::Replaced));
    // What the pool makes where the best cannot be had is the pool's as well.
    let either = Pool {
        others: vec![pool("debian:13", '2').order],
        ..pool("debian:12", '1')
    };
    set(&mut rig, either);
    assert_eq!(running(&rig), second);
}

#[test]
fn a_pool_gives_nobody_what_it_was_from_the_moment_of_its_change() {
    let mut rig = Rig::new();
    set(&mut rig, pool("debian:12", '1'));
    let first = running(&rig).remove(0);
    let now = rig.now();
    rig.book.set_reachable(&first, true, now);
    rig.book.set_pool(POOL.to_owned(), pool("debian:13", '2'));
    let none = rig.book.claim(POOL, "job", now);
    assert_eq!(none, Err(ClaimError::NoneReady(POOL.to_owned())));
    rig.book.set_pool(POOL.to_owned(), pool("debian:12", '1'));
    assert_eq!(rig.book.claim(POOL, "job", now), Ok(first));
}

#[test]
fn a_provider_that_is_away_changes_no_pool() {
    let mut rig = Rig::new();
    set(&mut rig, pool("debian:12", '1'));
    let first = running(&rig);
    rig.book.sources.clear();
    set(&mut rig, pool("debian:13", '2'));
    let record = rig.book.record(&first[0]).unwrap();
    assert_eq!(record.pool.as_deref(), Some(POOL));
    assert_eq!(record.state(), State::Running);
}
