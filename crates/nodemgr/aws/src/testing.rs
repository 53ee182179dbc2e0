//! For tests: a fake of EC2 that keeps its rules and makes its troubles.
//!
//! [`FakeEc2::start`] answers on a port of this machine, in a thread of its own, so that it outlives programs that a test kills.
//! What it models is what other fakes leave out: client tokens and their mismatches, machines that are not shown at once, capacity by
//! type, quotas, throttling, lost answers, interruptions of spot machines, hibernation and its rules, and signatures, which it
//! recomputes. It also gives credentials away, as a machine's metadata service and a container's do. It keeps every request, and
//! when it is dropped it checks all of them against the models that AWS publishes: a test that uses it fails by a request that EC2
//! would not understand.

mod check;
mod keys;
mod params;
mod server;
mod signature;
mod world;
mod write;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_lifecycle::State;
use muster_provider::Secret;
use serde::Serialize;

pub use self::check::{check_file, python};
use self::server::Server;
use self::world::World;
use crate::credentials::CredentialSource;
use crate::ec2::{Action as _, GetCallerIdentity};

/// The access key that it knows.
pub const ACCESS_KEY: &str = "AKIAFAKEFAKEFAKEFAKE";
/// And its secret.
pub const SECRET_KEY: &str = "a-key-that-opens-nothing/but+a+fake";
/// What comes with both for a machine or a container.
pub const SESSION_TOKEN: &str = "a-session-of-a-fake";

/// An image that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeImage {
    /// `ami-…`
    pub id: &'static str,
    /// Whose it is.
    pub owner: &'static str,
    /// Its name.
    pub name: &'static str,
    /// EC2's name of its architecture.
    pub arch: &'static str,
    /// When it was made.
    pub created: &'static str,
    /// The device of its root volume.
    pub root_device: &'static str,
}

/// How it behaves.
#[derive(Debug, Clone)]
pub struct FakeSettings {
    /// How long a machine takes to run.
    pub boot: Duration,
    /// How long one takes to stop or to end.
    pub halt: Duration,
    /// How long a new machine is not shown, and cannot be asked anything.
    pub shown_after: Duration,
    /// How many machines on demand of each type there are; types that are not here have no end.
    pub on_demand: BTreeMap<String, usize>,
    /// How many spot machines of each type there are; likewise.
    pub spot: BTreeMap<String, usize>,
    /// How many machines the account may have.
    pub quota: Option<usize>,
    /// How many of the next requests are throttled.
    pub throttle: usize,
    /// How many of the next requests of this name are carried out and not answered.
    pub lose: (&'static str, usize),
    /// A request that the account may not make.
    pub forbidden: Option<&'static str>,
    /// Machines of one page, at most.
    pub page: usize,
    /// The private address that every machine says it has.
    pub private_address: Ipv4Addr,
    /// Images.
    pub images: Vec<FakeImage>,
    /// Parameters of the Systems Manager.
    pub parameters: BTreeMap<&'static str, &'static str>,
    /// The number of the account that its credentials are of.
    pub account: &'static str,
}

/// The image that is always there.
pub const IMAGE: &str = "ami-0000000000000001a";

impl Default for FakeSettings {
    fn default() -> Self {
        Self {
            boot: Duration::from_millis(5),
            halt: Duration::from_millis(5),
            shown_after: Duration::ZERO,
            on_demand: BTreeMap::new(),
            spot: BTreeMap::new(),
            quota: None,
            throttle: 0,
            lose: ("", 0),
            forbidden: None,
            page: 1000,
            private_address: Ipv4Addr::new(10, 0, 0, 7),
            images: vec![FakeImage {
                id: IMAGE,
                owner: "099720109477",
                name: "ubuntu/24.04-1",
                arch: "x86_64",
                created: "2026-01-01T00:00:00.000Z",
                root_device: "/dev/sda1",
            }],
            parameters: BTreeMap::new(),
            account: "123456789012",
        }
    }
}

/// A request as it came.
#[derive(Debug, Clone, Serialize)]
pub struct Recorded {
    /// Its name.
    pub action: String,
    /// Its method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
}

/// A machine as the owner of the account sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeView {
    /// `i-…`
    pub id: String,
    /// Its type.
    pub kind: String,
    /// Where it is.
    pub state: State,
    /// Whether it is a spot machine.
    pub spot: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The parameters of the request that made it.
    pub made_with: BTreeMap<String, String>,
    /// How often it was rebooted.
    pub reboots: u32,
}

/// What server and test share.
#[derive(Debug)]
struct Shared {
    world: World,
    settings: FakeSettings,
    requests: Vec<Recorded>,
}

/// The fake. It ends when it is dropped.
#[derive(Debug)]
pub struct FakeEc2 {
    shared: Arc<Mutex<Shared>>,
    server: Server,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeEc2 {
    /// Begins to answer.
    ///
    /// # Panics
    /// When this machine has no port or thread left.
    #[must_use]
    pub fn start(settings: FakeSettings) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            world: World::default(),
            settings,
            requests: Vec::new(),
        }));
        let server = Server::start(Arc::clone(&shared)).expect("a port of this machine");
        Self { shared, server }
    }

    /// Where it answers.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The credentials that it knows.
    #[must_use]
    pub fn credentials() -> CredentialSource {
        CredentialSource::fixed(ACCESS_KEY, &Secret::new(SECRET_KEY.to_owned()))
    }

    /// Changes how it behaves from now on.
    pub fn set(&self, change: impl FnOnce(&mut FakeSettings)) {
        change(&mut lock(&self.shared).settings);
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared).requests.clone()
    }

    /// Fails the test unless every request so far is signed as others would sign it.
    ///
    /// # Panics
    /// With what is wrong with them.
    pub fn assert_signed(&self) {
        check::check_all(&self.requests(), &[ACCESS_KEY, SECRET_KEY]);
    }

    /// The names of all requests so far, without those that only look.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let requests = self.requests().into_iter().map(|request| request.action);
        requests
            .filter(|action| !action.starts_with("Describe") && action != GetCallerIdentity::NAME)
            .collect()
    }

    /// Every machine that is not gone.
    #[must_use]
    pub fn machines(&self) -> Vec<FakeView> {
        let mut all = self.all_machines();
        all.retain(|machine| machine.state != State::Terminated);
        all
    }

    /// Every machine there ever was.
    #[must_use]
    pub fn all_machines(&self) -> Vec<FakeView> {
        lock(&self.shared).world.views(Instant::now())
    }

    /// The names of all launch templates.
    #[must_use]
    pub fn templates(&self) -> Vec<String> {
        lock(&self.shared).world.template_names()
    }

    /// Somebody else makes a machine, with these tags.
    pub fn add_foreign(&self, tags: &[(&str, &str)]) -> String {
        lock(&self.shared).world.add_foreign(tags, Instant::now())
    }

    /// Somebody makes a launch template, at a time in ISO 8601.
    pub fn add_template(&self, name: &str, tags: &[(&str, &str)], created: &str) {
        lock(&self.shared).world.add_template(name, tags, created);
    }

    /// Shows machines that are gone no more, as EC2 does after an hour.
    pub fn forget_terminated(&self) {
        lock(&self.shared).world.forget_terminated(Instant::now());
    }

    /// Takes a spot machine back.
    pub fn interrupt(&self, id: &str) {
        let mut shared = lock(&self.shared);
        let halt = shared.settings.halt;
        shared.world.interrupt(id, halt, Instant::now());
    }
}

impl Drop for FakeEc2 {
    fn drop(&mut self) {
        // A test that has failed already says why.
        if !std::thread::panicking() {
            check::check_all(&self.requests(), &[]);
        }
    }
}
