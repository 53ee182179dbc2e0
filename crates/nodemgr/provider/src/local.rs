//! This machine, as if it were made to order.
//!
//! Every order gives the same machine: the one that the manager runs on. Nothing is made and nothing destroyed; what runs in
//! it runs beside everything else, which the profile says.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::FutureExt as _;
use muster_lifecycle::{State, Verb, VerbSet};

use crate::capability::{Capability, Means, Transport};
use crate::error::{FailureClass, Operation, ProviderError};
use crate::mark::{Mark, Owned};
use crate::name::{ManagerId, ResourceId};
use crate::provider::{Answer, Described, Isolation, Order, Profile, Provider};
use muster_template::ProviderId;

/// The provider of this machine.
#[derive(Debug)]
pub struct LocalProvider {
    profile: Profile,
    resource: ResourceId,
    details: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
enum LocalRefusal {
    #[error("this machine is never started, stopped or rebooted by its own manager")]
    Power,
    #[error("there is only the machine {0}")]
    Other(ResourceId),
}

impl LocalProvider {
    /// Looks at this machine.
    #[must_use]
    pub fn new() -> Self {
        let access = [Means::Exec, Means::Attach, Means::Copy];
        Self {
            profile: Profile {
                id: ProviderId::Local,
                verbs: VerbSet::of(&[Verb::Terminate]),
                access: access
                    .map(|means| Capability::new(Transport::Local, means))
                    .into(),
                spot: false,
                one_machine: true,
                isolation: Isolation::Insecure(
                    "commands run on this machine as the manager's own user, with nothing between them and its files",
                ),
            },
            resource: ResourceId::new("local").expect("letters are visible"),
            details: host(),
        }
    }

    fn describe_as(&self, mark: &Mark) -> Described {
        Described {
            resource: self.resource.clone(),
            mark: mark.clone(),
            state: State::Running,
            reason: None,
            spot: false,
            verbs: self.profile.verbs,
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            access: self.profile.access.clone(),
            details: self.details.clone(),
        }
    }

    fn refusal(
        &self,
        operation: Operation,
        object: &ResourceId,
        class: FailureClass,
        source: LocalRefusal,
    ) -> ProviderError {
        ProviderError {
            provider: self.profile.id,
            operation,
            object: object.to_string(),
            class,
            source: source.into(),
        }
    }

    fn check(&self, operation: Operation, machine: &Owned) -> Result<(), ProviderError> {
        if machine.resource == self.resource {
            return Ok(());
        }
        let refusal = LocalRefusal::Other(self.resource.clone());
        let class = FailureClass::NotFound;
        Err(self.refusal(operation, &machine.resource, class, refusal))
    }
}

impl Default for LocalProvider {
    fn default() -> Self {
        Self::new()
    }
}

/// What this machine is.
fn host() -> BTreeMap<String, String> {
    let system = rustix::system::uname();
    let memory = rustix::system::sysinfo();
    // The field has the width of the platform's words.
    #[expect(
        clippy::useless_conversion,
        reason = "the width differs between platforms"
    )]
    let bytes = u64::from(memory.totalram) * u64::from(memory.mem_unit);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    BTreeMap::from([
        ("hostname".to_owned(), text(system.nodename())),
        ("arch".to_owned(), text(system.machine())),
        ("kernel".to_owned(), text(system.release())),
        ("cpus".to_owned(), cpus.to_string()),
        ("memoryMB".to_owned(), (bytes >> 20).to_string()),
    ])
}

impl Provider for LocalProvider {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        std::future::ready(Ok(self.describe_as(&order.mark))).boxed()
    }

    fn destroy<'a>(&'a self, _: &'a Owned) -> Answer<'a, State> {
        std::future::ready(Ok(State::Terminated)).boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        let here = machine.resource == self.resource;
        let described = here.then(|| self.describe_as(&machine.mark));
        std::future::ready(Ok(described)).boxed()
    }

    /// Nothing is made, so nothing can be left behind.
    fn list<'a>(&'a self, _: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        if verb == Verb::Terminate {
            return self.destroy(machine);
        }
        let operation = Operation::Act(verb);
        let refused = self.check(operation, machine).err().unwrap_or_else(|| {
            let class = FailureClass::Unsupported;
            self.refusal(operation, &machine.resource, class, LocalRefusal::Power)
        });
        std::future::ready(Err(refused)).boxed()
    }
}
