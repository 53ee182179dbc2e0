//! From the answer to `GetAccess` to an executor.

use std::sync::Arc;

use muster_docker::{DockerExecutor, Endpoint as EngineEndpoint, Engine, InvalidEndpoint};
use muster_executor::Executor;
use muster_executor::local::LocalExecutor;
use muster_executor::ssh::{Endpoint, HostKeys, InvalidKey, SshAccess, SshExecutor, SshIdentity};
use muster_provider::{InvalidName, ResourceId};

use crate::v1;
use crate::v1::access::Way;

/// Why no executor can be made of an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReachError {
    /// It says no way that is known.
    #[error("machine {0} is reached in a way that this program does not know: use a newer one")]
    NoWay(String),
    /// The engine's address makes no sense.
    #[error("cannot reach the engine of machine {machine}")]
    Engine {
        /// Which machine.
        machine: String,
        /// What is wrong with it.
        source: InvalidEndpoint,
    },
    /// The container's name makes no sense.
    #[error("cannot name the container of machine {machine}")]
    Container {
        /// Which machine.
        machine: String,
        /// What is wrong with it.
        source: InvalidName,
    },
    /// A key makes no sense.
    #[error("cannot use the keys of machine {machine}")]
    Keys {
        /// Which machine.
        machine: String,
        /// What is wrong with them.
        source: InvalidKey,
    },
    /// The port is none.
    #[error("machine {machine} is said to listen at port {port}, which is none")]
    Port {
        /// Which machine.
        machine: String,
        /// What was said.
        port: u32,
    },
}

/// An executor for a machine. It has not connected yet.
///
/// # Errors
/// What was answered makes no sense.
pub fn executor(access: &v1::Access) -> Result<Arc<dyn Executor>, ReachError> {
    let machine = || access.machine.clone();
    match &access.way {
        Some(Way::Local(v1::LocalAccess {})) => Ok(Arc::new(LocalExecutor::new())),
        Some(Way::Docker(docker)) => {
            let endpoint: Result<EngineEndpoint, _> = docker.endpoint.parse();
            let endpoint = endpoint.map_err(|source| ReachError::Engine {
                machine: machine(),
                source,
            })?;
            let container = ResourceId::new(&docker.container);
            let container = container.map_err(|source| ReachError::Container {
                machine: machine(),
                source,
            })?;
            Ok(Arc::new(DockerExecutor::new(
                Engine::new(endpoint),
                container,
            )))
        }
        Some(Way::Ssh(ssh)) => Ok(Arc::new(SshExecutor::new(by_ssh(&access.machine, ssh)?))),
        None => Err(ReachError::NoWay(machine())),
    }
}

fn by_ssh(machine: &str, ssh: &v1::SshAccess) -> Result<SshAccess, ReachError> {
    let host = Host {
        machine,
        host: &ssh.host,
        port: ssh.port,
        user: &ssh.user,
        host_key: &ssh.host_key,
        private_key: &ssh.private_key,
        agent: &ssh.agent,
    };
    let jumps = ssh.jumps.iter().map(|jump| Host {
        machine,
        host: &jump.host,
        port: jump.port,
        user: &jump.user,
        host_key: &jump.host_key,
        private_key: &jump.private_key,
        agent: &jump.agent,
    });
    let mut way: Option<SshAccess> = None;
    for host in jumps.chain([host]) {
        let access = host.access()?;
        way = Some(match way.take() {
            Some(nearer) => access.through(nearer),
            None => access,
        });
    }
    way.ok_or_else(|| ReachError::NoWay(machine.to_owned()))
}

/// A host on the way, or at its end.
struct Host<'a> {
    machine: &'a str,
    host: &'a str,
    port: u32,
    user: &'a str,
    host_key: &'a str,
    private_key: &'a str,
    agent: &'a str,
}

impl Host<'_> {
    fn access(&self) -> Result<SshAccess, ReachError> {
        let keys = |source| ReachError::Keys {
            machine: self.machine.to_owned(),
            source,
        };
        let port = u16::try_from(self.port).map_err(|_| ReachError::Port {
            machine: self.machine.to_owned(),
            port: self.port,
        })?;
        let host_keys = HostKeys::pinned([self.host_key]).map_err(keys)?;
        let agent = Some(self.agent).filter(|it| !it.is_empty());
        let mut identities = Vec::new();
        // Without an agent there has to be a key.
        if !self.private_key.is_empty() || agent.is_none() {
            identities.push(SshIdentity::from_openssh(self.private_key).map_err(keys)?);
        }
        identities.extend(agent.map(|socket| SshIdentity::Agent(socket.into())));
        let endpoint = Endpoint::new(self.host, port);
        Ok(SshAccess::new(endpoint, self.user, host_keys, identities))
    }
}

#[cfg(test)]
mod tests {
    use muster_executor::Transport;

    use super::*;

    fn access(way: Option<Way>) -> v1::Access {
        v1::Access {
            machine: "m-1".to_owned(),
            capabilities: Vec::new(),
            way,
        }
    }

    #[test]
    fn every_way_makes_an_executor() {
        let local = executor(&access(Some(Way::Local(v1::LocalAccess {})))).unwrap();
        assert!(
            local
                .access()
                .iter()
                .all(|it| it.transport == Transport::Local)
        );
        let docker = Way::Docker(v1::DockerAccess {
            endpoint: "unix:///run/d.sock".to_owned(),
            container: "abc".to_owned(),
        });
        let docker = executor(&access(Some(docker))).unwrap();
        assert!(
            docker
                .access()
                .iter()
                .all(|it| it.transport == Transport::Docker)
        );
    }

    #[test]
    fn what_makes_no_sense_is_said_and_not_used() {
        assert!(matches!(executor(&access(None)), Err(ReachError::NoWay(_))));
        let docker = Way::Docker(v1::DockerAccess::default());
        let refused = executor(&access(Some(docker)));
        assert!(matches!(refused, Err(ReachError::Engine { .. })));
        let ssh = |port: u32| {
            Way::Ssh(v1::SshAccess {
                host: "192.0.2.1".to_owned(),
                port,
                ..v1::SshAccess::default()
            })
        };
        let refused = executor(&access(Some(ssh(70_000))));
        assert!(matches!(refused, Err(ReachError::Port { .. })));
        let refused = executor(&access(Some(ssh(22))));
        assert!(matches!(refused, Err(ReachError::Keys { .. })));
    }

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJhrZ/aWKP0Vcs6MFGnA5woUEJI6LMa+ofnvDPmddpnx";

    /// A host that an agent opens.
    fn jump(host: &str) -> v1::SshJump {
        v1::SshJump {
            host: host.to_owned(),
            port: 22,
            user: "admin".to_owned(),
            host_key: KEY.to_owned(),
            private_key: String::new(),
            agent: "/run/agent".to_owned(),
        }
    }

    #[test]
    fn the_way_leads_through_the_nearest_first_and_each_shows_its_own_key() {
        let ssh = v1::SshAccess {
            host: "192.0.2.1".to_owned(),
            port: 2222,
            user: "muster".to_owned(),
            host_key: KEY.to_owned(),
            agent: "/run/other".to_owned(),
            jumps: vec![jump("near"), jump("far")],
            ..v1::SshAccess::default()
        };
        let made = by_ssh("m-1", &ssh).unwrap();
        assert_eq!(made.endpoint, Endpoint::new("192.0.2.1", 2222));
        assert!(matches!(&made.identities[..], [SshIdentity::Agent(it)] if it.ends_with("other")));
        let far = made.jump.unwrap();
        assert_eq!(
            (far.endpoint.host.as_str(), far.user.as_str()),
            ("far", "admin")
        );
        let near = far.jump.unwrap();
        assert_eq!(near.endpoint.host, "near");
        assert!(near.jump.is_none());
        // Neither a key nor an agent, or no host key: nobody is let in, and nobody is trusted.
        for change in [
            (|it: &mut v1::SshJump| it.agent.clear()) as fn(&mut v1::SshJump),
            |it| it.host_key.clear(),
        ] {
            let mut ssh = ssh.clone();
            change(&mut ssh.jumps[1]);
            assert!(matches!(by_ssh("m-1", &ssh), Err(ReachError::Keys { .. })));
        }
    }
}
