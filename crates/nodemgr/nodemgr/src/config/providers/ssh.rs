//! How machines are reached by SSH where that is not directly.

use std::path::PathBuf;

use muster_config::Problems;
use muster_executor::ssh::{Endpoint, HostKeys};
use serde::Deserialize;

/// So many machines may be on the way to a machine; more are a mistake.
const MOST_JUMPS: usize = 8;
const USUAL_PORT: u16 = 22;

/// How the machines of a provider are reached by SSH.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSsh {
    /// The socket of an SSH agent, whose keys are tried when the manager's own does not let it in.
    pub agent: Option<PathBuf>,
    /// The machines on the way, the nearest first: each is reached through the one before it.
    pub jumps: Vec<RawJump>,
}

/// A machine on the way.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawJump {
    /// Its name or address.
    pub host: String,
    /// Its port: 22.
    pub port: Option<u16>,
    /// Whom to log in as.
    pub user: String,
    /// Its public key, as a line of OpenSSH. No other is accepted.
    pub host_key: String,
    /// A file with the private key that lets one in, as OpenSSH writes it and not encrypted [default: the manager's own key].
    pub key: Option<PathBuf>,
    /// The socket of an SSH agent that has the key.
    pub agent: Option<PathBuf>,
}

/// How the machines of a provider are reached by SSH.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SshConfig {
    /// The socket of an agent.
    pub agent: Option<PathBuf>,
    /// The machines on the way, the nearest first.
    pub jumps: Vec<Jump>,
}

/// A machine on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jump {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Whom to log in as.
    pub user: String,
    /// Its public key.
    pub host_key: String,
    /// The file of the private key, if there is one.
    pub key: Option<PathBuf>,
    /// The socket of an agent, if there is one.
    pub agent: Option<PathBuf>,
}

impl RawSsh {
    /// What it says, or what is wrong with it.
    pub(super) fn config(&self, section: &str, problems: &mut Problems<'_>) -> SshConfig {
        let section = format!("providers.{section}.ssh");
        if self.jumps.len() > MOST_JUMPS {
            let most = format!("must be at most {MOST_JUMPS}");
            problems.report(&format!("{section}.jumps"), most);
        }
        let mut absolute = |key: &str, path: Option<&PathBuf>| {
            if path.is_some_and(|it| !it.is_absolute()) {
                problems.report(key, "must be an absolute path");
            }
        };
        absolute(&format!("{section}.agent"), self.agent.as_ref());
        for (index, jump) in self.jumps.iter().enumerate() {
            let at = |key: &str| format!("{section}.jumps[{index}].{key}");
            absolute(&at("agent"), jump.agent.as_ref());
        }
        let jumps = self.jumps.iter().enumerate().take(MOST_JUMPS);
        let jumps = jumps.map(|(index, raw)| {
            let at = |key: &str| format!("{section}.jumps[{index}].{key}");
            for (key, text) in [("host", &raw.host), ("user", &raw.user)] {
                if text.is_empty() {
                    problems.report(&at(key), "must be given");
                }
            }
            if raw.port == Some(0) {
                problems.report(&at("port"), "must not be 0");
            }
            if let Err(error) = HostKeys::pinned([raw.host_key.as_str()]) {
                problems.report(&at("hostKey"), error);
            }
            Jump {
                endpoint: Endpoint::new(raw.host.clone(), raw.port.unwrap_or(USUAL_PORT)),
                user: raw.user.clone(),
                host_key: raw.host_key.clone(),
                key: raw.key.clone(),
                agent: raw.agent.clone(),
            }
        });
        SshConfig {
            jumps: jumps.collect(),
            agent: self.agent.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_config::{Format, Load};

    use super::*;
    use crate::config::{Config, RawConfig};

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJhrZ/aWKP0Vcs6MFGnA5woUEJI6LMa+ofnvDPmddpnx";

    fn load(ssh: &str) -> Result<Config, String> {
        let text = format!("providers: {{ libvirt: {{ ssh: {ssh} }} }}");
        let load = Load::<RawConfig>::new("muster-nodemgr");
        let loaded = load.document("nodemgr.yaml", Format::Yaml, text).load();
        loaded
            .and_then(muster_config::Loaded::validate)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_way_to_machines_can_lead_through_others() {
        let jumps = format!(
            "{{ agent: /run/agent, jumps: [{{ host: a, user: u, hostKey: '{KEY}', key: a.key }}, \
             {{ host: '2001:db8::1', port: 2222, user: v, hostKey: '{KEY}', agent: /run/other }}] }}"
        );
        let ssh = load(&jumps).unwrap().providers.libvirt.unwrap().ssh;
        assert_eq!(ssh.agent, Some("/run/agent".into()));
        assert_eq!(ssh.jumps[0].endpoint, Endpoint::new("a", 22));
        assert_eq!(ssh.jumps[0].key, Some("a.key".into()));
        assert_eq!(ssh.jumps[1].endpoint, Endpoint::new("2001:db8::1", 2222));
        assert_eq!(ssh.jumps[1].agent, Some("/run/other".into()));
        let usual = load("{}").unwrap().providers.libvirt.unwrap().ssh;
        assert_eq!(usual, SshConfig::default());
    }

    #[test]
    fn a_way_that_makes_no_sense_is_refused_with_every_mistake() {
        let said =
            load("{ agent: agent, jumps: [{ port: 0, agent: x, hostKey: 'ssh-ed25519 x' }] }");
        let said = said.unwrap_err();
        for part in [
            "ssh.agent",
            "jumps[0].agent",
            "jumps[0].host",
            "jumps[0].user",
            "jumps[0].port",
            "jumps[0].hostKey",
        ] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        let jump = format!("{{ host: a, user: u, hostKey: '{KEY}' }}");
        let many = format!("{{ jumps: [{}] }}", vec![jump; MOST_JUMPS + 1].join(", "));
        assert!(load(&many).unwrap_err().contains("at most 8"));
    }
}
