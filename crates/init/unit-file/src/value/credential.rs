//! Secrets of services: `SetCredential=` and its siblings.

use super::list::StrList;
use super::words::escaped_words;
use super::{AssignError, Setting, ValueContext, ValueError};

/// The longest name of a file.
const MAX_NAME: usize = 255;

/// Secrets with their data, each as `name:data`. A name that is assigned again has the later data.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CredentialTexts(pub StrList);

impl std::fmt::Debug for CredentialTexts {
    /// Only the names: the data is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|entry| entry.split(':').next());
        f.debug_list().entries(names.flatten()).finish()
    }
}

impl Setting for CredentialTexts {
    const KIND: &'static str = "name:text";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        // The value itself is secret and must not get into a message.
        let (name, data) = text
            .split_once(':')
            .ok_or_else(|| ValueError::invalid("the value", "a name, a colon and a text"))?;
        let name = checked(&context.expand(name)?)?;
        let quoted = format!("\"{}\"", data.replace('"', "\\\""));
        let data = escaped_words(&quoted, context)
            .map_err(|_| ValueError::invalid(&name, "followed by a text that can be read"))?;
        put(&mut self.0, &name, &data.concat());
        Ok(())
    }
}

/// Secrets with the place they are read from, each as `name:place`. Where only a name is given, that is the place too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialPlaces(pub StrList);

impl Setting for CredentialPlaces {
    const KIND: &'static str = "name:path";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let (name, place) = text.split_once(':').unwrap_or((text, ""));
        let name = checked(&context.expand(name)?)?;
        let place = match place {
            "" => name.clone(),
            place => context.expand(place)?.into_owned(),
        };
        if !place.starts_with('/') {
            checked(&place)?;
        }
        put(&mut self.0, &name, &place);
        Ok(())
    }
}

/// Patterns for names of secrets that the system was given, each as `pattern`, or as `pattern:start` where what the pattern
/// fixes of a name is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialPatterns(pub StrList);

impl Setting for CredentialPatterns {
    const KIND: &'static str = "pattern, or pattern:name";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let (pattern, start) = match text.split_once(':') {
            Some((pattern, start)) => (pattern, Some(start)),
            None => (text, None),
        };
        let mut entry = checked(&context.expand(pattern)?)?;
        if let Some(start) = start {
            let start = checked(&context.expand(start)?)?;
            entry = format!("{entry}:{start}");
        }
        if !self.0.contains(&entry) {
            self.0.push(&entry);
        }
        Ok(())
    }
}

fn checked(name: &str) -> Result<String, ValueError> {
    let plain = |b: u8| (b' '..0x7f).contains(&b) && b != b'/' && b != b':';
    let usable = !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME;
    if usable && name.bytes().all(plain) {
        Ok(name.to_owned())
    } else {
        Err(ValueError::invalid(name, "the name of a file"))
    }
}

fn put(list: &mut StrList, name: &str, rest: &str) {
    let is_other = |entry: &&str| entry.split(':').next() != Some(name);
    let mut kept: StrList = list.iter().filter(is_other).collect();
    kept.push(&format!("{name}:{rest}"));
    *list = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    fn shown(list: &StrList) -> Vec<&str> {
        list.iter().collect()
    }

    #[test]
    fn texts_are_whole_lines_with_escapes_and_the_last_of_a_name_counts() {
        let texts: CredentialTexts = read(&["a:one", "b: two  \\x41\\n\"q\" %i:c", "a:three"]);
        assert_eq!(shown(&texts.0), ["b: two  A\n\"q\" %i:c", "a:three"]);
        assert_eq!(format!("{texts:?}"), r#"["b", "a"]"#);
        assert!(read::<CredentialTexts>(&["a:one", ""]).0.is_empty());
        let errors = assign(&mut CredentialTexts::default(), &["secret", "x/y:secret"]);
        assert_eq!(errors.len(), 2);
        assert!(!errors.concat().contains("secret"), "{errors:?}");
    }

    #[test]
    fn places_are_paths_or_names() {
        let places: CredentialPlaces = read(&["a:/etc/%i", "b", "c:other"]);
        assert_eq!(shown(&places.0), ["a:/etc/c", "b:b", "c:other"]);
        assert_eq!(
            assign(&mut CredentialPlaces::default(), &["a:b/c", ":x"]).len(),
            2
        );
    }

    #[test]
    fn patterns_are_kept_once() {
        let patterns: CredentialPatterns = read(&["net.*", "net.*", "x"]);
        assert_eq!(shown(&patterns.0), ["net.*", "x"]);
    }

    #[test]
    fn patterns_may_be_followed_by_another_name() {
        let patterns: CredentialPatterns = read(&["net.*:my.", "net.*", "x:%i"]);
        assert_eq!(shown(&patterns.0), ["net.*:my.", "net.*", "x:c"]);
        let bad = ["x:", ":x", "x:y:z", "x:a/b"];
        assert_eq!(assign(&mut CredentialPatterns::default(), &bad).len(), 4);
    }
}
