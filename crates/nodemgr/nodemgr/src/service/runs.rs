//! Runs: what they are asked for, and how they go.

mod command;
mod follow;
mod show;

use futures_util::StreamExt as _;
use muster_machine_api::v1;
use muster_machine_api::v1::run_service_server::RunService;
use muster_orchestrate::{BeginError, Format, Limits, RunError, RunId, RunOrder, Source, Workflow};
use muster_telemetry::ErrorChain;
use tonic::{Code, Request, Response, Status, async_trait};

use super::{Answers, Services, error};

/// So many runs are listed.
const LISTED: u32 = 1000;

fn run_failed(failed: RunError) -> Status {
    let code = match &failed {
        RunError::Unknown(_) => Code::NotFound,
        RunError::Over(_) | RunError::UnderWay(_) => Code::FailedPrecondition,
        _ => Code::Internal,
    };
    Status::new(code, ErrorChain(&failed).to_string())
}

fn begin_failed(failed: BeginError) -> Status {
    let code = match &failed {
        BeginError::Ended => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, ErrorChain(&failed).to_string())
}

impl Services {
    /// The run that is meant by an id, or a beginning of one.
    async fn run(&self, name: &str) -> Result<RunId, Status> {
        let runs = self.runs.list(LISTED).await.map_err(error::internal)?;
        let begins = |id: &&RunId| {
            let rest = id.as_str().strip_prefix("r-");
            !name.is_empty()
                && (id.as_str().starts_with(name) || rest.is_some_and(|it| it.starts_with(name)))
        };
        let meant: Vec<&RunId> = runs.iter().map(|it| &it.id).filter(begins).collect();
        let exact = meant.iter().find(|id| id.as_str() == name);
        match (exact, meant.as_slice()) {
            (Some(one), _) | (None, [one]) => Ok((*one).clone()),
            (None, []) => Err(Status::not_found(format!(
                "there is no run {:?}; `muster machine runs list` shows those that there are",
                muster_config::printable(name, 64)
            ))),
            (None, _) => Err(Status::invalid_argument(format!(
                "{:?} could be several runs: write more of it",
                muster_config::printable(name, 64)
            ))),
        }
    }

    /// What makes no sense is said now, and not when the run is under way.
    fn check_wishes(&self, workflow: &Workflow) -> Result<(), Status> {
        for (_, group) in workflow.groups() {
            if let Source::Template(template) = group.source() {
                let (provider, wants) = (group.provider(), group.wants());
                let wish = self.desk.wish_of_run(template.as_str(), provider, wants);
                wish.map_err(error::invalid)?;
            }
        }
        Ok(())
    }

    async fn show_run(&self, id: &RunId) -> Result<v1::Run, Status> {
        let view = self.runs.show(id).await.map_err(run_failed)?;
        Ok(show::run(&view))
    }
}

fn workflow(text: &v1::WorkflowText) -> Result<Workflow, Status> {
    let format = match text.name.ends_with(".json") {
        true => Format::Json,
        false => Format::Yaml,
    };
    let read = Workflow::read(&text.name, format, &text.text, &Limits::default());
    read.map_err(error::invalid)
}

#[async_trait]
impl RunService for Services {
    async fn start_run(
        &self,
        request: Request<v1::StartRunRequest>,
    ) -> Result<Response<v1::Run>, Status> {
        let request = self.admit(request)?;
        let key = Some(request.key).filter(|key| !key.is_empty());
        let workflow = match request.what {
            Some(v1::start_run_request::What::Workflow(text)) => {
                let workflow = workflow(&text)?;
                self.check_wishes(&workflow)?;
                workflow
            }
            Some(v1::start_run_request::What::Command(command)) => {
                self.command_workflow(*command).await?
            }
            None => return Err(Status::invalid_argument("there is nothing to run")),
        };
        let order = RunOrder { workflow, key };
        let id = self.runs.begin(order).await.map_err(begin_failed)?;
        Ok(Response::new(self.show_run(&id).await?))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        self.admit(request)?;
        let runs = self.runs.list(LISTED).await.map_err(error::internal)?;
        let runs = runs.iter().map(show::summary).collect();
        Ok(Response::new(v1::ListRunsResponse { runs }))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::Run>, Status> {
        let name = self.admit(request)?.run;
        let id = self.run(&name).await?;
        Ok(Response::new(self.show_run(&id).await?))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::Run>, Status> {
        let name = self.admit(request)?.run;
        let id = self.run(&name).await?;
        self.runs.cancel(&id).await.map_err(run_failed)?;
        Ok(Response::new(self.show_run(&id).await?))
    }

    async fn remove_run(
        &self,
        request: Request<v1::RemoveRunRequest>,
    ) -> Result<Response<v1::RemoveRunResponse>, Status> {
        let name = self.admit(request)?.run;
        let id = self.run(&name).await?;
        self.runs.remove(&id).await.map_err(run_failed)?;
        Ok(Response::new(v1::RemoveRunResponse {}))
    }

    type ReadRunEventsStream = Answers<v1::RunEvent>;

    async fn read_run_events(
        &self,
        request: Request<v1::ReadRunEventsRequest>,
    ) -> Result<Response<Self::ReadRunEventsStream>, Status> {
        let request = self.admit(request)?;
        let id = self.run(&request.run).await?;
        let events = follow::events(self.runs.clone(), id, request.after, request.follow);
        let stop = self.desk.parts().stop.clone();
        let events = events.take_until(stop.cancelled_owned());
        Ok(Response::new(Box::pin(events)))
    }

    type ReadRunLogsStream = Answers<v1::RunLog>;

    async fn read_run_logs(
        &self,
        request: Request<v1::ReadRunLogsRequest>,
    ) -> Result<Response<Self::ReadRunLogsStream>, Status> {
        let request = self.admit(request)?;
        let id = self.run(&request.run).await?;
        let step = Some(request.step).filter(|step| !step.is_empty());
        let log = follow::log(self.runs.clone(), id, step, request.from, request.follow);
        let stop = self.desk.parts().stop.clone();
        Ok(Response::new(Box::pin(
            log.take_until(stop.cancelled_owned()),
        )))
    }
}
