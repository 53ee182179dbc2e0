//! What is needed to reach a machine.

use muster_machine_api::v1;
use muster_machines::Record;
use muster_provider::{MachineId, ProviderId, Transport};
use muster_seed::{DEFAULT_USER, ManagerKeys};

use crate::ways::SshWay;
use crate::wire::words;

/// The detail of a machine whose SSH listens elsewhere.
const SSH_PORT: &str = "sshPort";
const USUAL_SSH_PORT: u16 = 22;

/// Why a machine cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("machine {machine} is {state}: it can be used when it runs")]
    NotThere { machine: MachineId, state: String },
    #[error("machines of {provider} cannot be used: it offers no way into them")]
    NoWay { provider: ProviderId },
    #[error("machine {machine} has no address yet")]
    NoAddress { machine: MachineId },
    #[error(
        "the provider says that SSH of machine {machine} listens at {port:?}, which is no port"
    )]
    Port { machine: MachineId, port: String },
}

/// What is needed to reach a machine: by whatever its provider says that it offers.
pub(crate) fn access(
    record: &Record,
    endpoint: &str,
    ssh: SshWay,
    keys: &ManagerKeys,
) -> Result<v1::Access, AccessError> {
    let machine = &record.id;
    let Some(made) = record
        .made()
        .filter(|made| made.life.state() == muster_lifecycle::State::Running)
    else {
        return Err(AccessError::NotThere {
            machine: machine.clone(),
            state: record.state().as_str().to_owned(),
        });
    };
    let offers = |transport| made.access.iter().any(|it| it.transport == transport);
    let spec = &record.order.spec;
    let way = if offers(Transport::Local) {
        v1::access::Way::Local(v1::LocalAccess {})
    } else if offers(Transport::Docker) {
        v1::access::Way::Docker(v1::DockerAccess {
            endpoint: endpoint.to_owned(),
            container: made.resource.to_string(),
        })
    } else if offers(Transport::Ssh) {
        let no_address = || AccessError::NoAddress {
            machine: machine.clone(),
        };
        let address = made.address.ok_or_else(no_address)?;
        let port = match made.details.get(SSH_PORT) {
            None => USUAL_SSH_PORT,
            Some(port) => port.parse().map_err(|_| AccessError::Port {
                machine: machine.clone(),
                port: port.clone(),
            })?,
        };
        v1::access::Way::Ssh(v1::SshAccess {
            host: address.to_string(),
            port: port.into(),
            user: spec.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned()),
            host_key: keys.host_public(&record.token),
            private_key: keys.client().private.reveal().to_owned(),
            agent: ssh.agent,
            jumps: ssh.jumps,
        })
    } else {
        return Err(AccessError::NoWay {
            provider: record.order.provider,
        });
    };
    Ok(v1::Access {
        machine: machine.to_string(),
        capabilities: words(&made.access),
        way: Some(way),
    })
}

#[cfg(test)]
mod tests {
    use muster_lifecycle::State;
    use muster_machines::Phase;
    use muster_provider::{Capability, MachineSpec, Means};

    use super::*;
    use crate::choice::tests::record;

    fn machine(provider: ProviderId, state: State, transport: Option<Transport>) -> Record {
        let mut record = record(provider, MachineSpec::default(), state);
        if let Phase::Made(made) = &mut record.phase {
            let offered = transport.map(|it| Capability::new(it, Means::Exec));
            made.access = offered.into_iter().collect();
            made.address = "192.0.2.7".parse().ok();
        }
        record
    }

    fn detail(record: &mut Record, name: &str, value: &str) {
        if let Phase::Made(made) = &mut record.phase {
            made.details.insert(name.to_owned(), value.to_owned());
        }
    }

    #[test]
    fn a_machine_is_reached_by_what_it_offers() {
        let keys = ManagerKeys::from_secret(&[7; 32]);
        let docker = machine(ProviderId::Docker, State::Running, Some(Transport::Docker));
        let way = access(&docker, "unix:///d.sock", SshWay::default(), &keys)
            .unwrap()
            .way;
        let Some(v1::access::Way::Docker(docker)) = way else {
            panic!("{way:?}");
        };
        assert_eq!(docker.endpoint, "unix:///d.sock");

        let mut aws = machine(ProviderId::Aws, State::Running, Some(Transport::Ssh));
        let way = access(&aws, "", SshWay::default(), &keys).unwrap().way;
        let Some(v1::access::Way::Ssh(ssh)) = way else {
            panic!("{way:?}");
        };
        assert_eq!((ssh.host.as_str(), ssh.port), ("192.0.2.7", 22));
        assert_eq!(ssh.user, DEFAULT_USER);
        assert_eq!(ssh.host_key, keys.host_public(&aws.token));
        assert_eq!((ssh.agent.as_str(), ssh.jumps.len()), ("", 0));
        let way = SshWay {
            agent: "/run/agent".to_owned(),
            jumps: vec![v1::SshJump {
                host: "bastion".to_owned(),
                ..v1::SshJump::default()
            }],
        };
        let Some(v1::access::Way::Ssh(ssh)) = access(&aws, "", way, &keys).unwrap().way else {
            panic!("it is reached by SSH");
        };
        assert_eq!(ssh.agent, "/run/agent");
        assert_eq!(ssh.jumps[0].host, "bastion");
        detail(&mut aws, SSH_PORT, "2222");
        let way = access(&aws, "", SshWay::default(), &keys).unwrap().way;
        assert!(matches!(way, Some(v1::access::Way::Ssh(ssh)) if ssh.port == 2222));
        detail(&mut aws, SSH_PORT, "many");
        let refused = access(&aws, "", SshWay::default(), &keys).unwrap_err();
        assert!(matches!(refused, AccessError::Port { .. }), "{refused}");
    }

    #[test]
    fn one_that_does_not_run_or_offers_nothing_is_not_reached() {
        let keys = ManagerKeys::from_secret(&[7; 32]);
        let pending = machine(ProviderId::Docker, State::Pending, Some(Transport::Docker));
        let refused = access(&pending, "", SshWay::default(), &keys).unwrap_err();
        assert!(matches!(refused, AccessError::NotThere { .. }), "{refused}");
        let closed = machine(ProviderId::Sim, State::Running, None);
        let refused = access(&closed, "", SshWay::default(), &keys).unwrap_err();
        assert!(matches!(refused, AccessError::NoWay { .. }), "{refused}");
    }
}
