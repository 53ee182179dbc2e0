//! Variables in command lines, by systemd's rules.
//!
//! `${NAME}` stands for the value wherever it is; `$NAME` as an argument of its own stands for the words of the value,
//! which may be none; `$$` is a dollar sign. A variable that is not set is empty. Everything else stays as it is, also
//! `$NAME` inside an argument.

use super::Variables;

/// The arguments with all variables replaced.
pub fn arguments<'t>(argv: impl Iterator<Item = &'t str>, variables: &Variables) -> Vec<Box<str>> {
    let mut expanded = Vec::new();
    for argument in argv {
        match whole_variable(argument) {
            Some(name) => {
                let value = variables.get(name);
                expanded.extend(value.into_iter().flat_map(|value| words(value)));
            }
            None => expanded.push(braces(argument, variables).into()),
        }
    }
    expanded
}

/// The name, if an argument is nothing but `$NAME`.
fn whole_variable(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix('$')?;
    (!name.starts_with(['{', '$'])).then_some(name)
}

fn braces(argument: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after
            .strip_prefix('{')
            .and_then(|inside| inside.split_once('}'))
        {
            out.push_str(variables.get(name).map_or("", |value| value));
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Words between blanks. Quotes group and are removed, a backslash takes the next character as it is, and what is left
/// open is closed by the end.
fn words(value: &str) -> Vec<Box<str>> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (_, '\\') => {
                let next = characters.next();
                word.get_or_insert_default().extend(next);
            }
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t' | '\n' | '\r') => found.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variables() -> Variables {
        [
            ("ONE", "one"),
            ("TWO", "two two"),
            ("EMPTY", ""),
            ("QUOTED", "'a b' \"c d\"e \\\"f \\g"),
            ("OPEN", "'a b"),
            ("NESTED", "${ONE} $TWO"),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
    }

    fn expanded(argv: &[&str]) -> Vec<String> {
        let arguments = arguments(argv.iter().copied(), &variables());
        arguments.into_iter().map(Into::into).collect()
    }

    /// The examples of systemd.service(5), and what follows from its rules.
    #[test]
    fn variables_are_replaced_as_systemd_replaces_them() {
        assert_eq!(
            expanded(&["$ONE", "$TWO", "${TWO}"]),
            ["one", "two", "two", "two two"]
        );
        assert_eq!(
            expanded(&["${ONE}", "${TWO}x${ONE}"]),
            ["one", "two twoxone"]
        );
        assert_eq!(
            expanded(&["$EMPTY", "${EMPTY}", "$MISSING", "${MISSING}"]),
            ["", ""]
        );
        assert_eq!(
            expanded(&["$$ONE", "a$$", "$${ONE}"]),
            ["$ONE", "a$", "${ONE}"]
        );
        assert_eq!(expanded(&["a$ONE", "a $ONE b", "$"]), ["a$ONE", "a $ONE b"]);
        assert_eq!(expanded(&["${ONE", "x${}y", "$(id)x$"]), ["${ONE", "xy"]);
    }

    #[test]
    fn values_are_split_but_not_expanded_again() {
        assert_eq!(expanded(&["$QUOTED"]), ["a b", "c de", "\"f", "g"]);
        assert_eq!(expanded(&["$OPEN"]), ["a b"]);
        assert_eq!(expanded(&["$NESTED"]), ["${ONE}", "$TWO"]);
        assert_eq!(expanded(&["${NESTED}"]), ["${ONE} $TWO"]);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(argv in prop::collection::vec("[${}a-zONE\\\\' ]{0,12}", 0..4), value in ".{0,20}") {
            let mut known = variables();
            known.insert("a".into(), value.into());
            let _ = arguments(argv.iter().map(String::as_str), &known);
        }

        #[test]
        fn an_argument_without_dollars_stays(argument in "[^$]{0,20}") {
            prop_assert_eq!(expanded(&[&argument]), [argument]);
        }
    }
}
