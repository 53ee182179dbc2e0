//! The resources file as it is written, and what is checked before anybody relies on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};

use muster_api::domain::{EnvVar, ResourceInfo};
use muster_config::{ConfigError, Format, Limits, Load, Problems, Validate};
use muster_runtime::HostEntry;
use serde::Deserialize;

use super::{Resource, ResourceTable};

/// The whole file, put under a key: a configuration is a table, and the file is a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawResources {
    resources: Vec<RawResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawResource {
    name: String,
    shared_count: u64,
    groups: Vec<String>,
    devices: Vec<String>,
    mounts: Vec<RawMount>,
    env: Vec<String>,
    hosts: Vec<RawHost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMount {
    source: PathBuf,
    destination: PathBuf,
    #[serde(rename = "type")]
    kind: String,
    options: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawHost {
    ip: String,
    hostname: String,
}

/// Reads one byte more than the limit, so that the parser can refuse what is too large.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for its writer for ever.
    if !fs::metadata(path)?.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(kind, "it is not a regular file"));
    }
    let limit = Limits::default().file_bytes.saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?
        .take(u64::try_from(limit).unwrap_or(u64::MAX))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the list. What is put around it stands on its first and last line, so lines are those of the file.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<ResourceTable, ConfigError> {
    let table = [br#"{"resources":"#, text, b"}"].concat();
    let name = path.to_string_lossy();
    let loaded = Load::<RawResources>::new("resources").document(&name, Format::Json, table);
    loaded.load()?.validate()
}

impl Validate for RawResources {
    type Valid = ResourceTable;

    fn validate(self, problems: &mut Problems<'_>) -> Option<ResourceTable> {
        let mut names = BTreeSet::new();
        let mut resources = BTreeMap::new();
        for (index, raw) in self.resources.into_iter().enumerate() {
            problems.within(&format!("resources[{index}]"), |problems| {
                let name = raw.name.clone();
                if !name.is_empty() && !names.insert(name.clone()) {
                    problems.report("name", "stands in two resources");
                }
                resources.extend(raw.validate(problems).map(|resource| (name, resource)));
            });
        }
        problems.is_empty().then_some(ResourceTable { resources })
    }
}

impl RawResource {
    fn validate(self, problems: &mut Problems<'_>) -> Option<Resource> {
        let info = ResourceInfo::new(self.name.as_str(), NonZeroU64::new(self.shared_count));
        let info = info
            .map_err(|_| problems.report("name", "must be given"))
            .ok();
        // A name in the file of groups ends at a colon.
        if let Some(group) = self
            .groups
            .iter()
            .find(|it| it.is_empty() || it.contains(':'))
        {
            problems.report(
                "groups",
                format_args!("holds {group:?}, which is no name of a group"),
            );
        }
        let devices = self.devices.iter().map(|text| device(text, problems));
        let devices: Vec<_> = devices.collect();
        let devices: Option<Vec<_>> = devices.into_iter().collect();
        let mounts: Option<Vec<_>> = each("mounts", self.mounts, problems, RawMount::validate);
        let env = self.env.iter().enumerate();
        let env: Vec<_> = env
            .map(|(index, text)| variable(index, text, problems))
            .collect();
        let env: Option<Vec<_>> = env.into_iter().collect();
        let hosts: Option<Vec<_>> = each("hosts", self.hosts, problems, RawHost::validate);
        Some(Resource {
            info: info?,
            groups: self.groups,
            devices: devices?,
            mounts: mounts?,
            env: env?,
            hosts: hosts?,
        })
    }
}

/// Checks every entry of a list, under its own path.
fn each<R, T>(
    key: &str,
    raw: Vec<R>,
    problems: &mut Problems<'_>,
    check: impl Fn(R, &mut Problems<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let entries = raw.into_iter().enumerate();
    let checked: Vec<Option<T>> = entries
        .map(|(index, raw)| {
            problems.within(&format!("{key}[{index}]"), |problems| check(raw, problems))
        })
        .collect();
    checked.into_iter().collect()
}

/// A path that means the same to everybody: absolute, nothing to resolve, not the root.
fn is_plain(path: &Path) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    path.has_root()
        && path != Path::new("/")
        && path.components().all(plain)
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// `on the host:in the instance`, or one path for both.
fn device(text: &str, problems: &mut Problems<'_>) -> Option<(PathBuf, PathBuf)> {
    let (host, inside) = text.split_once(':').unwrap_or((text, text));
    let (host, inside) = (PathBuf::from(host), PathBuf::from(inside));
    if is_plain(&host) && is_plain(&inside) {
        return Some((host, inside));
    }
    problems.report(
        "devices",
        format_args!("holds {text:?}; write HOST:INSIDE with two absolute paths without . and .."),
    );
    None
}

/// `NAME=value`. The value may be a secret, so no problem shows it.
fn variable(index: usize, text: &str, problems: &mut Problems<'_>) -> Option<EnvVar> {
    let variable = text.split_once('=').and_then(|(name, value)| {
        let name = name.parse().ok()?;
        EnvVar::new(name, value.to_owned()).ok()
    });
    if variable.is_none() {
        problems.report(&format!("env[{index}]"), "must be NAME=value without NUL");
    }
    variable
}

impl RawMount {
    /// Only binds: they are what runtimes make of a resource. Each of them is made private, without setuid and devices.
    fn validate(self, problems: &mut Problems<'_>) -> Option<(PathBuf, PathBuf, bool)> {
        for (key, path) in [("source", &self.source), ("destination", &self.destination)] {
            if !is_plain(path) {
                problems.report(key, "must be an absolute path without . and .., and not /");
            }
        }
        if !["", "bind", "none"].contains(&self.kind.as_str()) {
            problems.report(
                "type",
                "cannot be given: resources give folders of the host (bind)",
            );
        }
        let mut read_only = false;
        for option in &self.options {
            match option.as_str() {
                "ro" => read_only = true,
                "rw" => read_only = false,
                "bind" | "rbind" | "nosuid" | "nodev" | "private" | "rprivate" => {}
                _ => problems.report(
                    "options",
                    format_args!(
                        "holds {option:?}, which cannot be given; \
                         there are ro, rw, bind, rbind, nosuid, nodev, private and rprivate"
                    ),
                ),
            }
        }
        Some((self.source, self.destination, read_only))
    }
}

impl RawHost {
    fn validate(self, problems: &mut Problems<'_>) -> Option<HostEntry> {
        let ip: Option<IpAddr> = self.ip.parse().ok();
        if ip.is_none() {
            problems.report("ip", "must be an IP address");
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.hostname.is_empty() || !self.hostname.bytes().all(plain) {
            problems.report("hostname", "must be a host name");
            return None;
        }
        Some(HostEntry {
            ip: ip?,
            hostname: self.hostname,
        })
    }
}
