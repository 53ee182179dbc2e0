//! The one task that changes the node's phase and its key stores.

use std::sync::Arc;

use muster_api::domain::{AosCode, AosError, Cause};
use muster_keys::{
    ApplyCertError, CertHandler, CertInfo, CertType, CreateKeyError, CsrSubject, OwnerError,
};
use muster_permissions::Permissions;
use muster_store::StoreError;
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task;
use tracing::{error, info, warn};

use super::hook::{self, CommandLine, HookError, Password};
use super::phase::{self, Action, Phase, Request, Step, WrongPhase};
use super::state_file::{NodeStateError, StateFile};
use crate::config::Hooks;
use crate::current_node::CurrentNode;

muster_fault::points! {
    /// Keys and certificates are removed.
    pub KEYS_CLEARED = "iam.keys-cleared",
    /// The start hook has run.
    pub START_HOOK_RUN = "iam.start-hook-run",
    /// Every key store has its owner.
    pub OWNERS_SET = "iam.owners-set",
    /// Certificates that the node signs itself are made.
    pub SELF_SIGNED = "iam.self-signed",
    /// The disk encryption hook has run.
    pub DISKS_ENCRYPTED = "iam.disks-encrypted",
    /// A key was made; nobody has its signing request.
    pub KEY_CREATED = "iam.key-created",
    /// A certificate is installed; nobody has been told.
    pub CERT_APPLIED = "iam.cert-applied",
    /// The finish hook has run, and the node is not a member yet.
    pub FINISH_HOOK_RUN = "iam.finish-hook-run",
    /// The deprovision hook has run, and the node is a member still.
    pub DEPROVISION_HOOK_RUN = "iam.deprovision-hook-run",
    /// The instances' permissions are forgotten.
    pub PERMISSIONS_FORGOTTEN = "iam.permissions-forgotten",
}

/// Requests that wait for their turn; further callers wait to hand theirs in.
const WAITING: usize = 16;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionError {
    /// It makes no sense now.
    #[error(transparent)]
    WrongPhase(WrongPhase),
    /// A command of the configuration failed.
    #[error(transparent)]
    Hook(HookError),
    /// A key store could not be cleared or made ready.
    #[error(transparent)]
    Owner(OwnerError),
    /// A key could not be made.
    #[error(transparent)]
    CreateKey(CreateKeyError),
    /// A certificate was not taken.
    #[error(transparent)]
    ApplyCert(ApplyCertError),
    /// The node's own certificate is missing.
    #[error(
        "there is no certificate of type {cert_type}, which the node's own servers need; create its \
         key and apply its certificate first"
    )]
    NoOwnCert {
        /// The type.
        cert_type: CertType,
    },
    /// The node's state could not be kept.
    #[error(transparent)]
    State(NodeStateError),
    /// The instances' permissions could not be forgotten.
    #[error("cannot forget the permissions of instances")]
    Permissions(#[source] StoreError),
    /// The daemon is ending.
    #[error("the identity manager is shutting down")]
    ShuttingDown,
}

impl From<&ProvisionError> for AosError {
    fn from(error: &ProvisionError) -> Self {
        let (code, exit_code) = match error {
            ProvisionError::WrongPhase(_) | ProvisionError::NoOwnCert { .. } => {
                (AosCode::WrongState, 0)
            }
            ProvisionError::Hook(hook @ HookError::TooLong { .. }) => {
                (AosCode::Timeout, hook.exit_code().unwrap_or(0))
            }
            ProvisionError::Hook(hook) => (AosCode::Failed, hook.exit_code().unwrap_or(0)),
            ProvisionError::Owner(OwnerError::UnknownType { .. })
            | ProvisionError::CreateKey(CreateKeyError::UnknownType { .. })
            | ProvisionError::ApplyCert(ApplyCertError::UnknownType { .. }) => {
                (AosCode::NotFound, 0)
            }
            ProvisionError::CreateKey(
                CreateKeyError::WrongKind { .. } | CreateKeyError::Request { .. },
            )
            | ProvisionError::ApplyCert(ApplyCertError::Refused { .. }) => {
                (AosCode::InvalidArgument, 0)
            }
            ProvisionError::Owner(_)
            | ProvisionError::CreateKey(_)
            | ProvisionError::ApplyCert(_)
            | ProvisionError::State(_)
            | ProvisionError::Permissions(_) => (AosCode::Failed, 0),
            ProvisionError::ShuttingDown => (AosCode::Cancelled, 0),
        };
        Self {
            cause: Cause::Code { code, exit_code },
            message: ErrorChain(error).to_string(),
        }
    }
}

type Reply<T> = oneshot::Sender<Result<T, ProvisionError>>;

/// A request and whom to answer.
#[derive(Debug)]
enum Job {
    /// A request that is nothing but its plan.
    Walk(Request, Password, Reply<()>),
    CreateKey {
        cert_type: CertType,
        subject: CsrSubject,
        reply: Reply<String>,
    },
    ApplyCert {
        cert_type: CertType,
        chain: String,
        reply: Reply<CertInfo>,
    },
}

/// Hands requests to the task. Clones reach the same task.
#[derive(Debug, Clone)]
pub(crate) struct Provisioner {
    jobs: mpsc::Sender<Job>,
    phase: watch::Receiver<Phase>,
}

impl Provisioner {
    /// The phase, to read and to follow.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// Makes a request that has no answer but success.
    ///
    /// # Errors
    /// Why it failed; it can be made again.
    pub(crate) async fn walk(
        &self,
        request: Request,
        password: Password,
    ) -> Result<(), ProvisionError> {
        self.ask(|reply| Job::Walk(request, password, reply)).await
    }

    /// Makes a key of a type, and a signing request for it in PEM.
    ///
    /// # Errors
    /// Why it failed; it can be made again.
    pub(crate) async fn create_key(
        &self,
        cert_type: CertType,
        subject: CsrSubject,
    ) -> Result<String, ProvisionError> {
        self.ask(|reply| Job::CreateKey {
            cert_type,
            subject,
            reply,
        })
        .await
    }

    /// Installs the certificate for the key made last.
    ///
    /// # Errors
    /// Why it failed; the old certificate stays.
    pub(crate) async fn apply_cert(
        &self,
        cert_type: CertType,
        chain: String,
    ) -> Result<CertInfo, ProvisionError> {
        self.ask(|reply| Job::ApplyCert {
            cert_type,
            chain,
            reply,
        })
        .await
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, ProvisionError> {
        let (reply, answer) = oneshot::channel();
        let ended = |_| ProvisionError::ShuttingDown;
        self.jobs
            .send(job(reply))
            .await
            .map_err(|_| ProvisionError::ShuttingDown)?;
        answer.await.map_err(ended)?
    }
}

/// What the task works with.
#[derive(Debug)]
pub(crate) struct Provisioning {
    /// The node's state file.
    pub(crate) state: StateFile,
    /// Keys and certificates.
    pub(crate) certs: Arc<CertHandler>,
    /// The node's own certificate type.
    pub(crate) own_cert: CertType,
    /// Commands of the configuration.
    pub(crate) hooks: Hooks,
    /// What instances may do, if that is kept here.
    pub(crate) permissions: Option<Permissions>,
    /// The node's description.
    pub(crate) node: CurrentNode,
}

impl Provisioning {
    /// The task, to be spawned, and the way to reach it. `phase` is the one on the disk. The task ends
    /// when every [`Provisioner`] is gone.
    pub(crate) fn start(self, phase: Phase) -> (Provisioner, impl Future<Output = ()> + Send) {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let (publish, follow) = watch::channel(phase);
        let owner = Owner {
            phase,
            publish,
            parts: self,
        };
        let provisioner = Provisioner {
            jobs,
            phase: follow,
        };
        (provisioner, owner.run(waiting))
    }
}

/// The owner of the phase.
#[derive(Debug)]
struct Owner {
    phase: Phase,
    publish: watch::Sender<Phase>,
    parts: Provisioning,
}

impl Owner {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        self.resume().await;
        while let Some(job) = jobs.recv().await {
            // A caller that has gone away does not need its answer.
            match job {
                Job::Walk(request, password, reply) => {
                    let outcome = self.walk(request, &password).await;
                    let _ = reply.send(outcome);
                }
                Job::CreateKey {
                    cert_type,
                    subject,
                    reply,
                } => {
                    let outcome = self.create_key(cert_type, subject).await;
                    let _ = reply.send(outcome);
                }
                Job::ApplyCert {
                    cert_type,
                    chain,
                    reply,
                } => {
                    let outcome = self.apply_cert(cert_type, chain).await;
                    let _ = reply.send(outcome);
                }
            }
        }
    }

    /// Goes on with what a crash has interrupted, where that needs nobody's consent or password.
    async fn resume(&mut self) {
        let actions = phase::resume(self.phase);
        if actions.is_empty() {
            return;
        }
        info!(phase = %self.phase, "going on with what was interrupted");
        let outcome = self.act(&actions, &Password::new(String::new())).await;
        self.settle(Request::Deprovision, &outcome);
    }

    async fn walk(&mut self, request: Request, password: &Password) -> Result<(), ProvisionError> {
        let actions = phase::plan(self.phase, request).map_err(ProvisionError::WrongPhase)?;
        if actions.is_empty() {
            info!(%request, phase = %self.phase, "nothing left to do");
            return Ok(());
        }
        info!(%request, phase = %self.phase, "begun");
        let outcome = self.act(&actions, password).await;
        self.settle(request, &outcome);
        outcome
    }

    fn settle(&self, request: Request, outcome: &Result<(), ProvisionError>) {
        match outcome {
            Ok(()) => info!(%request, phase = %self.phase, "done"),
            Err(failed) => error!(
                %request,
                phase = %self.phase,
                error = %ErrorChain(failed),
                "failed; the request can be made again"
            ),
        }
        let failed = outcome.as_ref().err().map(AosError::from);
        self.parts.node.settled(self.phase, failed);
    }

    async fn act(&mut self, actions: &[Action], password: &Password) -> Result<(), ProvisionError> {
        for action in actions {
            match action {
                Action::Do(step) => self.step(*step, password).await?,
                Action::Enter(phase) => self.enter(*phase).await?,
            }
        }
        Ok(())
    }

    async fn enter(&mut self, phase: Phase) -> Result<(), ProvisionError> {
        let state = self.parts.state.clone();
        blocking(move || state.write(phase))
            .await?
            .map_err(ProvisionError::State)?;
        self.phase = phase;
        self.publish.send_replace(phase);
        self.parts.node.entered(phase);
        Ok(())
    }

    async fn step(&self, step: Step, password: &Password) -> Result<(), ProvisionError> {
        let hooks = &self.parts.hooks;
        match step {
            Step::ClearKeys => {
                let types = self.every_type();
                self.each(types, CertHandler::clear).await?;
                muster_fault::hit(KEYS_CLEARED);
            }
            Step::StartHook => {
                self.hook("start hook", hooks.start.as_ref(), password)
                    .await?;
                muster_fault::hit(START_HOOK_RUN);
            }
            Step::TakeOwnership => {
                let password = password.clone();
                self.each(self.every_type(), move |certs, cert_type| {
                    certs.set_owner(cert_type, password.reveal())
                })
                .await?;
                muster_fault::hit(OWNERS_SET);
            }
            Step::SelfSign => {
                self.self_sign().await?;
                muster_fault::hit(SELF_SIGNED);
            }
            Step::EncryptDisks => {
                let command = hooks.encrypt_disks.as_ref();
                self.hook("disk encryption hook", command, password).await?;
                muster_fault::hit(DISKS_ENCRYPTED);
            }
            Step::CheckOwnCert => self.check_certs().await?,
            Step::FinishHook => {
                self.hook("finish hook", hooks.finish.as_ref(), password)
                    .await?;
                muster_fault::hit(FINISH_HOOK_RUN);
            }
            Step::DeprovisionHook => {
                let command = hooks.deprovision.as_ref();
                self.hook("deprovision hook", command, password).await?;
                muster_fault::hit(DEPROVISION_HOOK_RUN);
            }
            Step::ForgetPermissions => {
                if let Some(permissions) = &self.parts.permissions {
                    permissions
                        .clear()
                        .await
                        .map_err(ProvisionError::Permissions)?;
                }
                muster_fault::hit(PERMISSIONS_FORGOTTEN);
            }
        }
        Ok(())
    }

    fn every_type(&self) -> Vec<CertType> {
        let certs = &self.parts.certs;
        let mut types = certs.cert_types();
        types.extend(certs.self_signed_types());
        types
    }

    /// Does something with the key stores of these types, one after the other.
    async fn each(
        &self,
        types: Vec<CertType>,
        work: impl Fn(&CertHandler, &CertType) -> Result<(), OwnerError> + Send + 'static,
    ) -> Result<(), ProvisionError> {
        let certs = Arc::clone(&self.parts.certs);
        blocking(move || {
            types
                .iter()
                .try_for_each(|cert_type| work(&certs, cert_type))
        })
        .await?
        .map_err(ProvisionError::Owner)
    }

    async fn self_sign(&self) -> Result<(), ProvisionError> {
        let certs = Arc::clone(&self.parts.certs);
        let types = certs.self_signed_types();
        blocking(move || {
            types
                .iter()
                .try_for_each(|cert_type| certs.create_self_signed(cert_type).map(drop))
        })
        .await?
        .map_err(ProvisionError::CreateKey)
    }

    async fn hook(
        &self,
        name: &'static str,
        command: Option<&CommandLine>,
        password: &Password,
    ) -> Result<(), ProvisionError> {
        match command {
            Some(command) => hook::run(name, command, password, self.parts.hooks.limit)
                .await
                .map_err(ProvisionError::Hook),
            None => Ok(()),
        }
    }

    /// The node's own certificate has to be there; of other types it is said that they have none.
    async fn check_certs(&self) -> Result<(), ProvisionError> {
        let certs = Arc::clone(&self.parts.certs);
        let types = certs.cert_types();
        let missing: Vec<CertType> = blocking(move || {
            types
                .into_iter()
                .filter(|cert_type| certs.cert(cert_type, None, None).is_err())
                .collect()
        })
        .await?;
        if missing.contains(&self.parts.own_cert) {
            return Err(ProvisionError::NoOwnCert {
                cert_type: self.parts.own_cert.clone(),
            });
        }
        for cert_type in missing {
            warn!(%cert_type, "provisioning is finished without a certificate of this type");
        }
        Ok(())
    }

    async fn create_key(
        &self,
        cert_type: CertType,
        subject: CsrSubject,
    ) -> Result<String, ProvisionError> {
        phase::plan(self.phase, Request::CreateKey).map_err(ProvisionError::WrongPhase)?;
        let certs = Arc::clone(&self.parts.certs);
        let request = blocking(move || certs.create_key(&cert_type, &subject))
            .await?
            .map_err(ProvisionError::CreateKey)?;
        muster_fault::hit(KEY_CREATED);
        Ok(request.into_pem())
    }

    async fn apply_cert(
        &self,
        cert_type: CertType,
        chain: String,
    ) -> Result<CertInfo, ProvisionError> {
        phase::plan(self.phase, Request::ApplyCert).map_err(ProvisionError::WrongPhase)?;
        let certs = Arc::clone(&self.parts.certs);
        let applied = blocking(move || certs.apply_cert(&cert_type, &chain))
            .await?
            .map_err(ProvisionError::ApplyCert)?;
        muster_fault::hit(CERT_APPLIED);
        info!(
            cert_type = %applied.cert_type,
            serial = applied.serial_hex(),
            "a certificate was applied"
        );
        Ok(applied)
    }
}

/// Runs what may wait for a disk or a token where waiting is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProvisionError> {
    task::spawn_blocking(work)
        .await
        .map_err(|_| ProvisionError::ShuttingDown)
}
