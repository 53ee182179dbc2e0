//! The backend for nftables: one table, `inet muster`, and one transaction for each set of changes.

use crate::backend::{Backend, FirewallError};
use crate::model::{Change, Counters, Installed};
use crate::tool::{self, ToolError};

mod script;
mod state;

const NAME: &str = "nft";

/// Rules by way of `nft`.
#[derive(Debug, Clone, Default)]
pub struct Nft(());

impl Nft {
    /// The `nft` of the search path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether program and kernel work.
    pub(crate) fn probe(&self) -> Result<(), ToolError> {
        tool::run(NAME, &["list", "tables"], "").map(drop)
    }

    fn read(&self, arguments: &[&str]) -> Result<String, FirewallError> {
        tool::run(NAME, arguments, "").map_err(|source| FirewallError::Read {
            backend: NAME,
            source,
        })
    }
}

fn change(script: &str) -> Result<(), FirewallError> {
    tool::run(NAME, &["-f", "-"], script)
        .map(drop)
        .map_err(|source| FirewallError::Change {
            backend: NAME,
            source,
        })
}

fn unreadable(error: state::ReadStateError) -> FirewallError {
    match error {
        state::ReadStateError::Json(source) => FirewallError::Read {
            backend: NAME,
            source: ToolError::Output {
                program: NAME.to_owned(),
                source: source.into(),
            },
        },
        state::ReadStateError::Foreign(what) => FirewallError::Foreign {
            backend: NAME,
            what,
        },
    }
}

impl Backend for Nft {
    fn name(&self) -> &'static str {
        NAME
    }

    fn installed(&self) -> Result<Installed, FirewallError> {
        // All maps of the family: asking for those of a table that is not there is an error, and errors have no codes.
        let listing = self.read(&["--json", "list", "maps", "inet"])?;
        state::installed(&listing).map_err(unreadable)
    }

    fn commit(&self, installed: &Installed, changes: &[Change]) -> Result<(), FirewallError> {
        change(&script::changes(installed, changes))
    }

    fn counters(&self) -> Result<Counters, FirewallError> {
        let listing = self.read(&["--json", "list", "counters"])?;
        state::counters(&listing).map_err(unreadable)
    }

    fn clear(&self) -> Result<(), FirewallError> {
        // Deleting what is not there is an error, adding what is there is none.
        change(&format!(
            "add table {table}\ndelete table {table}\n",
            table = script::TABLE
        ))
    }
}
