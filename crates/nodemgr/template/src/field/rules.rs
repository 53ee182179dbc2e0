//! What the values of common fields must be.

use muster_config::printable;

use crate::arch::Arch;
use crate::value::Value;

/// Keys of one machine at most, and bytes of one.
const MOST_KEYS: usize = 64;
const LONGEST_KEY: usize = 16 * 1024;

fn string(value: Value, what: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!(
            "is {}; {what} is text: put it in quotes",
            other.kind()
        )),
    }
}

/// Text of one line without spaces.
pub(super) fn word(value: Value, what: &str, longest: usize) -> Result<Value, String> {
    let text = string(value, what)?;
    if text.is_empty() {
        return Err(format!(
            "{what} must not be empty; leave the field out, or set it to null, to have none"
        ));
    }
    if text.len() > longest || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("{what} has no spaces and at most {longest} bytes"));
    }
    Ok(Value::String(text))
}

pub(super) fn text(value: Value, what: &str, longest: usize) -> Result<Value, String> {
    let text = string(value, what)?;
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if text.len() > longest || text.chars().any(control) {
        return Err(format!(
            "{what} has no control characters and at most {longest} bytes"
        ));
    }
    Ok(Value::String(text))
}

/// A number of things of which there is at least one; `unit` of what is kept make one that is written.
pub(super) fn amount(value: Value, what: &str, most: i64, unit: i64) -> Result<Value, String> {
    match value {
        Value::Integer(0) => Err(format!(
            "0 {what} make no machine; leave the field out to have the provider's default"
        )),
        Value::Integer(number) if (1..=most).contains(&number) => {
            // `most` of what is written is far below what overflows.
            Ok(Value::Integer(number * unit))
        }
        Value::Integer(number) => Err(format!("{number} is not from 1 to {most} {what}")),
        Value::String(text) if text.parse::<i64>().is_ok() => Err(format!(
            "is text; write {} without quotes",
            printable(&text, 20)
        )),
        other => Err(format!("is {}, not a whole number of {what}", other.kind())),
    }
}

pub(super) fn user(value: Value) -> Result<Value, String> {
    let text = string(value, "a user's name")?;
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let plain = |c: char| first(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    if !text.starts_with(first) || text.len() > 32 || !text.chars().all(plain) {
        return Err(
            "a user's name begins with a letter or `_`, consists of ASCII letters, digits, `_`, `-` and `.`, and has at \
             most 32 characters"
                .to_owned(),
        );
    }
    Ok(Value::String(text))
}

pub(super) fn arch(value: Value) -> Result<Value, String> {
    let text = string(value, "an architecture")?;
    let arch: Arch = text.parse().map_err(|error| format!("{error}"))?;
    Ok(Value::String(arch.as_str().to_owned()))
}

pub(super) fn label_key(key: &str) -> Result<(), String> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let edges = edge(key.bytes().next()) && edge(key.bytes().last());
    if !edges || key.len() > 63 || !key.bytes().all(plain) {
        return Err(
            "a label's key consists of ASCII letters, digits, `-`, `_`, `.` and `/`, begins and ends with a letter or a \
             digit, and has at most 63 characters"
                .to_owned(),
        );
    }
    Ok(())
}

/// One key, or a list of them.
pub(super) fn ssh_keys(value: Value) -> Result<Value, String> {
    let keys = match value {
        Value::String(_) => vec![value],
        Value::List(keys) => keys,
        other => return Err(format!("is {}, not a list of public keys", other.kind())),
    };
    if keys.len() > MOST_KEYS {
        return Err(format!("has more than {MOST_KEYS} keys"));
    }
    let keys = keys
        .into_iter()
        .enumerate()
        .map(|(nth, key)| ssh_key(key).map_err(|message| format!("key {}: {message}", nth + 1)));
    Ok(Value::List(keys.collect::<Result<_, _>>()?))
}

/// The key itself never stands in the message: it may be the private one.
fn ssh_key(value: Value) -> Result<Value, String> {
    let text = string(value, "a public key")?;
    if text.contains("PRIVATE KEY") {
        return Err(
            "this is a private key; a template holds public ones only, so take it out and replace it by a new one"
                .to_owned(),
        );
    }
    let line = text.trim();
    let mut words = line.split_ascii_whitespace();
    let (kind, body) = (words.next().unwrap_or_default(), words.next());
    let kinds = [
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-",
        "sk-ssh-",
        "sk-ecdsa-",
    ];
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let good = kinds.iter().any(|known| kind.starts_with(known))
        && body.is_some_and(|body| body.starts_with("AAAA") && body.bytes().all(base64))
        && line.len() <= LONGEST_KEY
        && !line.chars().any(char::is_control);
    if !good {
        return Err(
            "not a public key of one line as `authorized_keys` has it: `ssh-ed25519 AAAA... comment`".to_owned(),
        );
    }
    Ok(Value::String(line.to_owned()))
}
