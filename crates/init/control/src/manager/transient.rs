//! Units made by a request, and settings changed by one.

use serde::{Deserialize, Serialize};

/// Make a unit and queue a job for it; replies like `Submit`, also with `more`.
///
/// Descriptors that come with the call: with `stdio`, the first three are the standard streams of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartTransientCall {
    /// Its name.
    pub unit: String,
    /// As in `Submit`.
    pub mode: String,
    /// Settings by the names of unit files, in order: `("Service.ExecStart", "/bin/true")`, the section before the dot.
    pub properties: Vec<(String, String)>,
    /// Units made together with it (the service of a transient timer).
    pub auxiliary: Vec<AuxiliaryUnit>,
    /// Of a scope: processes to move in; the caller where empty.
    pub pids: Vec<u32>,
    /// The first three descriptors are its standard input, output and error.
    pub stdio: bool,
    /// Forget it when it ended, even when it failed.
    pub collect: bool,
    /// As in `Submit`.
    pub wait: super::WaitWhat,
}

/// A unit that is made but not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuxiliaryUnit {
    /// Its name.
    pub unit: String,
    /// Its settings.
    pub properties: Vec<(String, String)>,
}

/// Change settings of a unit by a drop-in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetPropertyCall {
    /// The unit.
    pub unit: String,
    /// Until the next boot only.
    pub runtime: bool,
    /// `("MemoryMax", "1G")`; the section may be given before a dot.
    pub properties: Vec<(String, String)>,
}
