use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{ConfigError, Format, Load};

fn problems<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> Vec<String> {
    match Load::<T>::new("test")
        .document("d", Format::Json, text)
        .load()
    {
        Err(ConfigError::Invalid { problems, .. }) => {
            problems.iter().map(ToString::to_string).collect()
        }
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn a_map_takes_keys_as_they_are_written() {
    let text = r#"{"Ab_C": 1, "d": null}"#;
    let read = Load::<BTreeMap<String, u8>>::new("test").document("d", Format::Json, text);
    let read = read.load().expect("any key will do").into_raw();
    assert_eq!(read, BTreeMap::from([("Ab_C".to_owned(), 1)]));
}

#[test]
fn no_more_problems_are_reported_than_anyone_reads() {
    let entries: Vec<String> = (0..500).map(|n| format!("\"k{n}\": \"x\"")).collect();
    let text = format!("{{{}}}", entries.join(","));
    assert_eq!(problems::<BTreeMap<String, u8>>(&text).len(), 64);
    assert_eq!(problems::<Struct>(&text).len(), 64);
}

#[derive(Debug, Default, Deserialize)]
struct Struct {}

#[test]
fn a_value_that_cannot_be_left_out_takes_its_surroundings_along() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Top {
        pair: (u8, u8),
        after: u8,
    }
    assert_eq!(
        problems::<Top>(r#"{"pair": [1, "x"], "after": "y"}"#),
        [
            "d:1: after: `y` is not an integer from 0 to 255",
            "d:1: pair[1]: `x` is not an integer from 0 to 255",
        ]
    );
}

#[test]
fn secrets_stay_hidden_in_lists_tables_and_custom_errors() {
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Pin;
    impl TryFrom<String> for Pin {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("{text} is too short"))
        }
    }
    let found = problems::<BTreeMap<String, BTreeMap<String, Vec<Pin>>>>(
        r#"{"secrets": {"a": ["hunter2"]}, "x": {"userPin": ["hunter2"], "other": ["shown"]}}"#,
    );
    assert!(
        found.iter().all(|line| !line.contains("hunter2")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|line| line.contains("shown is too short")),
        "{found:?}"
    );
    assert_eq!(found.len(), 3, "{found:?}");
}
