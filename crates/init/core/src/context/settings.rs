//! How a process shares the machine: limits, scheduling, memory.

use muster_engine::protocol::SpawnError;
use muster_exec::{ExecContext, IoPriority, Limit, Scheduler, Step};
use muster_unit_file::config::{IoClass, SchedulingPolicy, UnitConfig};
use muster_unit_file::value::cpuset::CpuSet;
use muster_unit_file::value::rlimit::{Resource, ResourceLimit};

use super::failed;
use super::machine::Machine;

/// What the kernel takes if only a class or only a level is said.
const DEFAULT_IO_LEVEL: u8 = 4;
/// Priorities of the policies for real time.
const LOWEST_REALTIME: u8 = 1;
const HIGHEST_REALTIME: u8 = 99;

pub(super) fn apply(
    config: &UnitConfig,
    defaults: &[ResourceLimit],
    machine: &dyn Machine,
    context: &mut ExecContext,
) -> Result<(), SpawnError> {
    let exec = &config.exec;
    let scheduling = &exec.scheduling;
    context.umask = exec.umask.0;
    context.stream_mode = 0o666 & !exec.umask.0;
    context.ignore_sigpipe = exec.ignore_sigpipe;
    context.limits = limits(&exec.limits, defaults);
    context.nice = scheduling.nice.map(|nice| nice.0);
    if let Some(score) = scheduling.oom_score_adjust {
        super::helped(context).oom_score_adjust = Some(score.0);
    }
    context.coredump_filter = scheduling.coredump_filter.map(|filter| filter.0);
    context.timer_slack = scheduling.timer_slack.map(|slack| slack.0);
    let has_policy =
        scheduling.policy.is_some() || scheduling.priority.is_some() || scheduling.reset_on_fork;
    let priority_said = scheduling.priority.map_or(0, |priority| priority.0);
    context.scheduler = has_policy.then(|| Scheduler {
        policy: policy(scheduling.policy.unwrap_or_default()),
        priority: match scheduling.policy {
            Some(policy) => priority_within(policy, priority_said),
            None => priority_said,
        },
        reset_on_fork: scheduling.reset_on_fork,
    });
    let has_io = scheduling.io_class.is_some() || scheduling.io_priority.is_some();
    context.io_priority = has_io.then(|| IoPriority {
        class: io_class(scheduling.io_class.unwrap_or(IoClass::BestEffort)),
        level: scheduling
            .io_priority
            .map_or(DEFAULT_IO_LEVEL, |level| level.0),
    });
    let numbers = |set: &CpuSet| -> Vec<u16> {
        let numbers = set.iter();
        numbers
            .filter_map(|number| u16::try_from(number).ok())
            .collect()
    };
    context.processors = numbers(&scheduling.affinity.cpus);
    if scheduling.affinity.from_numa {
        context.processors = numbers(&near(&scheduling.numa_mask, machine)?);
    }
    Ok(())
}

/// The processors of memory nodes.
fn near(nodes: &CpuSet, machine: &dyn Machine) -> Result<CpuSet, SpawnError> {
    let cannot = |what: String, errno: i32| failed(Step::CpuAffinity, what, errno);
    let mut processors = CpuSet::default();
    for node in nodes.iter() {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        let text = machine.read(&path).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            cannot(format!("CPUAffinity=numa: cannot read {path}"), errno)
        })?;
        let list = String::from_utf8_lossy(&text);
        let list = CpuSet::from_text(list.trim()).map_err(|error| {
            let what = format!("CPUAffinity=numa: {path}: {error}");
            cannot(what, libc::EINVAL)
        })?;
        processors.extend(&list);
    }
    if processors.is_empty() {
        let what = "CPUAffinity=numa: the nodes of NUMAMask= have no processors".to_owned();
        return Err(cannot(what, libc::EINVAL));
    }
    Ok(processors)
}

/// What the unit says, and the manager's defaults for what it does not.
fn limits(stated: &[ResourceLimit], defaults: &[ResourceLimit]) -> Vec<Limit> {
    let is_stated = |limit: &&ResourceLimit| {
        let resource = limit.resource;
        stated.iter().any(|stated| stated.resource == resource)
    };
    let defaults = defaults.iter().filter(|limit| !is_stated(limit));
    let all = stated.iter().chain(defaults);
    all.map(|limit| Limit {
        resource: resource(limit.resource),
        soft: limit.soft,
        hard: limit.hard,
    })
    .collect()
}

fn policy(policy: SchedulingPolicy) -> i32 {
    match policy {
        SchedulingPolicy::Other => libc::SCHED_OTHER,
        SchedulingPolicy::Fifo => libc::SCHED_FIFO,
        SchedulingPolicy::RoundRobin => libc::SCHED_RR,
        SchedulingPolicy::Batch => libc::SCHED_BATCH,
        SchedulingPolicy::Idle => libc::SCHED_IDLE,
    }
}

/// The kernel refuses a priority that a policy does not have: that it was not said, or said for another policy, is no reason
/// to fail.
fn priority_within(policy: SchedulingPolicy, priority: u8) -> u8 {
    match policy {
        SchedulingPolicy::Fifo | SchedulingPolicy::RoundRobin => {
            priority.clamp(LOWEST_REALTIME, HIGHEST_REALTIME)
        }
        SchedulingPolicy::Other | SchedulingPolicy::Batch | SchedulingPolicy::Idle => 0,
    }
}

fn io_class(class: IoClass) -> u8 {
    match class {
        IoClass::None => 0,
        IoClass::Realtime => 1,
        IoClass::BestEffort => 2,
        IoClass::Idle => 3,
    }
}

fn resource(resource: Resource) -> u32 {
    match resource {
        Resource::Cpu => libc::RLIMIT_CPU,
        Resource::Fsize => libc::RLIMIT_FSIZE,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::Stack => libc::RLIMIT_STACK,
        Resource::Core => libc::RLIMIT_CORE,
        Resource::Rss => libc::RLIMIT_RSS,
        Resource::Nofile => libc::RLIMIT_NOFILE,
        Resource::As => libc::RLIMIT_AS,
        Resource::Nproc => libc::RLIMIT_NPROC,
        Resource::Memlock => libc::RLIMIT_MEMLOCK,
        Resource::Locks => libc::RLIMIT_LOCKS,
        Resource::Sigpending => libc::RLIMIT_SIGPENDING,
        Resource::Msgqueue => libc::RLIMIT_MSGQUEUE,
        Resource::Nice => libc::RLIMIT_NICE,
        Resource::Rtprio => libc::RLIMIT_RTPRIO,
        Resource::Rttime => libc::RLIMIT_RTTIME,
    }
}
