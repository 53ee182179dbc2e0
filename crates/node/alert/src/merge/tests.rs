use std::time::SystemTime;

use muster_api::domain::{AlertStatus, QuotaParameter, Timestamp};
use proptest::prelude::*;

use super::*;

const WINDOW: Duration = Duration::from_millis(100);

fn at(kind: AlertKind) -> Alert {
    Alert {
        timestamp: Timestamp::try_from(SystemTime::UNIX_EPOCH).expect("a time"),
        kind,
    }
}

fn system(message: &str) -> Alert {
    at(AlertKind::System {
        message: message.to_owned(),
    })
}

fn merger() -> Merger {
    Merger::new(WINDOW, 0, BTreeMap::new())
}

fn offered(merger: &mut Merger, now: u64, alert: Alert) -> Vec<Alert> {
    let mut outcome = Outcome::default();
    merger.offer(now, alert, &mut outcome);
    outcome.told
}

fn ended(merger: &mut Merger, now: u64) -> Vec<Alert> {
    let mut outcome = Outcome::default();
    merger.end_windows(now, &mut outcome);
    outcome.told
}

#[test]
fn the_first_is_told_at_once_and_repeats_as_a_count() {
    let mut merger = merger();
    assert_eq!(
        offered(&mut merger, 0, system("disk 1 fails")),
        [system("disk 1 fails")]
    );
    for n in 2..5 {
        assert_eq!(
            offered(&mut merger, n, system(&format!("disk {n} fails"))),
            []
        );
    }
    assert_eq!(merger.next_end(), Some(100));
    assert_eq!(ended(&mut merger, 99), []);
    assert_eq!(
        ended(&mut merger, 100),
        [system("disk 4 fails (the last of 3 alike)")]
    );
    // The flood may go on: what comes next is counted again.
    assert_eq!(offered(&mut merger, 150, system("disk 9 fails")), []);
    assert_eq!(ended(&mut merger, 200), [system("disk 9 fails")]);
    // And it ends with a window in which nothing came.
    assert_eq!(ended(&mut merger, 300), []);
    assert_eq!(merger.next_end(), None);
}

#[test]
fn kind_source_and_text_keep_alerts_apart() {
    let mut merger = merger();
    let core = |component: &str| {
        at(AlertKind::Core {
            component: component.into(),
            message: "x".into(),
        })
    };
    for alert in [system("x"), system("y"), core("SM"), core("CM")] {
        assert_eq!(offered(&mut merger, 0, alert.clone()), [alert]);
    }
}

#[test]
fn quota_alerts_are_all_told() {
    let mut merger = merger();
    for status in [AlertStatus::Raise, AlertStatus::Raise, AlertStatus::Fall] {
        let alert = at(AlertKind::SystemQuota {
            parameter: QuotaParameter::Cpu,
            value: 1,
            status,
        });
        assert_eq!(offered(&mut merger, 0, alert.clone()), [alert]);
    }
    assert_eq!(merger.next_end(), None);
}

#[test]
fn the_number_of_floods_is_bounded_and_what_makes_room_is_told() {
    let mut merger = merger();
    let name = |n: usize| "x".repeat(n + 1);
    for n in 0..FLOODS_MAX {
        offered(&mut merger, 0, system(&name(n)));
    }
    let first = merger.floods.keys().next().cloned().expect("a flood");
    let text = first
        .as_str()
        .rsplit('\0')
        .next()
        .expect("a text")
        .to_owned();
    assert_eq!(offered(&mut merger, 1, system(&text)), []);
    let told = offered(&mut merger, 2, system("one more"));
    assert_eq!(told, [system(&text), system("one more")]);
    assert_eq!(merger.floods.len(), FLOODS_MAX);
}

#[test]
fn counts_go_on_after_a_restart() {
    let mut before = merger();
    offered(&mut before, 0, system("a"));
    let mut outcome = Outcome::default();
    before.offer(1, system("a"), &mut outcome);
    before.offer(2, system("a"), &mut outcome);
    let key = outcome.counted.first().cloned().expect("counted");
    let kept = before.repeats(&key).cloned().expect("repeats");
    let mut after = Merger::new(WINDOW, 0, [(key, kept)].into());
    assert_eq!(offered(&mut after, 50, system("a")), []);
    assert_eq!(ended(&mut after, 100), [system("a (the last of 3 alike)")]);
}

/// How many alerts one stands for.
fn weight(alert: &Alert) -> u64 {
    let AlertKind::System { message } = &alert.kind else {
        return 1;
    };
    message
        .split_once("(the last of ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .map_or(1, |count| count.parse().expect("a count"))
}

proptest! {
    /// Whatever comes when: every alert is told by itself or counted once, nothing waits longer than a window, and no
    /// more is told of a flood than its first and one per window.
    #[test]
    fn every_alert_is_told_or_counted(
        steps in prop::collection::vec((0_u64..60, 0_u8..4, 0_u32..100), 1..200)
    ) {
        let mut merger = merger();
        let mut now = 0;
        let (mut came, mut told) = (BTreeMap::new(), BTreeMap::new());
        let mut messages = BTreeMap::new();
        let mut note = |alerts: &[Alert], told: &mut BTreeMap<char, u64>| {
            for alert in alerts {
                let AlertKind::System { message } = &alert.kind else { unreachable!() };
                let name = message.chars().next().expect("a text");
                *told.entry(name).or_insert(0) += weight(alert);
                *messages.entry(name).or_insert(0_u64) += 1;
            }
        };
        for (pause, name, number) in steps {
            now += pause;
            let name = char::from(b'a' + name);
            *came.entry(name).or_insert(0) += 1;
            let mut outcome = Outcome::default();
            merger.offer(now, system(&format!("{name} {number}")), &mut outcome);
            note(&outcome.told, &mut told);
            prop_assert!(merger.next_end().is_none_or(|end| end > now && end <= now + 100));
            // What is written down is what a restart would find.
            for key in &outcome.counted {
                prop_assert!(merger.repeats(key).is_none_or(|repeats| repeats.count > 0));
            }
        }
        now += 100;
        let mut outcome = Outcome::default();
        merger.end_windows(now, &mut outcome);
        note(&outcome.told, &mut told);
        prop_assert_eq!(came, told);
        for count in messages.values() {
            prop_assert!(*count <= 2 + now / 100, "{} in {} ms", count, now);
        }
    }
}
