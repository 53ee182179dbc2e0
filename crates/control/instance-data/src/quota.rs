//! Limits of what a user may keep on a file system.

#![expect(
    unsafe_code,
    reason = "no safe interface to quotactl exists; the one call is in this module"
)]

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// A limit was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetQuotaError {
    /// The file system below a path cannot be found out.
    #[error("cannot find the file system of {}", path.display())]
    Where {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system has no quotas.
    #[error("the file system of {} has no quotas for users", path.display())]
    NotSupported {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused it.
    #[error("cannot limit user {uid} to {bytes} bytes on the file system of {}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The user.
        uid: u32,
        /// The limit.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// The most that a user may keep on the file system that a path is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Who.
    pub uid: u32,
    /// How much; 0 for no limit.
    pub bytes: u64,
}

/// `Q_SETQUOTA` for users, as the macros of the C library make it.
const SET_USER_QUOTA: libc::c_int = libc::Q_SETQUOTA << 8;
/// The kernel counts blocks of this size.
const BLOCK: u64 = 1024;
/// Which fields of the structure are meant: the limits of blocks.
const LIMITS_OF_BLOCKS: u32 = 1;

impl Quota {
    /// Sets it.
    pub fn set(&self, path: &Path) -> Result<(), SetQuotaError> {
        let device = device_of(path).map_err(|source| SetQuotaError::Where {
            path: path.to_owned(),
            source,
        })?;
        let Some(device) = device else {
            return Err(SetQuotaError::NotSupported {
                path: path.to_owned(),
            });
        };
        // SAFETY: every field of the structure is a number, for which zero is a value.
        let mut limits: libc::dqblk = unsafe { std::mem::zeroed() };
        limits.dqb_bhardlimit = self.bytes.div_ceil(BLOCK);
        limits.dqb_bsoftlimit = limits.dqb_bhardlimit;
        limits.dqb_valid = LIMITS_OF_BLOCKS;
        let uid = libc::c_int::from_ne_bytes(self.uid.to_ne_bytes());
        // SAFETY: the device's name ends in a zero byte and the structure is the one that this command reads; both live until
        // the call returns, and the kernel writes to neither.
        let result = unsafe {
            libc::quotactl(
                SET_USER_QUOTA,
                device.as_ptr(),
                uid,
                (&raw mut limits).cast::<libc::c_char>(),
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(self.failed(path, io::Error::last_os_error()))
    }

    fn failed(&self, path: &Path, source: io::Error) -> SetQuotaError {
        let path = path.to_owned();
        match source.raw_os_error() {
            // No quotas in this kernel, in this kind of file system, or not switched on; or the device is out of sight, as it
            // is for a node that is a container.
            Some(libc::ENOSYS | libc::ESRCH | libc::EOPNOTSUPP | libc::ENOTBLK | libc::ENOENT) => {
                SetQuotaError::NotSupported { path }
            }
            _ => SetQuotaError::Refused {
                path,
                uid: self.uid,
                bytes: self.bytes,
                source,
            },
        }
    }
}

/// The block device that a path is on; `None` for a file system without one.
fn device_of(path: &Path) -> io::Result<Option<CString>> {
    let facts = rustix::fs::stat(path)?;
    let (major, minor) = (
        rustix::fs::major(facts.st_dev),
        rustix::fs::minor(facts.st_dev),
    );
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(device_in(&table, &format!("{major}:{minor}")).and_then(|name| CString::new(name).ok()))
}

fn device_in(table: &str, number: &str) -> Option<String> {
    table.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_it = mount.split(' ').nth(2)? == number;
        let source = file_system.split(' ').nth(1)?;
        (is_it && source.starts_with("/dev/")).then(|| unescape(source))
    })
}

/// The table writes blanks as octal numbers.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, plain)| {
            text.replace(code, plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_their_number() {
        let table = "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                     30 22 0:25 / /run rw shared:5 - tmpfs tmpfs rw\n\
                     31 22 7:3 / /data rw shared:7 master:2 - ext4 /dev/my\\040disk rw,quota\n";
        assert_eq!(device_in(table, "254:1").as_deref(), Some("/dev/vda1"));
        assert_eq!(device_in(table, "7:3").as_deref(), Some("/dev/my disk"));
        assert_eq!(device_in(table, "0:25"), None);
        assert_eq!(device_in(table, "9:9"), None);
    }

    #[test]
    fn a_device_that_is_out_of_sight_has_no_quotas_and_a_refusal_is_one() {
        let failed = |number| {
            let quota = Quota {
                uid: 5000,
                bytes: 1,
            };
            quota.failed(Path::new("/data"), io::Error::from_raw_os_error(number))
        };
        for number in [libc::ENOENT, libc::ESRCH, libc::ENOTBLK] {
            let error = failed(number);
            assert!(
                matches!(error, SetQuotaError::NotSupported { .. }),
                "{error:?}"
            );
        }
        let error = failed(libc::EPERM);
        assert!(matches!(error, SetQuotaError::Refused { .. }), "{error:?}");
    }

    #[test]
    fn a_file_system_without_quotas_says_so() {
        let error = Quota {
            uid: 5000,
            bytes: 1,
        }
        .set(Path::new("/proc"));
        assert!(
            matches!(error, Err(SetQuotaError::NotSupported { .. })),
            "{error:?}"
        );
    }
}
