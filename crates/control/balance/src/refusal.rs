//! Why nodes and runtimes do not take an instance.

use std::collections::BTreeSet;
use std::fmt;

use muster_api::domain::{NodeId, RuntimeType};
use serde::Serialize;

use crate::explain::RuntimeVerdict;
use crate::text;

/// Kinds of [`NodeRefusal`] and [`RuntimeRefusal`], the ones that come nearer to taking the instance later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each variant is described by its text below")]
pub enum RefusalKind {
    NotMember,
    Offline,
    Away,
    Paused,
    PinnedElsewhere,
    BoundElsewhere,
    LabelMissing,
    ResourceMissing,
    NoRuntime,
    RuntimeType,
    Platform,
    Instances,
    ResourceInUse,
    Ram,
    Cpu,
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotMember => "no member of the unit",
            Self::Offline => "offline",
            Self::Away => "not connected",
            Self::Paused => "paused",
            Self::PinnedElsewhere => "not the one it is pinned to",
            Self::BoundElsewhere => "not the one it is bound to",
            Self::LabelMissing => "without a label it asks for",
            Self::ResourceMissing => "without a resource it asks for",
            Self::NoRuntime => "without any runtime",
            Self::RuntimeType => "without a runtime of a wanted type",
            Self::Platform => "not a platform it has an image for",
            Self::Instances => "runs as many instances as it may",
            Self::ResourceInUse => "a resource it asks for is in use",
            Self::Ram => "not enough memory",
            Self::Cpu => "not enough CPU",
        })
    }
}

/// Why a node does not take an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum NodeRefusal {
    /// It is not provisioned, or in error.
    NotMember,
    /// It is lost.
    Offline,
    /// It is not connected.
    Away,
    /// An operator has paused it.
    Paused,
    /// The instance may run on one node only, and it is another one.
    PinnedElsewhere {
        /// Which one.
        #[serde(serialize_with = "text::one")]
        node: NodeId,
    },
    /// The instance stays where it was first placed, and that is another node.
    BoundElsewhere {
        /// Which one.
        #[serde(serialize_with = "text::one")]
        node: NodeId,
    },
    /// It lacks labels.
    LabelMissing {
        /// Which.
        labels: BTreeSet<String>,
    },
    /// It lacks resources.
    ResourceMissing {
        /// Which.
        resources: BTreeSet<String>,
    },
    /// A resource has no use left.
    ResourceInUse {
        /// Which.
        resource: String,
        /// How many instances may use it.
        count: u64,
    },
    /// Its processing power is spoken for.
    Cpu {
        /// DMIPS the instance needs.
        need: u64,
        /// DMIPS that are left.
        free: u64,
    },
    /// Its memory is spoken for.
    Ram {
        /// Bytes the instance needs.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// Each of its runtimes has a reason of its own.
    Runtimes {
        /// All of them; none if the node has none.
        runtimes: Vec<RuntimeVerdict>,
    },
}

impl NodeRefusal {
    /// In one word; for runtimes the reason that comes nearest.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::NotMember => RefusalKind::NotMember,
            Self::Offline => RefusalKind::Offline,
            Self::Away => RefusalKind::Away,
            Self::Paused => RefusalKind::Paused,
            Self::PinnedElsewhere { .. } => RefusalKind::PinnedElsewhere,
            Self::BoundElsewhere { .. } => RefusalKind::BoundElsewhere,
            Self::LabelMissing { .. } => RefusalKind::LabelMissing,
            Self::ResourceMissing { .. } => RefusalKind::ResourceMissing,
            Self::ResourceInUse { .. } => RefusalKind::ResourceInUse,
            Self::Cpu { .. } => RefusalKind::Cpu,
            Self::Ram { .. } => RefusalKind::Ram,
            Self::Runtimes { runtimes } => runtimes
                .iter()
                .map(|verdict| verdict.refusal.kind())
                .max()
                .unwrap_or(RefusalKind::NoRuntime),
        }
    }
}

/// Names in a row: `a, b`.
struct List<'v>(&'v BTreeSet<String>);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", name.escape_debug())?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMember => f.write_str("is no member of the unit"),
            Self::Offline => f.write_str("is offline"),
            Self::Away => f.write_str("is not connected and gets nothing new until it is"),
            Self::Paused => f.write_str("is paused and gets nothing new"),
            Self::PinnedElsewhere { node } => write!(f, "the instance is pinned to {node}"),
            Self::BoundElsewhere { node } => write!(f, "the instance stays on {node}"),
            Self::LabelMissing { labels } => write!(f, "lacks the label {}", List(labels)),
            Self::ResourceMissing { resources } => {
                write!(f, "lacks the resource {}", List(resources))
            }
            Self::ResourceInUse { resource, count } => {
                let resource = resource.escape_debug();
                write!(f, "resource {resource} is used by {count}, as many as may")
            }
            Self::Cpu { need, free } => write!(f, "{need} DMIPS needed, {free} free"),
            Self::Ram { need, free } => write!(f, "{need} bytes of memory needed, {free} free"),
            Self::Runtimes { runtimes } if runtimes.is_empty() => f.write_str("has no runtime"),
            Self::Runtimes { runtimes } => {
                for (index, verdict) in runtimes.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{verdict}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why a runtime does not take an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum RuntimeRefusal {
    /// The item wants others.
    Type {
        /// Which.
        #[serde(serialize_with = "text::each::<RuntimeType, _, _>")]
        wanted: Vec<RuntimeType>,
    },
    /// None of the item's images runs there.
    Platform {
        /// What the runtime is.
        offers: String,
        /// What there are images for.
        images: Vec<String>,
    },
    /// It runs as many instances as it may.
    Instances {
        /// How many.
        max: u64,
    },
    /// Its processing power is spoken for.
    Cpu {
        /// DMIPS the instance needs.
        need: u64,
        /// DMIPS that are left.
        free: u64,
    },
    /// Its memory is spoken for.
    Ram {
        /// Bytes the instance needs.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
}

impl RuntimeRefusal {
    /// In one word.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::Type { .. } => RefusalKind::RuntimeType,
            Self::Platform { .. } => RefusalKind::Platform,
            Self::Instances { .. } => RefusalKind::Instances,
            Self::Cpu { .. } => RefusalKind::Cpu,
            Self::Ram { .. } => RefusalKind::Ram,
        }
    }
}

impl fmt::Display for RuntimeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { wanted } => {
                f.write_str("not one of the wanted types (")?;
                for (index, wanted) in wanted.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{wanted}")?;
                }
                f.write_str(")")
            }
            Self::Platform { offers, images } => {
                write!(f, "runs {offers}, images are for {}", images.join(", "))
            }
            Self::Instances { max } => write!(f, "runs {max} instances, as many as it may"),
            Self::Cpu { need, free } => write!(f, "{need} DMIPS needed, {free} free"),
            Self::Ram { need, free } => write!(f, "{need} bytes of memory needed, {free} free"),
        }
    }
}
