//! The backend for nftables: one table, `inet muster`, and one transaction for each set of changes.
//!
//! Changes go through `nft`. What there is, is read from the kernel directly: `nft` reads all rules of all tables to list anything,
//! which with some hundred instances takes longer than everything else.

use std::io;

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
        tool::run(NAME, &["--version"], "")?;
        state::probe().map_err(|source| ToolError::Talk {
            program: "nf_tables in the kernel".to_owned(),
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

fn unreadable(source: io::Error) -> FirewallError {
    FirewallError::Ask {
        backend: NAME,
        source,
    }
}

impl Backend for Nft {
    fn name(&self) -> &'static str {
        NAME
    }

    fn installed(&self) -> Result<Installed, FirewallError> {
        let maps = state::read_maps().map_err(unreadable)?;
        let Some(maps) = maps else {
            return Ok(Installed::default());
        };
        maps.interpret().map_err(|what| FirewallError::Foreign {
            backend: NAME,
            what,
        })
    }

    fn commit(&self, installed: &Installed, changes: &[Change]) -> Result<(), FirewallError> {
        change(&script::changes(installed, changes))
    }

    fn counters(&self) -> Result<Counters, FirewallError> {
        state::read_counters().map_err(unreadable)
    }

    fn clear(&self) -> Result<(), FirewallError> {
        // Deleting what is not there is an error, adding what is there is none.
        change(&format!(
            "add table {table}\ndelete table {table}\n",
            table = script::TABLE
        ))
    }
}
