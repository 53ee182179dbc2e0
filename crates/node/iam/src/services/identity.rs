//! Which device this is, and for whom it works.

use muster_api::iamanager::v6 as wire;
use tonic::{Request, Response, Status, async_trait};
use wire::iam_public_identity_service_server::IamPublicIdentityService;

use super::{Answers, Services, changes};
use crate::authorize::Call;
use crate::identity::NewSubjects;

#[async_trait]
impl IamPublicIdentityService for Services {
    async fn get_system_info(
        &self,
        request: Request<()>,
    ) -> Result<Response<wire::SystemInfo>, Status> {
        self.gate.admit(&request, Call::GetSystemInfo)?;
        let info = self.parts.identity.system_info();
        info.map(Response::new).map_err(Status::unavailable)
    }

    async fn get_subjects(&self, request: Request<()>) -> Result<Response<wire::Subjects>, Status> {
        self.gate.admit(&request, Call::GetSubjects)?;
        let subjects = self.parts.identity.subjects();
        subjects.map(Response::new).map_err(Status::unavailable)
    }

    type SubscribeSubjectsChangedStream = Answers<wire::Subjects>;

    async fn subscribe_subjects_changed(
        &self,
        request: Request<()>,
    ) -> Result<Response<Answers<wire::Subjects>>, Status> {
        self.gate.admit(&request, Call::SubscribeSubjectsChanged)?;
        let known = self.parts.identity.changes();
        let mut new = NewSubjects::since(&known.borrow());
        Ok(Response::new(changes(known, move |known| new.of(known))))
    }
}
