//! What the node and its instances use, and when that is too much.
//!
//! # Entry points
//! [`Monitor::new`] answers a [`MonitorHandle`] and a [`Monitor`], whose [`run`](Monitor::run) is the future that measures. The
//! handle is cheap to clone and never waits: [`watch`](MonitorHandle::watch) and [`unwatch`](MonitorHandle::unwatch) say which
//! instances there are, [`set_node_rules`](MonitorHandle::set_node_rules) what is too much for the node,
//! [`subscribe`](MonitorHandle::subscribe) gives every [`Snapshot`], [`average`](MonitorHandle::average) the running averages,
//! [`encode`](MonitorHandle::encode) the latest snapshot as OpenMetrics text ([`UseMetrics`] is the same for a daemon's own
//! registry).
//!
//! # What is measured, and where it comes from
//! | what | node | instance |
//! |---|---|---|
//! | processors, in DMIPS and percent of the node | `/proc/stat` | v1 `cpuacct.usage`, else v2 `cpu.stat` |
//! | memory, in bytes | total less available of `/proc/meminfo` | v1 `memory.usage_in_bytes`, else v2 `memory.current`, else what its processes have resident |
//! | processes and threads | | `pids.current` of v1, else of v2, else counted |
//! | partitions, in bytes | `statvfs` | a quota of its folder, else a walk through it |
//! | bytes received and sent | [`TrafficSource`] | [`TrafficSource`] |
//!
//! An instance's group is looked for at the same path in every tree, v1 before v2, so that one path serves cgroup v2, v1 and
//! hybrid machines. Groups below are part of it: the group of an instance's unit is the one to watch.
//!
//! # Disks
//! Partitions and folders are measured in a thread of their own, one after the other, which nobody waits for longer than a
//! moment. A file system that does not answer keeps its last figures and its thread (of which there are at most eight), and
//! after twice [`DiskSettings::patience`] the others are measured without it. A folder with a project quota is
//! asked like a partition. (A user's quota would not tell an instance's state from its storage, which belong to one user.) Any
//! other is walked: without crossing into other file systems or following links, hard links counted once, up to
//! [`DiskSettings::max_entries`]. Walks share an allowance, one percent of the time unless configured: what took long makes the
//! next walk wait, and until then the last figure stands.
//!
//! # Alerts
//! [`rules`](AlertRules) are checked against every instant value, not against averages: raised when at or above the maximum for
//! the rule's whole duration, repeated every such duration while at or above the minimum, fallen when below the minimum for the
//! duration. A rule that changes or goes, an instance that goes, and the end of the monitor end an open alert with a fall. Each
//! change is given to the [`AlertSink`].
//!
//! # Tasks
//! | who | input | output |
//! |---|---|---|
//! | the future of [`Monitor::run`], the only owner of averages and alert states | wishes of handles (one entry per instance, the newest counts), a timer | the latest snapshot and averages (a watch channel: who is slow misses snapshots, and costs nothing), alerts |
//! | a blocking job per poll | the groups to read | their counters |
//! | the thread `disk use` | the places to measure | their use |
//!
//! # Invariants
//! - What is decided (averages, rates, alerts, which folder is walked when) is pure: readings and elapsed time in, values out.
//! - Time is only ever the time between two polls, never negative and never more than twice the period: neither a clock set
//!   back nor a machine that slept raises or ends an alert.
//! - A value that cannot be read is absent, is said once in the log, and neither moves an average nor an alert. On the wire,
//!   which has no word for absent, it is 0, and an unknown partition is left out.
//! - No descriptor is kept for an instance, so that 500 of them need none and a group made anew is simply read.
//! - Memory is bounded by the number of instances and their partitions.
//!
//! # Deliberately absent
//! Limits are not enforced here, traffic is not counted here, and nothing is kept over a restart: averages begin anew, and an
//! alert whose cause persists is raised again. A process that is killed has no time to let its alerts fall.

#![forbid(unsafe_code)]

mod average;
mod clock;
mod cpu;
mod disk;
mod engine;
mod handle;
mod metrics;
mod profile;
mod rules;
mod sample;
mod settings;
mod snapshot;
mod task;
mod traffic;
mod watch;

pub use self::clock::{Clock, Moment, SystemClock};
pub use self::handle::{MonitorHandle, Snapshots};
pub use self::metrics::UseMetrics;
pub use self::profile::NodeProfile;
pub use self::settings::{DiskSettings, InvalidMonitorSettings, MonitorSettings};
pub use self::snapshot::{CpuUse, InstanceUse, PartitionUse, ResourceUse, Snapshot};
pub use self::task::Monitor;
pub use self::traffic::{NoTraffic, TrafficSource, TrafficUsage};
pub use self::watch::{InstanceWatch, WatchedFolder};

// They appear in this crate's interface.
pub use muster_alert::AlertSink;
pub use muster_api::domain::AlertRules;
pub use muster_cgroup::CgroupPath;
