//! Taking over what runs, and removing the rest.

use std::collections::BTreeSet;

use muster_api::domain::InstanceIdent;
use muster_runtime::{Adopted, RunId};

use crate::actions::Workshop;
use crate::decide::Saved;
use crate::driver::StartLauncherError;

/// Whether nothing was ever started under these records. What runs all the same was started under others, which are lost.
pub(crate) fn remembers_nothing(saved: &Saved) -> bool {
    saved.rows.is_empty() && saved.next_run == RunId::default()
}

impl Workshop {
    /// Takes over what is on record, and ends and removes everything else.
    pub(crate) async fn take_over(
        &self,
        saved: &Saved,
    ) -> Result<Vec<Adopted>, StartLauncherError> {
        let mut adopted: Vec<Adopted> = Vec::new();
        for (id, runtime) in &self.runtimes {
            let of_this = saved.rows.iter().filter(|(_, row)| {
                let running = row.running.as_ref();
                running.is_some_and(|(target, _)| target.info.runtime_id == *id)
            });
            let known: Vec<InstanceIdent> = of_this.map(|(ident, _)| ident.clone()).collect();
            let found = runtime.adopt(known).await;
            adopted.extend(found.map_err(|source| StartLauncherError::Adopt {
                runtime: id.clone(),
                source,
            })?);
        }
        tracing::info!(
            known = saved.rows.len(),
            adopted = adopted.len(),
            "taking over what runs"
        );
        let running: BTreeSet<InstanceIdent> =
            adopted.iter().map(|it| it.instance.clone()).collect();
        self.parts.network.keep_only(running.clone()).await;
        self.parts.resources.keep_only(running).await;
        Ok(adopted)
    }
}
