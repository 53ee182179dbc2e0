//! Paths of machines, some of which depend on whom the manager logs in as.

/// The folder for sources: `/src` where the manager logs in as root, `src` in the home of anybody else, who can make nothing
/// in `/`.
pub const SOURCES: &str = "{src}";

/// A path of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TherePath<'a> {
    /// It says itself where it is.
    Absolute(&'a str),
    /// It is below the home of whom the manager logs in as.
    Home(&'a str),
    /// It is [`SOURCES`], or below it; then this begins with a slash.
    Sources(&'a str),
}

/// Whom the manager logs in as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) is_root: bool,
    /// Absolute, without a slash at its end.
    pub(crate) home: String,
}

impl<'a> TherePath<'a> {
    pub(crate) fn read(path: &'a str) -> Option<Self> {
        if path.starts_with('/') {
            return Some(Self::Absolute(path));
        }
        if let Some(below) = path.strip_prefix("~/") {
            return (!below.is_empty()).then_some(Self::Home(below));
        }
        let below = path.strip_prefix(SOURCES)?;
        (below.is_empty() || below.starts_with('/')).then_some(Self::Sources(below))
    }

    /// Where that is.
    pub(crate) fn resolve(self, login: &Login) -> String {
        match self {
            Self::Absolute(path) => path.to_owned(),
            Self::Home(below) => format!("{}/{below}", login.home),
            Self::Sources(below) if login.is_root => format!("/src{below}"),
            Self::Sources(below) => format!("{}/src{below}", login.home),
        }
    }
}

impl Login {
    /// What [`Self::QUESTION`] answers: the number of the user and his home, a line each.
    pub(crate) fn read(answer: &str) -> Option<Self> {
        let (user, home) = answer.split_once('\n')?;
        let home = home.strip_suffix('\n').unwrap_or(home);
        let user: u32 = user.trim().parse().ok()?;
        if !home.starts_with('/') || home.contains(['\n', '\0']) {
            return None;
        }
        Some(Self {
            is_root: user == 0,
            home: home.trim_end_matches('/').to_owned(),
        })
    }

    /// Asks a machine's shell.
    pub(crate) const QUESTION: &str = r#"id -u && printf '%s\n' "$HOME""#;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_where_the_login_has_it() {
        let root = Login::read("0\n/root\n").expect("a login");
        let other = Login::read("1000\n/home/me/\n").expect("a login");
        for (path, for_root, for_other) in [
            ("/srv/x", "/srv/x", "/srv/x"),
            ("~/x/y", "/root/x/y", "/home/me/x/y"),
            ("{src}", "/src", "/home/me/src"),
            ("{src}/a", "/src/a", "/home/me/src/a"),
        ] {
            let read = TherePath::read(path).expect("a path");
            assert_eq!(read.resolve(&root), for_root);
            assert_eq!(read.resolve(&other), for_other);
        }
    }

    #[test]
    fn what_is_no_path_or_login_is_refused() {
        for path in ["", "x", "~", "~/", "~me/x", "{src}x", "./x"] {
            assert_eq!(TherePath::read(path), None, "{path}");
        }
        for answer in ["", "0", "0\n", "x\n/root\n", "0\nroot\n", "0\n/a\n/b\n"] {
            assert_eq!(Login::read(answer), None, "{answer:?}");
        }
    }
}
