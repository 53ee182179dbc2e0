use std::time::Duration;

use muster_api::domain::{AlertRule, AlertRules, Interval, PartitionName, Percent};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::ResourceRatios;

fn read(text: &str) -> Result<Document, InvalidNodeConfig> {
    Document::read(text.as_bytes(), &Limits::default())
}

fn accepted(document: Value) -> Document {
    read(&document.to_string()).expect("a valid document")
}

/// The paths and messages of a refused document.
fn refused(document: Value) -> Vec<String> {
    let error = read(&document.to_string()).expect_err("a refusal");
    error.problems.iter().map(ToString::to_string).collect()
}

fn percents(seconds: u64, min: f64, max: f64) -> AlertRule<Percent> {
    let percent = |value| Percent::new(value).expect("a percentage");
    let interval = Interval::try_from(Duration::from_secs(seconds)).expect("an interval");
    AlertRule::new(interval, percent(min), percent(max)).expect("a rule")
}

#[test]
fn a_controllers_document_is_read_whole() {
    let document = accepted(json!({
        "version": "2.0.0",
        "node": {"codename": "node-1"},
        "nodeGroupSubject": {"codename": "type"},
        "alertRules": {
            "cpu": {"minTimeout": "PT1M", "minThreshold": 70, "maxThreshold": 80.5},
            "ram": {"minTimeout": "10s", "minThreshold": 1, "maxThreshold": 2},
            "partitions": [{"name": "var", "minThreshold": 90, "maxThreshold": 95}],
            "download": {"minTimeout": "PT2H", "minThreshold": 100, "maxThreshold": 200.0},
        },
        "resourceRatios": {"cpu": 50, "storage": 12.5},
        "labels": ["gpu", "main", "gpu"],
        "priority": 5,
    }));
    assert_eq!(document.version, Some(Version::new(2, 0, 0)));
    assert_eq!(document.node.as_deref(), Some("node-1"));
    assert_eq!(document.node_type.as_deref(), Some("type"));
    assert!(document.unknown.is_empty());
    let config = document.config;
    assert_eq!(config.alert_rules.cpu, Some(percents(60, 70.0, 80.5)));
    assert_eq!(config.alert_rules.ram, Some(percents(10, 1.0, 2.0)));
    let var = PartitionName::new("var").expect("a name");
    assert_eq!(
        config.alert_rules.partitions,
        [(var, percents(0, 90.0, 95.0))]
    );
    let interval = Interval::try_from(Duration::from_secs(7200)).expect("an interval");
    let download = AlertRule::new(interval, 100, 200).expect("a rule");
    assert_eq!(config.alert_rules.download, Some(download));
    assert_eq!(config.alert_rules.upload, None);
    assert_eq!(config.resource_ratios.cpu, Percent::new(50.0).ok());
    assert_eq!(config.resource_ratios.ram, None);
    assert_eq!(Vec::from_iter(config.labels), ["gpu", "main"]);
    assert_eq!(config.priority, 5);
}

#[test]
fn what_is_absent_null_or_empty_says_nothing() {
    let nothing = accepted(json!({}));
    assert_eq!(nothing.config, NodeConfig::default());
    let nulls = json!({
        "version": null, "node": null, "nodeGroupSubject": {"codename": ""}, "labels": null,
        "alertRules": {"cpu": null, "partitions": null}, "resourceRatios": {"ram": null}, "priority": null,
    });
    assert_eq!(accepted(nulls), nothing);
}

#[test]
fn keys_are_found_in_any_case() {
    let document = accepted(
        json!({"AlertRules": {"CPU": {"minthreshold": 1, "MAXTHRESHOLD": 2}}, "Priority": 3}),
    );
    assert_eq!(document.config.alert_rules.cpu, Some(percents(0, 1.0, 2.0)));
    assert_eq!(document.config.priority, 3);
    assert!(document.unknown.is_empty());
}

#[test]
fn unknown_keys_are_passed_over_and_named() {
    let document = accepted(json!({
        "formatVersion": 7,
        "node": {"codename": "n", "title": "Node"},
        "alertRules": {
            "cpu": {"minThreshold": 1, "maxThreshold": 2, "unit": "%"},
            "partitions": [{"name": "var", "minThreshold": 1, "maxThreshold": 2, "path": {"deep": [1]}}],
        },
    }));
    let mut unknown = document.unknown;
    unknown.sort();
    let expected = [
        "alertRules.cpu.unit",
        "alertRules.partitions[0].path",
        "formatVersion",
        "node.title",
    ];
    assert_eq!(unknown, expected);
}

#[test]
fn any_number_of_unknown_keys_takes_bounded_room() {
    let many: serde_json::Map<String, Value> = (0..100)
        .map(|n| (format!("{n}\n{}", "x".repeat(500)), json!(n)))
        .collect();
    let document = accepted(
        json!({"node": many.clone(), "nodeGroupSubject": many.clone(), "alertRules": many}),
    );
    assert_eq!(document.unknown.len(), 32);
    assert!(
        document
            .unknown
            .iter()
            .all(|key| key.len() < 200 && !key.contains('\n'))
    );
}

#[test]
fn every_wrong_value_is_named_by_its_path() {
    let cases = [
        (json!({"version": "two"}), "version: `two` must be semantic"),
        (json!({"version": 2}), "version: `2`"),
        (json!({"priority": -1}), "priority: `-1`"),
        (json!({"priority": 1.5}), "priority: `1.5`"),
        (json!({"labels": [""]}), "labels: "),
        (json!({"labels": "one"}), "labels: `one`"),
        (json!({"labels": ["a", 5]}), "labels[1]: `5`"),
        (json!({"node": "n"}), "node: `n`"),
        (json!({"node": {"codename": 5}}), "node.codename: `5`"),
        (
            json!({"resourceRatios": {"state": 101}}),
            "resourceRatios.state: `101` must be between 0 and 100",
        ),
        (json!({"alertRules": []}), "alertRules: "),
    ];
    for (document, expected) in cases {
        let problems = refused(document.clone());
        assert_eq!(problems.len(), 1, "{document}: {problems:?}");
        assert!(
            problems[0].starts_with(expected),
            "{document}: {problems:?}"
        );
    }
    let rule = |rule: Value| refused(json!({"alertRules": {"cpu": rule}}));
    let path = "alertRules.cpu";
    let cases = [
        (
            json!({"minThreshold": "x", "maxThreshold": 2}),
            "minThreshold: `x`",
        ),
        (
            json!({"minThreshold": -1, "maxThreshold": 2}),
            "minThreshold: `-1` must be between 0 and 100",
        ),
        (
            json!({"minThreshold": 1, "maxThreshold": 100.5}),
            "maxThreshold: `100.5` must be between 0 and 100",
        ),
        (
            json!({"minThreshold": 3, "maxThreshold": 2}),
            "minThreshold: `3` must not be above maxThreshold",
        ),
        (json!({"maxThreshold": 2}), "minThreshold: must be given"),
        (
            json!({"minTimeout": "1 minute", "minThreshold": 1, "maxThreshold": 2}),
            "minTimeout: `1 minute`",
        ),
        (
            json!({"minTimeout": 60, "minThreshold": 1, "maxThreshold": 2}),
            "minTimeout: `60`",
        ),
    ];
    for (document, expected) in cases {
        let problems = rule(document.clone());
        assert_eq!(problems.len(), 1, "{document}: {problems:?}");
        assert!(
            problems[0].starts_with(&format!("{path}.{expected}")),
            "{document}: {problems:?}"
        );
    }
}

#[test]
fn rules_of_partitions_are_named_by_their_place() {
    let rule = |name: &str| json!({"name": name, "minThreshold": 1, "maxThreshold": 2});
    let twice = json!({"alertRules": {"partitions": [rule("a"), rule("b"), rule("a")]}});
    assert_eq!(
        refused(twice),
        ["alertRules.partitions[2].name: `a` stands in two rules"]
    );
    let nameless = json!({"alertRules": {"partitions": [{"minThreshold": 1, "maxThreshold": 2}]}});
    assert!(refused(nameless)[0].starts_with("alertRules.partitions[0].name: "));
    let points = json!({"alertRules": {"upload": {"minThreshold": 0.5, "maxThreshold": 2}}});
    assert!(refused(points)[0].starts_with("alertRules.upload.minThreshold: `0.5`"));
}

#[test]
fn all_problems_are_told_at_once() {
    let error = read(
        r#"{"priority": "high", "alertRules": {"cpu": {"minThreshold": "x", "maxThreshold": {}}}}"#,
    );
    let error = error.expect_err("a refusal");
    let mut paths: Vec<_> = error.problems.iter().map(|it| it.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "alertRules.cpu.maxThreshold",
            "alertRules.cpu.minThreshold",
            "priority"
        ]
    );
}

#[test]
fn what_is_no_document_is_refused_with_its_line() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{} {}",
        "{\"a\": 1, \"a\": 2}",
        "{\n\"priority\": }",
        "\u{0}",
    ] {
        let error = read(text).expect_err(text);
        assert!(!error.problems.is_empty(), "{text}");
    }
    let error = read("{\n\n\"priority\": }")
        .expect_err("a refusal")
        .to_string();
    assert!(
        error.starts_with("the node configuration is not valid: line 3: "),
        "{error}"
    );
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(read(&format!("{{\"x\": {deep}}}")).is_err());
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(2 << 20));
    assert!(read(&large).expect_err("a refusal").to_string().len() < 500);
}

#[test]
fn an_error_names_only_the_first_problems() {
    let rules: Vec<Value> = (0..50)
        .map(|n| json!({"name": format!("p{n}"), "minThreshold": 101, "maxThreshold": 100}))
        .collect();
    let error =
        read(&json!({"alertRules": {"partitions": rules}}).to_string()).expect_err("a refusal");
    assert_eq!(error.problems.len(), 50);
    let text = error.to_string();
    assert!(
        text.ends_with("; and 42 more") && text.len() < 2000,
        "{text}"
    );
}

fn percent() -> impl Strategy<Value = f64> {
    (0_u32..=1000).prop_map(|tenths| f64::from(tenths) / 10.0)
}

fn percent_rule() -> impl Strategy<Value = AlertRule<Percent>> {
    (0_u64..100_000, percent(), percent())
        .prop_map(|(seconds, one, other)| percents(seconds, one.min(other), one.max(other)))
}

fn point_rule() -> impl Strategy<Value = AlertRule<u64>> {
    (0_u64..100_000, any::<u64>(), any::<u64>()).prop_map(|(seconds, one, other)| {
        let interval = Interval::try_from(Duration::from_secs(seconds)).expect("an interval");
        AlertRule::new(interval, one.min(other), one.max(other)).expect("a rule")
    })
}

fn config() -> impl Strategy<Value = NodeConfig> {
    let partitions = btree_map("[a-z]{1,5}", percent_rule(), 0..4).prop_map(|rules| {
        let named = |(name, rule): (String, _)| (PartitionName::new(&name).expect("a name"), rule);
        rules.into_iter().map(named).collect::<Vec<_>>()
    });
    let percents = || option::of(percent_rule());
    let rules = (
        percents(),
        percents(),
        partitions,
        option::of(point_rule()),
        option::of(point_rule()),
    )
        .prop_map(|(ram, cpu, partitions, download, upload)| AlertRules {
            ram,
            cpu,
            partitions,
            download,
            upload,
        });
    let ratio = || option::of(percent().prop_map(|it| Percent::new(it).expect("a percentage")));
    let ratios = (ratio(), ratio(), ratio(), ratio()).prop_map(|(cpu, ram, storage, state)| {
        ResourceRatios {
            cpu,
            ram,
            storage,
            state,
        }
    });
    (rules, ratios, btree_set(".{1,8}", 0..4), any::<u64>()).prop_map(
        |(alert_rules, resource_ratios, labels, priority)| NodeConfig {
            alert_rules,
            resource_ratios,
            labels,
            priority,
        },
    )
}

/// As a controller writes it.
fn written(config: &NodeConfig) -> Value {
    fn timeout(interval: Interval) -> String {
        format!("PT{}S", Duration::from(interval).as_secs())
    }
    let percents = |rule: &AlertRule<Percent>| {
        json!({"minTimeout": timeout(rule.duration()), "minThreshold": rule.min_threshold().get(),
               "maxThreshold": rule.max_threshold().get()})
    };
    let points = |rule: &AlertRule<u64>| {
        json!({"minTimeout": timeout(rule.duration()), "minThreshold": rule.min_threshold(),
               "maxThreshold": rule.max_threshold()})
    };
    let rules = &config.alert_rules;
    let partitions = rules.partitions.iter().map(|(name, rule)| {
        let mut rule = percents(rule);
        rule["name"] = json!(name.as_str());
        rule
    });
    let ratio = |ratio: Option<Percent>| ratio.map(Percent::get);
    json!({
        "alertRules": {
            "ram": rules.ram.as_ref().map(percents), "cpu": rules.cpu.as_ref().map(percents),
            "partitions": partitions.collect::<Vec<_>>(),
            "download": rules.download.as_ref().map(points), "upload": rules.upload.as_ref().map(points),
        },
        "resourceRatios": {
            "cpu": ratio(config.resource_ratios.cpu), "ram": ratio(config.resource_ratios.ram),
            "storage": ratio(config.resource_ratios.storage), "state": ratio(config.resource_ratios.state),
        },
        "labels": config.labels,
        "priority": config.priority,
    })
}

proptest! {
    #[test]
    fn what_a_controller_writes_is_what_is_read(config in config()) {
        prop_assert_eq!(accepted(written(&config)).config, config);
    }

    /// A document with one part replaced by anything is read or refused, and a refusal is text of bounded length.
    #[test]
    fn no_document_panics_or_floods(config in config(), part in 0_usize..20, with in vec(any::<u8>(), 0..12)) {
        let text = written(&config).to_string();
        let at = text.len() * part / 20;
        let mut bytes = text.into_bytes();
        bytes.splice(at..at, with);
        if let Err(error) = Document::read(&bytes, &Limits::default()) {
            let text = error.to_string();
            prop_assert!(text.len() < 10_000 && !text.chars().any(char::is_control), "{}", text);
        }
    }
}
