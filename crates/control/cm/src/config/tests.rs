use muster_config::{Format, Load};

use super::*;

fn load(text: &str) -> Result<Config, muster_config::ConfigError> {
    let load = Load::<RawConfig>::new("muster-cm").document("cm.json", Format::Json, text);
    load.load()?.validate()
}

const WITH_IAM: &str = r#""iamPublicServerUrl": "localhost:8090", "iamProtectedServerUrl": "localhost:8089",
    "caCert": "/etc/muster/ca.pem""#;

#[test]
fn the_keys_of_the_field_are_taken() {
    let text = format!(
        r#"{{{WITH_IAM}, "certStorage": "cm", "workingDir": "/w", "cmServerUrl": ":8093",
            "fileServerUrl": "10.0.0.1:8094", "storageDir": "/s", "stateDir": "/t", "unitConfigFile": "/u.json",
            "serviceDiscoveryUrl": "https://cloud:9000", "unitStatusSendTimeout": "3s",
            "monitoring": {{"sendPeriod": "2m"}}, "alerts": {{"sendPeriod": "20s"}},
            "nodeInfoProvider": {{"smConnectionTimeout": "2m"}},
            "imageManager": {{"updateItemTtl": "1d", "removeOutdatedPeriod": "1h"}},
            "launcher": {{"nodesConnectionTimeout": "10m", "instanceTtl": "3d",
                "userIds": {{"first": 20000, "last": 59999}}, "maxInstances": 40000}}}}"#
    );
    let config = load(&text).unwrap();
    assert_eq!(config.listen.0.to_string(), "0.0.0.0:8093");
    assert_eq!(config.files.advertised, ("10.0.0.1".to_owned(), 0));
    assert_eq!(config.unit_config_file, PathBuf::from("/u.json"));
    assert_eq!(config.updates.nodes_patience.as_secs(), 600);
    assert_eq!(config.instance_ttl.as_secs(), 3 * DAY);
    let numbers = (
        config.handed_out.uids.first(),
        config.handed_out.uids.size(),
    );
    assert_eq!(numbers, (20_000, 40_000));
    assert_eq!(config.handed_out.gids, muster_balance::IdRange::DEFAULT);
    assert_eq!(config.handed_out.instances, 40_000);
    assert_eq!(config.item_ttl.as_secs(), DAY);
    assert_eq!(config.sm_connection_timeout.as_secs(), 120);
    let cloud = config.cloud.unwrap();
    assert_eq!(cloud.unit_status_period.as_secs(), 3);
    assert_eq!(cloud.monitoring_period.as_secs(), 120);
    assert!(matches!(config.trust, Trust::Iam(_)));
}

#[test]
fn without_an_address_there_is_no_cloud_and_the_rest_has_defaults() {
    let config = load(&format!("{{{WITH_IAM}}}")).unwrap();
    assert_eq!(config.cloud, None);
    assert_eq!(config.desired_file, None);
    assert!(config.networks.is_some());
    assert_eq!(config.files.advertised, (host_name(), 0));
    assert_eq!(
        config.unit_config_file,
        PathBuf::from("/var/lib/muster/cm/unit_config.json")
    );
    assert_eq!(config.updates, muster_desired::Limits::default());
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let error = load(
        r#"{"cmServerUrl": "main", "fileServerUrl": "8094", "fileServerAddress": "a b", "controlServerUrl": "x",
            "controlSocket": "", "certStorage": "",
            "dnsIp": "0.0.0.0", "launcher": {"groupIds": {"first": 9, "last": 8}},
            "networks": {"mode": "maybe", "pools": ["10.0.0.1/8"], "dnsServers": ["nobody"], "dnsForwarders": ["?"],
                "dnsClients": ["10/8"]}}"#,
    )
    .unwrap_err();
    let text = format!("{}", muster_telemetry::ErrorChain(&error));
    for key in [
        "cmServerUrl",
        "fileServerUrl",
        "fileServerAddress",
        "controlServerUrl",
        "controlSocket",
        "certStorage",
        "iamPublicServerUrl",
        "iamProtectedServerUrl",
        "caCert",
        "launcher.groupIds",
        "networks.mode",
        "networks.pools[0]",
        "networks.dnsServers[0]",
        "networks.dnsForwarders[0]",
        "networks.dnsClients[0]",
        "dnsIp",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
}

#[test]
fn without_tls_a_reason_is_needed() {
    let config = load(r#"{"insecure": "a trial", "networks": {"mode": "off"}}"#).unwrap();
    assert_eq!(config.trust, Trust::Insecure("a trial".into()));
    assert!(config.networks.is_none());
    assert!(load(r#"{"insecure": "  "}"#).is_err());
}

#[test]
fn names_are_served_where_nodes_can_ask() {
    let served = |more: &str| {
        let config = load(&format!("{{{WITH_IAM}, {more}}}")).unwrap();
        let servers = config.networks.map(|it| it.dns_servers);
        (
            config.names.map(|it| it.listen.to_string()),
            servers.unwrap_or_default(),
        )
    };
    let main = |servers: &[&str]| {
        servers
            .iter()
            .map(|it| it.parse().unwrap())
            .collect::<Vec<IpAddr>>()
    };
    let by_default = served(
        r#""cmServerUrl": "10.0.0.1:8093", "networks": {"dnsServers": ["10.0.0.9", "10.0.0.1"]}"#,
    );
    assert_eq!(
        by_default,
        (Some("10.0.0.1:53".into()), main(&["10.0.0.1", "10.0.0.9"]))
    );
    for nobody_could in [":8093", "127.0.0.1:8093"] {
        let none = served(&format!(r#""cmServerUrl": "{nobody_could}""#));
        assert_eq!(none, (None, Vec::new()));
    }
    assert_eq!(
        served(r#""dnsIp": "10.0.0.2""#),
        (Some("10.0.0.2:53".into()), main(&["10.0.0.2"]))
    );
    assert_eq!(
        served(r#""dnsIp": "off", "cmServerUrl": "10.0.0.1:8093""#),
        (None, Vec::new())
    );
    let without_networks = served(r#""dnsIp": "10.0.0.2", "networks": {"mode": "off"}"#);
    assert_eq!(without_networks, (None, Vec::new()));
}

#[test]
fn nodes_may_know_the_server_of_blobs_by_another_name() {
    for (text, host, port) in [
        ("main", "main", 0),
        ("main.local:80", "main.local", 80),
        ("10.0.0.1", "10.0.0.1", 0),
        ("[fe80::1]:80", "fe80::1", 80),
        ("fe80::1", "fe80::1", 0),
    ] {
        assert_eq!(host_and_port(text), Some((host.to_owned(), port)), "{text}");
    }
    for text in ["", ":80", "main:port", "a/b", "main:70000"] {
        assert_eq!(host_and_port(text), None, "{text}");
    }
}
