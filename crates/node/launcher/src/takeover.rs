//! Taking over what runs, and removing the rest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use muster_api::domain::{InstanceIdent, RuntimeId};
use muster_runtime::{Adopted, RunId, Runtime};

use crate::actions::Workshop;
use crate::decide::Saved;
use crate::driver::StartLauncherError;

/// Whether nothing was ever started under these records. What runs all the same was started under others, which are lost.
pub(crate) fn remembers_nothing(saved: &Saved) -> bool {
    saved.rows.is_empty() && saved.next_run == RunId::default()
}

impl Workshop {
    /// Takes over what is on record, and ends and removes everything else, which is asked to end first.
    pub(crate) async fn take_over(
        &self,
        saved: &Saved,
        grace: Duration,
    ) -> Result<Vec<Adopted>, StartLauncherError> {
        let adopt = |(id, runtime): (&RuntimeId, &Arc<dyn Runtime>)| {
            let of_this = saved.rows.iter().filter(|(_, row)| {
                let running = row.running.as_ref();
                running.is_some_and(|(target, _)| target.info.runtime_id == *id)
            });
            let known: Vec<InstanceIdent> = of_this.map(|(ident, _)| ident.clone()).collect();
            let (id, runtime) = (id.clone(), Arc::clone(runtime));
            async move {
                let found = runtime.adopt(known, grace).await;
                found.map_err(|source| StartLauncherError::Adopt {
                    runtime: id,
                    source,
                })
            }
        };
        // What has to end gets its time, which is not to be waited for once for each runtime.
        let found = try_join_all(self.runtimes.iter().map(adopt)).await?;
        let adopted: Vec<Adopted> = found.into_iter().flatten().collect();
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
