//! Messages of VISS, in both versions that servers speak: requests to send, answers to read.
//!
//! Pure: text in, values out. Whatever a server sends is either understood or an error.

use serde_json::{Value, json};

/// Characters of a server's own words that are passed on.
const EXCERPT: usize = 200;

/// A request that reads a signal once.
#[must_use]
pub fn get(id: &str, signal: &str) -> String {
    json!({ "action": "get", "path": signal, "requestId": id }).to_string()
}

/// A request that asks to be told whenever a signal changes.
#[must_use]
pub fn subscribe(id: &str, signal: &str) -> String {
    json!({ "action": "subscribe", "path": signal, "requestId": id }).to_string()
}

/// Why a message of the server is not understood.
#[derive(Debug, thiserror::Error)]
pub enum ReadMessageError {
    /// It is not JSON.
    #[error("the VIS server sent something that is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is JSON of another kind.
    #[error("the VIS server sent a message without {missing}")]
    Incomplete {
        /// What every such message has.
        missing: &'static str,
    },
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// The answer to a request.
    Answer {
        /// The request's id.
        request: String,
        /// What it was answered.
        result: Result<Answer, Refusal>,
    },
    /// A signal that was subscribed to has changed.
    Changed {
        /// Which subscription.
        subscription: String,
        /// The new value, or why there is none.
        result: Result<Value, Refusal>,
    },
    /// Something that this client did not ask for.
    Other,
}

/// The good answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To `get`.
    Value(Value),
    /// To `subscribe`.
    Subscribed {
        /// Under which id changes will come.
        subscription: String,
    },
}

/// The server's own words about what it refused, shortened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

/// Reads one message. `signal` finds the value in answers that hold values by signal.
///
/// # Errors
/// When it is no message of VISS.
pub fn read(
    text: &str,
    signal: impl Fn(&str) -> Option<String>,
) -> Result<Incoming, ReadMessageError> {
    let message: Value = serde_json::from_str(text).map_err(ReadMessageError::Json)?;
    let Some(action) = message.get("action").and_then(Value::as_str) else {
        return Err(ReadMessageError::Incomplete { missing: "action" });
    };
    match action {
        "get" | "subscribe" => {
            let request = id(&message, "requestId")?;
            let result = match (refusal(&message), action) {
                (Some(refusal), _) => Err(refusal),
                (None, "get") => {
                    let value = value(&message, signal(&request).as_deref());
                    Ok(Answer::Value(value?))
                }
                (None, _) => Ok(Answer::Subscribed {
                    subscription: id(&message, "subscriptionId")?,
                }),
            };
            Ok(Incoming::Answer { request, result })
        }
        "subscription" => {
            let subscription = id(&message, "subscriptionId")?;
            let result = match refusal(&message) {
                Some(refusal) => Err(refusal),
                None => Ok(value(&message, signal(&subscription).as_deref())?),
            };
            Ok(Incoming::Changed {
                subscription,
                result,
            })
        }
        _ => Ok(Incoming::Other),
    }
}

/// The texts of a value: itself, or each element of a list.
///
/// Elements of other kinds are counted, not guessed.
#[must_use]
pub fn texts(value: &Value) -> (Vec<&str>, usize) {
    let elements: &[Value] = match value {
        Value::Null => &[],
        Value::Array(elements) => elements,
        single => std::slice::from_ref(single),
    };
    let texts: Vec<&str> = elements.iter().filter_map(Value::as_str).collect();
    let others = elements.len() - texts.len();
    (texts, others)
}

/// Ids are text, but some servers send them as numbers.
fn id(message: &Value, key: &'static str) -> Result<String, ReadMessageError> {
    match message.get(key) {
        Some(Value::String(id)) => Ok(id.clone()),
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => Err(ReadMessageError::Incomplete { missing: key }),
    }
}

/// Version 1: `value`, either bare or in a table by signal. Version 2: `data.dp.value`.
fn value(message: &Value, signal: Option<&str>) -> Result<Value, ReadMessageError> {
    let missing = ReadMessageError::Incomplete { missing: "value" };
    let found = message
        .get("value")
        .or_else(|| message.pointer("/data/dp/value"));
    match (found, signal) {
        (Some(Value::Object(by_signal)), Some(signal)) => {
            by_signal.get(signal).cloned().ok_or(missing)
        }
        (Some(Value::Object(_)), None) | (None, _) => Err(missing),
        (Some(value), _) => Ok(value.clone()),
    }
}

fn refusal(message: &Value) -> Option<Refusal> {
    let error = message.get("error").filter(|error| !error.is_null())?;
    let word = |key: &str| match error.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let words: Vec<String> = ["number", "reason", "message"]
        .into_iter()
        .filter_map(word)
        .collect();
    let words = match words.as_slice() {
        [] => error.to_string(),
        words => words.join(" "),
    };
    let shown = words.chars().filter(|c| !c.is_control()).take(EXCERPT);
    Some(Refusal(shown.collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_as(text: &str) -> Result<Incoming, ReadMessageError> {
        read(text, |_| Some("A.B".to_owned()))
    }

    #[test]
    fn requests_have_the_fields_of_the_standard() {
        let request: Value = serde_json::from_str(&get("7", "A.B")).unwrap();
        assert_eq!(
            request,
            json!({ "action": "get", "path": "A.B", "requestId": "7" })
        );
        let request: Value = serde_json::from_str(&subscribe("8", "A.\"B")).unwrap();
        assert_eq!(
            request,
            json!({ "action": "subscribe", "path": "A.\"B", "requestId": "8" })
        );
    }

    #[test]
    fn values_in_every_form() {
        for text in [
            r#"{"action":"get","requestId":"1","value":"x"}"#,
            r#"{"action":"get","requestId":1,"value":{"A.B":"x","A.C":"y"},"timestamp":5}"#,
            r#"{"action":"get","requestId":"1","data":{"path":"A.B","dp":{"value":"x","ts":"now"}}}"#,
        ] {
            let expected = Incoming::Answer {
                request: "1".into(),
                result: Ok(Answer::Value(json!("x"))),
            };
            assert_eq!(read_as(text).unwrap(), expected, "{text}");
        }
        let changed = r#"{"action":"subscription","subscriptionId":"s","value":["a",1,"b"]}"#;
        let Incoming::Changed {
            result: Ok(value), ..
        } = read_as(changed).unwrap()
        else {
            panic!("not a change");
        };
        assert_eq!(texts(&value), (vec!["a", "b"], 1));
        assert_eq!(texts(&json!("one")), (vec!["one"], 0));
        assert_eq!(texts(&Value::Null), (vec![], 0));
    }

    #[test]
    fn refusals_are_told_in_the_servers_words() {
        let text = r#"{"action":"get","requestId":"1","error":{"number":404,"reason":"invalid_path","message":"no\u0007 such path"}}"#;
        let Incoming::Answer {
            result: Err(refusal),
            ..
        } = read_as(text).unwrap()
        else {
            panic!("not a refusal");
        };
        assert_eq!(refusal.to_string(), "404 invalid_path no such path");
        let long = json!({ "action": "subscribe", "requestId": "1", "error": "x".repeat(5000) });
        let Incoming::Answer {
            result: Err(refusal),
            ..
        } = read_as(&long.to_string()).unwrap()
        else {
            panic!("not a refusal");
        };
        assert_eq!(refusal.to_string().len(), EXCERPT);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for text in [
            "",
            "{",
            "[]",
            "7",
            "{}",
            r#"{"action":7}"#,
            r#"{"action":"get"}"#,
        ] {
            assert!(read_as(text).is_err(), "{text}");
        }
        for text in [
            r#"{"action":"get","requestId":"1"}"#,
            r#"{"action":"get","requestId":"1","value":{"other":"x"}}"#,
            r#"{"action":"subscribe","requestId":"1"}"#,
            r#"{"action":"subscription","value":"x"}"#,
        ] {
            let error = read_as(text).unwrap_err();
            assert!(
                matches!(error, ReadMessageError::Incomplete { .. }),
                "{text}: {error}"
            );
        }
        assert_eq!(
            read_as(r#"{"action":"authorize"}"#).unwrap(),
            Incoming::Other
        );
        let deep = "[".repeat(100_000);
        assert!(read_as(&deep).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = read_as(&text);
        }

        #[test]
        fn no_json_panics(action in "get|subscribe|subscription|x", id in "[0-9]{1,3}", value in "[\\[\\]{}\",:a0]{0,12}") {
            let text = format!(
                r#"{{"action":"{action}","requestId":"{id}","subscriptionId":{id},"value":{value},"error":{value}}}"#
            );
            let _ = read_as(&text);
        }
    }
}
