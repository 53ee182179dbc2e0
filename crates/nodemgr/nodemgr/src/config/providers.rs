//! Who makes machines, and how they are reached.

mod aws;
mod common;
mod libvirt;
mod ssh;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration as Time;

use muster_aws::AwsSettings;
use muster_config::{Duration, Problems};
use muster_docker::{Endpoint, InvalidEndpoint};
use muster_libvirt::{Acceleration, Catalog};
use muster_provider::sim::{SimCapacity, SimFaults, SimSettings};
use serde::Deserialize;

use crate::choice::{Place, Price};

pub use self::aws::RawInstanceType;
pub use self::common::Common;
use self::common::RawCommon;
pub use self::libvirt::RawDistribution;
pub use self::ssh::{Jump, RawJump, RawSsh, SshConfig};

/// Who makes machines. `local` is there unless it is switched off; `docker` too, if its engine is; the others if they stand here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RawProviders {
    /// This machine.
    pub local: Option<RawLocal>,
    /// Containers.
    pub docker: Option<RawDocker>,
    /// Virtual machines.
    pub libvirt: Option<RawLibvirt>,
    /// EC2.
    pub aws: Option<RawAws>,
    /// A simulated cloud.
    pub sim: Option<RawSim>,
}

/// What every provider has.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawQuota {
    /// So many machines.
    pub machines: Option<u64>,
    /// So many processors.
    pub cpus: Option<u64>,
    /// So much memory.
    #[serde(rename = "memoryMB")]
    pub memory_mb: Option<u64>,
}

macro_rules! with_common {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Whether it is used.
            pub enabled: Option<bool>,
            /// What may be used of it.
            pub quota: RawQuota,
            /// What an hour of a machine costs, for the policy.
            pub price: Option<f64>,
            /// The same of a machine that the provider may take back, if that is another price.
            pub spot_price: Option<f64>,
            /// What keeps everybody away who does not tolerate it (`--tolerate KEY=VALUE`).
            pub taints: BTreeMap<String, String>,
            /// How long a machine takes until it can be used, for the policy.
            pub ready_in: Option<Duration>,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            fn common(&self, section: &str, usual: Time, problems: &mut Problems<'_>) -> Option<Common> {
                let raw = RawCommon {
                    quota: self.quota,
                    price: self.price,
                    spot_price: self.spot_price,
                    ready_in: self.ready_in,
                    taints: &self.taints,
                };
                raw.read(section, usual, problems)
            }
        }
    };
}

with_common! {
    /// This machine.
    RawLocal {}
}

with_common! {
    /// Containers of a Docker engine.
    RawDocker {
        /// The engine: `unix:///var/run/docker.sock`, or `tcp://HOST:PORT` [default: $DOCKER_HOST, or the usual socket].
        endpoint: Option<String>,
        /// Whether an engine on another machine may be used by `tcp://`, where nothing is encrypted and everybody is root: no.
        plain_tcp: bool,
    }
}

with_common! {
    /// Virtual machines of libvirt.
    RawLibvirt {
        /// Which libvirt: `qemu:///system`, or for a user `qemu:///session`.
        uri: Option<String>,
        /// Where disks and downloaded images are kept: for root and `qemu:///system` a folder below `/var/lib/muster-machines`, else
        /// `libvirt` in the state folder. The user that QEMU runs as must be able to pass through it and everything above it.
        folder: Option<PathBuf>,
        /// The helper program: `muster-libvirt-helper` beside this one.
        helper: Option<PathBuf>,
        /// How processors are made: `probe` (KVM if something boots with it, which takes 10 s to see where it hangs), `kvm` or `tcg`.
        acceleration: Option<String>,
        /// Whether templates can name those distributions that publish checksums of their disks, at their own hosts: no.
        published_distributions: bool,
        /// Distributions that templates can name: where each has its disk, and its checksum.
        distributions: BTreeMap<String, RawDistribution>,
        /// How its machines are reached by SSH.
        ssh: RawSsh,
    }
}

with_common! {
    /// Virtual machines of EC2.
    RawAws {
        /// Where machines may be made; the first is where they are made when nobody says. Without any, as the environment says.
        regions: Vec<String>,
        /// Parts of these regions that fail on their own, such as `eu-central-1a`, for the policy `spread`.
        zones: Vec<String>,
        /// Another address than those of the regions, for clouds that speak EC2's language.
        endpoint_url: Option<String>,
        /// Whose credentials, of those in the usual files.
        profile: Option<String>,
        /// Whether machines are reached at their private address: the manager is in the same network.
        private_addresses: bool,
        /// Whether machines are hibernated at all: yes. A template says which are made so that they can be.
        hibernation: Option<bool>,
        /// The types that are chosen among where a template names none, in place of those that nearly every region has.
        instance_types: Option<BTreeMap<String, RawInstanceType>>,
        /// How its machines are reached by SSH.
        ssh: RawSsh,
    }
}

with_common! {
    /// A simulated cloud.
    RawSim {
        /// The same seed and the same calls give the same failures.
        seed: u64,
        /// How long a call takes.
        latency: Option<Duration>,
        /// How long a machine is pending.
        boot: Option<Duration>,
        /// How long it stops or shuts down.
        halt: Option<Duration>,
        /// So many calls of a thousand fail.
        fail: u16,
        /// So many orders of a thousand find no capacity.
        no_capacity: u16,
        /// So many answers of a thousand get lost.
        lose_answer: u16,
        /// So many running spot machines of a thousand are taken back whenever they are looked at.
        interrupt: u16,
        /// So many machines there are to be had.
        capacity: Option<u32>,
        /// So many spot machines there are to be had, by type; without any, as many as you like of every type.
        spot_capacity: BTreeMap<String, u32>,
    }
}

/// A Docker engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerConfig {
    /// Where it is, if that is said.
    pub endpoint: Option<Endpoint>,
    /// Whether it was asked for. One that was not is used only if it is there.
    pub asked: bool,
    /// Whether one on another machine may be used without encryption.
    pub plain_tcp: bool,
    /// What is known of it.
    pub common: Common,
}

impl DockerConfig {
    /// Where the engine is: as configured, as the environment says, or at the usual place.
    ///
    /// # Errors
    /// What the environment says makes no sense.
    pub fn endpoint(&self, docker_host: Option<&str>) -> Result<Endpoint, InvalidEndpoint> {
        match (&self.endpoint, docker_host.filter(|host| !host.is_empty())) {
            (Some(endpoint), _) => Ok(endpoint.clone()),
            (None, Some(host)) => host.parse(),
            (None, None) => Ok(Endpoint::default()),
        }
    }
}

/// A libvirt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibvirtConfig {
    /// Which.
    pub uri: String,
    /// Where disks are kept, if not at the usual place.
    pub folder: Option<PathBuf>,
    /// The helper program, if not beside this one.
    pub helper: Option<PathBuf>,
    /// How processors are made.
    pub acceleration: Acceleration,
    /// Distributions that are known by name.
    pub catalog: Catalog,
    /// How its machines are reached.
    pub ssh: SshConfig,
    /// What is known of it.
    pub common: Common,
}

/// EC2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsConfig {
    /// How it is set up.
    pub settings: AwsSettings,
    /// Where machines can be made, if the policy has a choice.
    pub places: Vec<Place>,
    /// What types cost that have a price of their own.
    pub prices: BTreeMap<String, Price>,
    /// How its machines are reached.
    pub ssh: SshConfig,
    /// What is known of it.
    pub common: Common,
}

/// A simulated cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimConfig {
    /// How it behaves.
    pub settings: SimSettings,
    /// What is known of it.
    pub common: Common,
}

/// Those that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Providers {
    /// This machine.
    pub local: Option<Common>,
    /// Containers.
    pub docker: Option<DockerConfig>,
    /// Virtual machines.
    pub libvirt: Option<LibvirtConfig>,
    /// EC2.
    pub aws: Option<AwsConfig>,
    /// A simulated cloud.
    pub sim: Option<SimConfig>,
}

/// There unless it is switched off; where it does not stand, as if nothing were said.
fn unless_off<T: Default>(raw: Option<T>, enabled: impl Fn(&T) -> Option<bool>) -> Option<T> {
    let raw = raw.unwrap_or_default();
    (enabled(&raw) != Some(false)).then_some(raw)
}

/// There if it stands there, and is not switched off.
fn if_named<T>(raw: Option<T>, enabled: impl Fn(&T) -> Option<bool>) -> Option<T> {
    raw.filter(|raw| enabled(raw) != Some(false))
}

impl RawSim {
    fn settings(&self, problems: &mut Problems<'_>) -> SimSettings {
        for (key, value) in [
            ("fail", self.fail),
            ("noCapacity", self.no_capacity),
            ("loseAnswer", self.lose_answer),
            ("interrupt", self.interrupt),
        ] {
            if value > 1000 {
                problems.report(&format!("providers.sim.{key}"), "must be at most 1000");
            }
        }
        let time = |given: Option<Duration>| given.map_or(Time::ZERO, Duration::get);
        let latency = time(self.latency);
        SimSettings {
            seed: self.seed,
            latency: latency..=latency,
            boot: time(self.boot),
            halt: time(self.halt),
            faults: SimFaults {
                fail: self.fail,
                lose_answer: self.lose_answer,
                no_capacity: self.no_capacity,
                interrupt: self.interrupt,
            },
            capacity: SimCapacity {
                on_demand: self.capacity,
                spot: self.spot_capacity.clone(),
                ..SimCapacity::default()
            },
            ..SimSettings::default()
        }
    }
}

const SECOND: Time = Time::from_secs(1);

impl RawProviders {
    pub(super) fn providers(&self, problems: &mut Problems<'_>) -> Option<Providers> {
        let mut complete = true;
        let mut keep = |common: Option<Common>| {
            complete &= common.is_some();
            common
        };
        let raw = self.clone();
        let local = unless_off(raw.local, |raw| raw.enabled)
            .and_then(|raw| keep(raw.common("local", Time::ZERO, problems)));
        let docker_named = raw.docker.is_some();
        let docker = unless_off(raw.docker, |raw| raw.enabled).and_then(|raw| {
            let common = keep(raw.common("docker", SECOND, problems))?;
            let endpoint = match raw.endpoint.as_deref().map(str::parse).transpose() {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    let error: InvalidEndpoint = error;
                    problems.report("providers.docker.endpoint", error);
                    None
                }
            };
            Some(DockerConfig {
                endpoint,
                asked: docker_named,
                plain_tcp: raw.plain_tcp,
                common,
            })
        });
        let libvirt = if_named(raw.libvirt, |raw| raw.enabled).and_then(|raw| {
            let common = keep(raw.common("libvirt", 30 * SECOND, problems))?;
            let mut catalog = match raw.published_distributions {
                true => Catalog::published(),
                false => Catalog::default(),
            };
            libvirt::add(&mut catalog, &raw.distributions, problems);
            let acceleration = libvirt::acceleration(raw.acceleration.as_deref(), problems);
            Some(LibvirtConfig {
                catalog,
                acceleration,
                ssh: raw.ssh.config("libvirt", problems),
                uri: raw.uri.unwrap_or_else(|| "qemu:///system".to_owned()),
                folder: raw.folder,
                helper: raw.helper,
                common,
            })
        });
        let aws = if_named(raw.aws, |raw| raw.enabled).and_then(|raw| {
            let common = keep(raw.common("aws", 60 * SECOND, problems))?;
            Some(AwsConfig {
                settings: raw.settings(problems),
                places: raw.places(problems),
                prices: raw.prices(problems),
                ssh: raw.ssh.config("aws", problems),
                common,
            })
        });
        let sim = if_named(raw.sim, |raw| raw.enabled).and_then(|raw| {
            let common = keep(raw.common("sim", Time::ZERO, problems))?;
            Some(SimConfig {
                settings: raw.settings(problems),
                common,
            })
        });
        complete.then_some(Providers {
            local,
            docker,
            libvirt,
            aws,
            sim,
        })
    }
}
