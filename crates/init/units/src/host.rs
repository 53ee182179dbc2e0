//! What units get from the machine and from the manager's own configuration.

use jiff::tz::TimeZone;
use muster_unit_file::name::UnitType;
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::value::number::{Limit, Permyriad};
use muster_unit_file::value::rlimit::{Resource, ResourceLimit};

/// A mount that the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMount {
    /// Where.
    pub place: Box<str>,
    /// What.
    pub what: Box<str>,
    /// Of which type.
    pub fs_type: Box<str>,
    /// With which options.
    pub options: Box<str>,
}

/// The machine and the manager's defaults.
#[derive(Clone, Debug)]
pub struct Host {
    /// What specifiers stand for; also where directories of services are.
    pub specifiers: HostFacts,
    /// Mounts that exist, with or without unit files. The root is always there.
    pub mounts: Vec<KernelMount>,
    /// Bytes of memory, for limits that are a share of it.
    pub memory: u64,
    /// Tasks that the kernel allows, for limits that are a share of them.
    pub tasks: u64,
    /// `DefaultTasksMax=`
    pub default_tasks_max: Limit,
    /// `DefaultLimit...=`, for resources where it differs from the manager's own limit.
    pub default_limits: Vec<ResourceLimit>,
    /// The limits of the manager itself.
    pub own_limits: Vec<ResourceLimit>,
    /// How late timers of processes may be, in nanoseconds.
    pub timer_slack: u64,
    /// Types of units that the kernel cannot do, automounts without autofs for example.
    pub unsupported: Vec<UnitType>,
    /// Control groups can limit memory, so that watching it makes sense.
    pub memory_control: bool,
    /// In which times are shown.
    pub zone: TimeZone,
}

impl Default for Host {
    fn default() -> Self {
        let limit = |resource, soft, hard| ResourceLimit {
            resource,
            soft,
            hard,
        };
        Self {
            specifiers: HostFacts::default(),
            mounts: Vec::new(),
            memory: u64::MAX,
            tasks: u64::MAX,
            default_tasks_max: Limit::Share(Permyriad(1500)),
            default_limits: vec![limit(Resource::Nofile, 1024, 524_288)],
            own_limits: vec![
                limit(Resource::Stack, 8 << 20, u64::MAX),
                limit(Resource::Core, 0, u64::MAX),
                limit(Resource::Msgqueue, 819_200, 819_200),
                limit(Resource::Memlock, 8 << 20, 8 << 20),
                limit(Resource::Nice, 0, 0),
                limit(Resource::Rtprio, 0, 0),
            ],
            timer_slack: 50_000,
            unsupported: Vec::new(),
            memory_control: true,
            zone: TimeZone::UTC,
        }
    }
}

impl Host {
    /// The limit of a unit that states none. A unit whose file was not read has not got the
    /// defaults either.
    #[must_use]
    pub fn limit(&self, resource: Resource, loaded: bool) -> ResourceLimit {
        let defaults = if loaded {
            self.default_limits.as_slice()
        } else {
            &[]
        };
        let known = defaults
            .iter()
            .chain(&self.own_limits)
            .find(|limit| limit.resource == resource);
        known.copied().unwrap_or(ResourceLimit {
            resource,
            soft: u64::MAX,
            hard: u64::MAX,
        })
    }

    /// An amount of memory in bytes, `None` without a limit.
    #[must_use]
    pub fn memory_amount(&self, limit: Limit) -> Option<u64> {
        amount(limit, self.memory).map(|bytes| {
            if matches!(limit, Limit::Share(_)) {
                bytes / PAGE * PAGE
            } else {
                bytes
            }
        })
    }

    /// A number of tasks, `None` without a limit.
    #[must_use]
    pub fn tasks_amount(&self, limit: Limit) -> Option<u64> {
        amount(limit, self.tasks)
    }
}

const PAGE: u64 = 4096;

fn amount(limit: Limit, whole: u64) -> Option<u64> {
    match limit {
        Limit::Infinity => None,
        Limit::Absolute(u64::MAX) => None,
        Limit::Absolute(amount) => Some(amount),
        Limit::Share(Permyriad(share)) => {
            let part = u128::from(whole) * u128::from(share) / 10_000;
            u64::try_from(part).ok()
        }
    }
}
