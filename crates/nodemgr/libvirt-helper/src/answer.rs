//! Answers, by asking libvirt.

use std::net::IpAddr;

use muster_libvirt::metadata::{Metadata, NAMESPACE};
use muster_libvirt::protocol::{
    Change, DomainFacts, Failure, FailureKind, NetworkFacts, Reply, Request,
};
use muster_libvirt::status::DomainStatus;
use muster_provider::Mark;
use uuid::Uuid;
use virt::connect::Connect;
use virt::domain::{
    Domain, DomainPausedReason, DomainShutoffReason, DomainState, DomainStateReason,
};
use virt::enumutil::Enum;
use virt::error::ErrorNumber;
use virt::sys;

use crate::connection::{Connection, failure};

/// Where addresses are asked for, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Nowhere.
    Nobody,
    /// libvirt's own leases, which cost nothing.
    Leases,
    /// Also the system inside, and the host's neighbours.
    Everybody,
}

/// Answers a question.
pub(crate) fn answer(connection: &mut Connection, request: &Request) -> Reply {
    let connect = match connection.get() {
        Ok(connect) => connect,
        Err(failure) => return Reply::Failed(failure),
    };
    let answered = match request {
        Request::Define { uuid, mark, xml } => define(connect, *uuid, mark, xml),
        Request::Change { uuid, mark, change } => change_domain(connect, *uuid, mark, *change),
        Request::Describe { uuid, addresses } => describe(connect, *uuid, *addresses),
        Request::List => list(connect),
        Request::Networks => networks(connect),
    };
    answered.unwrap_or_else(Reply::Failed)
}

fn look_up(connect: &Connect, uuid: Uuid) -> Result<Option<Domain>, Failure> {
    match connect.lookup_domain_by_uuid(uuid) {
        Ok(domain) => Ok(Some(domain)),
        Err(error) => match failure(&error) {
            Failure {
                kind: FailureKind::NoDomain,
                ..
            } => Ok(None),
            failure => Err(failure),
        },
    }
}

/// Our element of a domain's metadata.
fn metadata(domain: &Domain) -> Result<Option<String>, Failure> {
    let kind = i32::try_from(sys::VIR_DOMAIN_METADATA_ELEMENT).unwrap_or_default();
    match domain.metadata(kind, Some(NAMESPACE), 0) {
        Ok(xml) => Ok(Some(xml)),
        Err(error) if error.code() == Enum::Known(ErrorNumber::NoDomainMetadata) => Ok(None),
        Err(error) => Err(failure(&error)),
    }
}

/// Fails unless a domain bears a mark.
fn check(domain: &Domain, mark: &Mark) -> Result<(), Failure> {
    let found = metadata(domain)?.as_deref().and_then(Metadata::read);
    match found.is_some_and(|found| found.mark == *mark) {
        true => Ok(()),
        false => Err(Failure {
            kind: FailureKind::Foreign,
            message: "the domain bears another mark, or none".to_owned(),
        }),
    }
}

fn define(connect: &Connect, uuid: Uuid, mark: &Mark, xml: &str) -> Result<Reply, Failure> {
    if let Some(domain) = look_up(connect, uuid)? {
        check(&domain, mark)?;
    }
    connect
        .define_domain_xml(xml)
        .map_err(|error| failure(&error))?;
    Ok(Reply::Done)
}

fn change_domain(
    connect: &Connect,
    uuid: Uuid,
    mark: &Mark,
    change: Change,
) -> Result<Reply, Failure> {
    let Some(domain) = look_up(connect, uuid)? else {
        return Err(Failure {
            kind: FailureKind::NoDomain,
            message: "there is no such domain".to_owned(),
        });
    };
    check(&domain, mark)?;
    let done = match change {
        Change::Start => domain.create(),
        Change::Press => domain.shutdown_flags(sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN),
        Change::Cut => cut(&domain),
        Change::Save => domain.managed_save(0),
        Change::Remove => cut(&domain).and_then(|()| undefine(&domain)),
    };
    done.map_err(|error| failure(&error))?;
    Ok(Reply::Done)
}

/// One that is off already is cut.
fn cut(domain: &Domain) -> Result<(), virt::error::Error> {
    match domain.destroy() {
        Err(error) if error.code() == Enum::Known(ErrorNumber::OperationInvalid) => {
            match domain.is_active()? {
                true => Err(error),
                false => Ok(()),
            }
        }
        done => done,
    }
}

/// With everything that libvirt keeps about it.
fn undefine(domain: &Domain) -> Result<(), virt::error::Error> {
    domain.undefine_flags(
        sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
            | sys::VIR_DOMAIN_UNDEFINE_NVRAM,
    )
}

fn describe(connect: &Connect, uuid: Uuid, addresses: bool) -> Result<Reply, Failure> {
    let Some(domain) = look_up(connect, uuid)? else {
        return Ok(Reply::Domain(None));
    };
    let ask = if addresses {
        Ask::Everybody
    } else {
        Ask::Nobody
    };
    let metadata = metadata(&domain).or_else(gone)?;
    match facts(&domain, uuid, metadata, ask) {
        Ok(facts) => Ok(Reply::Domain(Some(Box::new(facts)))),
        // It went while it was looked at.
        Err(failure) if failure.kind == FailureKind::NoDomain => Ok(Reply::Domain(None)),
        Err(failure) => Err(failure),
    }
}

/// One that went away while it was looked at has no metadata.
fn gone(failure: Failure) -> Result<Option<String>, Failure> {
    match failure.kind {
        FailureKind::NoDomain => Ok(None),
        _ => Err(failure),
    }
}

fn list(connect: &Connect) -> Result<Reply, Failure> {
    let domains = connect
        .list_all_domains(0)
        .map_err(|error| failure(&error))?;
    let mut found = Vec::new();
    for domain in domains {
        let Some(metadata) = metadata(&domain).or_else(gone)? else {
            continue;
        };
        let uuid = domain.uuid().map_err(|error| failure(&error))?;
        match facts(&domain, uuid, Some(metadata), Ask::Leases) {
            Ok(facts) => found.push(facts),
            Err(failure) if failure.kind == FailureKind::NoDomain => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(Reply::Domains(found))
}

fn facts(
    domain: &Domain,
    uuid: Uuid,
    metadata: Option<String>,
    ask: Ask,
) -> Result<DomainFacts, Failure> {
    let status = status(domain)?;
    let addresses = match status {
        DomainStatus::Running => addresses(domain, ask),
        _ => Vec::new(),
    };
    Ok(DomainFacts {
        uuid,
        name: domain.name().map_err(|error| failure(&error))?,
        status,
        metadata,
        addresses,
    })
}

fn status(domain: &Domain) -> Result<DomainStatus, Failure> {
    // The library says nothing of a failure here, but for a state that there is not.
    let (state, reason) = domain.state().map_err(|error| failure(&error))?;
    let Enum::Known(state) = state else {
        return Err(failure(&virt::error::Error::last_error()));
    };
    let saved = || domain.has_managed_save(0).map_err(|error| failure(&error));
    Ok(match (state, reason) {
        (DomainState::Paused, Enum::Known(DomainStateReason::Paused(Enum::Known(reason)))) => {
            match reason {
                DomainPausedReason::Save => DomainStatus::Saving,
                DomainPausedReason::StartingUp => DomainStatus::Starting,
                DomainPausedReason::ShuttingDown => DomainStatus::GoingDown,
                _ => DomainStatus::Paused,
            }
        }
        (DomainState::Paused | DomainState::PMSuspended, _) => DomainStatus::Paused,
        (DomainState::Running | DomainState::Blocked | DomainState::NoState, _) => {
            DomainStatus::Running
        }
        (DomainState::Shutdown, _) => DomainStatus::GoingDown,
        (DomainState::Shutoff | DomainState::Crashed, _) if saved()? => DomainStatus::Saved,
        (DomainState::Crashed, _) => DomainStatus::Crashed,
        (
            DomainState::Shutoff,
            Enum::Known(DomainStateReason::Shutoff(Enum::Known(DomainShutoffReason::Crashed))),
        ) => DomainStatus::Crashed,
        (DomainState::Shutoff, _) => DomainStatus::Off,
    })
}

/// Addresses that others can reach. Whoever does not know any is no failure: the system may not be up yet.
fn addresses(domain: &Domain, ask: Ask) -> Vec<IpAddr> {
    let sources: &[_] = match ask {
        Ask::Nobody => &[],
        Ask::Leases => &[sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE],
        Ask::Everybody => &[
            sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
            sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
        ],
    };
    for &source in sources {
        let interfaces = domain.interface_addresses(source, 0).unwrap_or_default();
        let mut found: Vec<IpAddr> = interfaces
            .iter()
            .flat_map(|interface| &interface.addrs)
            .filter_map(|address| address.addr.parse().ok())
            .filter(|address: &IpAddr| is_reachable(*address))
            .collect();
        // The older protocol first: whoever has both is more often reached by it.
        found.sort_by_key(IpAddr::is_ipv6);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn is_reachable(address: IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !local && !address.is_loopback() && !address.is_unspecified()
}

fn networks(connect: &Connect) -> Result<Reply, Failure> {
    let networks = connect
        .list_all_networks(0)
        .map_err(|error| failure(&error))?;
    let facts = networks.iter().map(|network| {
        let name = network.name().map_err(|error| failure(&error))?;
        let active = network.is_active().map_err(|error| failure(&error))?;
        Ok(NetworkFacts { name, active })
    });
    Ok(Reply::Networks(facts.collect::<Result<_, Failure>>()?))
}
