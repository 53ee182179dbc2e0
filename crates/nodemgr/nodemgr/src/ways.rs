//! The ways to machines that are not reached directly: what the configuration says of them, with the keys that it names.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use muster_executor::ssh::{InvalidKey, SshIdentity};
use muster_machine_api::v1;
use muster_provider::ProviderId;
use muster_seed::ManagerKeys;

use crate::config::{Jump, Providers, SshConfig};

/// The longest file that can be a private key.
const LONGEST_KEY: u64 = 64 << 10;

/// How machines of each provider are reached by SSH, where there is something to say about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SshWays(BTreeMap<ProviderId, SshWay>);

/// What is on the way to a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SshWay {
    /// The socket of an agent; empty if there is none.
    pub(crate) agent: String,
    /// The machines in between, the nearest first.
    pub(crate) jumps: Vec<v1::SshJump>,
}

/// Why a way cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenWaysError {
    #[error("cannot read the key {} of the jump {host}", path.display())]
    Read {
        path: PathBuf,
        host: String,
        source: io::Error,
    },
    #[error("cannot use the key {} of the jump {host}", path.display())]
    Key {
        path: PathBuf,
        host: String,
        source: InvalidKey,
    },
}

impl SshWays {
    /// Reads what is configured; files that are not named absolutely are beside the configuration.
    pub(crate) fn open(
        providers: &Providers,
        beside: &Path,
        keys: &ManagerKeys,
    ) -> Result<Self, OpenWaysError> {
        let libvirt = providers.libvirt.as_ref().map(|it| &it.ssh);
        let aws = providers.aws.as_ref().map(|it| &it.ssh);
        let all = [(ProviderId::Libvirt, libvirt), (ProviderId::Aws, aws)];
        let ways = all
            .into_iter()
            .filter_map(|(id, config)| Some((id, config?)))
            .map(|(id, config)| Ok((id, way(config, beside, keys)?)));
        Ok(Self(ways.collect::<Result<_, _>>()?))
    }

    /// The way to machines of a provider.
    pub(crate) fn of(&self, provider: ProviderId) -> SshWay {
        self.0.get(&provider).cloned().unwrap_or_default()
    }
}

fn way(config: &SshConfig, beside: &Path, keys: &ManagerKeys) -> Result<SshWay, OpenWaysError> {
    let jumps = config.jumps.iter().map(|it| jump(it, beside, keys));
    Ok(SshWay {
        agent: text(config.agent.as_deref()),
        jumps: jumps.collect::<Result<_, _>>()?,
    })
}

fn text(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |it| it.display().to_string())
}

fn jump(jump: &Jump, beside: &Path, keys: &ManagerKeys) -> Result<v1::SshJump, OpenWaysError> {
    let private_key = match (&jump.key, &jump.agent) {
        (Some(path), _) => read_key(&beside.join(path), &jump.endpoint.host)?,
        (None, Some(_)) => String::new(),
        (None, None) => keys.client().private.reveal().to_owned(),
    };
    Ok(v1::SshJump {
        host: jump.endpoint.host.clone(),
        port: jump.endpoint.port.into(),
        user: jump.user.clone(),
        host_key: jump.host_key.clone(),
        private_key,
        agent: text(jump.agent.as_deref()),
    })
}

fn read_key(path: &Path, host: &str) -> Result<String, OpenWaysError> {
    use std::io::Read as _;
    let read = || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(LONGEST_KEY).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|source| OpenWaysError::Read {
        path: path.to_owned(),
        host: host.to_owned(),
        source,
    })?;
    match SshIdentity::from_openssh(&text) {
        Ok(_) => Ok(text),
        Err(source) => Err(OpenWaysError::Key {
            path: path.to_owned(),
            host: host.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use muster_executor::ssh::Endpoint;

    use super::*;

    fn bastion(key: Option<&str>, agent: Option<&str>) -> Jump {
        Jump {
            endpoint: Endpoint::new("bastion", 2222),
            user: "admin".to_owned(),
            host_key: "ssh-ed25519 AAAA".to_owned(),
            key: key.map(PathBuf::from),
            agent: agent.map(PathBuf::from),
        }
    }

    #[test]
    fn a_jump_lets_in_whoever_the_configuration_says() {
        let folder = tempfile::tempdir().unwrap();
        let keys = ManagerKeys::from_secret(&[7; 32]);
        let own = keys.client().private.reveal().to_owned();
        let other = ManagerKeys::from_secret(&[8; 32]);
        let other = other.client().private.reveal().to_owned();
        std::fs::write(folder.path().join("key"), &other).unwrap();
        let shown = |key, agent| jump(&bastion(key, agent), folder.path(), &keys).unwrap();
        assert_eq!(shown(None, None).private_key, own);
        assert_eq!(shown(Some("key"), None).private_key, other);
        let by_agent = shown(None, Some("/run/agent"));
        assert_eq!(by_agent.private_key, "");
        assert_eq!(by_agent.agent, "/run/agent");
        assert_eq!((by_agent.host.as_str(), by_agent.port), ("bastion", 2222));
    }

    #[test]
    fn a_key_that_is_none_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let keys = ManagerKeys::from_secret(&[7; 32]);
        std::fs::write(folder.path().join("key"), "no key").unwrap();
        let refused = |name| {
            let refused = jump(&bastion(Some(name), None), folder.path(), &keys);
            refused.unwrap_err().to_string()
        };
        assert!(refused("key").starts_with("cannot use the key"));
        assert!(refused("missing").starts_with("cannot read the key"));
    }
}
