//! Paths in values.

use super::list::StrList;
use super::words::list_words;
use super::{AssignError, Setting, ValueContext, ValueError};

const MAX_PATH: usize = 4095;

/// An absolute, simplified path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AbsolutePath(pub Box<str>);

impl Setting for AbsolutePath {
    const KIND: &'static str = "absolute path";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let text = context.expand(text)?;
        *self = Self(check_path(&text, true)?.into());
        Ok(())
    }
}

/// Checks an absolute path and removes what does not count: doubled slashes, `.` components, a
/// trailing slash. `normalized` refuses `..`.
///
/// # Errors
/// The path is relative, too long, or has components it may not have.
pub fn check_path(text: &str, normalized: bool) -> Result<String, ValueError> {
    if !text.starts_with('/') {
        return Err(ValueError::invalid(text, "an absolute path"));
    }
    if text.len() > MAX_PATH {
        return Err(ValueError::range(text, "at most 4095 bytes"));
    }
    if normalized && text.split('/').any(|part| part == "..") {
        return Err(ValueError::invalid(text, "a path without '..'"));
    }
    Ok(simplify(text))
}

/// The path without doubled slashes, `.` components and a trailing slash.
#[must_use]
pub fn simplify(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if !out.is_empty() || path.starts_with('/') {
            out.push('/');
        }
        out.push_str(part);
    }
    match out.as_str() {
        "" if path.starts_with('/') => "/".to_owned(),
        "" if !path.is_empty() => ".".to_owned(),
        _ => out,
    }
}

/// A list of absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathList(pub StrList);

impl Setting for PathList {
    const KIND: &'static str = "absolute paths";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        assign_paths(&mut self.0, text, context, |word| check_path(word, true))
    }
}

/// Paths for mount namespaces. `-` before a path allows it to be missing, `+` takes it below the
/// root directory of the service; both stay in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespacePaths(pub StrList);

impl Setting for NamespacePaths {
    const KIND: &'static str = "absolute paths with - and +";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        assign_paths(&mut self.0, text, context, |word| {
            let (optional, rest) = strip_flag(word, '-');
            let (rooted, rest) = strip_flag(rest, '+');
            Ok(format!("{optional}{rooted}{}", check_path(rest, true)?))
        })
    }
}

/// Names of directories below a fixed root (`RuntimeDirectory=`); `name:link` adds a symbolic link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryNames(pub StrList);

impl Setting for DirectoryNames {
    const KIND: &'static str = "names of directories";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        assign_paths(&mut self.0, text, context, |word| {
            let (name, link) = word
                .split_once(':')
                .map_or((word, None), |(n, l)| (n, Some(l)));
            let mut out = check_relative(name)?;
            if let Some(link) = link {
                out.push(':');
                out.push_str(&check_relative(link)?);
            }
            Ok(out)
        })
    }
}

fn check_relative(text: &str) -> Result<String, ValueError> {
    let path = simplify(text);
    let unusable = path.starts_with('/') || path.is_empty() || path == ".";
    // The first folder of this name holds what dynamic users own, and nobody else gets in.
    let is_reserved = path.split('/').next() == Some("private");
    if unusable || path.split('/').any(|part| part == "..") || is_reserved {
        let expected = "a relative path without '..' that does not begin with 'private'";
        return Err(ValueError::invalid(text, expected));
    }
    Ok(path)
}

fn strip_flag(text: &str, flag: char) -> (&str, &str) {
    match text.strip_prefix(flag) {
        Some(rest) => (&text[..1], rest),
        None => ("", text),
    }
}

fn assign_paths(
    list: &mut StrList,
    text: &str,
    context: &mut ValueContext<'_>,
    check: impl Fn(&str) -> Result<String, ValueError>,
) -> Result<(), AssignError> {
    if text.is_empty() {
        list.clear();
        return Ok(());
    }
    for word in list_words(text)? {
        match context.expand(&word).and_then(|word| check(&word)) {
            Ok(path) => list.push(&path),
            Err(error) => context.warn(error),
        }
    }
    Ok(())
}

/// One `source:destination:options` of a bind mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// What is mounted.
    pub source: Box<str>,
    /// Where.
    pub destination: Box<str>,
    /// The source may be missing.
    pub optional: bool,
    /// Not writable.
    pub read_only: bool,
    /// With the mounts below it.
    pub recursive: bool,
}

/// Bind mounts. Whether they are read-only is decided by the directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindMounts(pub Vec<BindMount>);

impl BindMounts {
    /// Takes the text of `BindPaths=` or `BindReadOnlyPaths=`. An empty value resets both.
    ///
    /// # Errors
    /// A quote is not closed.
    pub fn assign(
        &mut self,
        text: &str,
        read_only: bool,
        context: &mut ValueContext<'_>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in list_words(text)? {
            match context
                .expand(&word)
                .and_then(|word| BindMount::parse(&word, read_only))
            {
                Ok(mount) => self.0.push(mount),
                Err(error) => context.warn(error),
            }
        }
        Ok(())
    }
}

impl BindMount {
    fn parse(word: &str, read_only: bool) -> Result<Self, ValueError> {
        let mut fields = word.splitn(3, ':');
        let source = fields.next().unwrap_or("");
        let (optional, source) = strip_flag(source, '-');
        let source = check_path(source, true)?;
        let destination = match fields.next() {
            None | Some("") => source.clone(),
            Some(path) => check_path(path, true)?,
        };
        let recursive = match fields.next() {
            None | Some("" | "rbind") => true,
            Some("norbind") => false,
            Some(other) => return Err(ValueError::invalid(other, "rbind or norbind")),
        };
        Ok(Self {
            source: source.into(),
            destination: destination.into(),
            optional: !optional.is_empty(),
            read_only,
            recursive,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    #[test]
    fn paths_are_simplified_and_checked() {
        assert_eq!(
            read::<Option<AbsolutePath>>(&["//a/./b/%i/"]),
            Some(AbsolutePath("/a/b/c".into()))
        );
        for text in ["a", "/a/../b", ""] {
            assert_eq!(
                assign(&mut AbsolutePath::default(), &[text]).len(),
                1,
                "{text}"
            );
        }
        for (path, simple) in [
            ("/", "/"),
            ("///", "/"),
            ("a//b/", "a/b"),
            (".", "."),
            ("", ""),
        ] {
            assert_eq!(simplify(path), simple);
        }
    }

    #[test]
    fn namespace_paths_keep_their_flags() {
        let paths: NamespacePaths = read(&["-/a /b/", "-+/c +/d"]);
        assert_eq!(
            paths.0.iter().collect::<Vec<_>>(),
            ["-/a", "/b", "-+/c", "+/d"]
        );
        let mut paths = paths;
        assert_eq!(assign(&mut paths, &["x /e"]).len(), 1);
        assert_eq!(paths.0.len(), 5);
    }

    #[test]
    fn directory_names_stay_below_their_root() {
        let names: DirectoryNames = read(&["a b/c d:e"]);
        assert_eq!(names.0.iter().collect::<Vec<_>>(), ["a", "b/c", "d:e"]);
        assert_eq!(
            assign(
                &mut DirectoryNames::default(),
                &["/a ../b . private x: private/a"]
            )
            .len(),
            6
        );
    }

    #[test]
    fn bind_mounts_have_three_fields() {
        let (mut list, mut other) = (BindMounts::default(), StrList::default());
        // The helper gives access to a context; the list is filled beside it.
        struct Wrapper<'a>(&'a mut BindMounts);
        impl Setting for Wrapper<'_> {
            const KIND: &'static str = "";
            fn assign(
                &mut self,
                text: &str,
                context: &mut ValueContext<'_>,
            ) -> Result<(), AssignError> {
                self.0.assign(text, true, context)
            }
        }
        assert_eq!(
            assign(
                &mut Wrapper(&mut list),
                &["/a -/b:/c:norbind", "x /d::weird"]
            )
            .len(),
            2
        );
        assert_eq!(list.0.len(), 2);
        assert_eq!((&*list.0[0].destination, list.0[0].recursive), ("/a", true));
        assert_eq!(
            (
                &*list.0[1].destination,
                list.0[1].recursive,
                list.0[1].optional
            ),
            ("/c", false, true)
        );
        assert!(assign(&mut other, &[""]).is_empty());
    }

    proptest! {
        #[test]
        fn simplifying_twice_changes_nothing(path in "[/.a]{0,15}") {
            let once = simplify(&path);
            prop_assert_eq!(simplify(&once), once);
        }
    }
}
