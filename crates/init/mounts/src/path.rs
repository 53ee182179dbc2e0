//! Absolute paths as texts: `/`, or components each behind a slash.

/// The kernel's limit, the zero behind it included.
pub(crate) const MAX_LENGTH: usize = 4096;

/// The path without double slashes, dots and a slash at its end. `..` is left: what it leads to depends on symlinks.
/// `None` if it is not an absolute path that the kernel takes.
pub(crate) fn tidy(path: &str) -> Option<String> {
    if !path.starts_with('/') || path.len() >= MAX_LENGTH || path.contains('\0') {
        return None;
    }
    let mut tidied = String::with_capacity(path.len());
    for component in components(path) {
        tidied.push('/');
        tidied.push_str(component);
    }
    Some(or_root(tidied))
}

/// An empty text stands for the root.
pub(crate) fn or_root(path: String) -> String {
    if path.is_empty() {
        "/".to_owned()
    } else {
        path
    }
}

pub(crate) fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/')
        .filter(|component| !component.is_empty() && *component != ".")
}

/// What is behind `folder` in `path`: empty, or a text that starts with a slash.
pub(crate) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder == "/" {
        return Some(if path == "/" { "" } else { path });
    }
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// `folder` with the rest, as [`below`] gives it.
pub(crate) fn join(folder: &str, rest: &str) -> String {
    let folder = if folder == "/" { "" } else { folder };
    or_root(format!("{folder}{rest}"))
}

/// The path itself, then every folder above it.
pub(crate) fn upwards(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/') {
        _ if *path == "/" => None,
        Some(0) => Some("/"),
        Some(end) => Some(&path[..end]),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{below, join, tidy, upwards};

    #[test]
    fn paths_are_tidied() {
        for (path, tidied) in [
            ("/", Some("/")),
            ("///", Some("/")),
            ("/a//b/./c/", Some("/a/b/c")),
            ("/a/../b", Some("/a/../b")),
            ("a", None),
            ("", None),
            ("/a\0b", None),
        ] {
            assert_eq!(tidy(path).as_deref(), tidied, "{path:?}");
        }
        assert_eq!(tidy(&"/a".repeat(2048)), None);
    }

    #[test]
    fn only_whole_components_count() {
        assert_eq!(below("/a/b", "/a"), Some("/b"));
        assert_eq!(below("/ab", "/a"), None);
        assert_eq!(below("/a", "/a"), Some(""));
        assert_eq!(below("/a", "/"), Some("/a"));
        assert_eq!(below("/", "/"), Some(""));
        assert_eq!(below("/", "/a"), None);
        assert_eq!(join("/", ""), "/");
        assert_eq!(join("/", "/a"), "/a");
        assert_eq!(join("/x", "/a"), "/x/a");
        assert_eq!(upwards("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(upwards("/").collect::<Vec<_>>(), ["/"]);
    }
}
