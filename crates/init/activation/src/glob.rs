//! Shell patterns against what is in the file system.

use std::path::{Path, PathBuf};

use muster_unit_file::install::glob;

/// Folders looked into for one pattern. A pattern that needs more is taken as not matching in the rest.
const MAX_FOLDERS: usize = 4096;

/// Whether a component of a path stands for more than itself.
pub(crate) fn is_pattern(component: &str) -> bool {
    component.contains(['*', '?', '['])
}

/// Whether a name fits a component of a pattern. As in a shell, a leading dot is matched only by a dot.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    (!name.starts_with('.') || pattern.starts_with('.')) && glob(pattern, name)
}

/// The names in a folder that fit a pattern; none if it cannot be read.
pub(crate) fn matching_names(folder: &Path, pattern: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| fits(pattern, name))
        .collect()
}

/// Whether anything below `root` fits the absolute pattern.
pub(crate) fn anything_matches(root: &Path, pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let mut folders: Vec<(PathBuf, usize)> = vec![(root.to_path_buf(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        let Some(part) = parts.get(depth) else {
            return true;
        };
        seen += 1;
        if seen > MAX_FOLDERS {
            return false;
        }
        if is_pattern(part) {
            let found = matching_names(&folder, part);
            let room = MAX_FOLDERS.saturating_sub(folders.len());
            let next = found.iter().take(room);
            folders.extend(next.map(|name| (folder.join(name), depth + 1)));
        } else {
            let path = folder.join(part);
            let last = depth + 1 == parts.len();
            // The last component may be a link that leads nowhere: it is there all the same.
            let there = if last {
                path.symlink_metadata().is_ok()
            } else {
                path.exists()
            };
            if there {
                folders.push((path, depth + 1));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_component_by_component() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/x1")).unwrap();
        std::fs::create_dir_all(dir.path().join("a/y1")).unwrap();
        std::fs::write(dir.path().join("a/y1/file.txt"), "").unwrap();
        std::fs::write(dir.path().join("a/.hidden"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("a/y1/link")).unwrap();
        for (pattern, expected) in [
            ("/a/*/file.*", true),
            ("/a/x*/file.*", false),
            ("/a/[xy]?/*.txt", true),
            ("/*", true),
            ("/a/*dden", false),
            ("/a/.h*", true),
            ("/a/y1/link", true),
            ("/a/y1/link/*", false),
            ("/b/*", false),
            ("/", true),
        ] {
            assert_eq!(anything_matches(dir.path(), pattern), expected, "{pattern}");
        }
    }
}
