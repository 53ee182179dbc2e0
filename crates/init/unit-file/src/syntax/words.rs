//! Splitting a value into words: quotes, C escapes, separators.

use thiserror::Error;

/// How a value is cut into words.
#[derive(Clone, Copy, Debug)]
pub struct WordRules {
    /// Characters between words.
    pub separators: &'static [u8],
    /// Quotes group and are removed; otherwise they are ordinary characters.
    pub unquote: bool,
    /// A backslash begins a C escape.
    pub unescape: bool,
    /// A backslash is an ordinary character. Takes precedence over `unescape`.
    pub keep_backslash: bool,
    /// An escape that C does not know is taken as it stands.
    pub relaxed: bool,
    /// Two separators in a row enclose an empty word.
    pub empty_words: bool,
}

const BLANKS: &[u8] = b" \t\n\r";

impl WordRules {
    /// Lists of names and paths: quotes group, backslashes stay (unit names contain them).
    pub const LIST: Self = Self {
        separators: BLANKS,
        unquote: true,
        unescape: false,
        keep_backslash: true,
        relaxed: false,
        empty_words: false,
    };
    /// Command lines and environment assignments: quotes and C escapes.
    pub const COMMAND: Self = Self {
        unescape: true,
        keep_backslash: false,
        ..Self::LIST
    };
    /// Colon-separated fields inside a word.
    pub const FIELDS: Self = Self {
        separators: b":",
        empty_words: true,
        ..Self::LIST
    };
    /// Plain words: neither quotes nor escapes mean anything.
    pub const PLAIN: Self = Self {
        unquote: false,
        ..Self::LIST
    };
}

/// Why a value cannot be cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WordError {
    /// A quote is not closed.
    #[error("a quote is not closed")]
    OpenQuote,
    /// The value ends in a backslash.
    #[error("the value ends in a backslash")]
    TrailingBackslash,
    /// A backslash is followed by something that C does not know.
    #[error("unknown escape sequence after a backslash (write \\\\ for a backslash)")]
    BadEscape,
    /// Escapes made a word that is not UTF-8.
    #[error("the escape sequences do not make valid UTF-8")]
    NotUtf8,
}

/// The words of a value. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Words<'t> {
    rest: &'t str,
    rules: WordRules,
    done: bool,
}

impl<'t> Words<'t> {
    /// The words of `text`.
    #[must_use]
    pub fn new(text: &'t str, rules: WordRules) -> Self {
        Self {
            rest: text,
            rules,
            done: false,
        }
    }

    /// What was not consumed yet, leading separators included.
    #[must_use]
    pub fn rest(&self) -> &'t str {
        if self.done { "" } else { self.rest }
    }

    fn is_separator(&self, byte: u8) -> bool {
        self.rules.separators.contains(&byte)
    }

    fn fail(&mut self, error: WordError) -> Option<Result<String, WordError>> {
        self.done = true;
        Some(Err(error))
    }
}

impl Iterator for Words<'_> {
    type Item = Result<String, WordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let mut at = 0;
        if !self.rules.empty_words {
            at = bytes.iter().take_while(|b| self.is_separator(**b)).count();
            if at == bytes.len() {
                self.done = true;
                return None;
            }
        }
        let mut word = Vec::new();
        let mut quote: Option<u8> = None;
        loop {
            let Some(&byte) = bytes.get(at) else {
                if quote.is_some() {
                    return self.fail(WordError::OpenQuote);
                }
                self.done = true;
                break;
            };
            if byte == b'\\' && !self.rules.keep_backslash {
                at += 1;
                match unescape_one(&bytes[at..], self.rules, &mut word) {
                    Ok(used) => at += used,
                    Err(error) => return self.fail(error),
                }
            } else if quote == Some(byte) {
                quote = None;
                at += 1;
            } else if quote.is_none() && self.rules.unquote && matches!(byte, b'"' | b'\'') {
                quote = Some(byte);
                at += 1;
            } else if quote.is_none() && self.is_separator(byte) {
                at += 1;
                break;
            } else {
                // Copy a run at once: values are mostly ordinary characters.
                let run = bytes[at + 1..].iter().take_while(|b| {
                    !matches!(b, b'\\' | b'"' | b'\'') && !self.rules.separators.contains(b)
                });
                let end = at + 1 + run.count();
                word.extend_from_slice(&bytes[at..end]);
                at = end;
            }
        }
        // Separators and quotes are ASCII, so `at` is a character boundary.
        self.rest = self.rest.get(at..).unwrap_or("");
        match String::from_utf8(word) {
            Ok(word) => Some(Ok(word)),
            Err(_) => self.fail(WordError::NotUtf8),
        }
    }
}

/// Handles what follows a backslash; gives the number of bytes used.
fn unescape_one(rest: &[u8], rules: WordRules, word: &mut Vec<u8>) -> Result<usize, WordError> {
    let Some(&first) = rest.first() else {
        if rules.relaxed {
            word.push(b'\\');
            return Ok(0);
        }
        return Err(WordError::TrailingBackslash);
    };
    if !rules.unescape {
        word.push(first);
        return Ok(1);
    }
    match c_escape(rest) {
        Some((Escaped::Byte(byte), used)) => {
            word.push(byte);
            Ok(used)
        }
        Some((Escaped::Char(c), used)) => {
            word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(used)
        }
        None if rules.relaxed => {
            word.extend_from_slice(&[b'\\', first]);
            Ok(1)
        }
        None => Err(WordError::BadEscape),
    }
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// Reads the C escape after a backslash. NUL is refused: no value may contain it.
fn c_escape(rest: &[u8]) -> Option<(Escaped, usize)> {
    let simple = match *rest.first()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b's' => b' ',
        byte @ (b'\\' | b'"' | b'\'') => byte,
        b'x' => {
            let value = number(rest.get(1..3)?, 16)?;
            return Some((
                Escaped::Byte(u8::try_from(value).ok().filter(|b| *b != 0)?),
                3,
            ));
        }
        b'u' => {
            let value = number(rest.get(1..5)?, 16).filter(|value| *value != 0)?;
            return Some((Escaped::Char(char::from_u32(value)?), 5));
        }
        b'U' => {
            let value = number(rest.get(1..9)?, 16).filter(|value| *value != 0)?;
            return Some((Escaped::Char(char::from_u32(value)?), 9));
        }
        b'0'..=b'7' => {
            let value = number(rest.get(..3)?, 8)?;
            return Some((
                Escaped::Byte(u8::try_from(value).ok().filter(|b| *b != 0)?),
                3,
            ));
        }
        _ => return None,
    };
    Some((Escaped::Byte(simple), 1))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, digit| {
        let digit = char::from(*digit).to_digit(radix)?;
        value.checked_mul(radix)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str, rules: WordRules) -> Result<Vec<String>, WordError> {
        Words::new(text, rules).collect()
    }

    #[test]
    fn quotes_group_and_escapes_are_c() {
        let parse = |text| words(text, WordRules::COMMAND).unwrap();
        assert_eq!(parse("a  b\tc"), ["a", "b", "c"]);
        assert_eq!(parse("'a b' \"c d\" e' 'f"), ["a b", "c d", "e f"]);
        assert_eq!(parse(r#"'' "" x"#), ["", "", "x"]);
        assert_eq!(
            parse(r"a\x20b\040c\sd\te\u00e9\U0001F600"),
            ["a b c d\te\u{e9}\u{1f600}"]
        );
        assert_eq!(parse(r#"\"a\" '\'b'"#), ["\"a\"", "'b"]);
        assert_eq!(parse(r"\xc3\xa9"), ["\u{e9}"]);
        assert_eq!(parse(""), Vec::<String>::new());
    }

    #[test]
    fn broken_quoting_is_an_error() {
        let parse = |text| words(text, WordRules::COMMAND);
        assert_eq!(parse("a 'b"), Err(WordError::OpenQuote));
        assert_eq!(parse("a\\"), Err(WordError::TrailingBackslash));
        for text in [r"\q", r"\x0", r"\x00", r"\000", r"\400", r"\ud800", r"\18"] {
            assert_eq!(parse(text), Err(WordError::BadEscape), "{text}");
        }
        assert_eq!(parse(r"\xff"), Err(WordError::NotUtf8));
        let mut failing = Words::new("\\q a b", WordRules::COMMAND);
        assert!(failing.next().unwrap().is_err());
        assert_eq!(failing.next(), None);
    }

    #[test]
    fn lists_keep_backslashes() {
        assert_eq!(
            words(r"dev-a\x2db.device 'c d'", WordRules::LIST).unwrap(),
            [r"dev-a\x2db.device", "c d"]
        );
        assert_eq!(
            words(r#"it's "x"#, WordRules::PLAIN).unwrap(),
            ["it's", "\"x"]
        );
        assert_eq!(
            words("a::b:", WordRules::FIELDS).unwrap(),
            ["a", "", "b", ""]
        );
    }

    #[test]
    fn the_rest_is_what_was_not_consumed() {
        let mut list = Words::new("a  b c", WordRules::LIST);
        list.next();
        assert_eq!(list.rest(), " b c");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(text in "[ab \\\\'\"x0-9u\u{e9}:]{0,40}", relaxed in any::<bool>()) {
            for rules in [WordRules::LIST, WordRules::COMMAND, WordRules::FIELDS, WordRules::PLAIN] {
                for word in Words::new(&text, WordRules { relaxed, ..rules }) {
                    let _ = word;
                }
            }
        }

        #[test]
        fn quoted_words_come_back(list in prop::collection::vec("[^\\\\\"\0]{0,10}", 0..6)) {
            let quoted: Vec<_> = list.iter().map(|word| format!("\"{word}\"")).collect();
            prop_assert_eq!(words(&quoted.join(" "), WordRules::COMMAND).unwrap(), list);
        }
    }
}
