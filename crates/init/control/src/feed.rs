//! The feed: what `muster-core` tells `muster-logd`, one JSON message per packet, descriptors attached.
//!
//! Both ends of the socket are kept by `muster-init`, so a message that was sent is read even when both programs died in
//! between. After a restart of `muster-logd`, core sends [`FeedMessage::Hello`] and every living stream again; a stream that
//! is known by its id already is not taken twice.

use serde::{Deserialize, Serialize};

/// The name of the feed among the descriptors that `muster-logd` is started with.
pub const FEED_NAME: &str = "feed";
/// The unit that is given the feed.
pub const LOGD_UNIT: &str = "muster-logd.service";

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedMessage {
    /// Core is there (again); all living streams follow.
    Hello {
        /// The kernel's boot id, 32 hex digits.
        boot_id: Box<str>,
    },
    /// The output of a service's run. The reading end of a stream socket is attached.
    Stream(Box<Stream>),
    /// A line of the manager's own.
    Log(Box<LogLine>),
    /// Lines that core could not hand over, because the feed was full.
    Lost {
        /// How many.
        count: u64,
    },
    /// Write everything out.
    Sync,
}

/// The output of one run of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stream {
    /// 32 hex digits; the same for the same stream after a restart of either program.
    pub id: Box<str>,
    /// The unit.
    pub unit: Box<str>,
    /// Its slice.
    pub slice: Box<str>,
    /// The cgroup, as `/proc/PID/cgroup` shows it.
    pub cgroup: Box<str>,
    /// The run.
    pub invocation: Box<str>,
    /// SYSLOG_IDENTIFIER=
    pub identifier: Box<str>,
    /// PRIORITY= of lines that do not say their own.
    pub priority: u8,
    /// SYSLOG_FACILITY=
    pub facility: u8,
    /// Lines may begin with `<N>`.
    pub level_prefix: bool,
    /// Lines that matter less than this are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_max: Option<u8>,
    /// Rate limit of the unit: so many microseconds; 0 is the default of `muster-logd`.
    pub rate_interval: u64,
    /// So many lines in it.
    pub rate_burst: u32,
    /// Lines also go to the console.
    pub to_console: bool,
    /// Lines also go to the kernel's log.
    pub to_kmsg: bool,
    /// Lines are kept in the journal.
    pub to_journal: bool,
    /// LogExtraFields=, each `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_fields: Vec<Box<str>>,
}

/// A line of the manager's own, about a unit or about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLine {
    /// Microseconds since 1970, when it was said.
    pub real: u64,
    /// Microseconds since boot.
    pub monotonic: u64,
    /// 0 to 7.
    pub priority: u8,
    /// MESSAGE=
    pub message: Box<str>,
    /// UNIT=
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Box<str>>,
    /// INVOCATION_ID=
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Box<str>>,
    /// Who says it: `muster-core`, or `muster-init` as told by core.
    pub identifier: Box<str>,
    /// The pid of who says it.
    pub pid: u32,
    /// Further fields, each `NAME=value` (MESSAGE_ID=, JOB_TYPE=, JOB_RESULT= ...).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Box<str>>,
}
