//! What of a value people may see.

use muster_config::{is_secret, printable};

use crate::field::{ENV, USER_DATA};
use crate::value::Value;

/// Longest value shown.
const LONGEST: usize = 120;
const HIDDEN: &str = "<redacted>";

/// A field's value on one line, shortened, and without secrets: of user data only the size is shown, of environment variables the
/// names, and of what stands under a key such as `password` nothing.
#[must_use]
pub fn show(field: &str, value: &Value) -> String {
    let shown = match (field, value) {
        (USER_DATA, Value::String(text)) => format!("<{} bytes>", text.len()),
        (ENV, Value::List(items)) => without_values(items),
        (ENV, Value::Map(entries)) => {
            let names: Vec<String> = entries.keys().map(|name| format!("{name}=…")).collect();
            format!("[{}]", names.join(", "))
        }
        _ => hide(field, value).to_string(),
    };
    printable(&shown, LONGEST)
}

fn without_values(items: &[Value]) -> String {
    let names = items.iter().map(|item| match item {
        Value::String(text) => match text.split_once('=') {
            Some((name, _)) => format!("{name}=…"),
            None => HIDDEN.to_owned(),
        },
        _ => HIDDEN.to_owned(),
    });
    format!("[{}]", names.collect::<Vec<_>>().join(", "))
}

fn hide(key: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if is_secret(key) => Value::String(HIDDEN.to_owned()),
        Value::List(items) => Value::List(items.iter().map(|item| hide("", item)).collect()),
        Value::Map(entries) => {
            let hidden = entries
                .iter()
                .map(|(key, value)| (key.clone(), hide(key, value)));
            Value::Map(hidden.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn secrets_are_not_shown_and_what_is_shown_is_one_line() {
        let map = |key: &str, value| Value::Map([(key.to_owned(), value)].into());
        for (field, value, shown) in [
            ("userData", text("hunter2"), "<7 bytes>"),
            (
                "env",
                Value::List(vec![text("A=hunter2"), text("hunter2")]),
                "[A=…, <redacted>]",
            ),
            ("env", map("A", text("hunter2")), "[A=…]"),
            ("password", text("hunter2"), "<redacted>"),
            (
                "login",
                Value::List(vec![map("token", map("a", text("hunter2")))]),
                "[{token: <redacted>}]",
            ),
            ("image", text("a\nb"), "a\\nb"),
        ] {
            assert_eq!(show(field, &value), shown);
        }
        assert_eq!(
            show("x", &text(&"é".repeat(500))).chars().count(),
            LONGEST + 1
        );
    }
}
