//! What a message or `--show-config` may show of a value.

use crate::tree::{Node, Value, printable};

/// Longest value shown in a message, in characters.
const SHOWN: usize = 60;
/// What stands for a value that must not be shown.
pub(crate) const REDACTED: &str = "<redacted>";

/// Words that make a key secret wherever they stand in it.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "tokens",
    "pin",
    "psk",
    "credential",
    "credentials",
    "privatekey",
    "apikey",
    "secretkey",
    "accesskey",
];
/// Last words that make a key name a place or a setting and not the secret itself.
const PLACE_WORDS: &[&str] = &[
    "file", "path", "dir", "url", "ttl", "timeout", "period", "size",
];

/// Whether the value under `key` must not be shown: `password`, `userPin`, `api_token`, `key` ...
#[must_use]
pub fn is_secret(key: &str) -> bool {
    let words = words(key);
    let Some(last) = words.last() else {
        return false;
    };
    if PLACE_WORDS.contains(&last.as_str()) {
        return false;
    }
    let squeezed = words.concat();
    last == "key"
        || words
            .iter()
            .any(|word| SECRET_WORDS.contains(&word.as_str()))
        || SECRET_WORDS
            .iter()
            .any(|word| word.len() > 4 && squeezed.contains(word))
}

/// The words of a camelCase, snake_case or kebab-case key, in lower case.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut start_new = true;
    let mut previous_lower = false;
    for c in key.chars() {
        if !c.is_alphanumeric() {
            start_new = true;
            continue;
        }
        if start_new || (c.is_uppercase() && previous_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        start_new = false;
        previous_lower = !c.is_uppercase();
    }
    words
}

/// A value as a message shows it: one line, shortened, without secrets.
///
/// What is inside a table is never shown: its own keys decide whether it is secret.
pub(crate) fn show(node: &Node, secret: bool) -> String {
    if secret && !matches!(node.value, Value::Null) {
        return REDACTED.to_owned();
    }
    printable(&plain(&node.value), SHOWN)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::String(text) | Value::Text(text) => without_url_password(text),
        Value::List(items) => {
            let mut out = String::from("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                if out.len() > 4 * SHOWN {
                    break;
                }
                out.push_str(&plain(&item.value));
            }
            out.push(']');
            out
        }
        Value::Table(table) if table.len() == 0 => "{}".to_owned(),
        Value::Table(_) => "{…}".to_owned(),
    }
}

/// `scheme://user:password@host` without the password, whatever the key is called.
fn without_url_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_end);
    match authority
        .rsplit_once('@')
        .and_then(|(user, host)| Some((user.split_once(':')?.0, host)))
    {
        Some((user, host)) => format!("{scheme}://{user}:{REDACTED}@{host}{tail}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_hold_secrets_are_told_from_keys_that_name_places() {
        for key in [
            "password",
            "dbPassword",
            "DB_PASSWORD",
            "userPin",
            "pin",
            "token",
            "accessToken",
            "client-secret",
            "privateKey",
            "key",
            "tlsKey",
            "apikey",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(is_secret(key), "{key} must be redacted");
        }
        for key in [
            "passwordFile",
            "keyPath",
            "pinning",
            "tokenTtl",
            "spin",
            "keyboard",
            "opinion",
            "",
        ] {
            assert!(!is_secret(key), "{key} needs no redaction");
        }
    }

    #[test]
    fn passwords_in_urls_are_never_shown() {
        assert_eq!(
            without_url_password("http://u:hunter2@host:80/a@b:c"),
            "http://u:<redacted>@host:80/a@b:c"
        );
        assert_eq!(
            without_url_password("http://host/u:p@x"),
            "http://host/u:p@x"
        );
        assert_eq!(
            without_url_password("ftp://a:b@c:d@host"),
            "ftp://a:<redacted>@host"
        );
    }
}
