use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

fn window(width: usize) -> Window {
    Window::new(width, TIMEOUT)
}

fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_message_that_is_not_acknowledged_is_sent_again_for_ever() {
    let mut window = window(1);
    window.add(Slot::Row(1), "a".into());
    let mut now = now();
    let mut last = Duration::ZERO;
    for _ in 0..50 {
        assert_eq!(window.next(now), Some((Slot::Row(1), "a")));
        window.sent(Slot::Row(1), now);
        assert_eq!(window.next(now), None);
        let wait = window.deadline(now).expect("a time") - now;
        assert!(wait >= last && wait <= LONGEST.max(TIMEOUT), "{wait:?}");
        last = wait;
        now += wait;
    }
    assert_eq!(last, LONGEST);
}

#[test]
fn a_refused_message_waits_and_lets_others_pass() {
    let mut window = window(1);
    let now = now();
    window.add(Slot::Row(1), "a".into());
    window.add(Slot::Row(2), "b".into());
    window.sent(Slot::Row(1), now);
    window.refused("a", Some(Duration::from_secs(3)), now);
    assert_eq!(window.next(now), Some((Slot::Row(2), "b")));
    window.sent(Slot::Row(2), now);
    assert_eq!(window.acknowledged("b"), Some(Slot::Row(2)));
    assert_eq!(window.next(now), None);
    let later = now + Duration::from_secs(3);
    assert_eq!(window.deadline(now), Some(later));
    assert_eq!(window.next(later), Some((Slot::Row(1), "a")));
}

#[test]
fn a_cloud_that_says_no_time_or_too_long_a_time_is_bounded() {
    let mut window = window(1);
    let now = now();
    window.add(Slot::Status, "a".into());
    window.sent(Slot::Status, now);
    window.refused("a", None, now);
    assert_eq!(window.deadline(now), Some(now + REFUSED));
    window.sent(Slot::Status, now);
    window.refused("a", Some(Duration::MAX), now);
    assert_eq!(window.deadline(now), Some(now + LONGEST));
}

#[test]
fn requests_and_the_status_do_not_wait_behind_what_is_kept() {
    let mut window = window(2);
    let now = now();
    for id in 0..10 {
        window.add(Slot::Row(id), id.to_string());
    }
    window.add(Slot::Status, "s".into());
    window.add(Slot::Request(1), "r".into());
    assert_eq!(window.next(now), Some((Slot::Request(1), "r")));
    window.sent(Slot::Request(1), now);
    assert_eq!(window.next(now), Some((Slot::Status, "s")));
}

#[derive(Debug, Clone)]
enum Step {
    Add,
    Send,
    Ack(usize),
    Nack(usize, Option<u64>),
    Forged(String),
    Disconnect,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Add),
        5 => Just(Step::Send),
        3 => (0usize..8).prop_map(Step::Ack),
        1 => (0usize..8, prop::option::of(0u64..100_000)).prop_map(|(at, after)| Step::Nack(at, after)),
        1 => "[0-9]{1,2}".prop_map(Step::Forged),
        1 => Just(Step::Disconnect),
        1 => (0u64..30_000).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_or_overtakes_and_few_are_in_flight(
        width in 1usize..5,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut window = window(width);
        let mut now = now();
        let mut next_id = 0;
        // What the other side would know.
        let mut open: BTreeSet<i64> = BTreeSet::new();
        let mut in_flight: BTreeMap<i64, Instant> = BTreeMap::new();
        let mut first_sent: Vec<i64> = Vec::new();
        for step in steps {
            match step {
                Step::Add if window.room() > 0 => {
                    window.add(Slot::Row(next_id), next_id.to_string());
                    open.insert(next_id);
                    next_id += 1;
                }
                Step::Send => {
                    let found = window.next(now).map(|(slot, txn)| (slot, txn.to_owned()));
                    if let Some((Slot::Row(id), txn)) = found {
                        prop_assert_eq!(txn, id.to_string());
                        prop_assert!(open.contains(&id), "what is gone is not sent");
                        window.sent(Slot::Row(id), now);
                        if !first_sent.contains(&id) {
                            prop_assert!(first_sent.iter().all(|it| *it < id), "{id} after {first_sent:?}");
                            first_sent.push(id);
                        }
                        in_flight.insert(id, now);
                    }
                }
                Step::Ack(at) => {
                    let sent = first_sent.iter().filter(|id| open.contains(id)).nth(at).copied();
                    if let Some(id) = sent {
                        prop_assert_eq!(window.acknowledged(&id.to_string()), Some(Slot::Row(id)));
                        open.remove(&id);
                        in_flight.remove(&id);
                    }
                }
                Step::Nack(at, after) => {
                    let sent = first_sent.iter().filter(|id| open.contains(id)).nth(at).copied();
                    if let Some(id) = sent {
                        window.refused(&id.to_string(), after.map(Duration::from_millis), now);
                        in_flight.remove(&id);
                    }
                }
                Step::Forged(txn) => {
                    let known = txn.parse().is_ok_and(|id| first_sent.contains(&id) && open.contains(&id));
                    if !known || txn.starts_with('0') && txn.len() > 1 {
                        prop_assert_eq!(window.acknowledged(&txn), None);
                    }
                }
                Step::Disconnect => {
                    window.disconnected();
                    in_flight.clear();
                    first_sent.clear();
                }
                Step::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                Step::Add => {}
            }
            in_flight.retain(|_, at| *at + TIMEOUT > now);
            prop_assert!(in_flight.len() <= width, "{in_flight:?}");
            let held: BTreeSet<i64> = (0..next_id).filter(|id| window.contains(Slot::Row(*id))).collect();
            prop_assert_eq!(&held, &open, "held is what is not acknowledged");
        }
        // Whatever happened: with time, everything is sent.
        for _ in 0..1000 {
            if open.is_empty() {
                break;
            }
            match window.next(now).map(|(slot, txn)| (slot, txn.to_owned())) {
                Some((Slot::Row(id), txn)) => {
                    window.sent(Slot::Row(id), now);
                    prop_assert_eq!(window.acknowledged(&txn), Some(Slot::Row(id)));
                    open.remove(&id);
                }
                _ => now = window.deadline(now).expect("something waits").max(now),
            }
        }
        prop_assert!(open.is_empty());
    }
}
