//! How deep a JSON text nests, without reading it.

/// Whether arrays and objects nest deeper than `limit`. Text that is not JSON gives any answer.
pub(crate) fn nests_deeper(text: &[u8], limit: usize) -> bool {
    let mut depth = 0usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(!nests_deeper(br#"{"a":"[[[[\"[[[["}"#, 1));
        assert!(nests_deeper(br#"{"a":"\\","b":[]}"#, 1));
    }

    #[test]
    fn siblings_do_not_add_up() {
        assert!(!nests_deeper(b"[[],[],{},{}]", 2));
        assert!(nests_deeper(b"[[[]]]", 2));
    }
}
