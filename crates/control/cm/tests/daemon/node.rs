//! A simulated node: a Service Manager that runs nothing, but says so as a real one does, and outlives its controller.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_item::Platform;
use muster_rpc::{ChannelConfig, Target};
use muster_tls::ClientTls;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;
use wire::sm_service_client::SmServiceClient;

use crate::rig::Address;

/// Before the next try to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// An instance that it says it runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Running {
    pub(crate) info: wire::InstanceInfo,
    /// It is the n-th start on this node; a restart has another number.
    pub(crate) start: u64,
}

#[derive(Debug)]
struct State {
    id: String,
    running: BTreeMap<String, Running>,
    starts: u64,
    /// Items whose instances fail.
    failing: Vec<String>,
    /// Variables that it does not take.
    refused: Vec<String>,
    /// It does not answer requests for logs.
    silent: bool,
    config_version: String,
    commands: Vec<Command>,
}

/// A node that lives until it is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    state: Arc<Mutex<State>>,
    online: watch::Sender<bool>,
    said: mpsc::Sender<Said>,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(ident: &common::InstanceIdent) -> String {
    format!("{}:{}:{}", ident.item_id, ident.subject_id, ident.instance)
}

/// What a node of this machine's kind announces.
pub(crate) fn info(id: &str) -> wire::SmInfo {
    let platform = Platform::of_this_program();
    wire::SmInfo {
        node_id: id.to_owned(),
        runtimes: vec![wire::RuntimeInfo {
            runtime_id: format!("runc-{id}"),
            r#type: "runc".to_owned(),
            max_dmips: 10_000,
            total_ram: 1 << 30,
            max_instances: 100,
            os_info: Some(common::OsInfo {
                os: platform.os,
                ..Default::default()
            }),
            arch_info: Some(common::ArchInfo {
                architecture: platform.architecture,
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

impl Node {
    /// Connects with TLS, or without.
    pub(crate) fn start(id: &str, address: Address, tls: Option<ClientTls>) -> Self {
        let state = Arc::new(Mutex::new(State {
            id: id.to_owned(),
            running: BTreeMap::new(),
            starts: 0,
            failing: Vec::new(),
            refused: Vec::new(),
            silent: false,
            config_version: String::new(),
            commands: Vec::new(),
        }));
        let online = watch::Sender::new(true);
        let (said, saying) = mpsc::channel(64);
        let task = tokio::spawn(live(
            Arc::clone(&state),
            (address, tls),
            online.subscribe(),
            saying,
        ));
        Self {
            state,
            online,
            said,
            task,
        }
    }

    /// What it runs, as `item:subject:number`.
    pub(crate) fn running(&self) -> BTreeMap<String, Running> {
        lock(&self.state).running.clone()
    }

    /// Number of the start of an instance; `None` if it does not run here.
    pub(crate) fn start_of(&self, instance: &str) -> Option<u64> {
        lock(&self.state).running.get(instance).map(|it| it.start)
    }

    /// Everything that it was told.
    pub(crate) fn commands(&self) -> Vec<Command> {
        lock(&self.state).commands.clone()
    }

    /// Instances of these items fail from now on.
    pub(crate) fn fail(&self, items: &[&str]) {
        lock(&self.state).failing = items.iter().map(|it| (*it).to_owned()).collect();
    }

    /// Does not take these variables from now on.
    pub(crate) fn refuse_variables(&self, names: &[&str]) {
        lock(&self.state).refused = names.iter().map(|it| (*it).to_owned()).collect();
    }

    /// Answers requests for logs, or does not.
    pub(crate) fn set_silent_about_logs(&self, silent: bool) {
        lock(&self.state).silent = silent;
    }

    /// Cuts it off, or lets it come back. What it runs goes on.
    pub(crate) fn set_online(&self, online: bool) {
        self.online.send_replace(online);
    }

    /// Says something on its stream.
    pub(crate) async fn say(&self, said: Said) {
        self.said.send(said).await.unwrap();
    }
}

async fn live(
    state: Arc<Mutex<State>>,
    (mut address, tls): (Address, Option<ClientTls>),
    mut online: watch::Receiver<bool>,
    mut saying: mpsc::Receiver<Said>,
) {
    loop {
        if online.wait_for(|online| *online).await.is_err() {
            return;
        }
        let Ok(at) = address.wait_for(Option::is_some).await.map(|it| *it) else {
            return;
        };
        let Some(at) = at else { continue };
        let mut cut = online.clone();
        tokio::select! {
            () = stream(&state, at, tls.as_ref(), &mut saying) => {}
            _ = cut.wait_for(|online| !*online) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn connect(at: SocketAddr, tls: Option<&ClientTls>) -> Option<Channel> {
    match tls {
        Some(tls) => {
            let target = Target::new(tls.clone(), &at.to_string()).ok()?;
            Some(muster_rpc::channel(&target, ChannelConfig::default()))
        }
        None => {
            let endpoint = Endpoint::try_from(format!("http://{at}")).ok()?;
            endpoint.connect().await.ok()
        }
    }
}

/// One stream, until it ends.
async fn stream(
    state: &Mutex<State>,
    at: SocketAddr,
    tls: Option<&ClientTls>,
    saying: &mut mpsc::Receiver<Said>,
) {
    let Some(channel) = connect(at, tls).await else {
        return;
    };
    let (out, outgoing) = mpsc::channel(64);
    let say = async |said| {
        let message = wire::SmOutgoingMessages {
            sm_outgoing_message: Some(said),
        };
        out.send(message).await.is_ok()
    };
    let hello = {
        let state = lock(state);
        (Said::SmInfo(info(&state.id)), all(&state))
    };
    say(hello.0).await;
    say(hello.1).await;
    let mut client = SmServiceClient::new(channel);
    let stream = client.register_sm(ReceiverStream::new(outgoing)).await;
    let Ok(stream) = stream else { return };
    let mut incoming = stream.into_inner();
    loop {
        let answers = tokio::select! {
            message = incoming.message() => match message {
                Ok(Some(message)) => message.sm_incoming_message.map(|it| carry_out(state, it)).unwrap_or_default(),
                _ => return,
            },
            Some(said) = saying.recv() => vec![said],
        };
        for answer in answers {
            if !say(answer).await {
                return;
            }
        }
    }
}

fn status(state: &State, running: &Running) -> wire::InstanceStatus {
    let info = &running.info;
    let ident = info.instance.clone().unwrap_or_default();
    let fails = state.failing.contains(&ident.item_id);
    let variables = info.env_vars.iter().map(|variable| {
        let refused = state.refused.contains(&variable.name);
        wire::EnvVarStatus {
            name: variable.name.clone(),
            error: Some(common::ErrorInfo {
                aos_code: i32::from(refused),
                message: if refused { "it is not taken" } else { "" }.to_owned(),
                ..Default::default()
            }),
        }
    });
    wire::InstanceStatus {
        env_vars: variables.collect(),
        version: info.version.clone(),
        runtime_id: info.runtime_id.clone(),
        manifest_digest: info.manifest_digest.clone(),
        state: if fails { "failed" } else { "active" }.to_owned(),
        error: Some(common::ErrorInfo {
            aos_code: i32::from(fails),
            message: if fails { "it was told to fail" } else { "" }.to_owned(),
            ..Default::default()
        }),
        instance: Some(ident),
    }
}

fn all(state: &State) -> Said {
    let instances = state.running.values();
    Said::NodeInstancesStatus(wire::NodeInstancesStatus {
        instances: instances.map(|it| status(state, it)).collect(),
    })
}

fn carry_out(state: &Mutex<State>, command: Command) -> Vec<Said> {
    let mut state = lock(state);
    state.commands.push(command.clone());
    match command {
        Command::UpdateInstances(update) => {
            let before = std::mem::take(&mut state.running);
            for info in update.start_instances {
                let name = name(&info.instance.clone().unwrap_or_default());
                let running = match before.get(&name) {
                    Some(same) if same.info == info => same.clone(),
                    _ => {
                        state.starts += 1;
                        let start = state.starts;
                        Running { info, start }
                    }
                };
                state.running.insert(name, running);
            }
            vec![all(&state)]
        }
        Command::UpdateNetworks(_) => Vec::new(),
        Command::SetNodeConfig(set) => {
            state.config_version = set.version;
            vec![config_status(&state)]
        }
        Command::GetNodeConfigStatus(_) | Command::CheckNodeConfig(_) => {
            vec![config_status(&state)]
        }
        Command::SystemLogRequest(_)
        | Command::InstanceLogRequest(_)
        | Command::InstanceCrashLogRequest(_)
            if state.silent =>
        {
            Vec::new()
        }
        Command::SystemLogRequest(request) => {
            let text = format!("the log of {}\n", state.id);
            log(&request.correlation_id, &[&text])
        }
        Command::InstanceLogRequest(request) => {
            let text = format!("instances of {}\n", state.id);
            log(&request.correlation_id, &[&text, "and more\n"])
        }
        Command::InstanceCrashLogRequest(request) => {
            let text = format!("crashes on {}\n", state.id);
            log(&request.correlation_id, &[&text])
        }
        Command::GetAverageMonitoring(_) | Command::ConnectionStatus(_) => Vec::new(),
    }
}

fn config_status(state: &State) -> Said {
    let installed = !state.config_version.is_empty();
    Said::NodeConfigStatus(wire::NodeConfigStatus {
        error: Some(common::ErrorInfo::default()),
        version: state.config_version.clone(),
        state: if installed { "installed" } else { "absent" }.to_owned(),
    })
}

/// The parts of a log.
fn log(correlation_id: &str, parts: &[&str]) -> Vec<Said> {
    let part = |(part, text): (u64, &&str)| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        Said::Log(wire::LogData {
            correlation_id: correlation_id.to_owned(),
            part_count: parts.len() as u64,
            part,
            data: packed.finish().unwrap().into(),
            status: "ok".to_owned(),
            error: Some(common::ErrorInfo::default()),
        })
    };
    (1..).zip(parts).map(part).collect()
}
