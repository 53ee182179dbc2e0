//! Texts and lists of texts.

use super::list::StrList;
use super::{AssignError, Setting, ValueContext, ValueError};
use crate::name::UnitName;
use crate::syntax::{WordRules, Words};

/// Text with specifiers.
impl Setting for Box<str> {
    const KIND: &'static str = "text";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        *self = context.expand(text)?.into();
        Ok(())
    }
}

/// Words with specifiers; an empty value resets the list.
impl Setting for StrList {
    const KIND: &'static str = "list of texts";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.clear();
            return Ok(());
        }
        for word in list_words(text)? {
            match context.expand(&word) {
                Ok(word) => self.push(&word),
                Err(error) => context.warn(error),
            }
        }
        Ok(())
    }
}

/// The name of one unit.
impl Setting for Option<UnitName> {
    const KIND: &'static str = "unit name";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        *self = if text.is_empty() {
            None
        } else {
            Some(context.unit_name(text)?)
        };
        Ok(())
    }
}

/// The words of a list of names or paths.
///
/// # Errors
/// A quote is not closed.
pub fn list_words(text: &str) -> Result<Vec<String>, ValueError> {
    let words = Words::new(text, WordRules::LIST).collect::<Result<Vec<_>, _>>();
    words.map_err(|error| ValueError::words(text, error))
}

/// The words of a text with quotes and C escapes. An escape that C does not know is kept and
/// reported, as systemd does it.
///
/// # Errors
/// A quote is not closed.
pub fn escaped_words(
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<Vec<String>, ValueError> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((word, after)) = next_escaped_word(rest, context)? {
        words.push(word);
        rest = after;
    }
    Ok(words)
}

/// The first word and what follows it.
pub(super) fn next_escaped_word<'t>(
    text: &'t str,
    context: &mut ValueContext<'_>,
) -> Result<Option<(String, &'t str)>, ValueError> {
    let mut words = Words::new(text, WordRules::COMMAND);
    let error = match words.next() {
        None => return Ok(None),
        Some(Ok(word)) => return Ok(Some((word, words.rest()))),
        Some(Err(error)) => error,
    };
    let mut relaxed = Words::new(
        text,
        WordRules {
            relaxed: true,
            ..WordRules::COMMAND
        },
    );
    match relaxed.next() {
        Some(Ok(word)) => {
            context.warn(ValueError::UnknownEscape {
                text: crate::syntax::truncate(&word).into(),
            });
            Ok(Some((word, relaxed.rest())))
        }
        _ => Err(ValueError::words(text, error)),
    }
}

/// Names of environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableNames(pub StrList);

impl Setting for VariableNames {
    const KIND: &'static str = "names of environment variables";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in escaped_words(text, context)? {
            let word = context.expand(&word)?.into_owned();
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            if super::environment::is_variable_name(name) {
                self.0.push(&word);
            } else {
                context.warn(ValueError::invalid(
                    &word,
                    "the name of an environment variable",
                ));
            }
        }
        Ok(())
    }
}

/// A user or group name or number. Specifiers are expanded; a bad one makes the unit unusable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account(pub Box<str>);

impl Setting for Account {
    const KIND: &'static str = "user or group";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let text = context.expand(text).map_err(AssignError::Fatal)?;
        if !is_account(&text) {
            let expected = "a user or group name or number";
            return Err(AssignError::Fatal(ValueError::invalid(&text, expected)));
        }
        self.0 = text.into();
        Ok(())
    }
}

/// Whether a text can name a user or group. Deliberately lenient: names that other tools made must
/// keep working, only what would confuse paths, numbers and tables is refused.
#[must_use]
pub fn is_account(text: &str) -> bool {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        // The two "no id" values are not accounts.
        return text
            .parse::<u32>()
            .is_ok_and(|id| id != u32::MAX && id != 0xffff);
    }
    let first_ok = !text.starts_with('-') && !matches!(text, "." | "..");
    let blank_edges = text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace);
    let usable = |c: char| !c.is_control() && c != ':' && c != '/';
    text.len() <= 256 && first_ok && !blank_edges && text.chars().all(usable)
}

/// A list of accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub StrList);

impl Setting for Accounts {
    const KIND: &'static str = "users or groups";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in list_words(text)? {
            let mut account = Account::default();
            account.assign(&word, context)?;
            self.0.push(&account.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn lists_append_and_reset() {
        let list: StrList = read(&["a 'b c'", "%i"]);
        assert_eq!(list.iter().collect::<Vec<_>>(), ["a", "b c", "c"]);
        assert!(read::<StrList>(&["a", ""]).is_empty());
        assert_eq!(assign(&mut StrList::default(), &["'a"]).len(), 1);
    }

    #[test]
    fn templates_stand_for_the_instance_of_the_unit() {
        let mut name: Option<UnitName> = None;
        for text in ["x@%i.service", "x@.service"] {
            assert_eq!(assign(&mut name, &[text]), Vec::<String>::new());
            assert_eq!(name.as_ref().map(UnitName::as_str), Some("x@c.service"));
        }
        assert_eq!(assign(&mut name, &["nonsense"]).len(), 1);
    }

    #[test]
    fn a_bad_account_is_fatal() {
        assert_eq!(
            read::<Option<Account>>(&["www-data"]),
            Some(Account("www-data".into()))
        );
        for text in ["a:b", "a/b", "-x", "..", "4294967295", "65535", " a"] {
            assert!(
                assign(&mut Account::default(), &[text])[0].starts_with("fatal: "),
                "{text}"
            );
        }
    }

    #[test]
    fn unknown_escapes_are_kept_and_reported() {
        let mut names = VariableNames::default();
        assert_eq!(assign(&mut names, &["A B=c\\d 1X"]).len(), 2);
        assert_eq!(names.0.iter().collect::<Vec<_>>(), ["A", "B=c\\d"]);
    }
}
