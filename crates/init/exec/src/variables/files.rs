//! Files that variables are read from (`EnvironmentFile=`).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use muster_unit_file::install::glob;
use muster_unit_file::value::environment::parse_environment_file;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// The largest file that is read; systemd has the same limit.
const MAX_FILE: u64 = 4 << 20;
/// Files and folders that one pattern may come to.
const MAX_MATCHES: usize = 4096;

/// A file, or several by a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentFile {
    /// Where it is.
    pub path: Box<str>,
    /// It may be missing.
    pub optional: bool,
}

/// A file that must be there cannot be read.
#[derive(Debug)]
pub(crate) struct Unread {
    /// What the unit calls it.
    pub(crate) path: Box<str>,
    pub(crate) error: io::Error,
}

/// What is in a file. Reading a fifo or a terminal fails rather than waits for somebody to write.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Whether a path stands for more than itself.
#[must_use]
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Paths that fit a pattern, in order. `None` if whoever looks would have to go to where it may have to wait: nobody has gone
/// there then.
pub fn matching(pattern: &str, mut may_wait: impl FnMut(&Path) -> bool) -> Option<Vec<String>> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next: Vec<PathBuf> = Vec::new();
        for folder in &found {
            if !is_pattern(part) {
                next.push(folder.join(part));
                continue;
            }
            if may_wait(folder) {
                return None;
            }
            let names = std::fs::read_dir(folder).into_iter().flatten();
            let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let fits = |name: &String| {
                (!name.starts_with('.') || part.starts_with('.')) && glob(part, name)
            };
            let room = MAX_MATCHES.saturating_sub(next.len());
            next.extend(names.filter(fits).map(|name| folder.join(name)).take(room));
        }
        found = next;
    }
    found.sort();
    if found.iter().any(|path| may_wait(path)) {
        return None;
    }
    let there = found.into_iter().filter(|path| path.exists());
    let paths = there.filter_map(|path| path.into_os_string().into_string().ok());
    Some(paths.collect())
}

/// The variables of files, later ones after those that they replace, however long reading takes.
pub(crate) fn load(files: &[EnvironmentFile]) -> Result<Vec<(String, String)>, Unread> {
    let mut variables = Vec::new();
    for file in files {
        let unread = |error| Unread {
            path: file.path.clone(),
            error,
        };
        let paths = if is_pattern(&file.path) {
            matching(&file.path, |_| false).unwrap_or_default()
        } else {
            vec![file.path.to_string()]
        };
        if paths.is_empty() && !file.optional {
            return Err(unread(io::Error::from_raw_os_error(libc::ENOENT)));
        }
        for path in paths {
            match read(&path) {
                Ok(bytes) => variables.extend(parse_environment_file(&bytes).variables),
                Err(_) if file.optional => {}
                Err(error) => return Err(unread(error)),
            }
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, optional: bool) -> EnvironmentFile {
        EnvironmentFile {
            path: folder.join(name).to_str().unwrap().into(),
            optional,
        }
    }

    #[test]
    fn later_files_come_after_earlier_ones_and_only_optional_ones_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("b.env"), "A=b\nB='x y'\n").unwrap();
        std::fs::write(folder.join("a.env"), "A=a\n").unwrap();
        std::fs::write(folder.join("last"), "A=last\n").unwrap();
        let files = [
            file(folder, "*.env", false),
            file(folder, "none", true),
            file(folder, "none*", true),
            file(folder, "last", false),
        ];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [("A", "a"), ("A", "b"), ("B", "x y"), ("A", "last")];
        assert_eq!(
            load(&files).unwrap(),
            expected.map(|(name, value)| pair(name, value))
        );
        for missing in ["none", "none*"] {
            let unread = load(&[file(folder, missing, false)]).unwrap_err();
            assert!(unread.path.ends_with(missing));
            assert_eq!(unread.error.raw_os_error(), Some(libc::ENOENT));
        }
    }

    #[test]
    fn a_pattern_that_leads_to_where_nobody_answers_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["near", "dead"] {
            std::fs::create_dir(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("x.env"), "").unwrap();
        }
        let dead = folder.join("dead");
        let found = |pattern: &str| {
            let pattern = format!("{}/{pattern}", folder.display());
            let found = matching(&pattern, |path| path.starts_with(&dead));
            found.map(|found| found.len())
        };
        assert_eq!(found("near/*.env"), Some(1));
        assert_eq!(found("n*/*.env"), Some(1));
        assert_eq!(found("none/*.env"), Some(0));
        for pattern in ["dead/*.env", "*/*.env", "*/x.env", "d*"] {
            assert_eq!(found(pattern), None, "{pattern}");
        }
    }
}
