use muster_config::{ConfigError, Format, Load};
use serde_json::{Value, json};

use super::*;

/// The least that is needed.
fn least() -> Value {
    json!({
        "caCert": "/etc/muster/ca.pem",
        "identifier": { "plugin": "fileidentifier", "params": { "systemIDPath": "/etc/system-id" } },
        "certModules": [
            { "id": "iam", "plugin": "swmodule", "params": { "storagePath": "/var/iam" } },
        ],
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut all = least();
    all[key] = value;
    all
}

fn read(document: &Value) -> Result<Config, ConfigError> {
    Load::<RawConfig>::new("muster-iam")
        .document("iam.json", Format::Json, document.to_string())
        .load()?
        .validate()
}

#[track_caller]
fn refused(document: &Value, expected: &[&str]) {
    let error = read(document).expect_err("it is wrong").to_string();
    for words in expected {
        assert!(error.contains(words), "{words:?} is not in:\n{error}");
    }
}

#[test]
fn the_least_configuration_has_safe_defaults() {
    let config = read(&least()).unwrap();
    assert_eq!(config.public.0.port(), 8090);
    assert_eq!(config.protected.0.port(), 8089);
    assert!(config.insecure.is_empty() && !config.join_in_the_clear);
    assert_eq!(config.main, None);
    assert_eq!(config.local_socket, Path::new("/run/muster/iam.sock"));
    assert_eq!(
        config.state_path,
        Path::new("/var/lib/muster/iam/provisioning-state")
    );
    assert!(config.permissions);
}

/// The keys as an AosCore unit has them.
#[test]
fn the_keys_of_the_field_are_understood() {
    let document = json!({
        "caCert": "/etc/ssl/certs/rootCA.crt",
        "certStorage": "iam",
        "workingDir": "/var/aos/workdirs/iam",
        "iamPublicServerURL": ":8090",
        "iamProtectedServerURL": ":8089",
        "mainIAMPublicServerURL": "main:8090",
        "mainIAMProtectedServerURL": "main:8089",
        "nodeInfo": {
            "nodeIDPath": "/etc/machine-id",
            "provisioningStatePath": "/var/aos/.provisionstate",
            "nodeName": "secondary",
            "nodeType": "secondary",
            "maxDMIPS": 10000,
            "attrs": { "NodeRunners": "crun" },
            "partitions": [ { "name": "storages", "types": ["storages"], "path": "/var/aos/storages" } ],
        },
        "identifier": { "plugin": "visidentifier",
            "params": { "visServer": "wss://ivi:443", "caCertFile": "/etc/ca.pem", "webSocketTimeout": "10s" } },
        "certModules": [
            { "id": "online", "plugin": "pkcs11module", "algorithm": "ecc", "maxItems": 1,
              "extendedKeyUsage": ["clientAuth"],
              "params": { "library": "/usr/lib/softhsm/libsofthsm2.so", "tokenLabel": "aoscore",
                          "userPinPath": "/var/aos/pin" } },
            { "id": "iam", "plugin": "swmodule", "algorithm": "ecc", "maxItems": 2,
              "extendedKeyUsage": ["clientAuth", "serverAuth"], "alternativeNames": ["main"],
              "params": { "storagePath": "/var/aos/iam/iam" } },
            { "id": "diskencryption", "plugin": "swmodule", "selfSigned": true,
              "params": { "storagePath": "/var/aos/iam/disk" } },
            { "id": "old", "plugin": "swmodule", "disabled": true,
              "params": { "storagePath": "/var/aos/iam/old" } },
        ],
        "startProvisioningCmdArgs": ["/opt/aos/start.sh"],
        "diskEncryptionCmdArgs": ["/opt/aos/encrypt.sh", "create"],
        "finishProvisioningCmdArgs": ["/opt/aos/finish.sh"],
        "deprovisionCmdArgs": ["/opt/aos/deprovision.sh"],
        "enablePermissionsHandler": false,
    });
    let config = read(&document).unwrap();
    let main = config.main.unwrap();
    assert_eq!(
        (main.public.as_str(), main.protected.as_str()),
        ("main:8090", "main:8089")
    );
    let types: Vec<&str> = config
        .modules
        .iter()
        .map(|module| module.cert_type.as_str())
        .collect();
    assert_eq!(types, ["online", "iam", "diskencryption"]);
    assert_eq!(config.node.max_dmips.unwrap().get(), 10_000);
    assert_eq!(
        config.hooks.encrypt_disks.unwrap().program(),
        "/opt/aos/encrypt.sh"
    );
    assert!(!config.permissions);
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let document = json!({
        "publicServerUrl": "localhost:8090",
        "mainIamPublicServerUrl": "main",
        "workingDir": "relative",
        "insecureUntilProvisioned": ["everything"],
        "hookTimeout": 0,
        "finishProvisioningCmdArgs": ["finish.sh"],
        "identifier": { "plugin": "file", "params": {} },
        "identityMapping": [ { "role": "SM" }, { "dns": "x", "role": "sm", "node": "a", "nodeFrom": "dns", "system": "s" } ],
        "nodeInfo": { "nodeType": "a/b", "partitions": [ { "name": "cpu", "path": "x" } ] },
        "certModules": [
            { "id": "sm", "plugin": "swmodule", "params": { "storagePath": "/a" } },
            { "id": "sm", "plugin": "swmodule", "params": { "storagePath": "/b" } },
            { "id": "cm", "plugin": "magic" },
        ],
    });
    refused(
        &document,
        &[
            "publicServerUrl",
            "mainIamPublicServerUrl",
            "mainIamProtectedServerUrl",
            "workingDir",
            "caCert: is missing",
            "insecureUntilProvisioned[0]",
            "hookTimeout",
            "finishProvisioningCmdArgs",
            "identifier.params.systemIDPath: is missing",
            "identityMapping[0].role",
            "identityMapping[0].subjectCn",
            "identityMapping[0].node",
            "identityMapping[1].node",
            "nodeInfo.nodeType",
            "nodeInfo.partitions[0].name",
            "nodeInfo.partitions[0].path",
            "certModules[1].id",
            "certModules[2].plugin",
            "certStorage",
        ],
    );
}

#[test]
fn a_typing_error_is_found() {
    refused(&with("publicServerUlr", json!(":1")), &["publicServerUlr"]);
    refused(
        &with("certStorage", json!("cm")),
        &["certStorage", "certModules"],
    );
    refused(
        &with("mainIamServerName", json!("any")),
        &["mainIamServerName"],
    );
}

#[test]
fn what_may_be_in_the_clear_is_taken_word_for_word() {
    let config = read(&with("insecureUntilProvisioned", json!(["public", "join"]))).unwrap();
    assert_eq!(config.insecure, BTreeSet::from([Port::Public]));
    assert!(config.join_in_the_clear);
}

#[test]
fn mapping_rules_give_identities_to_foreign_certificates() {
    let rules = json!([
        { "issuerCn": "Aos*", "subjectCn": "*", "role": "sm", "systemFrom": "subjectCn", "nodeFrom": "dns" },
    ]);
    let config = read(&with("identityMapping", rules)).unwrap();
    let names = muster_tls::CertNames {
        issuer_cn: vec!["Aos CA".into()],
        subject_cn: vec!["unit-1".into()],
        dns: vec!["node-2".into()],
        ..Default::default()
    };
    let id = config.mapping[0].apply(&names).unwrap().unwrap();
    assert_eq!(id.to_string(), "spiffe://unit-1/node/node-2/sm");
}

#[test]
fn keys_that_differ_are_named() {
    let before = read(&least()).unwrap();
    assert_eq!(before.differences(&before), [""; 0]);
    let after = read(&with("publicServerUrl", json!(":1"))).unwrap();
    assert_eq!(before.differences(&after), ["publicServerUrl"]);
}
