//! The folders that units are looked for in.

/// Folders in the order of their priority: what stands in an earlier one hides the later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<Box<str>>,
}

/// Muster's own folders, then systemd's in systemd's order.
const SYSTEM: &[&str] = &[
    "/etc/muster/units",
    "/run/muster/units",
    "/usr/local/lib/muster/units",
    "/usr/lib/muster/units",
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

impl SearchPath {
    /// Muster's and systemd's folders.
    #[must_use]
    pub fn system() -> Self {
        Self::new(SYSTEM.iter().copied())
    }

    /// Any folders.
    pub fn new<'a>(folders: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            folders: folders.into_iter().map(Into::into).collect(),
        }
    }

    /// The folders.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().map(|folder| &**folder)
    }

    /// Whether a path lies in one of the folders.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.iter().any(|folder| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
        })
    }
}

impl Default for SearchPath {
    fn default() -> Self {
        Self::system()
    }
}
