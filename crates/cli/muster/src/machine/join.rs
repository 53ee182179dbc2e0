//! `--join`: a machine becomes a node of a Unit, and leaves it before it is destroyed.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::domain::{InvalidValue, NodeId};
use muster_join::{JoinError, NotReady, UnitFile, UnitFileError};
use muster_machine_api::v1;
use tokio::time::{Instant, sleep};

use super::client::Manager;
use super::{MachineCommandError, exec};
use crate::cli::{machine as cli, node as node_cli, pki as pki_cli, unit as unit_cli};
use crate::console::{Console, Exit};
use crate::error::CommandError;
use crate::node;
use crate::text::shown;
use crate::unit;

/// The state of a machine that is gone.
const GONE: &str = "terminated";
/// How long a machine may take until it answers: one without hardware to help it boots for minutes.
const BOOT: Duration = Duration::from_secs(600);
/// How long a node may take to be connected once it is a member.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(200);

/// Why a machine is no node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinCommandError {
    #[error(transparent)]
    Unit(UnitFileError),
    #[error("the machine's id cannot be a node's")]
    NodeId(#[source] InvalidValue),
    #[error("{} has no name that can be kept", .0.display())]
    Path(PathBuf),
    #[error(
        "machine {machine} is there, and is no node of the Unit, because it does not answer; `muster machine join {machine} UNIT` tries again"
    )]
    NotReady {
        machine: String,
        #[source]
        source: NotReady,
    },
    #[error(
        "machine {machine} is there, and is no node of the Unit yet; `muster machine join {machine} UNIT` tries again"
    )]
    Join {
        machine: String,
        #[source]
        source: Box<JoinError>,
    },
    #[error(
        "node {node} is a member of the Unit and did not connect within {} s; it says why: `muster machine exec {node} -- {look}`",
        PATIENCE.as_secs()
    )]
    NotConnected { node: String, look: String },
}

impl JoinCommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unit(_) | Self::Path(_) => Exit::Usage,
            Self::Join { .. } | Self::NodeId(_) => Exit::Failed,
            Self::NotReady { .. } | Self::NotConnected { .. } => Exit::Late,
        }
    }
}

fn failed(error: JoinCommandError) -> MachineCommandError {
    MachineCommandError::Join(Box::new(error))
}

/// A Unit's description, and where it is.
pub(super) struct Joining {
    unit: UnitFile,
    path: String,
    programs: PathBuf,
}

impl Joining {
    /// Reads it before a machine is made for it.
    pub(super) fn read(
        named: &Path,
        programs: Option<PathBuf>,
    ) -> Result<Self, MachineCommandError> {
        let unit = UnitFile::read(named).map_err(|error| failed(JoinCommandError::Unit(error)))?;
        let checked = unit.check(named);
        checked.map_err(|error| failed(JoinCommandError::Unit(error)))?;
        let path = UnitFile::path_of(named);
        let path = path.canonicalize().unwrap_or(path);
        let text = path.to_str().map(str::to_owned);
        let text = text.ok_or_else(|| failed(JoinCommandError::Path(path)))?;
        Ok(Self {
            unit,
            path: text,
            programs: programs.unwrap_or_else(crate::sm::programs),
        })
    }

    /// Looks whether a machine could become a node: nothing is done with it.
    pub(super) async fn check(
        &self,
        manager: &Manager,
        machine: &str,
        console: &mut Console,
    ) -> Result<(), CommandError> {
        let used = exec::hold(manager, machine, v1::HoldKind::Command).await?;
        let name = &used.machine;
        node_id(name)?;
        let answers = used.executor.probe().await;
        answers.map_err(|error| used.not_done(error))?;
        let unit = &self.path;
        console.note(format_args!(
            "{name}: it answers, and would become node {name} of the Unit that {unit} describes"
        ));
        Ok(())
    }

    /// Makes a machine a node, which is called as the machine is.
    pub(super) async fn join(
        &self,
        manager: &Manager,
        machine: &str,
        console: &mut Console,
    ) -> Result<(), CommandError> {
        let used = exec::hold(manager, machine, v1::HoldKind::Command).await?;
        let name = used.machine.clone();
        let blame = |source| {
            failed(JoinCommandError::Join {
                machine: name.clone(),
                source: Box::new(source),
            })
        };
        let executor = &*used.executor;
        console.note(format_args!("Machine {name}: waiting until it answers"));
        let ready = muster_join::wait_ready(executor, BOOT).await;
        ready.map_err(|source| {
            failed(JoinCommandError::NotReady {
                machine: name.clone(),
                source,
            })
        })?;
        console.note(format_args!("Machine {name}: bringing Muster to it"));
        let plan = muster_join::install(executor, &self.unit, &name, &self.programs).await;
        let plan = plan.map_err(blame)?;
        let id = node_id(&name)?;
        // Before it is a member: whoever destroys it then knows what it has to leave.
        record_unit(manager, &name, &self.path).await?;
        let signing = node_cli::Signing {
            folder: Some(self.unit.authority.clone()),
            names: pki_cli::Names {
                dns: Vec::new(),
                ip: vec![IpAddr::V4(plan.address)],
            },
            asked_names: false,
        };
        node::join(&iam(&self.unit), &signing, &id, console).await?;
        let begun = muster_join::begin_work(executor, &plan).await;
        begun.map_err(blame)?;
        self.wait(&name, &plan.look).await?;
        console.note(format_args!("Node {name}: connected"));
        Ok(())
    }

    async fn wait(&self, node: &str, look: &str) -> Result<(), CommandError> {
        let certified = Certified::of(&self.unit);
        let connection = unit_cli::Connection {
            unit: Some(self.unit.control()),
            ca: certified.ca,
            cert: certified.cert,
            key: certified.key,
            crl: certified.crl,
        };
        let unit = unit::connect(&connection).await?;
        let deadline = Instant::now() + PATIENCE;
        while !unit::is_connected(&unit, node).await? {
            if Instant::now() >= deadline {
                let (node, look) = (node.to_owned(), look.to_owned());
                return Err(failed(JoinCommandError::NotConnected { node, look }).into());
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// A node is called as its machine is.
fn node_id(machine: &str) -> Result<NodeId, MachineCommandError> {
    NodeId::new(machine).map_err(|source| failed(JoinCommandError::NodeId(source)))
}

/// What is named on the command line to reach what has no socket here.
#[derive(Default)]
struct Certified {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    crl: Option<PathBuf>,
}

impl Certified {
    fn of(unit: &UnitFile) -> Self {
        let Some(credentials) = unit.credentials() else {
            return Self::default();
        };
        Self {
            ca: Some(credentials.root),
            cert: Some(credentials.certificate),
            key: Some(credentials.key),
            crl: credentials.revocation_list,
        }
    }
}

/// The Main Node's identity manager, by its socket on this machine, or with an operator's certificate.
fn iam(unit: &UnitFile) -> node_cli::Connection {
    let certified = Certified::of(unit);
    node_cli::Connection {
        iam: unit.iam(),
        ca: certified.ca,
        cert: certified.cert,
        key: certified.key,
        crl: certified.crl,
        server: node_cli::ServerCheck::default(),
        insecure: false,
    }
}

/// Has the manager remember whose node a machine is; with an empty path, that it is none any more.
async fn record_unit(
    manager: &Manager,
    machine: &str,
    unit: &str,
) -> Result<(), MachineCommandError> {
    let request = v1::SetUnitRequest {
        machine: machine.to_owned(),
        unit: unit.to_owned(),
    };
    let answer = manager.ask("SetUnit", async |mut it| it.set_unit(request).await);
    answer.await?;
    Ok(())
}

/// Takes a machine that is a node out of its Unit, before it is destroyed. A Unit that does not answer keeps nobody from destroying
/// a machine that costs money; the manager remembers the node until it has left.
pub(super) async fn leave(manager: &Manager, machine: &str, console: &mut Console) {
    // Whoever destroys it says that there is no such machine.
    let Ok(machine) = get(manager, machine).await else {
        return;
    };
    if machine.unit.is_empty() {
        return;
    }
    if let Err(error) = take_out(manager, &machine, false, console).await {
        console.report(&error);
        console.note(format_args!(
            "The Unit still knows node {0}; `muster machine leave {0}` takes it out.",
            machine.id
        ));
    }
}

/// `muster machine leave`: also of machines that are gone.
pub(super) async fn leave_all(
    manager: &Manager,
    leave: cli::Leave,
    console: &mut Console,
) -> Result<(), CommandError> {
    for machine in &leave.machines {
        let machine = get(manager, machine).await?;
        match machine.unit.as_str() {
            "" => console.note(format_args!("{}: it is no node", machine.id)),
            unit if leave.dry_run => console.note(format_args!(
                "{}: it would be taken out of the Unit that {} describes",
                machine.id,
                shown(unit)
            )),
            _ => take_out(manager, &machine, leave.forget, console).await?,
        }
    }
    Ok(())
}

async fn get(manager: &Manager, machine: &str) -> Result<v1::Machine, MachineCommandError> {
    let request = v1::GetMachineRequest {
        machine: machine.to_owned(),
    };
    let answer = manager.ask("GetMachine", async |mut it| it.get_machine(request).await);
    Ok(answer.await?)
}

/// Takes a node out of its Unit, and has the manager remember that. With `forget`, the Unit is not asked.
async fn take_out(
    manager: &Manager,
    machine: &v1::Machine,
    forget: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    if !forget {
        let unit = UnitFile::read(Path::new(&machine.unit));
        let unit = unit.map_err(|error| failed(JoinCommandError::Unit(error)))?;
        let id = node_id(&machine.id)?;
        match machine.state == GONE {
            // A node's keys are on it: there is nothing to delete, and nobody to be asked to.
            true => node::revoke(&unit.authority, &id, console)?,
            false => node::leave(&iam(&unit), &unit.authority, &id, console).await?,
        }
    }
    record_unit(manager, &machine.id, "").await?;
    console.note(format_args!("Node {}: no member any more", machine.id));
    Ok(())
}
