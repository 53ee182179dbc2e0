//! Texts of alerts: bounded, and fit to be shown.

/// Stands where a text was cut.
const CUT: &str = "...";

/// Cuts a text that is longer than `max` bytes.
pub(crate) fn bounded(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    text
}

/// Bytes of a log line as text: what is not UTF-8 is replaced, and so is what would act on a terminal. Never empty.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let acts = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let text = String::from_utf8_lossy(bytes);
    let text = match text.contains(acts) {
        true => text.replace(acts, "\u{fffd}"),
        false => text.into_owned(),
    };
    match text.trim_end() {
        "" => "(an empty line)".to_owned(),
        trimmed if trimmed.len() == text.len() => text,
        trimmed => trimmed.to_owned(),
    }
}

/// A text with every number in it replaced by one sign, at most `max` bytes of it.
pub(crate) fn without_numbers(text: &str, max: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(max));
    let mut in_number = false;
    for character in text.chars() {
        let is_digit = character.is_ascii_digit();
        let shown = if is_digit { '#' } else { character };
        if plain.len() + shown.len_utf8() > max {
            break;
        }
        if !(is_digit && in_number) {
            plain.push(shown);
        }
        in_number = is_digit;
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_replaced() {
        assert_eq!(
            printable(b"a\x1b[31mb\xff\n\n"),
            "a\u{fffd}[31mb\u{fffd}".to_owned()
        );
        assert_eq!(printable(b"two\nlines\tx"), "two\nlines\tx");
        assert_eq!(printable(b" \n"), "(an empty line)");
    }

    #[test]
    fn numbers_do_not_matter() {
        assert_eq!(without_numbers("pid 12, 3.45 s", 99), "pid #, #.# s");
        assert_eq!(without_numbers("1234", 1), "#");
        assert_eq!(without_numbers("ab", 1), "a");
    }

    proptest! {
        #[test]
        fn a_text_is_cut_where_a_character_ends(text in ".{0,40}", max in 3_usize..50) {
            let cut = bounded(text.clone(), max);
            prop_assert!(cut.len() <= max);
            prop_assert!(cut == text || (text.len() > max && cut.ends_with(CUT)));
        }
    }
}
