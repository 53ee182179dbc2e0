//! Measured figures on disk, by processor model.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Figures of another version of the workload or its calibration are measured again.
const WORKLOAD: u32 = 1;
const LARGEST: u64 = 64 * 1024;
/// A machine whose disk moves from board to board does not grow the file for ever.
const MOST_MODELS: usize = 64;

/// Why the kept figures could not be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The file cannot be read.
    #[error("cannot read measured processing power from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{} does not hold measured processing power; it is measured again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The file cannot be written; it will be measured again at the next start.
    #[error("cannot keep measured processing power in {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// DMIPS of one core, by processor model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DmipsCache {
    /// What the figures were measured with.
    measured_with: Measure,
    dmips_per_core: BTreeMap<String, NonZeroU64>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Measure {
    workload: u32,
    optimised: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            workload: WORKLOAD,
            optimised: !cfg!(debug_assertions),
        }
    }
}

impl DmipsCache {
    /// Reads the file; nothing is kept when there is none, or when it is of another workload.
    ///
    /// # Errors
    /// When there is a file that cannot be used.
    pub fn load(path: &Path) -> Result<Self, CacheError> {
        let read = |source| CacheError::Read {
            path: path.to_owned(),
            source,
        };
        let mut content = Vec::new();
        match File::open(path) {
            Ok(file) => file.take(LARGEST).read_to_end(&mut content).map_err(read)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(read(error)),
        };
        let kept: Self =
            serde_json::from_slice(&content).map_err(|source| CacheError::Malformed {
                path: path.to_owned(),
                source,
            })?;
        if kept.measured_with != Measure::default() {
            return Ok(Self::default());
        }
        Ok(kept)
    }

    /// The figure of a model.
    #[must_use]
    pub fn get(&self, model: &str) -> Option<NonZeroU64> {
        self.dmips_per_core.get(model).copied()
    }

    /// Keeps the figure of a model.
    pub fn insert(&mut self, model: &str, dmips: NonZeroU64) {
        while self.dmips_per_core.len() >= MOST_MODELS {
            self.dmips_per_core.pop_first();
        }
        self.dmips_per_core.insert(model.to_owned(), dmips);
    }

    /// Replaces the file as a whole, and makes its folder if there is none.
    ///
    /// # Errors
    /// When the disk does not take it; an old file then stays.
    pub fn save(&self, path: &Path) -> Result<(), CacheError> {
        self.write(path).map_err(|source| CacheError::Write {
            path: path.to_owned(),
            source,
        })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        muster_durable::write(path, &text, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_another_workload_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dmips.json");
        let mut cache = DmipsCache::default();
        cache.insert("a", NonZeroU64::MIN);
        cache.save(&path).unwrap();
        assert_eq!(
            DmipsCache::load(&path).unwrap().get("a"),
            Some(NonZeroU64::MIN)
        );
        cache.measured_with.workload += 1;
        cache.save(&path).unwrap();
        assert_eq!(DmipsCache::load(&path).unwrap().get("a"), None);
    }

    #[test]
    fn the_file_stays_small() {
        let mut cache = DmipsCache::default();
        for number in 0..1000 {
            cache.insert(&format!("model {number:04}"), NonZeroU64::MIN);
        }
        assert_eq!(cache.dmips_per_core.len(), MOST_MODELS);
        assert!(cache.get("model 0999").is_some());
    }
}
