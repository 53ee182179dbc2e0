use std::time::Duration;

use muster_api::domain::{
    AlertRule, AlertRules, AlertStatus, Interval, PartitionName, Percent, QuotaParameter,
};
use proptest::prelude::*;

use super::{Change, Measured, Rule, RuleSet, Watchdog};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn points(duration: Duration, min: u64, max: u64) -> AlertRule<u64> {
    AlertRule::new(Interval::try_from(duration).unwrap(), min, max).unwrap()
}

fn percents(duration: Duration, min: f64, max: f64) -> AlertRule<Percent> {
    let percent = |value| Percent::new(value).unwrap();
    let duration = Interval::try_from(duration).unwrap();
    AlertRule::new(duration, percent(min), percent(max)).unwrap()
}

/// What is said of one value every ten seconds.
fn said(duration: Duration, values: &[u64]) -> String {
    let mut watchdog = Watchdog::new(Rule::Points(points(duration, 70, 80)));
    let mut letter = |value: &u64| {
        let measured = Measured {
            value: *value,
            whole: None,
        };
        match watchdog.step(s(10), measured) {
            Some(AlertStatus::Raise) => 'R',
            Some(AlertStatus::Continue) => 'c',
            Some(AlertStatus::Fall) => 'F',
            None => '.',
        }
    };
    values.iter().map(&mut letter).collect()
}

#[test]
fn raises_continues_and_falls_after_the_duration() {
    // The first value at 80 begins the 30 seconds; so does the first below 70.
    assert_eq!(said(s(30), &[80, 81, 99, 80]), "...R");
    assert_eq!(
        said(s(30), &[80, 80, 80, 80, 75, 75, 75, 70, 70, 70, 70]),
        "...R..c..c."
    );
    assert_eq!(
        said(s(30), &[80, 80, 80, 80, 69, 69, 69, 69, 0]),
        "...R...F."
    );
    // A duration between two polls ends with the later one.
    assert_eq!(said(s(25), &[80, 80, 80, 80]), "...R");
}

#[test]
fn a_dip_begins_anew_and_a_peak_keeps_it_open() {
    assert_eq!(said(s(20), &[80, 80, 79, 80, 80, 80]), ".....R");
    // Below the minimum for 10 seconds only, again and again: it stays open, and is repeated.
    assert_eq!(
        said(s(20), &[80, 80, 80, 60, 70, 60, 70, 60, 60, 60]),
        "..R.c.c..F"
    );
    // Between the thresholds nothing is raised.
    assert_eq!(said(s(20), &[79, 75, 70, 79]), "....");
}

#[test]
fn without_a_duration_every_value_counts() {
    assert_eq!(said(s(0), &[80, 80, 70, 69, 69, 80, 0]), "RccF.RF");
}

#[test]
fn percentages_refer_to_the_whole() {
    let rule = Rule::Percent(percents(s(0), 70.0, 80.5));
    let step = |value, whole| {
        let mut watchdog = Watchdog::new(rule);
        watchdog.step(s(1), Measured { value, whole })
    };
    assert_eq!(step(805, Some(1000)), Some(AlertStatus::Raise));
    assert_eq!(step(804, Some(1000)), None);
    // Of nothing there is no percentage.
    assert_eq!(step(u64::MAX, Some(0)), None);
    assert_eq!(step(u64::MAX, None), None);
}

fn rules(ram: Option<AlertRule<Percent>>, partition: Option<AlertRule<Percent>>) -> AlertRules {
    let name = PartitionName::new("state").unwrap();
    AlertRules {
        ram,
        partitions: partition.map(|rule| (name, rule)).into_iter().collect(),
        ..AlertRules::default()
    }
}

fn full(_: &QuotaParameter) -> Option<Measured> {
    Some(Measured {
        value: 9,
        whole: Some(10),
    })
}

#[test]
fn a_rule_that_changes_or_goes_ends_its_alert_and_no_other() {
    let (rule, other) = (percents(s(0), 10.0, 50.0), percents(s(0), 10.0, 60.0));
    let state = QuotaParameter::Partition(PartitionName::new("state").unwrap());
    let fall = |parameter| Change {
        parameter,
        value: 9,
        status: AlertStatus::Fall,
    };
    let mut set = RuleSet::default();
    assert_eq!(set.replace(&rules(Some(rule), Some(rule))), []);
    let raised = set.step(s(1), full);
    assert!(
        raised
            .iter()
            .all(|change| change.status == AlertStatus::Raise)
    );
    assert_eq!(raised.len(), 2);
    // Nothing has changed.
    assert_eq!(set.replace(&rules(Some(rule), Some(rule))), []);
    assert_eq!(
        set.replace(&rules(Some(rule), Some(other))),
        [fall(state.clone())]
    );
    let again = set.step(s(1), full);
    assert_eq!(again[0].status, AlertStatus::Continue);
    assert_eq!(
        (&again[1].parameter, again[1].status),
        (&state, AlertStatus::Raise)
    );
    assert_eq!(
        set.replace(&rules(None, Some(other))),
        [fall(QuotaParameter::Ram)]
    );
    assert_eq!(set.end(), [fall(state)]);
}

#[test]
fn an_absent_value_changes_nothing() {
    let mut set = RuleSet::default();
    let _ = set.replace(&rules(Some(percents(s(10), 10.0, 50.0)), None));
    assert_eq!(set.step(s(5), full), []);
    assert_eq!(
        set.step(s(60), |_| None),
        [],
        "time without a value does not count"
    );
    assert_eq!(set.step(s(5), full), []);
    assert_eq!(set.step(s(5), full).len(), 1);
}

/// What was said so far, and what must hold.
#[derive(Default)]
struct Story {
    open: bool,
    /// Seconds for which every value, without a break, was high, or low.
    high: u64,
    low: u64,
    silent: u64,
}

proptest! {
    /// Whatever the values and the time between them: a raise only after the duration at or above the maximum, a fall only
    /// after the duration below the minimum, none of them late, and the words in their order.
    #[test]
    fn what_is_said_is_true_and_in_order(
        duration in 0..5u64,
        min in 0..10u64,
        width in 0..5u64,
        values in prop::collection::vec((0..15u64, 0..4u64), 0..200),
    ) {
        let max = min + width;
        let mut watchdog = Watchdog::new(Rule::Points(points(s(duration), min, max)));
        let mut story = Story::default();
        let mut before: Option<u64> = None;
        for (value, elapsed) in values {
            let lasts = |still: bool, was: bool, held: u64| match (still, was) {
                (true, true) => held + elapsed,
                _ => 0,
            };
            story.high = lasts(value >= max, before.is_some_and(|before| before >= max), story.high);
            story.low = lasts(value < min, before.is_some_and(|before| before < min), story.low);
            story.silent += elapsed;
            before = Some(value);
            let said = watchdog.step(s(elapsed), Measured { value, whole: None });
            match said {
                Some(AlertStatus::Raise) => {
                    prop_assert!(!story.open && value >= max && story.high >= duration);
                    story.open = true;
                    // Until it is opened again, only time from here on counts.
                    story.high = 0;
                }
                Some(AlertStatus::Continue) => {
                    prop_assert!(story.open && value >= min && story.silent >= duration);
                }
                Some(AlertStatus::Fall) => {
                    prop_assert!(story.open && value < min && story.low >= duration);
                    story.open = false;
                    story.low = 0;
                }
                None => {
                    prop_assert!(story.open || value < max || story.high < duration, "a raise is missing");
                    prop_assert!(!story.open || value >= min || story.low < duration, "a fall is missing");
                    prop_assert!(!story.open || value < min || story.silent < duration, "a repetition is missing");
                }
            }
            if said.is_some() {
                story.silent = 0;
            }
            prop_assert_eq!(watchdog.is_open(), story.open);
        }
    }

    /// Two statements other than repetitions are at least a duration apart, however wild the values are.
    #[test]
    fn nothing_flaps(
        duration in 1..100u64,
        values in prop::collection::vec((any::<u64>(), 0..40u64), 0..300),
        thresholds in (any::<u64>(), any::<u64>()),
    ) {
        let (min, max) = (thresholds.0.min(thresholds.1), thresholds.0.max(thresholds.1));
        let mut watchdog = Watchdog::new(Rule::Points(points(s(duration), min, max)));
        let mut since: Option<u64> = None;
        for (value, elapsed) in values {
            since = since.map(|since| since + elapsed);
            let said = watchdog.step(s(elapsed), Measured { value, whole: None });
            if matches!(said, Some(AlertStatus::Raise | AlertStatus::Fall)) {
                prop_assert!(since.is_none_or(|since| since >= duration));
                since = Some(0);
            }
        }
    }

    /// Rules that come, change and go at any time: per parameter, a raise and a fall take turns, and the end leaves none open.
    #[test]
    fn every_raise_has_its_fall_whatever_happens_to_its_rule(
        events in prop::collection::vec(
            (prop::option::of((0..3u64, 0..5u64)), prop::option::of(0..10u64), 0..3u64),
            0..100,
        ),
    ) {
        let mut set = RuleSet::default();
        let mut open = false;
        let mut check = |changes: Vec<Change>| {
            for change in changes {
                match change.status {
                    AlertStatus::Raise if !open => open = true,
                    AlertStatus::Continue if open => {}
                    AlertStatus::Fall if open => open = false,
                    status => return Err(TestCaseError::fail(format!("{status} while open is {open}"))),
                }
            }
            Ok(open)
        };
        for (rule, value, elapsed) in events {
            let upload = rule.map(|(duration, min)| points(s(duration), min, min + 2));
            check(set.replace(&AlertRules { upload, ..AlertRules::default() }))?;
            let measured = value.map(|value| Measured { value, whole: None });
            check(set.step(s(elapsed), |_| measured))?;
        }
        prop_assert!(!check(set.end())?);
    }
}
