use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::samples::{self, SECRET};

const SYSTEM: &str = "unit-1";

fn whole(data: &str) -> Vec<u8> {
    envelope(SYSTEM, "t-1", Timestamp::UNIX_EPOCH, data).into_bytes()
}

fn incoming(data: &Value) -> Incoming {
    let read = Envelope::from_cloud(&whole(&data.to_string()), SYSTEM).expect("an envelope");
    match read.body.expect("its content") {
        Body::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

/// Every key in another case.
fn shouted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let entries = object.into_iter();
            let entries = entries.map(|(key, value)| (key.to_uppercase(), shouted(value)));
            Value::Object(entries.collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(shouted).collect()),
        other => other,
    }
}

#[test]
fn there_are_samples_of_all_26_types_with_the_two_acknowledgements() {
    let types = samples::incoming()
        .iter()
        .map(Incoming::message_type)
        .collect::<BTreeSet<_>>();
    assert_eq!(types, Incoming::TYPES.iter().copied().collect());
    let types = samples::outgoing()
        .iter()
        .map(Outgoing::message_type)
        .collect::<BTreeSet<_>>();
    assert_eq!(types, Outgoing::TYPES.iter().copied().collect());
    assert_eq!(Incoming::TYPES.len() + Outgoing::TYPES.len() + 2, 26);
}

#[test]
fn every_message_of_the_cloud_is_read_in_any_case_of_its_keys() {
    for message in samples::incoming() {
        let text = whole(&message.data(Some("c-1")));
        let read = Envelope::from_cloud(&text, SYSTEM).expect("an envelope");
        assert_eq!(read.correlation.as_deref(), Some("c-1"));
        assert_eq!(read.body.expect("content"), Body::Message(message.clone()));

        // What is opaque (the Unit's configuration) keeps its keys as they came.
        let mut message = message;
        if let Incoming::DesiredStatus(desired) = &mut message {
            desired.unit_config = desired.unit_config.take().map(shouted);
        }
        let loud = shouted(serde_json::from_slice(&text).expect("JSON")).to_string();
        let read = Envelope::from_cloud(loud.as_bytes(), SYSTEM).expect("an envelope");
        assert_eq!(read.body.expect("content"), Body::Message(message));
    }
}

#[test]
fn every_message_of_the_unit_is_read_back() {
    for message in samples::outgoing() {
        let text = whole(&message.data(None));
        let read = Envelope::from_unit(&text, SYSTEM).expect("an envelope");
        assert_eq!(read.txn, "t-1");
        assert_eq!(read.correlation, None);
        assert_eq!(read.body.expect("content"), Body::Message(message));
    }
}

#[test]
fn what_is_written_is_what_runs_today() {
    let written: Value = serde_json::from_str(&samples::outgoing()[7].data(None)).expect("JSON");
    let expected = json!({
        "messageType": "overrideEnvVarsStatus",
        "statuses": [{
            "item": {"id": "web", "type": "service"}, "subject": {"id": "subject-1"}, "instance": 0, "name": "COLOUR",
            "errorInfo": {"aosCode": 5, "exitCode": 0, "message": "not found"},
        }],
    });
    assert_eq!(written, expected);
    let tags: Vec<Value> = samples::alerts()
        .iter()
        .map(|it| serde_json::to_value(it).expect("JSON")["tag"].clone())
        .collect();
    let expected = [
        "systemAlert",
        "coreAlert",
        "resourceAllocateAlert",
        "systemQuotaAlert",
        "instanceQuotaAlert",
        "downloadProgressAlert",
        "updateItemInstanceAlert",
    ];
    assert_eq!(tags, expected);
    let download = serde_json::to_value(&samples::alerts()[5]).expect("JSON");
    assert_eq!(download["downloadedBytes"], 1);
    assert_eq!(download["timestamp"], "1970-01-01T00:00:00Z");
    let status = serde_json::to_value(samples::unit_status()).expect("JSON");
    assert_eq!(status["isDeltaInfo"], false);
    assert_eq!(
        status["nodes"][0]["nodeGroupSubject"],
        json!({"codename": "main"})
    );
    assert_eq!(
        status["instances"][0]["instances"][0]["stateChecksum"],
        "07".repeat(28)
    );
    assert_eq!(
        status["nodes"][0].get("errorInfo"),
        None,
        "errors are written only when there are any"
    );
}

#[test]
fn what_the_published_schema_says_instead_is_read_too() {
    let blob = json!({"messageType": "blobUrls", "correlationId": "c", "items": [{
        "digest": "sha256:1", "urls": [], "sha256": "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=", "size": 1,
        "decryptInfo": {"blockIv": "AAAA", "blockKey": "AAAA"}, "signInfo": null,
    }]});
    let Incoming::BlobUrls(urls) = incoming(&blob) else {
        panic!("another message");
    };
    assert_eq!(urls.items[0].sha256.0, [9; 32]);
    assert_eq!(urls.items[0].sign_info, None);
    let decrypt = urls.items[0].decrypt_info.as_ref().expect("there");
    assert_eq!(decrypt.block_alg, "AES256/CBC/pkcs7");

    let one = json!({"node": {"codename": "n"}, "secret": "s"});
    for (nodes, count) in [(json!(null), 0), (one.clone(), 1), (json!([one, one]), 2)] {
        let renew = json!({"messageType": "renewCertificatesNotification", "certificates": [],
            "unitSecrets": {"version": 7, "nodes": nodes}});
        let Incoming::RenewCertificates(renew) = incoming(&renew) else {
            panic!("another message");
        };
        assert_eq!(renew.unit_secrets.nodes.len(), count);
    }

    let sparse = json!({"messageType": "desiredStatus", "correlationId": null, "nodes": null, "unknown": {"a": [1]}});
    assert_eq!(
        incoming(&sparse),
        Incoming::DesiredStatus(DesiredStatus::default())
    );
    let all =
        json!({"messageType": "overrideEnvVars", "items": [{"instance": -1, "variables": []}]});
    let Incoming::OverrideEnvVars(env) = incoming(&all) else {
        panic!("another message");
    };
    assert_eq!(env.items[0].instance, None);

    let log = json!({"messageType": "pushLog", "node": {"codename": "n"}, "status": "failed"});
    let read = Envelope::from_unit(&whole(&log.to_string()), SYSTEM).expect("an envelope");
    assert!(read.body.is_ok());
}

#[test]
fn secrets_are_in_no_debug_output_and_no_error() {
    for message in samples::incoming() {
        let text = format!(
            "{message:?} {:?}",
            Envelope::from_cloud(&whole(&message.data(None)), SYSTEM)
        );
        assert!(!text.contains(SECRET), "{text}");
    }
    let wrong =
        json!({"messageType": "startProvisioningRequest", "node": SECRET, "password": [SECRET]});
    let read = Envelope::from_cloud(&whole(&wrong.to_string()), SYSTEM).expect("an envelope");
    let error = format!("{:?}", read.body.expect_err("it is wrong"));
    assert!(!error.contains(SECRET), "{error}");
}

#[test]
fn envelopes_that_are_not_right_are_refused() {
    let data = r#"{"messageType":"overrideEnvVars","items":[]}"#;
    let refused = [
        (String::new(), "not JSON"),
        ("[]".to_owned(), "envelope"),
        (r#"{"header":{}}"#.to_owned(), "envelope"),
        (format!(r#"{{"data":{data}}}"#), "envelope"),
        (
            r#"{"header":{"version":7,"systemId":"unit-1","txn":"t"}}"#.to_owned(),
            "envelope",
        ),
        (
            format!(r#"{{"header":{{"version":7,"systemId":"unit-1","txn":""}},"data":{data}}}"#),
            "envelope",
        ),
        (
            format!(r#"{{"header":{{"version":6,"systemId":"unit-1","txn":"t"}},"data":{data}}}"#),
            "version 6",
        ),
        (
            format!(r#"{{"header":{{"version":7,"systemId":"other","txn":"t"}},"data":{data}}}"#),
            "another system",
        ),
        (
            format!("{}{}", "[".repeat(100), "]".repeat(100)),
            "not JSON",
        ),
        (format!("[{}1]", "1,".repeat(10_000)), "not JSON"),
        (r#"{"header":1,"header":2}"#.to_owned(), "not JSON"),
    ];
    for (text, words) in refused {
        let error = Envelope::from_cloud(text.as_bytes(), SYSTEM).expect_err(&text);
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    let unknown = whole(r#"{"messageType":"surprise"}"#);
    let read = Envelope::from_cloud(&unknown, SYSTEM).expect("an envelope");
    assert!(matches!(read.body, Err(ReadMessageError::Unknown { .. })));
    let wrong =
        whole(r#"{"messageType":"desiredStatus","items":[{"item":{"id":"a"},"version":1}]}"#);
    let read = Envelope::from_cloud(&wrong, SYSTEM).expect("an envelope");
    let error = format!("{:?}", read.body.expect_err("it is wrong"));
    assert!(error.contains("items.0.version"), "it says where: {error}");
}

#[test]
fn certificates_have_the_words_of_the_protocol() {
    for kind in CertType::ALL {
        assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.as_str());
    }
}

#[test]
fn acknowledgements_and_refusals_are_read() {
    let ack = Envelope::from_cloud(&whole(&ack_data()), SYSTEM).expect("an envelope");
    assert_eq!(ack.body.expect("content"), Body::Ack);
    let after = std::time::Duration::from_millis(700);
    let nack = Envelope::from_cloud(&whole(&nack_data(after)), SYSTEM).expect("an envelope");
    let retry_after = Some(700);
    assert_eq!(nack.body.expect("content"), Body::Nack { retry_after });
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "header",
        "data",
        "messageType",
        "TXN",
        "systemId",
        "version",
        "items",
        "nodes",
        "item",
        "id",
        "unit-1",
        "desiredStatus",
        "blobUrls",
        "requestLog",
        "instances",
        "unitSecrets",
        "renewCertificatesNotification",
        "filter",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        let key = words.clone().prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<Vec<u8>>()) {
        let _read = Envelope::from_cloud(&text, SYSTEM);
    }

    #[test]
    fn no_content_panics(kind in prop::sample::select(Incoming::TYPES), content in any_json()) {
        let mut data = match content {
            Value::Object(object) => object,
            other => [("items".to_owned(), other)].into_iter().collect(),
        };
        data.insert("messageType".to_owned(), kind.into());
        let read = Envelope::from_cloud(&whole(&Value::Object(data).to_string()), SYSTEM);
        // It may be understood by chance; then it can be written again.
        if let Ok(Envelope { body: Ok(Body::Message(message)), .. }) = read {
            let again = Envelope::from_cloud(&whole(&message.data(None)), SYSTEM).expect("an envelope");
            prop_assert_eq!(again.body.expect("content"), Body::Message(message));
        }
    }
}
