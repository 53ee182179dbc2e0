//! Whether Muster's daemons answer.

use std::path::PathBuf;
use std::time::Duration;

use muster_control_api::v1::GetOverviewRequest;
use tokio::net::UnixStream;

use super::Finding;
use crate::cli::unit::Connection;
use crate::console::chain;
use crate::text::shown;
use crate::unit::{UnitClient, UnitCommandError};

/// A daemon that is well answers at once.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn iam(socket: &str) -> Finding {
    const CHECK: &str = "muster-iam";
    let path = PathBuf::from(socket.strip_prefix("unix:").unwrap_or(socket));
    if !socket.contains('/') {
        return Finding::ok(
            CHECK,
            format!("{socket} is on the network and was not asked"),
        );
    }
    match tokio::time::timeout(PATIENCE, UnixStream::connect(&path)).await {
        Ok(Ok(_)) => Finding::ok(CHECK, format!("listens on {}", path.display())),
        Ok(Err(error)) => Finding::warning(
            CHECK,
            format!("does not listen on {}: {error}", path.display()),
            "sctl start muster-iam.service, or `muster up` for a Unit to try",
        ),
        Err(_) => Finding::warning(
            CHECK,
            format!("{} takes no connections", path.display()),
            "sctl status muster-iam.service, and sctl logs -u muster-iam.service",
        ),
    }
}

pub(super) async fn cm(connection: &Connection) -> Finding {
    const CHECK: &str = "muster-cm";
    const REMEDY: &str =
        "sctl start muster-cm.service on the Main Node, or `muster up` for a Unit to try";
    let asked = async {
        let unit = UnitClient::connect(connection).await?;
        let overview = unit
            .ask("GetOverview", async |mut it| {
                it.get_overview(GetOverviewRequest {}).await
            })
            .await?;
        Ok::<_, UnitCommandError>(overview)
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(overview)) => {
            let (unit, version) = (shown(&overview.system_id), shown(&overview.version));
            Finding::ok(CHECK, format!("answers for Unit {unit}, version {version}"))
        }
        Ok(Err(UnitCommandError::Connect(error))) => {
            let error = UnitCommandError::Connect(error);
            let said = chain(&error);
            // The rest of the sentence is what stands in the remedy.
            let said = said.split("; is muster-cm").next().unwrap_or_default();
            Finding::warning(CHECK, said, REMEDY)
        }
        Ok(Err(error)) => Finding::warning(CHECK, chain(&error), REMEDY),
        Err(_) => Finding::warning(CHECK, "does not answer", REMEDY),
    }
}
