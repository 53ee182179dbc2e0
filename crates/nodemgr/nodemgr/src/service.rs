//! The contract's services.

mod ask;
mod doctor;
mod error;
mod events;
mod look;
mod pools;
mod runs;
mod templates;
mod watch;
pub(crate) mod wish;

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use muster_machine_api::v1;
use muster_machine_api::v1::machine_service_server::{MachineService, MachineServiceServer};
use muster_machine_api::v1::run_service_server::RunServiceServer;
use muster_machines::WorkKind;
use muster_orchestrate::Runs;
use muster_rpc::server::{ServerBuilder, ServerConfig};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status, async_trait};

use crate::desk::Desk;

/// What a call streams.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The largest request: a workflow with its files.
const LARGEST_REQUEST: usize = 8 << 20;

/// The services, for one listener.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    desk: Desk,
    runs: Runs,
    own_user: u32,
}

impl Services {
    pub(crate) fn new(desk: Desk, runs: Runs) -> Self {
        Self {
            desk,
            runs,
            own_user: rustix::process::geteuid().as_raw(),
        }
    }

    /// A server of them.
    pub(crate) fn builder(&self) -> ServerBuilder {
        let machines = MachineServiceServer::new(self.clone())
            .max_decoding_message_size(LARGEST_REQUEST)
            .max_encoding_message_size(usize::MAX);
        let runs = RunServiceServer::new(self.clone())
            .max_decoding_message_size(LARGEST_REQUEST)
            .max_encoding_message_size(usize::MAX);
        let descriptors = muster_machine_api::FILE_DESCRIPTOR_SET;
        ServerBuilder::new(ServerConfig::default(), descriptors)
            .service(machines)
            .service(runs)
    }

    /// Only whoever the daemon runs as, and root: whoever may call may use every machine.
    fn admit<T>(&self, request: Request<T>) -> Result<T, Status> {
        let info = request.extensions().get::<UdsConnectInfo>();
        let user = info.and_then(|it| it.peer_cred).map(|it| it.uid());
        match user {
            Some(user) if user == 0 || user == self.own_user => Ok(request.into_inner()),
            Some(user) => {
                tracing::warn!(user, "refused a call");
                let own = self.own_user;
                Err(Status::permission_denied(format!(
                    "this is the node manager of user {own}; user {user} may not use it: start one of your own"
                )))
            }
            None => Err(Status::unauthenticated("who calls is not known")),
        }
    }

    fn machine(&self, name: &str) -> Result<muster_machines::Machine, Status> {
        self.desk.find(name).map_err(error::not_found)
    }
}

#[async_trait]
impl MachineService for Services {
    async fn get_manager(
        &self,
        request: Request<v1::GetManagerRequest>,
    ) -> Result<Response<v1::Manager>, Status> {
        self.admit(request)?;
        Ok(Response::new(self.manager()))
    }

    async fn diagnose(
        &self,
        request: Request<v1::DiagnoseRequest>,
    ) -> Result<Response<v1::DiagnoseResponse>, Status> {
        self.admit(request)?;
        let checks = doctor::checks(&self.desk).await;
        Ok(Response::new(v1::DiagnoseResponse { checks }))
    }

    async fn list_providers(
        &self,
        request: Request<v1::ListProvidersRequest>,
    ) -> Result<Response<v1::ListProvidersResponse>, Status> {
        self.admit(request)?;
        let providers = self.providers();
        Ok(Response::new(v1::ListProvidersResponse { providers }))
    }

    async fn list_templates(
        &self,
        request: Request<v1::ListTemplatesRequest>,
    ) -> Result<Response<v1::ListTemplatesResponse>, Status> {
        self.admit(request)?;
        let templates = self.templates().await?;
        Ok(Response::new(v1::ListTemplatesResponse { templates }))
    }

    async fn put_templates(
        &self,
        request: Request<v1::PutTemplatesRequest>,
    ) -> Result<Response<v1::PutTemplatesResponse>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.add_templates(request).await?))
    }

    async fn remove_template(
        &self,
        request: Request<v1::RemoveTemplateRequest>,
    ) -> Result<Response<v1::RemoveTemplateResponse>, Status> {
        let request = self.admit(request)?;
        self.forget_template(request).await?;
        Ok(Response::new(v1::RemoveTemplateResponse {}))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::Explanation>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.explain_template(request).await?))
    }

    async fn plan(
        &self,
        request: Request<v1::PlanRequest>,
    ) -> Result<Response<v1::PlanResponse>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.plan_wish(request).await?))
    }

    async fn lock(
        &self,
        request: Request<v1::LockRequest>,
    ) -> Result<Response<v1::LockResponse>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.lock_file(request).await?))
    }

    async fn provision(
        &self,
        request: Request<v1::ProvisionRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.provision_machine(request).await?))
    }

    async fn list_machines(
        &self,
        request: Request<v1::ListMachinesRequest>,
    ) -> Result<Response<v1::ListMachinesResponse>, Status> {
        let all = self.admit(request)?.all;
        let machines = self.list(all);
        Ok(Response::new(v1::ListMachinesResponse { machines }))
    }

    async fn get_machine(
        &self,
        request: Request<v1::GetMachineRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = self.admit(request)?;
        let machine = self.machine(&request.machine)?;
        Ok(Response::new(self.desk.show(&machine)))
    }

    type WatchMachinesStream = Answers<v1::MachineNews>;

    async fn watch_machines(
        &self,
        request: Request<v1::WatchMachinesRequest>,
    ) -> Result<Response<Self::WatchMachinesStream>, Status> {
        let all = self.admit(request)?.all;
        let news = watch::news(self.desk.clone(), all);
        let stop = self.desk.parts().stop.clone();
        let news = news.map(Ok).take_until(stop.cancelled_owned());
        Ok(Response::new(Box::pin(news)))
    }

    async fn ask(
        &self,
        request: Request<v1::AskRequest>,
    ) -> Result<Response<v1::AskResponse>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.ask_machine(request).await?))
    }

    async fn set_unit(
        &self,
        request: Request<v1::SetUnitRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.record_unit(request).await?))
    }

    async fn collect_orphans(
        &self,
        request: Request<v1::CollectOrphansRequest>,
    ) -> Result<Response<v1::CollectOrphansResponse>, Status> {
        let destroy = self.admit(request)?.destroy;
        Ok(Response::new(self.orphans(destroy).await?))
    }

    async fn list_pools(
        &self,
        request: Request<v1::ListPoolsRequest>,
    ) -> Result<Response<v1::ListPoolsResponse>, Status> {
        self.admit(request)?;
        let pools = self.pools().await?;
        Ok(Response::new(v1::ListPoolsResponse { pools }))
    }

    async fn set_pool(
        &self,
        request: Request<v1::SetPoolRequest>,
    ) -> Result<Response<v1::Pool>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.change_pool(request).await?))
    }

    async fn remove_pool(
        &self,
        request: Request<v1::RemovePoolRequest>,
    ) -> Result<Response<v1::RemovePoolResponse>, Status> {
        let request = self.admit(request)?;
        self.give_pool_up(&request.name, request.dry_run).await?;
        Ok(Response::new(v1::RemovePoolResponse {}))
    }

    async fn claim(
        &self,
        request: Request<v1::ClaimRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.claim_machine(request).await?))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let request = self.admit(request)?;
        let machine = self.machine(&request.machine)?;
        let released = self.desk.machines().release(&machine.record().id).await;
        released.map_err(error::ask)?;
        Ok(Response::new(v1::ReleaseResponse {}))
    }

    type ReadEventsStream = Answers<v1::Event>;

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<Self::ReadEventsStream>, Status> {
        let request = self.admit(request)?;
        let of = match request.machine.as_str() {
            "" => None,
            name => Some(self.machine(name)?.record().id.clone()),
        };
        let events = events::read(self.desk.clone(), request.after, request.follow, of);
        let stop = self.desk.parts().stop.clone();
        Ok(Response::new(Box::pin(
            events.take_until(stop.cancelled_owned()),
        )))
    }

    async fn get_access(
        &self,
        request: Request<v1::GetAccessRequest>,
    ) -> Result<Response<v1::Access>, Status> {
        let request = self.admit(request)?;
        let machine = self.machine(&request.machine)?;
        let access = self.desk.access(machine.record());
        Ok(Response::new(access.map_err(error::refused)?))
    }

    async fn keep_busy(
        &self,
        request: Request<v1::KeepBusyRequest>,
    ) -> Result<Response<v1::Machine>, Status> {
        let request = self.admit(request)?;
        Ok(Response::new(self.keep_machine_busy(&request).await?))
    }

    type HoldStream = Answers<v1::Held>;

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<Self::HoldStream>, Status> {
        let request = self.admit(request)?;
        let machine = self.machine(&request.machine)?;
        let kind = match request.kind() {
            v1::HoldKind::Command => WorkKind::Command,
            v1::HoldKind::Session | v1::HoldKind::Unspecified => WorkKind::Session,
        };
        let busy = self.desk.machines().begin_work(&machine.record().id, kind);
        let busy = busy.map_err(error::ask)?;
        let held = stream::once(async { Ok(v1::Held {}) }).chain(stream::pending());
        // The work lasts as long as the stream.
        let held = held.map(move |it| {
            let _busy = &busy;
            it
        });
        let stop = self.desk.parts().stop.clone();
        Ok(Response::new(Box::pin(
            held.take_until(stop.cancelled_owned()),
        )))
    }
}
