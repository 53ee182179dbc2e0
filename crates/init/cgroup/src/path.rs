//! Places in a tree of cgroups.

use std::fmt;

/// The longest name of a folder.
const MAX_NAME: usize = 255;
/// The longest path; the kernel's own bound for paths.
const MAX_PATH: usize = 4095;

/// Controllers whose files a folder's name could be mistaken for.
const CONTROLLERS: [&str; 13] = [
    "cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids", "freezer", "hugetlb",
    "misc", "rdma", "net_cls",
];

/// A place below the root of a tree, such as `system.slice/sshd.service`. The empty path is the root itself.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupPath(Box<str>);

/// Why a text is not a place in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A part of it is empty, `.` or `..`, or has a zero byte.
    #[error("a part of the path is empty, climbs, or holds a zero byte")]
    BadName,
    /// A part of it, or all of it, is too long.
    #[error("the path is longer than the kernel takes")]
    TooLong,
}

impl CgroupPath {
    /// The root of the tree.
    #[must_use]
    pub fn root() -> Self {
        Self("".into())
    }

    /// Takes a path that is already escaped, with or without slashes around it.
    ///
    /// # Errors
    /// It could lead out of the tree, or the kernel would not take it.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let text = text.trim_matches('/');
        if text.is_empty() {
            return Ok(Self::root());
        }
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        text.split('/').try_for_each(check_name)?;
        Ok(Self(text.into()))
    }

    /// The place of a unit here, its name escaped.
    ///
    /// # Errors
    /// The name cannot be that of a folder.
    pub fn child(&self, unit: &str) -> Result<Self, PathError> {
        check_name(unit)?;
        let escape = if needs_escape(unit) { "_" } else { "" };
        if unit.len() + escape.len() > MAX_NAME {
            return Err(PathError::TooLong);
        }
        let path = if self.0.is_empty() {
            format!("{escape}{unit}")
        } else {
            format!("{}/{escape}{unit}", self.0)
        };
        if path.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        Ok(Self(path.into()))
    }

    /// The place of a slice: `a-b.slice` lies in `a.slice`, and `-.slice` is the root.
    ///
    /// # Errors
    /// A name on the way cannot be that of a folder.
    pub fn of_slice(slice: &str) -> Result<Self, PathError> {
        let Some(stem) = slice.strip_suffix(".slice").filter(|stem| *stem != "-") else {
            return Ok(Self::root());
        };
        let ends = stem.match_indices('-').map(|(at, _)| at);
        ends.chain([stem.len()])
            .try_fold(Self::root(), |path, end| {
                path.child(&format!("{}.slice", &stem[..end]))
            })
    }

    /// The place of a unit that runs in a slice.
    ///
    /// # Errors
    /// A name on the way cannot be that of a folder.
    pub fn in_slice(slice: &str, unit: &str) -> Result<Self, PathError> {
        Self::of_slice(slice)?.child(unit)
    }

    /// As text, without a slash at either end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the unit whose place this is; `None` for the root.
    #[must_use]
    pub fn unit(&self) -> Option<&str> {
        let name = self.0.rsplit('/').next().filter(|name| !name.is_empty())?;
        Some(name.strip_prefix('_').unwrap_or(name))
    }

    /// Whether this is `other` or lies below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root()
            || self
                .0
                .strip_prefix(&*other.0)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The place above this one; the root's is itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(
            self.0
                .rsplit_once('/')
                .map_or("", |(parent, _)| parent)
                .into(),
        )
    }

    /// Every place from below the root down to this one.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &str> {
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        let whole = (!self.0.is_empty()).then_some(self.0.len());
        ends.chain(whole).map(|end| &self.0[..end])
    }

    /// For system calls relative to the root's folder.
    pub(crate) fn relative(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// A file of this cgroup, relative to the root's folder.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.relative())
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

impl fmt::Debug for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn check_name(name: &str) -> Result<(), PathError> {
    if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
        return Err(PathError::BadName);
    }
    if name.len() > MAX_NAME {
        return Err(PathError::TooLong);
    }
    Ok(())
}

/// Whether a name could be a file of the kernel's, or would be read back as an escaped one.
fn needs_escape(name: &str) -> bool {
    if name.starts_with(['_', '.'])
        || matches!(name, "notify_on_release" | "release_agent" | "tasks")
    {
        return true;
    }
    let before_dot = name.split_once('.').map(|(head, _)| head);
    before_dot.is_some_and(|head| head == "cgroup" || CONTROLLERS.contains(&head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> CgroupPath {
        CgroupPath::parse(text).expect("a path")
    }

    #[test]
    fn slices_are_nested_as_systemd_nests_them() {
        let of = |slice, unit| CgroupPath::in_slice(slice, unit).map(|path| path.to_string());
        assert_eq!(of("-.slice", "a.service").as_deref(), Ok("/a.service"));
        let nested = of("a-b-c.slice", "x.service");
        assert_eq!(
            nested.as_deref(),
            Ok("/a.slice/a-b.slice/a-b-c.slice/x.service")
        );
        let escaped = of("system.slice", "cpu.service");
        assert_eq!(escaped.as_deref(), Ok("/system.slice/_cpu.service"));
    }

    #[test]
    fn names_of_kernel_files_are_escaped() {
        for name in [
            "tasks",
            "cgroup.procs",
            "memory.max",
            "_x",
            ".x",
            "io.service",
        ] {
            let place = CgroupPath::root().child(name).expect("a name");
            assert_eq!(place.as_str(), format!("_{name}"));
        }
        for name in ["cpux.service", "a.cgroup.service", "memory"] {
            assert_eq!(CgroupPath::root().child(name).map(|p| p.0), Ok(name.into()));
        }
    }

    #[test]
    fn nothing_climbs() {
        for text in ["..", "a/../b", "a//b", "a/./b", "a\0"] {
            assert_eq!(CgroupPath::parse(text), Err(PathError::BadName), "{text:?}");
        }
        assert_eq!(CgroupPath::root().child("a/b"), Err(PathError::BadName));
        assert_eq!(CgroupPath::parse(&"a".repeat(256)), Err(PathError::TooLong));
    }

    #[test]
    fn a_place_knows_what_lies_above_it() {
        let deep = path("a/b/c");
        assert_eq!(deep.steps().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(CgroupPath::root().steps().count(), 0);
        assert!(deep.is_within(&path("a/b")) && deep.is_within(&CgroupPath::root()));
        assert_eq!(deep.parent(), path("a/b"));
        assert!(path("a").parent().is_root() && CgroupPath::root().parent().is_root());
        assert!(!path("a/bc").is_within(&path("a/b")));
    }

    proptest! {
        #[test]
        fn escaping_is_reversible_and_stays_inside(name in "[^/\0]{1,100}") {
            match CgroupPath::root().child(&name) {
                Ok(place) => {
                    prop_assert_eq!(place.unit(), Some(&*name));
                    prop_assert!(!place.as_str().contains('/'));
                    prop_assert_eq!(CgroupPath::parse(place.as_str()), Ok(place.clone()));
                    let kernel_file = ["cgroup.", "memory.", "cpu.", "pids.", "io."];
                    prop_assert!(!kernel_file.iter().any(|head| place.as_str().starts_with(head)));
                }
                Err(_) => prop_assert!(name == "." || name == ".." || name.len() > 254),
            }
        }

        #[test]
        fn any_text_is_a_safe_path_or_refused(text in ".{0,60}") {
            if let Ok(place) = CgroupPath::parse(&text) {
                prop_assert!(place.steps().all(|step| !step.ends_with("..") || step.len() > 2 && !step.ends_with("/..")));
                prop_assert!(!place.as_str().starts_with('/') && !place.as_str().contains("//"));
            }
        }

        #[test]
        fn different_units_have_different_places(a in "[_.a-z]{1,12}", b in "[_.a-z]{1,12}") {
            let (one, other) = (CgroupPath::root().child(&a), CgroupPath::root().child(&b));
            if let (Ok(one), Ok(other)) = (one, other) {
                prop_assert_eq!(one == other, a == b);
            }
        }
    }
}
