//! The configuration: from layers of files, environment and flags to a structure that cannot be
//! invalid.

mod mapping;
pub mod raw;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::domain::{NodeType, PartitionName};
use muster_config::{Problems, Validate};
use muster_identifier::IdentifierConfig;
use muster_keys::{CertType, ModuleConfig};
use muster_nodeinfo::{Options, PartitionSpec};
use muster_rpc::ListenAddress;
use muster_tls::{ExpectedServer, MappingRule, Role, ServerName};

use crate::provisioning::hook::CommandLine;
use raw::{RawConfig, RawIdentifier, RawNodeInfo};

/// A port of this daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// For everybody on the device's network.
    Public,
    /// For peers with an identity.
    Protected,
}

/// What provisioning runs besides its own steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// `startProvisioningCmdArgs`
    pub start: Option<CommandLine>,
    /// `diskEncryptionCmdArgs`
    pub encrypt_disks: Option<CommandLine>,
    /// `finishProvisioningCmdArgs`
    pub finish: Option<CommandLine>,
    /// `deprovisionCmdArgs`
    pub deprovision: Option<CommandLine>,
    /// How long each may take.
    pub limit: Duration,
}

/// Where a Secondary Node finds the Main Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainNode {
    /// Its public port, `host:port`.
    pub public: String,
    /// Its protected port, `host:port`.
    pub protected: String,
    /// What makes a server there the right one.
    pub server_name: ServerName,
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the public port listens.
    pub public: ListenAddress,
    /// Where the protected port listens.
    pub protected: ListenAddress,
    /// The Main Node; on the Main Node itself there is none.
    pub main: Option<MainNode>,
    /// The trusted authorities.
    pub ca_cert: PathBuf,
    /// Their revocation lists.
    pub crls: Vec<PathBuf>,
    /// The certificate type of this daemon; one of `modules`.
    pub own_cert: CertType,
    /// Where state is kept.
    pub working_dir: PathBuf,
    /// The socket for root.
    pub local_socket: PathBuf,
    /// Ports that may be in the clear until the node is provisioned.
    pub insecure: BTreeSet<Port>,
    /// Whether a node that is not provisioned joins the Main Node in the clear.
    pub join_in_the_clear: bool,
    /// Rules for a foreign PKI.
    pub mapping: Vec<MappingRule>,
    /// What to tell about the node.
    pub node: Options,
    /// The file with the node's state.
    pub state_path: PathBuf,
    /// Which device this is.
    pub identifier: IdentifierConfig,
    /// Keys and certificates, without the disabled ones; at least one.
    pub modules: Vec<ModuleConfig>,
    /// Commands of the configuration.
    pub hooks: Hooks,
    /// Whether instances can register permissions.
    pub permissions: bool,
}

macro_rules! differences {
    ($self:ident, $other:ident, $($field:ident as $key:literal,)+) => {{
        let mut keys = Vec::new();
        $(if $self.$field != $other.$field {
            keys.push($key);
        })+
        keys
    }};
}

impl Config {
    /// The keys whose values differ from those of another configuration.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        differences!(self, other,
            public as "publicServerUrl",
            protected as "protectedServerUrl",
            main as "mainIam...ServerUrl",
            ca_cert as "caCert",
            crls as "certRevocationLists",
            own_cert as "certStorage",
            working_dir as "workingDir",
            local_socket as "localSocket",
            insecure as "insecureUntilProvisioned",
            join_in_the_clear as "insecureUntilProvisioned: join",
            mapping as "identityMapping",
            node as "nodeInfo",
            state_path as "nodeInfo.provisioningStatePath",
            identifier as "identifier",
            modules as "certModules",
            hooks as "...CmdArgs, hookTimeout",
            permissions as "enablePermissionsHandler",
        )
    }
}

impl Validate for RawConfig {
    type Valid = Config;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Config> {
        let public = listen(problems, "publicServerUrl", &self.public_server_url);
        let protected = listen(problems, "protectedServerUrl", &self.protected_server_url);
        let server_name = server_name(problems, &self.main_iam_server_name);
        let main = main_node(
            problems,
            self.main_iam_public_server_url,
            self.main_iam_protected_server_url,
            server_name,
        );
        absolute(problems, "caCert", &self.ca_cert);
        absolute(problems, "workingDir", &self.working_dir);
        absolute(problems, "localSocket", &self.local_socket);
        for (index, path) in self.cert_revocation_lists.iter().enumerate() {
            absolute(problems, &format!("certRevocationLists[{index}]"), path);
        }
        let (insecure, join_in_the_clear) =
            in_the_clear(problems, &self.insecure_until_provisioned);
        let mut rules = Vec::new();
        for (index, raw) in self.identity_mapping.into_iter().enumerate() {
            let section = format!("identityMapping[{index}]");
            rules.extend(problems.within(&section, |problems| mapping::validate(raw, problems)));
        }
        let modules = modules(problems, self.cert_modules);
        let own_cert = own_cert(problems, &self.cert_storage, &modules);
        let limit = self.hook_timeout.get();
        if limit.is_zero() {
            problems.report("hookTimeout", "must be longer than 0s");
        }
        let hooks = Hooks {
            start: command(
                problems,
                "startProvisioningCmdArgs",
                self.start_provisioning_cmd_args,
            ),
            encrypt_disks: command(
                problems,
                "diskEncryptionCmdArgs",
                self.disk_encryption_cmd_args,
            ),
            finish: command(
                problems,
                "finishProvisioningCmdArgs",
                self.finish_provisioning_cmd_args,
            ),
            deprovision: command(problems, "deprovisionCmdArgs", self.deprovision_cmd_args),
            limit,
        };
        let identifier = identifier(problems, &self.identifier);
        let mut state_path = self.node_info.provisioning_state_path.clone();
        if state_path.as_os_str().is_empty() {
            state_path = self.working_dir.join("provisioning-state");
        }
        let cache = self.working_dir.join("dmips.json");
        let node = problems.within("nodeInfo", |problems| {
            absolute(problems, "provisioningStatePath", &state_path);
            node_options(problems, self.node_info, cache)
        });
        Some(Config {
            public: public?,
            protected: protected?,
            main,
            ca_cert: self.ca_cert,
            crls: self.cert_revocation_lists,
            own_cert: own_cert?,
            working_dir: self.working_dir,
            local_socket: self.local_socket,
            insecure,
            join_in_the_clear,
            mapping: rules,
            node: node?,
            state_path,
            identifier: identifier?,
            modules,
            hooks,
            permissions: self.enable_permissions_handler,
        })
    }
}

fn listen(problems: &mut Problems<'_>, key: &str, text: &str) -> Option<ListenAddress> {
    match text.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            problems.report(key, "must be :port or IP:port");
            None
        }
    }
}

fn absolute(problems: &mut Problems<'_>, key: &str, path: &Path) {
    if path.as_os_str().is_empty() {
        problems.report(key, "is missing");
    } else if !path.is_absolute() {
        problems.report(key, "must be an absolute path");
    }
}

fn server_name(problems: &mut Problems<'_>, word: &str) -> ServerName {
    match word {
        "spiffe" => {}
        "dns" => return ServerName::Dns,
        "anyOfCa" => return ServerName::AnyOfCa,
        _ => problems.report("mainIamServerName", "must be spiffe, dns or anyOfCa"),
    }
    ServerName::Spiffe(ExpectedServer::role(Role::Iam))
}

fn main_node(
    problems: &mut Problems<'_>,
    public: String,
    protected: String,
    server_name: ServerName,
) -> Option<MainNode> {
    if public.is_empty() && protected.is_empty() {
        return None;
    }
    for (key, text) in [
        ("mainIamPublicServerUrl", &public),
        ("mainIamProtectedServerUrl", &protected),
    ] {
        if !is_host_and_port(text) {
            problems.report(
                key,
                "must be host:port; on a Secondary Node both ports of the Main Node are needed",
            );
        }
    }
    Some(MainNode {
        public,
        protected,
        server_name,
    })
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// The ports, and whether the Main Node is joined, in the clear.
fn in_the_clear(problems: &mut Problems<'_>, names: &[String]) -> (BTreeSet<Port>, bool) {
    let mut ports = BTreeSet::new();
    let mut join = false;
    for (index, name) in names.iter().enumerate() {
        match name.as_str() {
            "public" => drop(ports.insert(Port::Public)),
            "protected" => drop(ports.insert(Port::Protected)),
            "join" => join = true,
            _ => {
                let key = format!("insecureUntilProvisioned[{index}]");
                problems.report(&key, "must be public, protected or join");
            }
        }
    }
    (ports, join)
}

fn modules(
    problems: &mut Problems<'_>,
    raw: Vec<muster_keys::RawModuleConfig>,
) -> Vec<ModuleConfig> {
    let mut modules: Vec<ModuleConfig> = Vec::new();
    for (index, raw) in raw.into_iter().enumerate() {
        let section = format!("certModules[{index}]");
        match ModuleConfig::try_from(raw) {
            Ok(module) if module.disabled => {}
            Ok(module)
                if modules
                    .iter()
                    .any(|other| other.cert_type == module.cert_type) =>
            {
                problems.report(&format!("{section}.id"), "stands in another entry as well");
            }
            Ok(module) => modules.push(module),
            Err(error) => problems.report(&format!("{section}.{}", error.key), error.reason),
        }
    }
    modules
}

fn identifier(problems: &mut Problems<'_>, raw: &RawIdentifier) -> Option<IdentifierConfig> {
    match IdentifierConfig::parse(&raw.plugin, &raw.params) {
        Ok(config) => Some(config),
        Err(error) => {
            for problem in error.problems() {
                let (key, message) = problem.split_once(": ").unwrap_or(("identifier", problem));
                problems.report(key, message);
            }
            None
        }
    }
}

fn own_cert(problems: &mut Problems<'_>, name: &str, modules: &[ModuleConfig]) -> Option<CertType> {
    let found = modules
        .iter()
        .find(|module| module.cert_type.as_str() == name && !module.self_signed);
    if found.is_none() {
        problems.report(
            "certStorage",
            "must be the id of one of certModules that is neither disabled nor self-signed: it is \
             what this daemon serves with",
        );
    }
    found.map(|module| module.cert_type.clone())
}

fn command(problems: &mut Problems<'_>, key: &str, words: Vec<String>) -> Option<CommandLine> {
    let command = CommandLine::new(words)?;
    if !Path::new(command.program()).is_absolute() {
        problems.report(key, "must begin with the absolute path of a program");
    }
    Some(command)
}

fn node_options(
    problems: &mut Problems<'_>,
    raw: RawNodeInfo,
    dmips_cache: PathBuf,
) -> Option<Options> {
    absolute(problems, "nodeIdPath", &raw.node_id_path);
    let mut partitions = Vec::new();
    for (index, partition) in raw.partitions.into_iter().enumerate() {
        let section = format!("partitions[{index}]");
        problems.within(&section, |problems| {
            absolute(problems, "path", &partition.path);
            match PartitionName::new(&partition.name) {
                Ok(name) => partitions.push(PartitionSpec {
                    name,
                    types: partition.types,
                    path: partition.path,
                }),
                Err(error) => problems.report("name", error),
            }
        });
    }
    let node_type = match NodeType::new(&raw.node_type) {
        Ok(node_type) => node_type,
        Err(error) => {
            problems.report("nodeType", error);
            return None;
        }
    };
    let mut options = Options::new(node_type);
    options.node_id_path = raw.node_id_path;
    options.node_name = raw.node_name;
    options.max_dmips = NonZeroU64::new(raw.max_dmips);
    options.dmips_cache = Some(dmips_cache);
    options.attrs = raw.attrs;
    options.partitions = partitions;
    Some(options)
}

#[cfg(test)]
mod tests;
