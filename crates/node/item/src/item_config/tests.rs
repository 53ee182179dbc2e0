use muster_api::domain::{PortRange, TransportProtocol};
use proptest::prelude::*;

use super::*;

fn read(json: &str) -> Result<ItemConfig, ReadDocumentError> {
    ItemConfig::read(json.as_bytes(), &Limits::default())
}

#[test]
fn an_empty_document_gives_the_defaults_of_the_format() {
    let item = read("{}").unwrap();
    assert_eq!(item, ItemConfig::default());
    let runtimes: Vec<&str> = item.runtimes.iter().map(RuntimeType::as_str).collect();
    assert_eq!(runtimes, ["crun", "runc"]);
    assert_eq!(item.run_parameters.start_interval, Duration::from_secs(5));
    assert_eq!(item.run_parameters.start_burst, 3);
    assert_eq!(item.run_parameters.restart_interval, Duration::from_secs(1));
    assert!(!item.sandbox.writable_rootfs && item.sandbox.capabilities.is_empty());
}

#[test]
fn every_key_is_read() {
    let item = read(
        r#"{
        "created": "2026-01-01T00:00:00Z", "author": "us", "skipResourceLimits": true, "hostname": "web-1.local",
        "balancingPolicy": "disabled", "runtimes": [{"codename": "container"}, "native"],
        "runParameters": {"startInterval": "PT1M", "startBurst": 7, "restartInterval": "500ms",
                          "stopTimeout": "20s", "healthPeriod": "1m"},
        "sysctl": {"net.ipv4.ip_forward": "1"}, "offlineTTL": "P1DT3H",
        "quotas": {"cpuDMIPSLimit": 1, "ramLimit": 2, "pidsLimit": 3, "noFileLimit": 4, "tmpLimit": 5, "stateLimit": 6,
                   "storageLimit": 7, "uploadSpeed": 8, "downloadSpeed": 9, "uploadLimit": 10, "downloadLimit": 11.0},
        "requestedResources": {"cpu": 12, "ram": 13, "storage": 14, "state": 15},
        "allowedConnections": {"db/5432": {}, "log/8000-8010/udp": {}},
        "resources": [{"name": "camera", "mode": "rw"}, "bluetooth"],
        "permissions": {"vis": {"*": "r", "speed": "rw"}},
        "alertRules": {"cpu": {"minTimeout": "PT1M", "minThreshold": 70, "maxThreshold": 80.5},
                       "partitions": [{"name": "state", "minThreshold": 1, "maxThreshold": 2}],
                       "download": {"minTimeout": "1s", "minThreshold": 1, "maxThreshold": 1000}},
        "dependencies": ["db"], "sandbox": {"writableRootfs": true, "userNamespace": true, "capabilities": ["CAP_NET_RAW"]},
        "somethingNew": [1, 2, 3]}"#,
    )
    .unwrap();
    assert_eq!(item.created.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(item.author.as_deref(), Some("us"));
    assert!(item.skip_resource_limits);
    assert_eq!(item.hostname.as_deref(), Some("web-1.local"));
    assert_eq!(item.balancing_policy, BalancingPolicy::Disabled);
    let runtimes: Vec<&str> = item.runtimes.iter().map(RuntimeType::as_str).collect();
    assert_eq!(runtimes, ["container", "native"]);
    let run = RunParameters {
        start_interval: Duration::from_secs(60),
        start_burst: 7,
        restart_interval: Duration::from_millis(500),
        stop_timeout: Some(Duration::from_secs(20)),
        health_period: Some(Duration::from_secs(60)),
    };
    assert_eq!(item.run_parameters, run);
    assert_eq!(item.sysctl["net.ipv4.ip_forward"], "1");
    assert_eq!(item.offline_ttl, Some(Duration::from_secs(27 * 3600)));
    let quotas = Quotas {
        cpu_dmips_limit: Some(1),
        ram_limit: Some(2),
        pids_limit: Some(3),
        no_file_limit: Some(4),
        tmp_limit: Some(5),
        state_limit: Some(6),
        storage_limit: Some(7),
        upload_speed: Some(8),
        download_speed: Some(9),
        upload_limit: Some(10),
        download_limit: Some(11),
    };
    assert_eq!(item.quotas, quotas);
    let requested = item.requested_resources;
    let requested = [
        requested.cpu,
        requested.ram,
        requested.storage,
        requested.state,
    ];
    assert_eq!(requested, [Some(12), Some(13), Some(14), Some(15)]);
    assert_eq!(item.allowed_connections[0].item.as_str(), "db");
    assert_eq!(item.allowed_connections[0].protocol, TransportProtocol::Tcp);
    assert_eq!(
        item.allowed_connections[1].ports,
        PortRange::new(8000, 8010).unwrap()
    );
    assert_eq!(item.allowed_connections[1].protocol, TransportProtocol::Udp);
    assert_eq!(item.resources[0].mode.as_deref(), Some("rw"));
    assert_eq!(
        (item.resources[1].name.as_str(), &item.resources[1].mode),
        ("bluetooth", &None)
    );
    assert_eq!(item.permissions["vis"]["speed"], "rw");
    let cpu = item.alert_rules.cpu.unwrap();
    assert_eq!(Duration::from(cpu.duration()), Duration::from_secs(60));
    assert_eq!(cpu.max_threshold().get(), 80.5);
    assert_eq!(item.alert_rules.partitions[0].0.as_str(), "state");
    assert_eq!(item.alert_rules.download.unwrap().max_threshold(), 1000);
    assert_eq!(item.dependencies[0].as_str(), "db");
    assert!(item.sandbox.writable_rootfs && item.sandbox.user_namespace);
    assert_eq!(item.sandbox.capabilities, ["CAP_NET_RAW"]);
}

/// An item that asked for a limit must not run without it because the limit could not be read.
#[test]
fn a_known_key_with_a_wrong_value_is_an_error_with_its_path() {
    let cases = [
        (
            r#"{"quotas": {"ramLimit": "1G"}}"#,
            "quotas.ramLimit: is a text, expected a whole number",
        ),
        (
            r#"{"quotas": {"ramLimit": -1}}"#,
            "quotas.ramLimit: -1 is not a whole number from 0 on",
        ),
        (r#"{"quotas": {"ramLimit": 1e300}}"#, "quotas.ramLimit: 1"),
        (r#"{"quotas": []}"#, "quotas: is a list, expected an object"),
        (
            r#"{"runParameters": {"startInterval": 5}}"#,
            "runParameters.startInterval: is a number, expected a text",
        ),
        (
            r#"{"runParameters": {"startInterval": "5"}}"#,
            "runParameters.startInterval: \"5\" is not a duration",
        ),
        (
            r#"{"runParameters": {"startBurst": 4294967296}}"#,
            "runParameters.startBurst: 4294967296 is too large",
        ),
        (
            r#"{"balancingPolicy": "on"}"#,
            "balancingPolicy: \"on\" is neither enabled nor disabled",
        ),
        (r#"{"hostname": "-a"}"#, "hostname: \"-a\" is no host name"),
        (
            r#"{"sysctl": {"../../etc/passwd": "x"}}"#,
            "sysctl.\"../../etc/passwd\": \"x\" stands at a key",
        ),
        (r#"{"runtimes": [{}]}"#, "runtimes[0].codename: missing"),
        (
            r#"{"allowedConnections": {"db": {}}}"#,
            "allowedConnections.\"db\": an object stands at a key",
        ),
        (
            r#"{"alertRules": {"ram": {"minThreshold": 9, "maxThreshold": 8}}}"#,
            "alertRules.ram: an object is refused",
        ),
        (
            r#"{"alertRules": {"ram": {"minThreshold": 9, "maxThreshold": 101}}}"#,
            "alertRules.ram.maxThreshold: 101",
        ),
        (
            r#"{"sandbox": {"capabilities": ["net_raw"]}}"#,
            "sandbox.capabilities[0]: \"net_raw\" is no capability",
        ),
        (
            r#"{"dependencies": ["a/b"]}"#,
            "dependencies[0]: \"a/b\" is refused",
        ),
    ];
    for (json, expected) in cases {
        let error = read(json).unwrap_err().to_string();
        let expected = format!("the item configuration: {expected}");
        assert!(error.starts_with(&expected), "{json}: {error}");
    }
}

/// It would be no limit to one runtime, and to another the end of every start.
#[test]
fn a_quota_of_zero_was_not_said() {
    let keys = [
        "cpuDMIPSLimit",
        "ramLimit",
        "pidsLimit",
        "noFileLimit",
        "tmpLimit",
        "stateLimit",
        "storageLimit",
        "uploadSpeed",
        "downloadSpeed",
        "uploadLimit",
        "downloadLimit",
    ];
    let zeros: Vec<String> = keys.iter().map(|key| format!(r#""{key}": 0"#)).collect();
    let item = read(&format!(r#"{{"quotas": {{{}}}}}"#, zeros.join(", "))).unwrap();
    assert_eq!(item.quotas, Quotas::default());
}

#[test]
fn a_hostile_value_cannot_forge_a_line() {
    let hostile = format!(r#"{{"hostname": "a\n\u001b[31m{}"}}"#, "x".repeat(5000));
    let error = read(&hostile).unwrap_err().to_string();
    assert!(
        error.len() < 300 && !error.chars().any(char::is_control),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_json_in_any_place_is_read_or_refused(
        key in prop::sample::select(vec!["runtimes", "quotas", "sysctl", "permissions", "alertRules", "resources",
            "allowedConnections", "offlineTTL", "runParameters", "sandbox", "hostname"]),
        value in r#"(\{|\[|"|[a-z0-9.,:/-]|\}|\]|null){0,24}"#,
    ) {
        let _ = read(&format!(r#"{{"{key}": {value}}}"#));
        let _ = read(&format!(r#"{{"{key}": {{"{value}": "{value}"}}}}"#));
    }

    #[test]
    fn limits_that_are_written_are_the_limits_that_are_read(ram in 1..u64::MAX, burst in 1..u32::MAX) {
        let item = read(&format!(r#"{{"quotas": {{"ramLimit": {ram}}}, "runParameters": {{"startBurst": {burst}}}}}"#)).unwrap();
        prop_assert_eq!(item.quotas.ram_limit, Some(ram));
        prop_assert_eq!(item.run_parameters.start_burst, burst);
    }
}
