//! Escaping of texts and paths for use in unit names.

use thiserror::Error;

/// Why a text cannot be escaped or unescaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EscapeError {
    /// A backslash is not followed by `xHH`.
    #[error("a backslash is not followed by xHH")]
    BadEscape,
    /// The bytes are not UTF-8 or contain NUL.
    #[error("the unescaped bytes are not valid UTF-8")]
    NotUtf8,
    /// Not an absolute path.
    #[error("the path is not absolute")]
    NotAbsolute,
    /// The path contains `..` or, unescaped, empty components.
    #[error("the path is not normalised")]
    NotNormalized,
}

pub(super) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.' | '\\')
}

/// Escapes any text for use in a unit name: `/` becomes `-`, unusual bytes become `\xHH`.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => out.push('-'),
            b'.' if n == 0 => push_hex(&mut out, byte),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b':' | b'_' | b'.' => out.push(byte.into()),
            _ => push_hex(&mut out, byte),
        }
    }
    out
}

/// Escapes only what a name cannot have; used for names typed by people.
pub(super) fn escape_unusable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' => out.push('-'),
            b'@' => out.push('@'),
            _ if is_name_character(byte.into()) => out.push(byte.into()),
            _ => push_hex(&mut out, byte),
        }
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\x");
    out.push(DIGITS[usize::from(byte >> 4)].into());
    out.push(DIGITS[usize::from(byte & 15)].into());
}

/// The text that [`escape`] was given.
///
/// # Errors
/// A backslash sequence is not one that [`escape`] makes, or the bytes are not UTF-8.
pub fn unescape(text: &str) -> Result<String, EscapeError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'-' => out.push(b'/'),
            b'\\' => {
                let [b'x', high, low, tail @ ..] = rest else {
                    return Err(EscapeError::BadEscape);
                };
                let digit = |b: u8| char::from(b).to_digit(16).ok_or(EscapeError::BadEscape);
                let value = digit(*high)? * 16 + digit(*low)?;
                out.push(u8::try_from(value).map_err(|_| EscapeError::BadEscape)?);
                rest = tail;
            }
            _ => out.push(byte),
        }
    }
    let text = String::from_utf8(out).map_err(|_| EscapeError::NotUtf8)?;
    if text.contains('\0') {
        Err(EscapeError::NotUtf8)
    } else {
        Ok(text)
    }
}

/// Escapes an absolute path; duplicate slashes and `.` components do not count.
///
/// # Errors
/// The path is relative or contains `..`.
pub fn escape_path(path: &str) -> Result<String, EscapeError> {
    if !path.starts_with('/') {
        return Err(EscapeError::NotAbsolute);
    }
    let mut joined = String::with_capacity(path.len());
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            return Err(EscapeError::NotNormalized);
        }
        if !joined.is_empty() {
            joined.push('/');
        }
        joined.push_str(part);
    }
    if joined.is_empty() {
        Ok("-".to_owned())
    } else {
        Ok(escape(&joined))
    }
}

/// The path that [`escape_path`] was given, normalised.
///
/// # Errors
/// The text does not stand for a path.
pub fn unescape_path(text: &str) -> Result<String, EscapeError> {
    if text == "-" {
        return Ok("/".to_owned());
    }
    let inner = unescape(text)?;
    if inner.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(EscapeError::NotNormalized);
    }
    Ok(format!("/{inner}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escaped_like_systemd_escape() {
        assert_eq!(escape("a/b-c d\u{e4}"), "a-b\\x2dc\\x20d\\xc3\\xa4");
        assert_eq!(escape(".a.b"), "\\x2ea.b");
        assert_eq!(escape("/x"), "-x");
        assert_eq!(unescape("a-b\\x2dc"), Ok("a/b-c".to_owned()));
        for text in ["\\", "\\x", "\\x2", "\\xzz", "\\n"] {
            assert_eq!(unescape(text), Err(EscapeError::BadEscape), "{text}");
        }
        assert_eq!(unescape("\\xff"), Err(EscapeError::NotUtf8));
        assert_eq!(unescape("\\x00"), Err(EscapeError::NotUtf8));
        for text in ["", "-a", "a--b", "\\x2e\\x2e"] {
            assert!(unescape_path(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn unescape_undoes_escape(text in "[^\0]{0,30}") {
            let escaped = escape(&text);
            prop_assert!(escaped.chars().all(is_name_character));
            prop_assert_eq!(unescape(&escaped), Ok(text));
        }

        #[test]
        fn paths_come_back_normalised(parts in prop::collection::vec("[a-z.\\-\u{e9}]{1,5}", 0..5)) {
            let path = format!("/{}", parts.join("//"));
            if let Ok(escaped) = escape_path(&path) {
                let back = unescape_path(&escaped).unwrap();
                prop_assert_eq!(escape_path(&back), Ok(escaped));
            }
        }

        #[test]
        fn any_text_is_taken_without_panic(text in ".{0,30}") {
            let _ = (unescape(&text), unescape_path(&text), escape_path(&text), escape(&text));
        }
    }
}
