//! Configuration: `/etc/muster/logd.conf`, with journald's section, keys and values.
//!
//! Where that file is missing, `/etc/systemd/journald.conf` is honoured, so a machine keeps the limits
//! it was set up with. Drop-ins (`FILE.d/*.conf`) are read after the file. A value that cannot be used
//! is reported and the default stays; keys of journald that have no meaning here are accepted and said.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_unit_file::diagnostic::{Diagnostic, Diagnostics, Problem, Severity};
use muster_unit_file::syntax;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::number::{parse_boolean, parse_size};

use crate::parse::priority::Level;
use crate::policy::budget::SpaceConfig;
use crate::policy::rate::RateLimit;

/// The longest line that can be configured; the buffers of streams are made for it.
pub const LINE_MAX_MAX: usize = 64 << 10;
/// The shortest one that makes sense.
const LINE_MAX_MIN: usize = 79;
/// Values of at least so many bytes are compressed unless configuration says otherwise.
const COMPRESS_ABOVE: usize = 512;
/// Compression of less than this makes a value larger.
const COMPRESS_ABOVE_MIN: usize = 8;
/// Configuration larger than this is not read.
const FILE_MAX: u64 = 1 << 20;

/// Where entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Only in memory.
    Volatile,
    /// On disk; its folder is made if it is missing.
    Persistent,
    /// On disk if the folder is there.
    Auto,
    /// Nowhere; entries are only forwarded.
    None,
}

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `Storage=`
    pub storage: Storage,
    /// `SystemMaxUse=` and its relatives.
    pub system: SpaceConfig,
    /// `RuntimeMaxUse=` and its relatives.
    pub runtime: SpaceConfig,
    /// `RateLimitIntervalSec=`, `RateLimitBurst=`
    pub rate: RateLimit,
    /// `SyncIntervalSec=`, in microseconds.
    pub sync_interval_us: u64,
    /// `MaxRetentionSec=`, in microseconds; 0 keeps entries as long as there is room.
    pub max_retention_us: u64,
    /// `MaxFileSec=`, in microseconds; 0 rotates by size alone.
    pub max_file_us: u64,
    /// `MaxLevelStore=`
    pub max_level_store: Level,
    /// `MaxLevelKMsg=`
    pub max_level_kmsg: Level,
    /// `MaxLevelConsole=`
    pub max_level_console: Level,
    /// `ForwardToKMsg=`
    pub forward_to_kmsg: bool,
    /// `ForwardToConsole=`
    pub forward_to_console: bool,
    /// `TTYPath=`
    pub console: PathBuf,
    /// `Compress=`: values of at least so many bytes are compressed.
    pub compress_above: Option<usize>,
    /// `LineMax=`, in bytes.
    pub line_max: usize,
    /// `ReadKMsg=`
    pub read_kmsg: bool,
}

impl Default for Config {
    fn default() -> Self {
        const MINUTE_US: u64 = 60_000_000;
        Self {
            storage: Storage::Auto,
            system: SpaceConfig::default(),
            runtime: SpaceConfig::default(),
            rate: RateLimit {
                interval_us: MINUTE_US / 2,
                burst: 10_000,
            },
            sync_interval_us: 5 * MINUTE_US,
            max_retention_us: 0,
            max_file_us: 30 * 24 * 60 * MINUTE_US,
            max_level_store: Level::DEBUG,
            max_level_kmsg: Level::NOTICE,
            max_level_console: Level::INFO,
            forward_to_kmsg: false,
            forward_to_console: false,
            console: PathBuf::from("/dev/console"),
            compress_above: Some(COMPRESS_ABOVE),
            line_max: 48 << 10,
            read_kmsg: true,
        }
    }
}

/// Keys of journald that are understood and change nothing here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("Audit", "audit records are not collected"),
    ("ForwardToSyslog", "no other syslog daemon is fed"),
    ("ForwardToWall", "nothing is written to terminals"),
    ("MaxLevelSyslog", "no other syslog daemon is fed"),
    ("MaxLevelWall", "nothing is written to terminals"),
    ("Seal", "files are not sealed"),
    ("SplitMode", "all entries go to system.journal"),
];

impl Config {
    /// Reads the first of `candidates` that exists, then its drop-ins. Problems become diagnostics.
    pub fn load(candidates: &[PathBuf]) -> (Self, Diagnostics) {
        let mut config = Self::default();
        let mut diagnostics = Diagnostics::default();
        for file in candidates {
            let mut found = config.take_file(file, &mut diagnostics);
            for dropin in dropins(file) {
                found |= config.take_file(&dropin, &mut diagnostics);
            }
            if found {
                break;
            }
        }
        (config, diagnostics)
    }

    /// Reads one file; whether it was there.
    fn take_file(&mut self, path: &Path, diagnostics: &mut Diagnostics) -> bool {
        let name: Arc<str> = path.to_string_lossy().into();
        let problem = |message: String| Diagnostic {
            severity: Severity::Error,
            problem: Problem::File,
            file: name.clone(),
            line: 0,
            message: message.into(),
            hint: None,
        };
        let too_large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > FILE_MAX);
        if too_large {
            diagnostics.push(problem("the file is larger than 1 MiB, ignored".to_owned()));
            return true;
        }
        match std::fs::read(path) {
            Ok(bytes) => {
                self.take(&bytes, &name, diagnostics);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => {
                diagnostics.push(problem(format!("the file cannot be read: {error}")));
                true
            }
        }
    }

    /// Takes the text of one file over what is there.
    pub fn take(&mut self, bytes: &[u8], file: &Arc<str>, diagnostics: &mut Diagnostics) {
        let parsed = syntax::parse(bytes, file, diagnostics);
        for entry in &parsed.entries {
            let mut warn = |problem, message: String| {
                diagnostics.push(Diagnostic {
                    severity: Severity::Warning,
                    problem,
                    file: file.clone(),
                    line: entry.line,
                    message: message.into(),
                    hint: None,
                });
            };
            if entry.section != "Journal" {
                let message = format!("section [{}] is not known, ignored", entry.section);
                warn(Problem::UnknownSection, message);
                continue;
            }
            match self.assign(&entry.key, &entry.value) {
                Assigned::Yes => {}
                Assigned::WithoutEffect(reason) => {
                    warn(
                        Problem::NotApplied,
                        format!("{}= has no effect: {reason}", entry.key),
                    );
                }
                Assigned::UnknownKey => warn(
                    Problem::UnknownDirective,
                    format!("{}= is not known, ignored", entry.key),
                ),
                Assigned::BadValue => {
                    let message = format!("{}={} cannot be used, ignored", entry.key, entry.value);
                    warn(Problem::BadValue, message);
                }
            }
        }
    }

    /// Sets one key. An empty value puts the default back.
    fn assign(&mut self, key: &str, value: &str) -> Assigned {
        if let Some((_, reason)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == key) {
            return Assigned::WithoutEffect(reason);
        }
        let default = Self::default();
        match key {
            "Storage" => set(&mut self.storage, value, default.storage, storage),
            "SystemMaxUse" => set(&mut self.system.max_use, value, None, size),
            "SystemKeepFree" => set(&mut self.system.keep_free, value, None, size),
            "SystemMaxFileSize" => set(&mut self.system.max_file_size, value, None, size),
            "SystemMaxFiles" => set(&mut self.system.max_files, value, None, count),
            "RuntimeMaxUse" => set(&mut self.runtime.max_use, value, None, size),
            "RuntimeKeepFree" => set(&mut self.runtime.keep_free, value, None, size),
            "RuntimeMaxFileSize" => set(&mut self.runtime.max_file_size, value, None, size),
            "RuntimeMaxFiles" => set(&mut self.runtime.max_files, value, None, count),
            "RateLimitIntervalSec" | "RateLimitInterval" => set(
                &mut self.rate.interval_us,
                value,
                default.rate.interval_us,
                span,
            ),
            "RateLimitBurst" => set(&mut self.rate.burst, value, default.rate.burst, |text| {
                text.parse().ok()
            }),
            "SyncIntervalSec" => set(
                &mut self.sync_interval_us,
                value,
                default.sync_interval_us,
                span,
            ),
            "MaxRetentionSec" => set(
                &mut self.max_retention_us,
                value,
                default.max_retention_us,
                span,
            ),
            "MaxFileSec" => set(&mut self.max_file_us, value, default.max_file_us, span),
            "MaxLevelStore" => set(
                &mut self.max_level_store,
                value,
                default.max_level_store,
                Level::from_name,
            ),
            "MaxLevelKMsg" => set(
                &mut self.max_level_kmsg,
                value,
                default.max_level_kmsg,
                Level::from_name,
            ),
            "MaxLevelConsole" => set(
                &mut self.max_level_console,
                value,
                default.max_level_console,
                Level::from_name,
            ),
            "ForwardToKMsg" => set(
                &mut self.forward_to_kmsg,
                value,
                default.forward_to_kmsg,
                boolean,
            ),
            "ForwardToConsole" => set(
                &mut self.forward_to_console,
                value,
                default.forward_to_console,
                boolean,
            ),
            "TTYPath" => set(&mut self.console, value, default.console, absolute),
            "Compress" => set(
                &mut self.compress_above,
                value,
                default.compress_above,
                compress_above,
            ),
            "LineMax" => set(&mut self.line_max, value, default.line_max, line_max),
            "ReadKMsg" => set(&mut self.read_kmsg, value, default.read_kmsg, boolean),
            _ => Assigned::UnknownKey,
        }
    }
}

enum Assigned {
    Yes,
    WithoutEffect(&'static str),
    UnknownKey,
    BadValue,
}

fn set<T>(
    field: &mut T,
    value: &str,
    default: T,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Assigned {
    let parsed = if value.is_empty() {
        Some(default)
    } else {
        parse(value)
    };
    match parsed {
        Some(parsed) => {
            *field = parsed;
            Assigned::Yes
        }
        None => Assigned::BadValue,
    }
}

fn storage(text: &str) -> Option<Storage> {
    match text {
        "volatile" => Some(Storage::Volatile),
        "persistent" => Some(Storage::Persistent),
        "auto" => Some(Storage::Auto),
        "none" => Some(Storage::None),
        _ => None,
    }
}

fn size(text: &str) -> Option<Option<u64>> {
    parse_size(text, 1024).ok().map(Some)
}

fn count(text: &str) -> Option<Option<u64>> {
    text.parse().ok().map(Some)
}

fn span(text: &str) -> Option<u64> {
    TimeSpan::parse(text).ok().map(TimeSpan::as_micros)
}

fn boolean(text: &str) -> Option<bool> {
    parse_boolean(text).ok()
}

fn absolute(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(text);
    path.is_absolute().then_some(path)
}

fn compress_above(text: &str) -> Option<Option<usize>> {
    if let Some(wanted) = boolean(text) {
        return Some(wanted.then_some(COMPRESS_ABOVE));
    }
    let bytes = usize::try_from(parse_size(text, 1024).ok()?).ok()?;
    Some(Some(bytes.max(COMPRESS_ABOVE_MIN)))
}

fn line_max(text: &str) -> Option<usize> {
    let bytes = usize::try_from(parse_size(text, 1024).ok()?).ok()?;
    (LINE_MAX_MIN..=LINE_MAX_MAX)
        .contains(&bytes)
        .then_some(bytes)
}

/// The drop-ins of a file, in the order of their names.
fn dropins(file: &Path) -> Vec<PathBuf> {
    let mut folder = file.as_os_str().to_owned();
    folder.push(".d");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "conf")
    });
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let mut diagnostics = Diagnostics::default();
        config.take(text.as_bytes(), &"logd.conf".into(), &mut diagnostics);
        (
            config,
            diagnostics.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn the_keys_of_journald_are_read() {
        let (config, problems) = take(
            "[Journal]\nStorage=persistent\nSystemMaxUse=1G\nRateLimitIntervalSec=10s\nRateLimitBurst=5\n\
             SyncIntervalSec=1min\nCompress=1K\nMaxLevelStore=info\nForwardToConsole=yes\nTTYPath=/dev/tty9\nLineMax=4K\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config.storage, Storage::Persistent);
        assert_eq!(config.system.max_use, Some(1 << 30));
        assert_eq!(
            config.rate,
            RateLimit {
                interval_us: 10_000_000,
                burst: 5
            }
        );
        assert_eq!(config.sync_interval_us, 60_000_000);
        assert_eq!(config.max_level_store, Level::INFO);
        assert_eq!(config.console, PathBuf::from("/dev/tty9"));
        assert_eq!(config.line_max, 4096);
        assert_eq!(config.compress_above, Some(1024));
        assert_eq!(take("[Journal]\nCompress=no\n").0.compress_above, None);
    }

    #[test]
    fn what_cannot_be_used_is_said_and_the_default_stays() {
        let (config, problems) = take(
            "[Journal]\nStorage=tape\nLineMax=10M\nTTYPath=console\nSeal=yes\nColour=red\n[Other]\nA=1\n",
        );
        assert_eq!(config, Config::default());
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert!(problems[0].contains("logd.conf:2") && problems[0].contains("Storage=tape"));
        assert!(problems[3].contains("no effect"));
    }

    #[test]
    fn an_empty_value_puts_the_default_back() {
        let (config, problems) =
            take("[Journal]\nLineMax=4K\nLineMax=\nSystemMaxUse=1G\nSystemMaxUse=\n");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(config, Config::default());
    }

    #[test]
    fn the_first_file_that_exists_counts_with_its_dropins() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("logd.conf");
        let fallback = folder.path().join("journald.conf");
        let candidates = [own.clone(), fallback.clone()];
        assert_eq!(Config::load(&candidates).0, Config::default());
        std::fs::write(&fallback, "[Journal]\nRateLimitBurst=1\nLineMax=1K\n").expect("written");
        assert_eq!(Config::load(&candidates).0.rate.burst, 1);
        std::fs::write(&own, "[Journal]\nRateLimitBurst=2\n").expect("written");
        let dropin = folder.path().join("logd.conf.d");
        std::fs::create_dir(&dropin).expect("made");
        std::fs::write(dropin.join("10-a.conf"), "[Journal]\nRateLimitBurst=3\n").expect("written");
        std::fs::write(dropin.join("20-b.txt"), "[Journal]\nRateLimitBurst=4\n").expect("written");
        let (config, problems) = Config::load(&candidates);
        assert!(problems.is_empty());
        assert_eq!(config.rate.burst, 3);
        assert_eq!(config.line_max, Config::default().line_max);
    }
}
