//! Files of a machine, or below the root directory of another one.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{FileKind, FileStat, FsError, MAX_FILE, UnitFs, link_destination, normalize};

const MAX_LINKS: usize = 40;
/// Most unit files are smaller: one read gets them.
const USUAL_SIZE: usize = 4096;

/// Real files. With a root other than `/` symbolic links are followed inside of it.
#[derive(Clone, Debug)]
pub struct RealFs {
    /// `None` is the machine itself.
    root: Option<PathBuf>,
}

impl RealFs {
    /// The files of this machine.
    #[must_use]
    pub fn host() -> Self {
        Self { root: None }
    }

    /// The files below a root directory.
    #[must_use]
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            root: (root != Path::new("/")).then_some(root),
        }
    }

    /// Where a path of the units really is, with all links but the last component's resolved.
    ///
    /// # Errors
    /// Links lead in a circle.
    pub fn real_path(&self, path: &str) -> Result<PathBuf, FsError> {
        let Some(root) = &self.root else {
            return Ok(PathBuf::from(path));
        };
        let path = normalize(path);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", ""));
        let parent = self.chase(root, parent)?;
        Ok(root.join(parent.trim_start_matches('/')).join(name))
    }

    /// Where a path really is, with all links resolved.
    ///
    /// # Errors
    /// Links lead in a circle.
    pub fn resolved(&self, path: &str) -> Result<PathBuf, FsError> {
        let Some(root) = &self.root else {
            return Ok(PathBuf::from(path));
        };
        Ok(root.join(self.chase(root, &normalize(path))?.trim_start_matches('/')))
    }

    /// Follows links component by component; absolute ones start at the root again.
    fn chase(&self, root: &Path, path: &str) -> Result<String, FsError> {
        let mut todo: Vec<String> = path
            .split('/')
            .rev()
            .filter(|p| !p.is_empty())
            .map(Into::into)
            .collect();
        let mut done = String::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.truncate(done.rfind('/').unwrap_or(0));
                continue;
            }
            if part == "." {
                continue;
            }
            let here = format!("{done}/{part}");
            match fs::read_link(root.join(here.trim_start_matches('/'))) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(FsError::LinkLoop { path: path.into() });
                    }
                    let target = target.to_string_lossy().into_owned();
                    if target.starts_with('/') {
                        done.clear();
                    }
                    todo.extend(
                        target
                            .split('/')
                            .rev()
                            .filter(|p| !p.is_empty())
                            .map(str::to_owned),
                    );
                }
                Err(_) => done = here,
            }
        }
        Ok(if done.is_empty() {
            "/".to_owned()
        } else {
            done
        })
    }

    fn error(operation: &'static str, path: &str, source: io::Error) -> FsError {
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                FsError::NotFound { path: path.into() }
            }
            _ => FsError::Io {
                operation,
                path: path.into(),
                source,
            },
        }
    }
}

impl UnitFs for RealFs {
    fn list(&self, folder: &str) -> Result<Vec<(String, FileKind)>, FsError> {
        let failed = |source| Self::error("list", folder, source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.resolved(folder)?).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A name that is not UTF-8 cannot be a unit's.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = entry.file_type().map_err(failed)?;
            let kind = if kind.is_file() {
                FileKind::File
            } else if kind.is_dir() {
                FileKind::Folder
            } else if kind.is_symlink() {
                FileKind::Link
            } else {
                FileKind::Other
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        let failed = |source| Self::error("read", path, source);
        let file = fs::File::open(self.resolved(path)?).map_err(failed)?;
        let mut content = Vec::with_capacity(USUAL_SIZE);
        file.take(MAX_FILE + 1)
            .read_to_end(&mut content)
            .map_err(failed)?;
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > MAX_FILE {
            return Err(FsError::TooLarge { path: path.into() });
        }
        Ok(content)
    }

    fn read_link(&self, path: &str) -> Result<String, FsError> {
        let target = fs::read_link(self.real_path(path)?).map_err(|source| {
            // "Invalid argument" is how the kernel says that it is not a link.
            if source.kind() == io::ErrorKind::InvalidInput {
                return FsError::NotFound { path: path.into() };
            }
            Self::error("read the link", path, source)
        })?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn stat(&self, path: &str) -> Result<FileStat, FsError> {
        // A root file system that is being built often has no device nodes.
        let null = FileStat {
            kind: FileKind::Null,
            size: 0,
            modified: 0,
            inode: 0,
        };
        if normalize(path) == "/dev/null" {
            return Ok(null);
        }
        if self.root.is_some()
            && let Ok(target) = self.read_link(path)
            && link_destination(path, &target) == "/dev/null"
        {
            return Ok(null);
        }
        let meta = fs::metadata(self.resolved(path)?)
            .map_err(|source| Self::error("look at", path, source))?;
        let file_type = meta.file_type();
        let kind = if file_type.is_file() {
            FileKind::File
        } else if file_type.is_dir() {
            FileKind::Folder
        } else if file_type.is_char_device() && meta.rdev() == NULL_DEVICE {
            FileKind::Null
        } else {
            FileKind::Other
        };
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Ok(FileStat {
            kind,
            size: meta.len(),
            modified,
            inode: meta.ino(),
        })
    }
}

/// Major number 1, minor number 3.
const NULL_DEVICE: u64 = (1 << 8) | 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        let fs = RealFs::with_root(root.path());
        std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        symlink("usr/lib", root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("usr/lib/a"), "x").unwrap();
        symlink("/lib/a", root.path().join("abs")).unwrap();
        symlink("../../../../lib/a", root.path().join("up")).unwrap();
        symlink("/loop", root.path().join("loop")).unwrap();
        symlink("/dev/null", root.path().join("masked")).unwrap();
        for path in ["/lib/a", "/usr/lib/a", "/abs", "/up"] {
            assert_eq!(fs.read(path).unwrap(), b"x", "{path}");
            assert_eq!(fs.stat(path).unwrap().size, 1);
        }
        assert!(matches!(fs.read("/loop"), Err(FsError::LinkLoop { .. })));
        assert!(fs.stat("/masked").unwrap().is_mask());
        assert_eq!(fs.read_link("/abs").unwrap(), "/lib/a");
        assert!(fs.read_link("/lib/a").unwrap_err().is_not_found());
        assert!(fs.list("/nothing").unwrap_err().is_not_found());
        assert_eq!(fs.list("/lib").unwrap(), [("a".to_owned(), FileKind::File)]);
    }
}
