use super::*;
use crate::instances::InstanceUnit;
use muster_api::domain::InstanceFilter;

#[derive(Debug)]
struct NoInstances;

impl InstanceUnits for NoInstances {
    fn by_unit(&self, _: &str) -> Option<InstanceUnit> {
        None
    }

    fn find(&self, _: &InstanceFilter) -> Vec<InstanceUnit> {
        Vec::new()
    }
}

fn rules(change: impl FnOnce(&mut JournalSettings)) -> Result<Rules, JournalSettingsError> {
    let mut settings = JournalSettings::default();
    change(&mut settings);
    Rules::new(&settings, 1000)
}

fn is_alert(rules: &Rules, record: &Record) -> bool {
    rules.classify(record, 1, &NoInstances).is_some()
}

fn record(priority: u8, unit: &str) -> Record {
    Record {
        message: b"text".to_vec(),
        priority: Some(priority),
        unit: Some(unit.to_owned()),
        ..Record::default()
    }
}

#[test]
fn priorities_differ_for_services_and_the_rest() {
    let rules = rules(|_| {}).expect("rules");
    for (priority, unit, expected) in [
        (3, "a.service", true),
        (4, "a.service", false),
        (4, "init.scope", true),
        (5, "init.scope", false),
        (4, "muster-sm.service", true),
    ] {
        assert_eq!(
            is_alert(&rules, &record(priority, unit)),
            expected,
            "{priority} {unit}"
        );
    }
    let none = Record {
        priority: None,
        ..record(0, "a.service")
    };
    assert!(!is_alert(&rules, &none));
}

#[test]
fn only_root_and_process_1_are_believed_about_other_units() {
    let rules = rules(|_| {}).expect("rules");
    let told = |pid: &str, uid: &str| {
        let record = Record {
            about: Some("muster-cm.service".to_owned()),
            pid: Some(pid.to_owned()),
            uid: Some(uid.to_owned()),
            ..record(3, "a.service")
        };
        rules
            .classify(&record, 1, &NoInstances)
            .expect("an alert")
            .kind
    };
    for trusted in [("1", "1000"), ("7", "0")] {
        assert!(matches!(
            told(trusted.0, trusted.1),
            AlertKind::Core { component, .. } if component == "CM"
        ));
    }
    assert!(matches!(told("7", "1000"), AlertKind::System { .. }));
}

#[test]
fn filters_are_bounded() {
    let with = |filters: Vec<String>| rules(|settings| settings.filters = filters);
    let rules = with(vec!["t.xt".to_owned()]).expect("rules");
    assert!(!is_alert(&rules, &record(0, "a.service")));
    assert!(matches!(
        with(vec![String::new(); FILTERS_MAX + 1]),
        Err(JournalSettingsError::TooManyFilters { found: 65 })
    ));
    assert!(matches!(
        with(vec![String::new(), "x".repeat(FILTER_BYTES_MAX + 1)]),
        Err(JournalSettingsError::LongFilter { number: 2, .. })
    ));
    // One that is no expression, and one that would take gigabytes.
    for filter in ["(", "((a{100}){100}){100}"] {
        let error = with(vec![filter.to_owned()]).expect_err("refused");
        assert!(matches!(error, JournalSettingsError::Filters(_)));
    }
}

#[test]
fn senseless_priorities_are_refused() {
    let error = rules(|settings| settings.service_priority = 8).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the priority of service alerts is 8, where syslog knows 0 (emergency) to 7 (debug)"
    );
}

#[test]
fn a_time_that_cannot_be_is_no_alert() {
    let rules = rules(|_| {}).expect("rules");
    assert!(
        rules
            .classify(&record(0, "a.service"), u64::MAX, &NoInstances)
            .is_none()
    );
}
