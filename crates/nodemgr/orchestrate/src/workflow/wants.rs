//! What is wanted of a group's machines beside their template.

use std::collections::BTreeMap;

use muster_config::Duration;
use serde::{Deserialize, Serialize};

/// What to think of spot machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SpotWish {
    /// None will do.
    Never,
    /// One is better.
    Prefer,
    /// Nothing else will do.
    Only,
    /// Whatever else decides.
    Either,
}

/// What is wanted beside a template; nothing, if nothing is said. What the words mean is the [`Chooser`](crate::Chooser)'s to
/// say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wants {
    /// Fields instead of what the template says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// What to think of spot machines; as configured, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<SpotWish>,
    /// Types of spot machines that will do, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spot_types: Vec<String>,
    /// What counts first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<String>,
    /// Whether machines that are free will do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reuse: bool,
    /// How they must be usable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
    /// How long they must live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_for: Option<Duration>,
    /// What they may cost, in millionths of a unit of money an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price: Option<u64>,
    /// Taints of providers that do not keep them away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerates: BTreeMap<String, String>,
}
