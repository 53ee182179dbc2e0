//! Encoding and decoding of the state.
//!
//! The format is JSON: whoever finds a state that could not be read can look at it. It opens with the version that wrote
//! it. A field that a later version adds has a default, so an older state decodes as it is; a change that a default
//! cannot express gets a conversion from the old tree in `upgrade`.

use serde::{Deserialize, Serialize};

use super::EngineState;

/// The version that this engine writes.
pub const STATE_VERSION: u32 = 1;

/// A state could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeStateError {
    /// It is not what an engine writes.
    #[error("the engine's state cannot be read")]
    Malformed(#[source] serde_json::Error),
    /// A newer engine wrote it.
    #[error("the engine's state has version {found}; this engine reads up to {STATE_VERSION}")]
    FromTheFuture {
        /// The version it has.
        found: u32,
    },
    /// It contradicts itself.
    #[error("the engine's state contradicts itself: {what}")]
    Inconsistent {
        /// How.
        what: String,
    },
}

#[derive(Serialize)]
struct Envelope<'a> {
    version: u32,
    state: &'a EngineState,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

#[derive(Deserialize)]
struct OwnedEnvelope {
    state: EngineState,
}

impl EngineState {
    /// The state as bytes.
    ///
    /// # Panics
    /// Never: every part of the state can be written as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&Envelope {
            version: STATE_VERSION,
            state: self,
        })
        .expect("every part of the state can be written as JSON")
    }

    /// Reads what [`encode`](Self::encode) wrote, by this or an earlier version.
    ///
    /// # Errors
    /// If the bytes are not a state, come from a newer version, or do not fit together.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeStateError> {
        let VersionOnly { version } =
            serde_json::from_slice(bytes).map_err(DecodeStateError::Malformed)?;
        if version > STATE_VERSION {
            return Err(DecodeStateError::FromTheFuture { found: version });
        }
        let OwnedEnvelope { mut state } =
            serde_json::from_slice(bytes).map_err(DecodeStateError::Malformed)?;
        state
            .check()
            .map_err(|what| DecodeStateError::Inconsistent { what })?;
        state.build_due();
        Ok(state)
    }

    /// Whether every id names something, and every edge and job is known at both ends.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, id) in &self.names {
            self.get(*id)
                .ok_or_else(|| format!("{name} names an empty slot"))?;
        }
        for id in &self.vacant {
            if self.units.get(id.index()).is_none_or(Option::is_some) {
                return Err(format!("slot {id} is called vacant and is not"));
            }
        }
        for (id, unit) in self.units() {
            if self.find(&unit.name) != Some(id) {
                return Err(format!("{} does not name its own slot", unit.name));
            }
            for edge in &unit.edges {
                let back = self
                    .get(edge.to)
                    .ok_or_else(|| format!("{} has an edge into an empty slot", unit.name))?
                    .edges
                    .iter()
                    .any(|back| {
                        back.to == id
                            && back.kind == edge.kind.inverse()
                            && back.mine == edge.theirs
                            && back.theirs == edge.mine
                    });
                if !back {
                    return Err(format!("an edge of {} has no other end", unit.name));
                }
            }
            if let Some(job) = unit.job
                && self.jobs.get(&job).is_none_or(|job| job.unit != id)
            {
                return Err(format!("{} has a job that is not its own", unit.name));
            }
        }
        for (id, job) in &self.jobs {
            if job.id != *id || self.get(job.unit).is_none_or(|unit| unit.job != Some(*id)) {
                return Err(format!("job {id} belongs to nobody"));
            }
        }
        Ok(())
    }
}
