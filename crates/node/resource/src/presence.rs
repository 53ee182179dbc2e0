//! Which devices are there.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// Nothing is there.
    NotThere,
    /// Something is there, but no device and no folder.
    NotADevice,
    /// It cannot be looked at.
    Unreadable(io::ErrorKind),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str("is not there"),
            Self::NotADevice => f.write_str("is neither a device nor a folder of devices"),
            Self::Unreadable(kind) => write!(f, "cannot be looked at ({kind})"),
        }
    }
}

/// Devices that cannot be used, by their path on the host.
pub type Missing = BTreeMap<PathBuf, Absence>;

/// Looks at devices. Links are followed.
pub(crate) fn look<'a>(devices: impl IntoIterator<Item = &'a Path>) -> Missing {
    let absence = |device: &Path| match fs::metadata(device) {
        Ok(found) => {
            let kind = found.file_type();
            let usable = kind.is_char_device() || kind.is_block_device() || kind.is_dir();
            (!usable).then_some(Absence::NotADevice)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Absence::NotThere),
        Err(error) => Some(Absence::Unreadable(error.kind())),
    };
    devices
        .into_iter()
        .filter_map(|device| Some((device.to_owned(), absence(device)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn devices_folders_and_links_to_them_are_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        symlink("/dev/null", &link).expect("a link");
        let there = [Path::new("/dev/null"), Path::new("/dev"), &link];
        assert_eq!(look(there), Missing::new());
    }

    #[test]
    fn what_is_missing_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let (gone, file) = (folder.path().join("gone"), folder.path().join("file"));
        let (link, below) = (folder.path().join("link"), file.join("below"));
        fs::write(&file, "").expect("a file");
        symlink("nowhere", &link).expect("a link");
        let missing = look([gone.as_path(), &file, &link, &below]);
        assert_eq!(missing[&gone], Absence::NotThere);
        assert_eq!(missing[&file], Absence::NotADevice);
        assert_eq!(missing[&link], Absence::NotThere);
        assert_eq!(
            missing[&below],
            Absence::Unreadable(io::ErrorKind::NotADirectory)
        );
    }
}
