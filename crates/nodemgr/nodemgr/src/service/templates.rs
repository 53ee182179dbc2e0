//! Templates that are added and removed here.

use std::path::Path;

use muster_machine_api::v1;
use muster_template::Format;
use tonic::Status;

use super::{Services, error};
use crate::catalog::ChangeTemplatesError;
use crate::desk::ChoiceFailed;

/// So many who use a template are named.
const NAMED: usize = 5;

impl Services {
    pub(super) async fn add_templates(
        &self,
        request: v1::PutTemplatesRequest,
    ) -> Result<v1::PutTemplatesResponse, Status> {
        let format = match request.name.ends_with(".json") {
            true => Format::Json,
            false => Format::Yaml,
        };
        let descriptions = self.desk.parts().descriptions.clone();
        let _one_at_a_time = self.desk.added_templates().await;
        let added = blocking(move || {
            let name = Path::new(&request.name);
            descriptions.add_templates(name, format, &request.text, request.dry_run)
        });
        let templates = added.await?.into_iter().map(|(name, outcome)| {
            tracing::info!(template = %name, outcome = outcome.as_str(), "templates were put");
            v1::PutTemplate {
                name: name.to_string(),
                outcome: outcome.as_str().to_owned(),
            }
        });
        Ok(v1::PutTemplatesResponse {
            templates: templates.collect(),
        })
    }

    pub(super) async fn forget_template(
        &self,
        request: v1::RemoveTemplateRequest,
    ) -> Result<(), Status> {
        let (name, dry_run) = (request.name, request.dry_run);
        let descriptions = self.desk.parts().descriptions.clone();
        let _one_at_a_time = self.desk.added_templates().await;
        let used_by = match request.force {
            true => Vec::new(),
            false => self.users_of(&name).await?,
        };
        let removed = name.clone();
        blocking(move || descriptions.remove_template(&removed, used_by, dry_run)).await?;
        if !dry_run {
            tracing::info!(template = name, "a template was removed");
        }
        Ok(())
    }

    /// Pools and machines that were made of a template.
    async fn users_of(&self, template: &str) -> Result<Vec<String>, Status> {
        let pools = self.desk.machines().pools().await.map_err(error::claim)?;
        let pools = pools.iter().filter(|(_, it)| it.order.template == template);
        let pools = pools.map(|(name, _)| format!("the pool {name}"));
        let machines = self.desk.machines().all();
        let machines = machines
            .values()
            .map(|it| it.record())
            .filter(|record| record.order.template == template && !record.state().is_ending());
        let machines = machines.map(|it| format!("the machine {}", it.id));
        let mut all: Vec<String> = pools.chain(machines).collect();
        if all.len() > NAMED {
            let more = all.len() - NAMED;
            all.truncate(NAMED);
            all.push(format!("and {more} more"));
        }
        Ok(all)
    }
}

/// Files are read and written where nobody waits for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ChangeTemplatesError> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| error::choice(ChoiceFailed::Interrupted))?;
    done.map_err(error::templates)
}
