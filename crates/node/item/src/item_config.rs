//! What an item's provider wants around its image.

mod alert_rules;
mod connection;
mod sandbox;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::domain::{AlertRules, ItemId, RuntimeType};

use crate::Limits;
use crate::read::{self, At, DocumentKind, ReadDocumentError};

pub use self::connection::AllowedConnection;
pub use self::sandbox::Sandbox;

/// What an item's provider wants around its image.
///
/// The default is that of an empty document. Lengths of time are written `5s`, `1m30s` or `PT1M`; sizes are bytes, speeds are
/// bits a second, processing power is DMIPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemConfig {
    /// When it was made, as written.
    pub created: Option<String>,
    /// Who made it, as written.
    pub author: Option<String>,
    /// Run it without the limits of [`quotas`](Self::quotas).
    pub skip_resource_limits: bool,
    /// Its host name.
    pub hostname: Option<String>,
    /// Whether it may be moved between nodes.
    pub balancing_policy: BalancingPolicy,
    /// Kinds of runtimes that can run it, in order of preference; `crun` and `runc` unless it says otherwise.
    pub runtimes: Vec<RuntimeType>,
    /// How starts and ends are treated.
    pub run_parameters: RunParameters,
    /// Kernel settings of its own namespaces.
    pub sysctl: BTreeMap<String, String>,
    /// How long it goes on without a connection to the controller; for ever if absent.
    pub offline_ttl: Option<Duration>,
    /// The most that it may use.
    pub quotas: Quotas,
    /// What it needs, for choosing a node.
    pub requested_resources: RequestedResources,
    /// Which instances it may call.
    pub allowed_connections: Vec<AllowedConnection>,
    /// Resources of the node that it needs.
    pub resources: Vec<ResourceRequest>,
    /// What it may do at functional servers: server, function, rights.
    pub permissions: BTreeMap<String, BTreeMap<String, String>>,
    /// When its use of resources becomes an alert.
    pub alert_rules: AlertRules,
    /// Items whose instances on the same node start before it (Muster's own key `dependencies`).
    pub dependencies: Vec<ItemId>,
    /// What it asks for beyond the closed default (Muster's own key `sandbox`).
    pub sandbox: Sandbox,
}

/// Whether an instance may be moved between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BalancingPolicy {
    /// It may.
    #[default]
    Enabled,
    /// It stays where it was first placed.
    Disabled,
}

/// How starts and ends of an instance are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunParameters {
    /// The time in which starts are counted: 5 s.
    pub start_interval: Duration,
    /// So many starts within it are too many: 3. Never 0.
    pub start_burst: u32,
    /// Before it is started again: 1 s.
    pub restart_interval: Duration,
    /// Between asking it to end and ending it (Muster's own key `stopTimeout`).
    pub stop_timeout: Option<Duration>,
    /// So long a new version must run to count as good (Muster's own key `healthPeriod`).
    pub health_period: Option<Duration>,
}

impl Default for RunParameters {
    fn default() -> Self {
        Self {
            start_interval: Duration::from_secs(5),
            start_burst: 3,
            restart_interval: Duration::from_secs(1),
            stop_timeout: None,
            health_period: None,
        }
    }
}

/// The most that an instance may use. What is absent is not limited by its item: a runtime may have a limit of its own. What is
/// written as 0 is absent: nothing could run with none of it, and writers that leave nothing out mean that nothing was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Processing power in DMIPS.
    pub cpu_dmips_limit: Option<u64>,
    /// Memory in bytes.
    pub ram_limit: Option<u64>,
    /// Processes and threads.
    pub pids_limit: Option<u64>,
    /// Open files of a process.
    pub no_file_limit: Option<u64>,
    /// `/tmp` in bytes.
    pub tmp_limit: Option<u64>,
    /// The state file in bytes.
    pub state_limit: Option<u64>,
    /// Storage in bytes.
    pub storage_limit: Option<u64>,
    /// Bits sent a second.
    pub upload_speed: Option<u64>,
    /// Bits received a second.
    pub download_speed: Option<u64>,
    /// Bytes sent in a period.
    pub upload_limit: Option<u64>,
    /// Bytes received in a period.
    pub download_limit: Option<u64>,
}

/// What an instance needs, for choosing a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedResources {
    /// DMIPS.
    pub cpu: Option<u64>,
    /// Bytes.
    pub ram: Option<u64>,
    /// Bytes.
    pub storage: Option<u64>,
    /// Bytes.
    pub state: Option<u64>,
}

/// A resource of the node that an item needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Its name.
    pub name: String,
    /// As written, for example `rw`.
    pub mode: Option<String>,
}

impl Default for ItemConfig {
    fn default() -> Self {
        Self {
            created: None,
            author: None,
            skip_resource_limits: false,
            hostname: None,
            balancing_policy: BalancingPolicy::default(),
            runtimes: default_runtimes(),
            run_parameters: RunParameters::default(),
            sysctl: BTreeMap::new(),
            offline_ttl: None,
            quotas: Quotas::default(),
            requested_resources: RequestedResources::default(),
            allowed_connections: Vec::new(),
            resources: Vec::new(),
            permissions: BTreeMap::new(),
            alert_rules: AlertRules::default(),
            dependencies: Vec::new(),
            sandbox: Sandbox::default(),
        }
    }
}

fn default_runtimes() -> Vec<RuntimeType> {
    ["crun", "runc"]
        .iter()
        .filter_map(|name| RuntimeType::new(name).ok())
        .collect()
}

impl ItemConfig {
    /// Reads an item configuration.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, ReadDocumentError> {
        let tree = read::parse(DocumentKind::ItemConfig, bytes, limits)?;
        let root = At::root(DocumentKind::ItemConfig, &tree);
        let text = |name| root.optional(name, |at| at.word());
        let runtimes = root.each("runtimes", |at| named(&at, "codename")?.parse())?;
        Ok(Self {
            created: text("created")?,
            author: text("author")?,
            skip_resource_limits: root
                .optional("skipResourceLimits", |at| at.truth())?
                .unwrap_or_default(),
            hostname: root.optional("hostname", |at| read_hostname(&at))?,
            balancing_policy: root
                .optional("balancingPolicy", |at| read_balancing_policy(&at))?
                .unwrap_or_default(),
            runtimes: if runtimes.is_empty() {
                default_runtimes()
            } else {
                runtimes
            },
            run_parameters: root
                .optional("runParameters", |at| RunParameters::read(&at))?
                .unwrap_or_default(),
            sysctl: read_sysctl(&root)?,
            offline_ttl: root.optional("offlineTTL", |at| at.duration())?,
            quotas: root
                .optional("quotas", |at| Quotas::read(&at))?
                .unwrap_or_default(),
            requested_resources: root
                .optional("requestedResources", |at| RequestedResources::read(&at))?
                .unwrap_or_default(),
            allowed_connections: root.entries("allowedConnections", |key, at| {
                AllowedConnection::read(key, &at)
            })?,
            resources: root.each("resources", |at| ResourceRequest::read(&at))?,
            permissions: read_permissions(&root)?,
            alert_rules: root
                .optional("alertRules", |at| alert_rules::read(&at))?
                .unwrap_or_default(),
            dependencies: root.each("dependencies", |at| at.parse())?,
            sandbox: root
                .optional("sandbox", |at| Sandbox::read(&at))?
                .unwrap_or_default(),
        })
    }
}

impl RunParameters {
    fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let defaults = Self::default();
        let time = |name| at.optional(name, |at| at.duration());
        let start_burst = at.optional("startBurst", |at| {
            u32::try_from(at.unsigned()?).map_err(|_| at.invalid("is too large"))
        })?;
        Ok(Self {
            start_interval: time("startInterval")?.unwrap_or(defaults.start_interval),
            // Writers that leave nothing out write 0 for "not said".
            start_burst: start_burst
                .filter(|burst| *burst > 0)
                .unwrap_or(defaults.start_burst),
            restart_interval: time("restartInterval")?.unwrap_or(defaults.restart_interval),
            stop_timeout: time("stopTimeout")?,
            health_period: time("healthPeriod")?,
        })
    }
}

impl Quotas {
    fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let amount = |name| {
            let said = at.optional(name, |at| at.unsigned())?;
            Ok(said.filter(|it| *it > 0))
        };
        Ok(Self {
            cpu_dmips_limit: amount("cpuDMIPSLimit")?,
            ram_limit: amount("ramLimit")?,
            pids_limit: amount("pidsLimit")?,
            no_file_limit: amount("noFileLimit")?,
            tmp_limit: amount("tmpLimit")?,
            state_limit: amount("stateLimit")?,
            storage_limit: amount("storageLimit")?,
            upload_speed: amount("uploadSpeed")?,
            download_speed: amount("downloadSpeed")?,
            upload_limit: amount("uploadLimit")?,
            download_limit: amount("downloadLimit")?,
        })
    }
}

impl RequestedResources {
    fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let amount = |name| at.optional(name, |at| at.unsigned());
        Ok(Self {
            cpu: amount("cpu")?,
            ram: amount("ram")?,
            storage: amount("storage")?,
            state: amount("state")?,
        })
    }
}

impl ResourceRequest {
    fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let mode = match at.is_text() {
            true => None,
            false => at.optional("mode", |at| at.word())?,
        };
        let name = named(at, "name")?;
        match name.word()? {
            empty if empty.is_empty() => Err(name.invalid("names nothing")),
            name => Ok(Self { name, mode }),
        }
    }
}

/// The name in an object, or a text that is the name alone.
fn named<'t>(at: &At<'t>, key: &str) -> Result<At<'t>, ReadDocumentError> {
    if at.is_text() {
        return Ok(at.clone());
    }
    at.required(key)
}

fn read_balancing_policy(at: &At<'_>) -> Result<BalancingPolicy, ReadDocumentError> {
    match at.text()? {
        "" | "enabled" => Ok(BalancingPolicy::Enabled),
        "disabled" => Ok(BalancingPolicy::Disabled),
        _ => Err(at.invalid("is neither enabled nor disabled")),
    }
}

/// A name by RFC 1123, as the kernel takes it: at most 64 bytes.
fn read_hostname(at: &At<'_>) -> Result<String, ReadDocumentError> {
    let name = at.text()?;
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 64 || !name.split('.').all(label_fits) {
        return Err(at.invalid("is no host name"));
    }
    Ok(name.to_owned())
}

/// Names such as `net.ipv4.ip_forward`; they become paths below `/proc/sys`.
fn read_sysctl(root: &At<'_>) -> Result<BTreeMap<String, String>, ReadDocumentError> {
    let settings = root.entries("sysctl", |key, at| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        let is_name = key.bytes().all(plain)
            && key
                .split(['.', '/'])
                .all(|part| !part.is_empty() && part != "..");
        if !is_name {
            return Err(at.invalid("stands at a key that is no name of a kernel setting"));
        }
        Ok((key.to_owned(), at.word()?))
    })?;
    Ok(settings.into_iter().collect())
}

fn read_permissions(
    root: &At<'_>,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, ReadDocumentError> {
    let mut servers = BTreeMap::new();
    // Two steps, since the names of functional servers are keys as they are written.
    let names = root.entries("permissions", |key, at| Ok((key, at)))?;
    for (name, at) in names {
        let functions = at.all(|key, at| Ok((key.to_owned(), at.word()?)))?;
        servers.insert(name.to_owned(), functions.into_iter().collect());
    }
    Ok(servers)
}

#[cfg(test)]
mod tests;
