//! Comparison operators, and the order of versions.

use std::cmp::Ordering;

use muster_unit_file::install::glob;

/// How two things are compared in `>=5.10`, `=x`, `!$=*-rt*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Fits,
    FitsNot,
}

impl Operator {
    /// Takes an operator off the front of a text.
    pub(super) fn split(text: &str) -> (Option<Self>, &str) {
        // Longer ones first: some begin as others do.
        const OPERATORS: [(&str, Operator); 10] = [
            ("!$=", Operator::FitsNot),
            ("$=", Operator::Fits),
            ("<>", Operator::NotEqual),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("==", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("=", Operator::Equal),
        ];
        let found = OPERATORS
            .iter()
            .find_map(|(word, operator)| Some((*operator, text.strip_prefix(word)?)));
        match found {
            Some((operator, rest)) => (Some(operator), rest.trim_start()),
            None => (None, text),
        }
    }

    /// Whether an order is what the operator asks for; `None` for patterns.
    pub(super) fn accepts(self, order: Ordering) -> Option<bool> {
        Some(match self {
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Greater => order.is_gt(),
            Self::Fits | Self::FitsNot => return None,
        })
    }

    /// Whether two texts stand to each other as the operator asks, equality and order being those of versions.
    pub(super) fn holds_for_versions(self, found: &str, wanted: &str) -> bool {
        let fits = || glob(wanted, found);
        match self {
            Self::Fits => fits(),
            Self::FitsNot => !fits(),
            _ => self
                .accepts(compare_versions(found, wanted))
                .unwrap_or(false),
        }
    }

    /// The same, but equality is that of texts.
    pub(super) fn holds_for_texts(self, found: &str, wanted: &str) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::NotEqual => found != wanted,
            other => other.holds_for_versions(found, wanted),
        }
    }
}

/// The order of versions by the rules that package managers and boot loaders share: numbers count as numbers, `~` comes
/// before everything, and `-`, `^`, `.` separate, in that order of weight.
pub(super) fn compare_versions(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one.as_bytes(), other.as_bytes());
    loop {
        a = skip_unusable(a);
        b = skip_unusable(b);
        match separator(b'~', &mut a, &mut b) {
            Ordering::Equal => {}
            order => return order,
        }
        if a.is_empty() || b.is_empty() {
            return a.len().min(1).cmp(&b.len().min(1));
        }
        for mark in [b'-', b'^', b'.'] {
            match separator(mark, &mut a, &mut b) {
                Ordering::Equal => {}
                order => return order,
            }
        }
        let numeric =
            a.first().is_some_and(u8::is_ascii_digit) || b.first().is_some_and(u8::is_ascii_digit);
        let order = if numeric {
            let (x, y) = (
                take_while(&mut a, u8::is_ascii_digit),
                take_while(&mut b, u8::is_ascii_digit),
            );
            // A part without a number is older than any number.
            x.is_empty().cmp(&y.is_empty()).reverse().then_with(|| {
                let (x, y) = (without_zeros(x), without_zeros(y));
                x.len().cmp(&y.len()).then_with(|| x.cmp(y))
            })
        } else {
            let (x, y) = (
                take_while(&mut a, u8::is_ascii_alphabetic),
                take_while(&mut b, u8::is_ascii_alphabetic),
            );
            x.cmp(y)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// One of the two has the mark where the other has not: that one is older.
fn separator(mark: u8, a: &mut &[u8], b: &mut &[u8]) -> Ordering {
    let (in_a, in_b) = (a.first() == Some(&mark), b.first() == Some(&mark));
    if in_a && in_b {
        (*a, *b) = (&a[1..], &b[1..]);
    }
    in_a.cmp(&in_b).reverse()
}

fn skip_unusable(text: &[u8]) -> &[u8] {
    let usable = |byte: &u8| byte.is_ascii_alphanumeric() || b"~-^.".contains(byte);
    let start = text.iter().position(usable).unwrap_or(text.len());
    &text[start..]
}

fn take_while<'a>(text: &mut &'a [u8], of_kind: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = text.iter().position(|byte| !of_kind(byte));
    let (taken, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    taken
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|digit| *digit != b'0');
    &digits[start.unwrap_or(digits.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_are_ordered_as_package_managers_do() {
        let rising = [
            "~1",
            "",
            "ab",
            "abb",
            "abc",
            "0001",
            "002",
            "12",
            "122",
            "122.9",
            "123~rc1",
            "123",
            "123-a",
            "123-a.1",
            "123-a1",
            "123-a1.1",
            "123-3",
            "123-3.1",
            "123^patch1",
            "123^1",
            "123.a-1",
            "123.1-1",
            "123a-1",
            "124",
        ];
        for (n, low) in rising.iter().enumerate() {
            assert_eq!(compare_versions(low, low), Ordering::Equal, "{low}");
            for high in &rising[n + 1..] {
                assert_eq!(compare_versions(low, high), Ordering::Less, "{low} {high}");
                assert_eq!(
                    compare_versions(high, low),
                    Ordering::Greater,
                    "{low} {high}"
                );
            }
        }
        assert_eq!(compare_versions("1_2", "1.2"), Ordering::Greater);
        assert_eq!(compare_versions("6.1.0-rc1", "6.1.0"), Ordering::Greater);
        assert_eq!(compare_versions("1.02", "1.2"), Ordering::Equal);
    }

    #[test]
    fn operators_are_taken_off_the_front() {
        let cases = [
            (">= 5", Some(Operator::GreaterOrEqual), "5"),
            ("!$=*rt", Some(Operator::FitsNot), "*rt"),
            ("<>1", Some(Operator::NotEqual), "1"),
            ("==1", Some(Operator::Equal), "1"),
            ("1", None, "1"),
        ];
        for (text, operator, rest) in cases {
            assert_eq!(Operator::split(text), (operator, rest), "{text}");
        }
    }

    proptest! {
        #[test]
        fn order_of_versions_is_one(texts in prop::collection::vec("[a-c0-2~^.-]{0,6}", 3)) {
            let [a, b, c] = [&texts[0], &texts[1], &texts[2]];
            prop_assert_eq!(compare_versions(a, b), compare_versions(b, a).reverse());
            if compare_versions(a, b).is_le() && compare_versions(b, c).is_le() {
                prop_assert!(compare_versions(a, c).is_le(), "{} {} {}", a, b, c);
            }
        }
    }
}
