//! Percent coding (RFC 3986).

/// Appends `bytes`, written with `%` but for unreserved characters and those in `also`.
pub(super) fn encode(out: &mut String, bytes: &[u8], also: &[u8]) {
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || also.contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            push_coded(out, byte);
        }
    }
}

/// Appends every byte written with `%`, as identifiers that are not text are.
pub(super) fn encode_all(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        push_coded(out, byte);
    }
}

fn push_coded(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 0xf)]));
}

/// What `text` stands for. None when a `%` is not followed by two digits, or when there is a space, a
/// control character or one outside ASCII.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => decoded.push(digit(rest.next()?)? << 4 | digit(rest.next()?)?),
            b'!'..=b'~' => decoded.push(byte),
            _ => return None,
        }
    }
    Some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
