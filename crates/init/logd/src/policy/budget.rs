//! How much room the journal may take: what configuration says, and defaults that follow the disk.

/// Limits as they are configured; what is not given follows the size of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceConfig {
    /// All files together.
    pub max_use: Option<u64>,
    /// What is left to others.
    pub keep_free: Option<u64>,
    /// One file.
    pub max_file_size: Option<u64>,
    /// How many archived files.
    pub max_files: Option<u64>,
}

/// The file system that the journal is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its size in bytes.
    pub total: u64,
    /// What is free in it.
    pub free: u64,
}

/// Limits in bytes, everything decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits {
    /// All files together.
    pub max_use: u64,
    /// What is left to others.
    pub keep_free: u64,
    /// One file.
    pub max_file_size: u64,
    /// How many archived files.
    pub max_files: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The least that one file may be limited to: its tables alone take this.
const FILE_MIN: u64 = MIB / 2;
const FILE_DEFAULT_MAX: u64 = 128 * MIB;
const USE_DEFAULT_MIN: u64 = 2 * MIB;
const USE_DEFAULT_MAX: u64 = 4 * GIB;
const FILES_DEFAULT: u64 = 100;

impl SpaceConfig {
    /// Decides on what is not configured: a tenth of the disk, 15 % left free, files of an eighth.
    #[must_use]
    pub fn limits(&self, disk: FileSystem) -> SpaceLimits {
        let default_use = (disk.total / 10).clamp(USE_DEFAULT_MIN, USE_DEFAULT_MAX);
        let max_use = self.max_use.unwrap_or(default_use).max(2 * FILE_MIN);
        let default_file = (max_use / 8).min(FILE_DEFAULT_MAX);
        let max_file_size = self
            .max_file_size
            .unwrap_or(default_file)
            .clamp(FILE_MIN, max_use / 2);
        let default_free = (disk.total / 20 * 3).min(USE_DEFAULT_MAX);
        SpaceLimits {
            max_use,
            keep_free: self.keep_free.unwrap_or(default_free),
            max_file_size,
            max_files: self.max_files.unwrap_or(FILES_DEFAULT),
        }
    }
}

impl SpaceLimits {
    /// What all files together may take now: less than the maximum when others fill the disk.
    #[must_use]
    pub fn allowed(&self, used: u64, free: u64) -> u64 {
        let room = used.saturating_add(free).saturating_sub(self.keep_free);
        self.max_use.min(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: FileSystem = FileSystem {
        total: 100 * GIB,
        free: 50 * GIB,
    };

    #[test]
    fn defaults_follow_the_disk() {
        let limits = SpaceConfig::default().limits(DISK);
        assert_eq!(limits.max_use, 4 * GIB);
        assert_eq!(limits.max_file_size, 128 * MIB);
        assert_eq!(limits.keep_free, 4 * GIB);
        let small = SpaceConfig::default().limits(FileSystem {
            total: 100 * MIB,
            free: 0,
        });
        assert_eq!(small.max_use, 10 * MIB);
        assert_eq!(small.max_file_size, 10 * MIB / 8);
        let tiny = SpaceConfig::default().limits(FileSystem {
            total: MIB,
            free: 0,
        });
        assert_eq!((tiny.max_use, tiny.max_file_size), (2 * MIB, FILE_MIN));
    }

    #[test]
    fn what_is_configured_is_taken_within_reason() {
        let config = SpaceConfig {
            max_use: Some(1),
            max_file_size: Some(GIB),
            keep_free: Some(0),
            max_files: Some(0),
        };
        let limits = config.limits(DISK);
        assert_eq!((limits.max_use, limits.max_file_size), (MIB, FILE_MIN));
        assert_eq!((limits.keep_free, limits.max_files), (0, 0));
    }

    #[test]
    fn a_disk_that_others_fill_leaves_less() {
        let limits = SpaceConfig {
            keep_free: Some(GIB),
            ..SpaceConfig::default()
        }
        .limits(DISK);
        assert_eq!(limits.allowed(0, 50 * GIB), 4 * GIB);
        assert_eq!(limits.allowed(GIB, GIB / 2), GIB / 2);
        assert_eq!(limits.allowed(0, 0), 0);
    }
}
