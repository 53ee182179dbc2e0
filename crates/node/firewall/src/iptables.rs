//! The backend for nodes that have nothing but iptables, of either kind.
//!
//! The same decisions as with nftables, in chains called `MUSTER-*`; chains that others own get one jump each. A table is
//! changed in one step by `iptables-restore`, which knows nothing of two tables: address translation is written first, and
//! always in whole, so that a failure between the two is mended by the next change. Instances are found one after the other, so a packet costs
//! more with every instance. The node's own IPv6 traffic is not counted.

use crate::backend::{Backend, FirewallError};
use crate::model::{Change, Counters, Installed};
use crate::tool::{self, ToolError};

mod script;
mod state;

const NAME: &str = "iptables";

/// Rules by way of `iptables-save` and `iptables-restore`.
#[derive(Debug, Clone)]
pub struct Iptables {
    save: String,
    restore: String,
}

impl Iptables {
    /// The kind called `iptables`, `iptables-nft` or `iptables-legacy`.
    pub fn named(program: &str) -> Self {
        Self {
            save: format!("{program}-save"),
            restore: format!("{program}-restore"),
        }
    }

    /// The first kind that works.
    pub(crate) fn find() -> Option<Self> {
        let kinds = ["iptables", "iptables-nft", "iptables-legacy"].map(Self::named);
        kinds.into_iter().find(|kind| kind.read(&[]).is_ok())
    }

    fn read(&self, arguments: &[&str]) -> Result<String, FirewallError> {
        tool::run(&self.save, arguments, "").map_err(|source| FirewallError::Read {
            backend: NAME,
            source,
        })
    }

    fn change(&self, script: &str) -> Result<(), FirewallError> {
        // The lock is also held by others, and for long by some.
        tool::run(&self.restore, &["--wait=10", "--noflush"], script)
            .map(drop)
            .map_err(|source: ToolError| FirewallError::Change {
                backend: NAME,
                source,
            })
    }
}

impl Backend for Iptables {
    fn name(&self) -> &'static str {
        NAME
    }

    fn installed(&self) -> Result<Installed, FirewallError> {
        state::installed(&self.read(&[])?).map_err(|what| FirewallError::Foreign {
            backend: NAME,
            what,
        })
    }

    fn commit(&self, installed: &Installed, changes: &[Change]) -> Result<(), FirewallError> {
        self.change(&script::changes(installed, changes))
    }

    fn counters(&self) -> Result<Counters, FirewallError> {
        Ok(state::counters(&self.read(&["-c", "-t", "filter"])?))
    }

    fn clear(&self) -> Result<(), FirewallError> {
        match script::clear(&self.read(&[])?) {
            Some(script) => self.change(&script),
            None => Ok(()),
        }
    }
}
