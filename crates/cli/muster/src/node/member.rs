//! `provision` and `renew`: keys are made on nodes, certified here, and applied there.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::domain::{CertType, NodeInfo, NodeState};
use muster_config::Duration as Due;
use muster_iamclient::{IamCallError, IamClient};
use muster_pki::files;
use muster_pki::jiff::Timestamp;
use muster_pki::{NodeId, Snapshot, SystemId};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use super::NodeCommandError;
use super::sign::Signer;
use crate::cli::node::{self as cli, Signing, Which};
use crate::console::{Answer, Console, Table, chain};
use crate::error::CommandError;
use crate::faults;
use crate::pki::{self, PkiCommandError};

/// How long an identity manager that has just started may take to know its system.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a node that was just brought up may take to call.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Certified {
    r#type: String,
    serial: String,
    not_after: Timestamp,
}

/// What became of one node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    node: String,
    state: String,
    /// New ones; none if there was nothing to do.
    certificates: Vec<Certified>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Members(Vec<Member>);

impl Answer for Members {
    fn table(&self) -> Table {
        let row = |member: &Member| {
            let types: Vec<&str> = member
                .certificates
                .iter()
                .map(|cert| cert.r#type.as_str())
                .collect();
            let until = member.certificates.iter().map(|cert| cert.not_after).min();
            vec![
                member.node.clone(),
                member.state.clone(),
                if types.is_empty() {
                    "-".to_owned()
                } else {
                    types.join(",")
                },
                until.map(|time| time.to_string()).unwrap_or_default(),
            ]
        };
        Table::list(
            &["NODE", "STATE", "NEW CERTIFICATES", "VALID UNTIL"],
            self.0.iter().map(row).collect(),
        )
    }
}

pub(super) async fn provision(
    command: &cli::Provision,
    console: &mut Console,
) -> Result<(), CommandError> {
    let work = Work::new(
        &command.connection,
        &command.signing,
        &command.password,
        console,
    )
    .await?;
    carry_out(&work, Task::Provision, &command.which, console).await
}

/// Makes one node a member that has just been brought up: it may take a while until it has called.
pub(super) async fn join(
    connection: &cli::Connection,
    signing: &Signing,
    node: &muster_api::domain::NodeId,
    console: &mut Console,
) -> Result<(), NodeCommandError> {
    let work = Work::new(connection, signing, &cli::Password::default(), console).await?;
    let deadline = Instant::now() + CALL_PATIENCE;
    let info = loop {
        match work.iam.node(node).await {
            Ok(info) => break info,
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            Err(_) => sleep(PAUSE).await,
        }
    };
    work.provision(&Target::new(info)?, console).await?;
    Ok(())
}

pub(super) async fn renew(command: &cli::Renew, console: &mut Console) -> Result<(), CommandError> {
    let work = Work::new(
        &command.connection,
        &command.signing,
        &command.password,
        console,
    )
    .await?;
    let task = Task::Renew { due: command.due };
    carry_out(&work, task, &command.which, console).await
}

/// What is done to each node.
#[derive(Clone, Copy)]
enum Task {
    Provision,
    Renew { due: Option<Due> },
}

impl Task {
    /// Whether it is for nodes in this state.
    fn is_for(self, state: NodeState) -> bool {
        match self {
            Self::Provision => state == NodeState::Unprovisioned,
            Self::Renew { .. } => is_member(state),
        }
    }
}

fn is_member(state: NodeState) -> bool {
    matches!(state, NodeState::Provisioned | NodeState::Paused)
}

/// One broken node does not keep the others waiting; a single one is reported as the command's own failure.
async fn carry_out(
    work: &Work<'_>,
    task: Task,
    which: &Which,
    console: &mut Console,
) -> Result<(), CommandError> {
    let nodes = work.nodes(which, task).await?;
    let mut done = Vec::new();
    let mut failed = 0;
    for node in &nodes {
        let member = match task {
            Task::Provision => work.provision(node, console).await,
            Task::Renew { due } => work.renew(node, due, console).await,
        };
        match member {
            Ok(member) => done.push(member),
            Err(error) if nodes.len() > 1 => {
                failed += 1;
                console.note(format_args!("muster: node {}: {}", node.id, chain(&error)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    console.answer(&Members(done))?;
    match failed {
        0 => Ok(()),
        failed => Err(NodeCommandError::Several {
            failed,
            all: nodes.len(),
        }
        .into()),
    }
}

/// Which system the identity manager says it is of. One that has just started may have to find out first.
async fn system_id(iam: &IamClient, console: &mut Console) -> Result<String, IamCallError> {
    let deadline = Instant::now() + PATIENCE;
    let mut told = false;
    loop {
        match iam.system_info().await {
            Ok(info) => return Ok(info.system_id),
            Err(error) if error.is_unreachable() && Instant::now() < deadline => {
                if !told {
                    console.note(format_args!("Waiting: {}", chain(&error)));
                    told = true;
                }
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A node as its identity manager describes it, and as it is named in certificates.
struct Target {
    info: NodeInfo,
    id: NodeId,
}

impl Target {
    fn new(info: NodeInfo) -> Result<Self, NodeCommandError> {
        let id = cert_node(&info.node_id)?;
        Ok(Self { info, id })
    }
}

/// A node's id as it stands in certificates, which allow fewer characters.
pub(super) fn cert_node(node: &muster_api::domain::NodeId) -> Result<NodeId, NodeCommandError> {
    NodeId::new(node.as_str()).map_err(|source| NodeCommandError::NodeId {
        id: node.to_string(),
        source,
    })
}

/// What all nodes of one command have in common.
struct Work<'a> {
    iam: IamClient,
    signing: &'a Signing,
    folder: PathBuf,
    authority: Snapshot,
    system: SystemId,
    password: Zeroizing<String>,
}

impl<'a> Work<'a> {
    async fn new(
        connection: &cli::Connection,
        signing: &'a Signing,
        password: &cli::Password,
        console: &mut Console,
    ) -> Result<Self, NodeCommandError> {
        // What can be wrong here is found before anything is asked of a node.
        let folder = pki::folder(&signing.authority());
        let authority = Snapshot::read(&folder)
            .map_err(|error| NodeCommandError::Authority(PkiCommandError::Read(error)))?;
        let password = self::password(password)?;
        let iam = super::connect(connection).await?;
        let node_system = system_id(&iam, console).await?;
        let system = authority.system().clone();
        // Identities are in lower case, identifiers need not be.
        if node_system.to_ascii_lowercase() != system.as_str() {
            return Err(NodeCommandError::OtherSystem {
                node_system,
                authority: system.to_string(),
                folder,
            });
        }
        Ok(Self {
            iam,
            signing,
            folder,
            authority,
            system,
            password,
        })
    }

    /// The nodes that are meant.
    async fn nodes(&self, which: &Which, task: Task) -> Result<Vec<Target>, NodeCommandError> {
        let mut found = Vec::new();
        if which.all {
            for id in self.iam.node_ids().await? {
                let target = Target::new(self.iam.node(&id).await?)?;
                if task.is_for(target.info.state) {
                    found.push(target);
                }
            }
            return Ok(found);
        }
        if which.nodes.is_empty() {
            found.push(Target::new(self.iam.current_node().await?)?);
        }
        for node in &which.nodes {
            found.push(Target::new(self.iam.node(node).await?)?);
        }
        Ok(found)
    }

    async fn provision(
        &self,
        node: &Target,
        console: &mut Console,
    ) -> Result<Member, NodeCommandError> {
        if is_member(node.info.state) {
            console.note(format_args!(
                "Node {} is {} already; `muster node renew` gives it new certificates.",
                node.id, node.info.state
            ));
            return Ok(Member {
                node: node.id.to_string(),
                state: node.info.state.to_string(),
                certificates: Vec::new(),
            });
        }
        console.note(format_args!("Node {}: starting", node.id));
        self.iam
            .start_provisioning(&node.info.node_id, &self.password)
            .await?;
        muster_fault::hit(faults::PROVISIONING_STARTED);
        let types = self.iam.cert_types(&node.info.node_id).await?;
        if types.is_empty() {
            let node = node.id.to_string();
            return Err(NodeCommandError::NoCertTypes { node });
        }
        let mut certificates = Vec::new();
        for cert_type in &types {
            certificates.push(self.certify(node, cert_type, console).await?);
        }
        muster_fault::hit(faults::BEFORE_FINISH);
        self.iam
            .finish_provisioning(&node.info.node_id, &self.password)
            .await?;
        console.note(format_args!("Node {}: provisioned", node.id));
        Ok(Member {
            node: node.id.to_string(),
            state: NodeState::Provisioned.to_string(),
            certificates,
        })
    }

    async fn renew(
        &self,
        node: &Target,
        due: Option<Due>,
        console: &mut Console,
    ) -> Result<Member, NodeCommandError> {
        if !is_member(node.info.state) {
            return Err(NodeCommandError::NotProvisioned {
                node: node.id.to_string(),
                state: node.info.state,
            });
        }
        let mut certificates = Vec::new();
        for cert_type in &self.iam.cert_types(&node.info.node_id).await? {
            if due.is_some_and(|due| !self.is_due(node, cert_type, due)) {
                continue;
            }
            certificates.push(self.certify(node, cert_type, console).await?);
        }
        Ok(Member {
            node: node.id.to_string(),
            state: node.info.state.to_string(),
            certificates,
        })
    }

    /// Whether the newest certificate of a type ends soon. A type of which this authority knows none is renewed: it may be of
    /// another authority, or revoked.
    fn is_due(&self, node: &Target, cert_type: &CertType, due: Due) -> bool {
        let ledger = self.authority.ledger();
        let newest = ledger.newest_of_type(&node.id, cert_type.as_str());
        newest.is_none_or(|cert| {
            let now = Timestamp::now();
            cert.issued.window.ends_within(pki::signed(due), now)
        })
    }

    fn signer<'s>(&'s self, node: &'s Target) -> Signer<'s> {
        Signer {
            folder: &self.folder,
            system: &self.system,
            node: &node.id,
            signing: self.signing,
        }
    }

    /// One certificate: key there, signature here, certificate there.
    async fn certify(
        &self,
        node: &Target,
        cert_type: &CertType,
        console: &mut Console,
    ) -> Result<Certified, NodeCommandError> {
        console.note(format_args!("Node {}: {cert_type}: new key", node.id));
        let csr = self
            .iam
            .create_key(&node.info.node_id, cert_type, "", &self.password)
            .await?;
        muster_fault::hit(faults::KEY_CREATED);
        let cert = self
            .signer(node)
            .certify(cert_type.as_str(), &csr, Timestamp::now(), console)
            .map_err(|source| NodeCommandError::Sign {
                node: node.id.to_string(),
                source,
            })?;
        muster_fault::hit(faults::CERTIFIED);
        self.iam
            .apply_cert(&node.info.node_id, cert_type, &cert.chain_pem)
            .await?;
        muster_fault::hit(faults::CERT_APPLIED);
        console.note(format_args!(
            "Node {}: {cert_type}: certified as {} until {}",
            node.id,
            cert.profile.identity(),
            cert.window.not_after
        ));
        Ok(Certified {
            r#type: cert_type.to_string(),
            serial: cert.serial.to_string(),
            not_after: cert.window.not_after,
        })
    }
}

/// The first line of the password file; no password if there is none.
pub(super) fn password(given: &cli::Password) -> Result<Zeroizing<String>, NodeCommandError> {
    let Some(path) = &given.password_file else {
        return Ok(Zeroizing::default());
    };
    let text = files::read_secret(path).map_err(NodeCommandError::Password)?;
    Ok(Zeroizing::new(
        text.lines().next().unwrap_or_default().to_owned(),
    ))
}
