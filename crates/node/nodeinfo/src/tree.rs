//! The files of a machine below a root folder, read with bounds.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Everything but the list of processors is far smaller.
pub(crate) const SMALL: u64 = 64 * 1024;

/// A root folder; see the module documentation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// The real place of an absolute path.
    pub(crate) fn locate(self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// At most `limit` bytes of a file.
    pub(crate) fn bytes(self, path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(self.locate(path))?
            .take(limit)
            .read_to_end(&mut content)?;
        Ok(content)
    }

    /// At most `limit` bytes of a file, whatever is not UTF-8 in it replaced.
    pub(crate) fn text(self, path: impl AsRef<Path>, limit: u64) -> io::Result<String> {
        self.bytes(path, limit)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A small file that may not exist.
    pub(crate) fn text_if_any(self, path: impl AsRef<Path>) -> Option<String> {
        self.text(path, SMALL).ok()
    }

    /// The names in a folder, sorted; none when it cannot be read.
    pub(crate) fn names(self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.locate(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

/// Text from firmware or hardware, fit to be shown: one line, no control characters, bounded.
pub(crate) fn tidy(text: &str) -> String {
    const LONGEST: usize = 128;
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    let mut tidied = String::new();
    for word in words {
        if !tidied.is_empty() {
            tidied.push(' ');
        }
        tidied.push_str(word);
        if tidied.len() > LONGEST {
            break;
        }
    }
    tidied
        .chars()
        .take(LONGEST)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_one_bounded_line() {
        assert_eq!(tidy("  Intel(R)\tXeon(R)   CPU \n"), "Intel(R) Xeon(R) CPU");
        assert_eq!(tidy("a\u{1b}[31mb\0"), "a [31mb");
        assert_eq!(tidy(&"ä".repeat(500)).chars().count(), 128);
        assert_eq!(tidy(" \u{7} "), "");
    }

    #[test]
    fn paths_stay_below_the_root() {
        let tree = Tree::new(Path::new("/fixture"));
        assert_eq!(
            tree.locate("/proc/cpuinfo"),
            Path::new("/fixture/proc/cpuinfo")
        );
        assert_eq!(Tree::new(Path::new("/")).locate("/etc"), Path::new("/etc"));
    }
}
