//! `status`: the Unit in a few lines.

use std::time::Duration;

use muster_control_api::v1;
use serde::Serialize;

use super::{UnitClient, UnitCommandError};
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::{length, shown};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overview {
    system: String,
    version: String,
    uptime_seconds: u64,
    nodes: u64,
    nodes_connected: u64,
    instances: u64,
    instances_active: u64,
    instances_failed: u64,
    items: u64,
    /// Of the last day.
    alerts: u64,
    /// `none`, `connected` or `disconnected`.
    cloud: &'static str,
    update: Option<Update>,
}

/// The update that is under way, or the last one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    id: u64,
    step: String,
    done: bool,
    failures: Vec<String>,
}

impl From<v1::Overview> for Overview {
    fn from(overview: v1::Overview) -> Self {
        let uptime = overview.uptime.unwrap_or_default();
        Self {
            system: overview.system_id,
            version: overview.version,
            uptime_seconds: u64::try_from(uptime.seconds).unwrap_or_default(),
            nodes: overview.nodes,
            nodes_connected: overview.nodes_connected,
            instances: overview.instances,
            instances_active: overview.instances_active,
            instances_failed: overview.instances_failed,
            items: overview.items,
            alerts: overview.alerts,
            cloud: match (overview.cloud_configured, overview.cloud_connected) {
                (false, _) => "none",
                (true, true) => "connected",
                (true, false) => "disconnected",
            },
            update: overview.update.map(|update| Update {
                id: update.update_id,
                step: update.step,
                done: update.done,
                failures: update.failures,
            }),
        }
    }
}

impl Answer for Overview {
    fn table(&self) -> Table {
        let up = length(Duration::from_secs(self.uptime_seconds));
        let failed = match self.instances_failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let (update, failures) = match &self.update {
            None => (
                "none yet; `muster apply FILE` begins one".to_owned(),
                &[][..],
            ),
            Some(update) => {
                let how = match (update.done, update.failures.is_empty()) {
                    (true, true) => "done".to_owned(),
                    (true, false) => "done, and not all of it succeeded".to_owned(),
                    (false, _) => shown(&update.step),
                };
                (format!("{}, {how}", update.id), &*update.failures)
            }
        };
        let facts = [
            ("Unit", shown(&self.system)),
            ("Manager", format!("{}, up {up}", shown(&self.version))),
            (
                "Nodes",
                format!("{} of {} connected", self.nodes_connected, self.nodes),
            ),
            (
                "Instances",
                format!(
                    "{} of {} active{failed}",
                    self.instances_active, self.instances
                ),
            ),
            ("Items", self.items.to_string()),
            ("Alerts", format!("{} in the last day", self.alerts)),
            ("Cloud", self.cloud.to_owned()),
            ("Update", update),
        ];
        let failures = failures.iter().map(|failure| ("Failure", shown(failure)));
        Table::facts(facts.into_iter().chain(failures))
    }
}

pub(super) async fn status(unit: &UnitClient, console: &mut Console) -> Result<(), CommandError> {
    let request = v1::GetOverviewRequest {};
    let overview = unit
        .ask("GetOverview", async |mut it| it.get_overview(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    console.answer(&Overview::from(overview))?;
    Ok(())
}
