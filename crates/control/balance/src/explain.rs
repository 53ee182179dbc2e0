//! Why an instance runs where it runs.

use std::fmt;

use muster_api::domain::{InstanceIdent, NodeId, RuntimeId, RuntimeType};
use serde::Serialize;

use crate::outcome::WhyNot;
use crate::refusal::{NodeRefusal, RuntimeRefusal};
use crate::text;

/// What every node has to say about one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Which instance.
    #[serde(serialize_with = "text::one")]
    pub instance: InstanceIdent,
    /// Why it runs nowhere, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<WhyNot>,
    /// Every node, by id.
    pub nodes: Vec<NodeVerdict>,
}

/// What one node has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// Which one.
    #[serde(serialize_with = "text::one")]
    pub node: NodeId,
    /// What it says.
    pub verdict: Verdict,
}

/// Whether a node was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// The instance runs there.
    Chosen {
        /// By which runtime.
        #[serde(serialize_with = "text::one")]
        runtime: RuntimeId,
        /// Why there.
        because: ChosenBecause,
    },
    /// It could run there, but another node was preferred.
    PassedOver {
        /// By which runtime it could run.
        #[serde(serialize_with = "text::one")]
        runtime: RuntimeId,
        /// Why it does not.
        because: PassedOver,
    },
    /// It cannot run there.
    Refused {
        /// Why.
        why: NodeRefusal,
    },
}

/// Why a node was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum ChosenBecause {
    /// It runs there and still fits.
    Runs,
    /// It runs there, and the node keeps what it has as long as it is paused or away.
    NodeKeeps,
    /// It ran there at the time that is returned to.
    RanBefore,
    /// No other one fits better.
    Best,
    /// No other one uses less; it left a node that raised a quota alert.
    Relieves {
        /// Which node.
        #[serde(serialize_with = "text::one")]
        node: NodeId,
    },
    /// Nothing fits, and there the fewest have to go.
    Displaces {
        /// What has to go.
        #[serde(serialize_with = "text::each::<InstanceIdent, _, _>")]
        instances: Vec<InstanceIdent>,
    },
}

/// Why a node that fits was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum PassedOver {
    /// The instance is left where it is.
    NeedNotMove,
    /// It raised a quota alert.
    UnderRelief,
    /// It already has more instances of the item.
    MoreOfItem {
        /// This node.
        own: u64,
        /// The chosen node.
        chosen: u64,
    },
    /// Its priority is lower.
    Priority {
        /// This node's.
        own: u64,
        /// The chosen node's.
        chosen: u64,
    },
    /// It has less free CPU, in DMIPS. A node without a known limit counts as the largest number.
    LessCpu {
        /// On this node.
        own: u64,
        /// On the chosen node.
        chosen: u64,
    },
    /// It has less free memory, in bytes. A node without a known limit counts as the largest number.
    LessRam {
        /// On this node.
        own: u64,
        /// On the chosen node.
        chosen: u64,
    },
    /// All else being equal, the lowest id is chosen.
    LaterId,
    /// What keeps the instance from running has nothing to do with nodes.
    NotTheCause,
}

/// What one runtime has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeVerdict {
    /// Which one.
    #[serde(serialize_with = "text::one")]
    pub runtime: RuntimeId,
    /// What kind.
    #[serde(rename = "type", serialize_with = "text::one")]
    pub runtime_type: RuntimeType,
    /// Why it does not take the instance.
    pub refusal: RuntimeRefusal,
}

impl fmt::Display for RuntimeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime {}: {}", self.runtime_type, self.refusal)
    }
}

impl fmt::Display for ChosenBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs => f.write_str("it runs there and still fits"),
            Self::NodeKeeps => f.write_str("it runs there, and the node keeps what it has"),
            Self::RanBefore => f.write_str("it ran there before"),
            Self::Best => f.write_str("no other node fits better"),
            Self::Relieves { node } => write!(f, "{node} uses too much"),
            Self::Displaces { instances } => {
                f.write_str("less important instances make room: ")?;
                for (index, instance) in instances.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{instance}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedNotMove => f.write_str("the instance runs elsewhere and need not move"),
            Self::UnderRelief => f.write_str("has raised a quota alert"),
            Self::MoreOfItem { own, chosen } => {
                write!(
                    f,
                    "has {own} instances of the item, the chosen one {chosen}"
                )
            }
            Self::Priority { own, chosen } => {
                write!(f, "has priority {own}, the chosen one {chosen}")
            }
            Self::LessCpu { own, chosen } => {
                write!(f, "has {own} DMIPS free, the chosen one {chosen}")
            }
            Self::LessRam { own, chosen } => {
                write!(f, "has {own} bytes of memory free, the chosen one {chosen}")
            }
            Self::LaterId => f.write_str("fits as well, but its id comes later"),
            Self::NotTheCause => {
                f.write_str("fits, but the instance cannot run for another reason")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen { because, .. } => write!(f, "chosen: {because}"),
            Self::PassedOver { because, .. } => write!(f, "passed over: {because}"),
            Self::Refused { why } => write!(f, "refused: {why}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.instance)?;
        if let Some(why) = &self.unplaced {
            write!(f, ": {why}")?;
        }
        for NodeVerdict { node, verdict } in &self.nodes {
            write!(f, "\n  {node}: {verdict}")?;
        }
        Ok(())
    }
}
