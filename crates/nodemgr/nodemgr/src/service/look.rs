//! Looking: who there is, what is written, what would be.

use muster_machine_api::{time, v1};
use muster_mapping::{LockUse, MachineSpec, Plan};
use muster_template::{Fields, ProviderId};
use tonic::Status;

use super::{Services, error, wish};
use crate::catalog::{ResolveError, fields};
use crate::desk::{ChoiceFailed, Desk};
use crate::wire;

impl Services {
    pub(super) fn manager(&self) -> v1::Manager {
        let parts = self.desk.parts();
        let about = &parts.about;
        v1::Manager {
            id: parts.manager.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state_dir: about.state_dir.clone(),
            config_file: about.config_file.clone(),
            started: Some(time::timestamp(about.started.as_millis())),
            machines: count(&self.desk, |_| true),
        }
    }

    pub(super) fn providers(&self) -> Vec<v1::Provider> {
        let providers = self.desk.parts().providers.iter();
        let shown = providers.map(|it| {
            let id = it.offer.profile.id;
            wire::provider(&it.offer, &it.endpoint, count(&self.desk, |own| own == id))
        });
        let unusable = self.desk.parts().unusable.iter();
        let unusable = unusable.map(|it| v1::Provider {
            id: it.id.to_string(),
            unusable: it.why.clone(),
            ..v1::Provider::default()
        });
        shown.chain(unusable).collect()
    }

    pub(super) async fn templates(&self) -> Result<Vec<v1::Template>, Status> {
        let catalog = self.desk.catalog().await.map_err(error::choice)?;
        let all = catalog.templates();
        Ok(all.iter().map(|it| wire::template(it, &catalog)).collect())
    }

    pub(super) async fn explain_template(
        &self,
        request: v1::ExplainRequest,
    ) -> Result<v1::Explanation, Status> {
        let provider = wish::provider(&request.provider).map_err(error::invalid)?;
        let provider = provider.unwrap_or_else(|| self.usual_provider());
        let given = fields(&request.given).map_err(error::invalid)?;
        let catalog = self.desk.catalog().await.map_err(error::choice)?;
        let resolved = catalog.resolve(&request.template, provider, &given);
        let resolved = resolved.map_err(|failed| match failed {
            ResolveError::Unknown(_) => error::not_found(failed),
            ResolveError::Frozen(_) | ResolveError::Spec(_) => error::refused(failed),
        })?;
        let problems = match MachineSpec::from_resolved(&resolved) {
            Ok(_) => Vec::new(),
            Err(failed) => wire::words(failed.problems),
        };
        Ok(wire::explanation(resolved.explain(), problems))
    }

    /// Who is meant where nobody is named: the first that is a barrier.
    fn usual_provider(&self) -> ProviderId {
        let providers = &self.desk.parts().providers;
        let isolated = providers.iter().find(|it| {
            let isolation = it.offer.profile.isolation;
            isolation == muster_provider::Isolation::Isolated
        });
        let chosen = isolated.or(providers.first());
        chosen.map_or(ProviderId::Docker, |it| it.offer.profile.id)
    }

    pub(super) async fn plan_wish(
        &self,
        request: v1::PlanRequest,
    ) -> Result<v1::PlanResponse, Status> {
        let parts = self.desk.parts();
        let wish = request.wish.unwrap_or_default();
        let usual = match request.anew {
            true => parts.usual_anew(),
            false => parts.usual(),
        };
        let wish = wish::read(&wish, usual).map_err(error::invalid)?;
        let wish = wish.living_for(parts.timers.lifetime);
        let choice = self.desk.choose(&wish).await.map_err(error::choice)?;
        let told = choice.explain().into_iter();
        let candidates = told.map(|it| wire::candidate(it, &choice.template));
        Ok(v1::PlanResponse {
            candidates: candidates.collect(),
        })
    }

    pub(super) async fn lock_file(
        &self,
        request: v1::LockRequest,
    ) -> Result<v1::LockResponse, Status> {
        let descriptions = &self.desk.parts().descriptions;
        if descriptions.lock.is_none() {
            return Err(Status::failed_precondition(
                "the configuration says `lock: off`, so nothing is pinned",
            ));
        }
        let catalog = self.desk.catalog().await.map_err(error::choice)?;
        for name in &request.forget {
            let found = catalog.templates().get(name);
            found.map_err(error::not_found)?;
        }
        if request.forget_all || !request.forget.is_empty() {
            self.desk
                .forget_pins(request.forget, request.forget_all)
                .await?;
        }
        let catalog = self.desk.catalog().await.map_err(error::choice)?;
        let providers = &self.desk.parts().providers;
        let mut entries = Vec::new();
        for template in catalog.templates().iter() {
            for provider in providers.iter().map(|it| it.offer.profile.id) {
                entries.extend(lock_entry(&catalog, template.name().as_str(), provider));
            }
        }
        Ok(v1::LockResponse {
            path: descriptions.lock_file.display().to_string(),
            entries,
        })
    }
}

/// What is pinned of a template; nothing where it has no image that could be.
fn lock_entry(
    catalog: &crate::catalog::Catalog,
    template: &str,
    provider: ProviderId,
) -> Option<v1::LockEntry> {
    let resolved = catalog
        .unpinned(template, provider, &Fields::default())
        .ok()?;
    let entry = |state: &str, pins| v1::LockEntry {
        template: template.to_owned(),
        provider: provider.to_string(),
        state: state.to_owned(),
        pins,
    };
    if !crate::catalog::has_image(&resolved) {
        return None;
    }
    match catalog.lock().plan(LockUse::Frozen, &resolved) {
        Ok(Plan::Use(pins)) => {
            let pins = pins
                .iter()
                .map(|(pin, value)| (pin.field().to_owned(), value.to_owned()));
            Some(entry("pinned", pins.collect()))
        }
        Err(muster_mapping::FrozenError::Stale(_)) => Some(entry("stale", Default::default())),
        Ok(Plan::Find) | Err(_) => Some(entry("open", Default::default())),
    }
}

fn count(desk: &Desk, wanted: impl Fn(ProviderId) -> bool) -> u64 {
    let all = desk.machines().all();
    let alive = all.values().filter(|machine| {
        let record = machine.record();
        !record.state().is_ending() && wanted(record.order.provider)
    });
    u64::try_from(alive.count()).unwrap_or(u64::MAX)
}

impl Desk {
    async fn forget_pins(&self, templates: Vec<String>, all: bool) -> Result<(), Status> {
        let descriptions = self.parts().descriptions.clone();
        let _one_at_a_time = self.lock_file().await;
        let changed = tokio::task::spawn_blocking(move || {
            descriptions.change_lock(|lock| {
                let keys: Vec<_> = lock
                    .keys()
                    .filter(|key| all || templates.iter().any(|it| key.template.as_str() == it))
                    .cloned()
                    .collect();
                for key in &keys {
                    lock.remove(key);
                }
                !keys.is_empty()
            })
        });
        let changed = changed
            .await
            .map_err(|_| error::choice(ChoiceFailed::Interrupted))?;
        changed.map_err(error::internal)
    }
}
