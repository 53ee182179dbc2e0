//! The provider.

mod image;
mod look;
mod make;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use muster_lifecycle::{Halt, State, Step, Verb, VerbSet};
use muster_provider::{
    Answer, BoxError, Described, FailureClass, Home, Isolation, MachineSpec, ManagerId, Mark,
    Operation, Order, Owned, Profile, Provider, ProviderError, ProviderId,
};

use self::look::Look;
use crate::client::{CallError, Client};
use crate::credentials::{CredentialSource, Keyring, default_region};
use crate::ec2::{
    DescribeInstances, Filter, GetCallerIdentity, Meaning, RebootInstances, StartInstances,
    StopInstances, StopMode, TerminateInstances,
};
use crate::endpoint::{InvalidEndpoint, check};
use crate::fault::{ACTED, TERMINATED};
use crate::launches::Launches;
use crate::place::{Place, describe, ssh};
use crate::rules::plan;
use crate::settings::{AwsSettings, InvalidRegion, Region};
use crate::transport::{Http, HttpSetupError};
use crate::wanted::TEMPLATE_TAG;

/// How long to wait for the name of the account: networks may have a way to EC2 and none to the service that knows.
const ACCOUNT_TIME: Duration = Duration::from_secs(10);
/// How often launch templates are looked for that a manager left behind when it was killed.
const SWEEP: Duration = Duration::from_secs(60);
/// Pages of one list, at most: half a million machines.
const MOST_PAGES: usize = 1000;

/// Why there is no provider.
#[derive(Debug, thiserror::Error)]
pub enum OpenAwsError {
    /// Nobody says where.
    #[error("there is no region: set regions, or AWS_REGION, or use a profile that has one")]
    NoRegion,
    /// What the environment says is none.
    #[error("the region of the environment or the profile cannot be used")]
    Region(#[source] InvalidRegion),
    /// The endpoint cannot be used.
    #[error("the endpoint of the settings cannot be used")]
    Endpoint(#[source] InvalidEndpoint),
    /// There is no HTTP client.
    #[error("requests to AWS cannot be made")]
    Http(#[source] HttpSetupError),
}

/// Machines of EC2. Clones are the same provider.
#[derive(Debug, Clone)]
pub struct AwsProvider(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    client: Client,
    settings: AwsSettings,
    /// At least one.
    regions: Vec<Region>,
    profile: Profile,
    launches: Launches,
    since: Instant,
    /// When launch templates were swept, of which manager, where.
    swept: Mutex<BTreeMap<(Region, ManagerId), Instant>>,
}

/// A failure, before it is known what was asked.
#[derive(Debug)]
struct Failure {
    class: FailureClass,
    source: BoxError,
}

impl Failure {
    fn new(class: FailureClass, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self { class, source }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::new(error.meaning().class(), error)
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0} bears another mark")]
    OtherMark(String),
    #[error("there is no machine {0}")]
    NotThere(String),
    #[error("EC2 does not show {0}, which may be too new for that")]
    NotYet(String),
    #[error("a list of machines has no end")]
    Endless,
    #[error("nobody said within {0:?} which account the credentials are of")]
    NoAccount(Duration),
}

impl AwsProvider {
    /// The provider, with the credentials that every tool of AWS would use: environment, profile, web identity, container, machine.
    /// Nothing is asked yet; credentials are fetched with the first request.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub async fn open(settings: AwsSettings) -> Result<Self, OpenAwsError> {
        Self::with(settings, None).await
    }

    /// The provider, with credentials that are given.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub async fn with_credentials(
        settings: AwsSettings,
        credentials: CredentialSource,
    ) -> Result<Self, OpenAwsError> {
        Self::with(settings, Some(credentials)).await
    }

    /// Where machines are made when nobody says.
    #[must_use]
    pub fn usual_region(&self) -> &Region {
        &self.0.regions[0]
    }

    async fn with(
        settings: AwsSettings,
        given: Option<CredentialSource>,
    ) -> Result<Self, OpenAwsError> {
        let profile = settings.profile.as_deref();
        let http = Arc::new(Http::new().map_err(OpenAwsError::Http)?);
        let mut regions = settings.regions.clone();
        if regions.is_empty() {
            let region = default_region(&http, profile).await;
            let region = region.ok_or(OpenAwsError::NoRegion)?;
            regions.push(region.parse().map_err(OpenAwsError::Region)?);
        }
        let endpoint = settings.endpoint_url.as_deref().map(check).transpose();
        let endpoint = endpoint.map_err(OpenAwsError::Endpoint)?;
        let source = match given {
            Some(source) => source,
            None => CredentialSource::chain(&http, profile, &regions[0]).await,
        };
        let verbs = match settings.hibernation {
            true => VerbSet::ALL,
            false => VerbSet::ALL.without(Verb::Hibernate).without(Verb::Resume),
        };
        Ok(Self(Arc::new(Inside {
            client: Client {
                http,
                keyring: Keyring::new(source),
                endpoint,
                timeout: settings.call_timeout,
                throttle_attempts: settings.throttle_attempts,
            },
            settings,
            regions,
            profile: Profile {
                id: ProviderId::Aws,
                verbs,
                access: ssh(),
                spot: true,
                one_machine: false,
                isolation: Isolation::Isolated,
            },
            launches: Launches::default(),
            since: Instant::now(),
            swept: Mutex::default(),
        })))
    }

    /// Which image a machine would be made of, today: what a lock file pins.
    ///
    /// # Errors
    /// When there is none, or EC2 does not answer.
    pub async fn find_image(&self, spec: &MachineSpec) -> Result<String, ProviderError> {
        let found = self.0.find_image(spec).await;
        found.map_err(|failure| failure.told(Operation::Describe, "an image"))
    }
}

impl Failure {
    fn told(self, operation: Operation, object: &str) -> ProviderError {
        ProviderError {
            provider: ProviderId::Aws,
            operation,
            object: object.to_owned(),
            class: self.class,
            source: self.source,
        }
    }
}

impl Inside {
    async fn describe(&self, machine: &Owned) -> Result<Option<Described>, Failure> {
        let place = place(machine)?;
        match self.look(&place, &machine.mark).await? {
            Look::There(instance) => Ok(self.told(&instance, &place.region)),
            Look::Gone => Ok(None),
            Look::New => Ok(Some(Described {
                resource: machine.resource.clone(),
                mark: machine.mark.clone(),
                state: State::Pending,
                reason: None,
                spot: false,
                // What sort of machine it is will be seen.
                verbs: self.profile.verbs,
                address: None,
                access: Default::default(),
                details: Default::default(),
            })),
            Look::Unknown => Err(not_yet(machine)),
        }
    }

    /// The account. Which region a machine is in its name says.
    async fn account(&self) -> Result<Option<Home>, Failure> {
        let asked = self.client.call(&self.regions[0], &GetCallerIdentity);
        let account = tokio::time::timeout(ACCOUNT_TIME, asked).await;
        let account = account.map_err(|_| {
            Failure::new(FailureClass::Retryable, Trouble::NoAccount(ACCOUNT_TIME))
        })??;
        Ok(Home::new(&account).ok())
    }

    fn told(&self, instance: &crate::ec2::Instance, region: &Region) -> Option<Described> {
        describe(instance, region, self.settings.address, self.profile.verbs)
    }

    async fn list(&self, manager: &ManagerId) -> Result<Vec<Described>, Failure> {
        let (key, value) = Mark::manager_label(manager);
        let mut all = Vec::new();
        for region in &self.regions {
            let filters = vec![Filter::tag(key, value)];
            for instance in self.instances(region, filters).await? {
                if instance.state != State::Terminated {
                    all.extend(self.told(&instance, region));
                }
            }
            if self.is_to_sweep(region, manager) {
                self.sweep_templates(region, manager).await;
            }
        }
        all.retain(|described| described.mark.manager == *manager);
        Ok(all)
    }

    /// Whether it is time for a sweep. What is left behind is no hurry, and lists are many.
    fn is_to_sweep(&self, region: &Region, manager: &ManagerId) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.retain(|_, at| at.elapsed() < SWEEP);
        let key = (region.clone(), manager.clone());
        let is_due = !swept.contains_key(&key);
        if is_due {
            swept.insert(key, Instant::now());
        }
        is_due
    }

    /// Every instance that fits, of all pages.
    async fn instances(
        &self,
        region: &Region,
        filters: Vec<Filter>,
    ) -> Result<Vec<crate::ec2::Instance>, Failure> {
        let mut request = DescribeInstances {
            filters,
            ..DescribeInstances::default()
        };
        let mut all = Vec::new();
        for _ in 0..MOST_PAGES {
            let page = self.client.call(region, &request).await?;
            all.extend(page.instances);
            request.next = page.next;
            if request.next.is_none() {
                return Ok(all);
            }
        }
        Err(Failure::new(FailureClass::Retryable, Trouble::Endless))
    }

    async fn destroy(&self, machine: &Owned) -> Result<State, Failure> {
        let place = place(machine)?;
        let template = match self.look(&place, &machine.mark).await? {
            Look::Gone => return Ok(State::Terminated),
            Look::Unknown => return Err(not_yet(machine)),
            Look::There(instance) if instance.state.is_ending() => return Ok(instance.state),
            Look::There(instance) => instance.tags.get(TEMPLATE_TAG).cloned(),
            Look::New => None,
        };
        let id = place.instance.clone();
        let ended = self
            .client
            .call(&place.region, &TerminateInstances { id })
            .await;
        let state = match ended {
            Err(error) if error.meaning() == Meaning::NotFound => {
                let new = self.is_new(&place, &machine.mark);
                return if new {
                    Err(not_yet(machine))
                } else {
                    Ok(State::Terminated)
                };
            }
            ended => ended?,
        };
        muster_fault::hit(TERMINATED);
        if let Some(template) = template {
            self.delete_template(&place.region, template).await;
        }
        Ok(state)
    }

    async fn act(&self, machine: &Owned, verb: Verb) -> Result<State, Failure> {
        if verb == Verb::Terminate {
            return self.destroy(machine).await;
        }
        let place = place(machine)?;
        let instance = match self.look(&place, &machine.mark).await? {
            Look::There(instance) => instance,
            Look::New | Look::Unknown => return Err(not_yet(machine)),
            Look::Gone => {
                let gone = Trouble::NotThere(machine.resource.to_string());
                return Err(Failure::new(FailureClass::NotFound, gone));
            }
        };
        let step = plan(&instance, verb, self.profile.verbs);
        let step = step.map_err(|problem| Failure::new(problem.class(), problem))?;
        let Step::Act(verb) = step else {
            return Ok(instance.state);
        };
        let (region, id) = (&place.region, place.instance);
        let stop = |id, mode| StopInstances { id, mode };
        let client = &self.client;
        let state = match verb {
            Verb::Start | Verb::Resume => client.call(region, &StartInstances { id }).await?,
            Verb::Stop => client.call(region, &stop(id, StopMode::Graceful)).await?,
            Verb::ForceStop => client.call(region, &stop(id, StopMode::Force)).await?,
            Verb::Hibernate => match client.call(region, &stop(id, StopMode::Hibernate)).await? {
                State::Stopping(_) => State::Stopping(Halt::Hibernated),
                State::Stopped(_) => State::Stopped(Halt::Hibernated),
                other => other,
            },
            Verb::Reboot => {
                client.call(region, &RebootInstances { id }).await?;
                State::Running
            }
            Verb::Terminate => client.call(region, &TerminateInstances { id }).await?,
        };
        muster_fault::hit(ACTED);
        Ok(state)
    }
}

fn place(machine: &Owned) -> Result<Place, Failure> {
    let place = Place::read(&machine.resource);
    place.map_err(|error| Failure::new(FailureClass::Refused, error))
}

fn not_yet(machine: &Owned) -> Failure {
    let trouble = Trouble::NotYet(machine.resource.to_string());
    Failure::new(FailureClass::Retryable, trouble)
}

impl Provider for AwsProvider {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        let made = self.0.provision(order).map(|made| {
            let object = order.mark.machine.as_str();
            made.map_err(|failure| failure.told(Operation::Provision, object))
        });
        made.boxed()
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State> {
        let gone = self.0.destroy(machine).map(|gone| {
            let object = machine.resource.as_str();
            gone.map_err(|failure| failure.told(Operation::Destroy, object))
        });
        gone.boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        let described = self.0.describe(machine).map(|described| {
            let object = machine.resource.as_str();
            described.map_err(|failure| failure.told(Operation::Describe, object))
        });
        described.boxed()
    }

    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        let listed = self.0.list(manager).map(|listed| {
            let object = manager.as_str();
            listed.map_err(|failure| failure.told(Operation::List, object))
        });
        listed.boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        let acted = self.0.act(machine, verb).map(move |acted| {
            let object = machine.resource.as_str();
            acted.map_err(|failure| failure.told(Operation::Act(verb), object))
        });
        acted.boxed()
    }

    fn home(&self) -> Answer<'_, Option<Home>> {
        let account = self.0.account();
        let home = account
            .map(|account| account.map_err(|failure| failure.told(Operation::Home, "its account")));
        home.boxed()
    }
}
