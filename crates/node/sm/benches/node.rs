//! A whole node under a controller, over the real wire: what an idle Service Manager costs, what each instance adds, and how long a
//! command takes.
//!
//! In a machine of namespaces run core, the Service Manager as a unit, and this program as the controller. Images are on the node
//! before the clock starts. All of it without TLS; in a second machine the Service Manager has certificates from an identity
//! manager, as in a Unit, and what that adds is seen. Fails above the limits, and where root has not all that is measured with.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::machine::{Binaries, Build};
use muster_lab::muster;
use muster_lab::pki::{CertSpec, Pki};
use muster_lab::preflight;
use muster_lab::program::Stream;
use muster_lab::python::{PYTHON, contracts};
use muster_rpc::server::{ServerBuilder, ServerConfig};
use muster_tls::{CertStore, FileCertSource, IdentityPolicy, Insecure, ServerOptions, ServerTls};
use serde_json::json;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use wire::sm_incoming_messages::SmIncomingMessage as In;
use wire::sm_outgoing_messages::SmOutgoingMessage as Out;
use wire::sm_service_server::{SmService, SmServiceServer};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TIME: Duration = Duration::from_secs(600);
/// Threads that were at work end after this long without, and memory goes back.
const SETTLE: Duration = Duration::from_secs(20);
/// Long enough for everything that a node does now and then.
const WINDOW_SECONDS: usize = 40;
const INSTANCES: u64 = 50;
const SINGLE_STARTS: u64 = 10;
/// What must not be exceeded.
const IDLE_KIB: u64 = 6 * 1024;
const PER_INSTANCE_KIB: u64 = 20;
const SINGLE_MS: u64 = 150;
const NETWORKED_MS: u64 = 300;
/// Everything of the machine that is measured with.
const FILES: [&str; 3] = [
    "/bin/busybox",
    "/usr/lib/cni/bridge",
    "/usr/lib/python3/dist-packages/grpc_tools",
];
const TOOLS: [&str; 2] = ["runc", "nft"];
const NETWORK: (&str, &str) = ("net", "172.30.1.0/24");

const INSIDE: &str = "/usr/local/lib/node-bench";
/// The identity manager of the tests, and the contracts that it is made from.
const IAM: &str = "/usr/local/lib/iam.py";
const PROTOS: [&str; 2] = ["common/v2/common.proto", "iamanager/v6/iamanager.proto"];
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
    ("muster-firewall", "muster-firewall"),
];

/// How the node reaches others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Plain,
    /// Mutual TLS, with certificates that an identity manager names.
    Secured,
}

impl Link {
    const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Secured => "secured",
        }
    }

    fn config(self) -> String {
        let mut config = json!({
            "cmServerUrl": "127.0.0.1:8093",
            "maxDmips": 10000,
            "runtimes": [{"type": "runc"}],
            "launcher": {"stopTimeout": "100ms"},
        });
        match self {
            Self::Plain => {
                config["insecure"] = "the controller of this measurement has no certificate".into();
            }
            Self::Secured => {
                config["iamPublicServerUrl"] = "127.0.0.1:8090".into();
                config["iamProtectedServerUrl"] = "127.0.0.1:8089".into();
                config["caCert"] = "/test/pki/ca.pem".into();
            }
        }
        config.to_string()
    }

    async fn server(self) -> Outcome<ServerTls> {
        let options = ServerOptions::default();
        if self == Self::Plain {
            let why = Insecure::because("a measurement")?;
            return Ok(ServerTls::insecure(why, options));
        }
        let at = |name: &str| Path::new("/test/pki").join(name);
        let source = FileCertSource::mutual(at("cm.crt.pem"), at("cm.key.pem"), at("ca.pem"));
        let store = CertStore::open(source).await?;
        let policy = IdentityPolicy::spiffe_only();
        Ok(ServerTls::mutual(&store, policy, options)?)
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("inside") {
        let digest = arguments.next().ok_or("which image?")?;
        let is_secured = arguments.next().as_deref() == Some(Link::Secured.word());
        let link = if is_secured {
            Link::Secured
        } else {
            Link::Plain
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        return runtime.block_on(measure(digest, link));
    }
    if !rustix::process::geteuid().is_root() {
        // Says so, or fails where nothing may be left out.
        preflight::skip("node", "not root");
        return Ok(());
    }
    // A number that was not measured is not one that is kept.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_tool = |name: &&str| std::env::split_paths(&path).any(|it| it.join(name).is_file());
    let files = FILES.into_iter().filter(|it| !Path::new(it).exists());
    let tools = TOOLS.into_iter().filter(|it| !is_tool(it));
    let missing: Vec<&str> = files.chain(tools).collect();
    if !missing.is_empty() {
        return Err(format!("nothing is measured without {}", missing.join(", ")).into());
    }
    let files = tempfile::tempdir()?;
    let digest = image(files.path())?;
    let programs = Binaries::build(Build::Bench, PROGRAMS, &[])?;
    let plain = in_machine(&programs, files.path(), &digest, Link::Plain);
    let pki = files.path().join("pki");
    fs::create_dir(&pki)?;
    let authority = Pki::new("system")?;
    authority.write_ca(&pki, "ca")?;
    for role in ["iam", "cm", "sm"] {
        let issued = authority.issue(&CertSpec::node("node-7", role))?;
        issued.write_to(&pki, role)?;
    }
    contracts(&files.path().join("generated"), &PROTOS, TIME)?;
    let secured = in_machine(&programs, files.path(), &digest, Link::Secured);
    plain.and(secured)
}

fn in_machine(programs: &Binaries, files: &Path, digest: &str, link: Link) -> Outcome<()> {
    let iam = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manager/iam.py");
    let builder = muster::machine(programs)
        .hybrid_cgroups()
        .bind(std::env::current_exe()?, INSIDE)
        .bind(iam, IAM)
        .bind(files, "/test")
        .file("/etc/muster/sm.json", link.config(), 0o644);
    let machine = muster::boot(&builder, TIME)?;
    machine.run(["ip", "link", "set", "lo", "up"])?;
    let mut iam = None;
    if link == Link::Secured {
        let program = machine.program([PYTHON, IAM, "/test/generated", "/test/pki"]);
        let mut process = program.start()?;
        process.wait_for_line("ready", TIME)?;
        iam = Some(process);
    }
    let program = machine.program([INSIDE, "inside", digest, link.word()]);
    let mut process = program.start()?;
    let status = process.wait(TIME)?;
    print!("{}", process.text(Stream::Stdout));
    drop(iam);
    match status.success() {
        true => Ok(()),
        false => Err(process.text(Stream::Stderr).into()),
    }
}

/// Busybox that sleeps, as a layout; the digest of its manifest.
fn image(folder: &Path) -> Outcome<String> {
    let content = folder.join("content");
    fs::create_dir_all(content.join("bin"))?;
    fs::copy("/bin/busybox", content.join("bin/busybox"))?;
    symlink("busybox", content.join("bin/sleep"))?;
    let order = BuildOrder {
        content: Content::Folder(content),
        run: RunSettings {
            entrypoint: vec!["/bin/sleep".into(), "1000000".into()],
            ..RunSettings::default()
        },
        item_config: Some(br#"{"runtimes": [{"codename": "runc"}]}"#.to_vec()),
        platform: Platform::of_this_program(),
        format: LayerFormat::TarGzip,
        name: None,
        output: folder.join("image"),
        as_archive: false,
    };
    Ok(build(&order)?.digest.to_string())
}

/// The node's stream, from the controller's side.
struct Node {
    commands: mpsc::Sender<Result<wire::SmIncomingMessages, Status>>,
    messages: Streaming<wire::SmOutgoingMessages>,
}

struct Controller {
    nodes: mpsc::Sender<Node>,
}

#[tonic::async_trait]
impl SmService for Controller {
    type RegisterSMStream = BoxStream<'static, Result<wire::SmIncomingMessages, Status>>;

    async fn register_sm(
        &self,
        request: Request<Streaming<wire::SmOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterSMStream>, Status> {
        let (commands, queue) = mpsc::channel(8);
        let messages = request.into_inner();
        let taken = self.nodes.send(Node { commands, messages }).await;
        taken.map_err(|_| Status::aborted("over"))?;
        let queue = stream::unfold(queue, |mut queue| async {
            Some((queue.recv().await?, queue))
        });
        Ok(Response::new(queue.boxed()))
    }

    async fn get_blobs_infos(
        &self,
        request: Request<wire::BlobsInfosRequest>,
    ) -> Result<Response<wire::BlobsInfos>, Status> {
        let digests = request.into_inner().digests;
        let url = |digest: &String| {
            let path = digest.replace(':', "/");
            format!("file:///test/image/blobs/{path}")
        };
        let urls = digests.iter().map(url).collect();
        Ok(Response::new(wire::BlobsInfos { urls }))
    }
}

impl Node {
    async fn next(&mut self) -> Outcome<Out> {
        let message = tokio::time::timeout(TIME, self.messages.next()).await?;
        let message = message.ok_or("the stream has ended")??;
        Ok(message.sm_outgoing_message.ok_or("an empty message")?)
    }

    async fn send(&self, command: In) -> Outcome<()> {
        let message = wire::SmIncomingMessages {
            sm_incoming_message: Some(command),
        };
        Ok(self.commands.send(Ok(message)).await?)
    }

    /// Wants so many instances; how long it takes until the node has reported all of them as active.
    async fn run(&mut self, count: u64, what: &What) -> Outcome<Duration> {
        let network = |number: u64| wire::NetworkParameters {
            network_id: NETWORK.0.into(),
            subnet: NETWORK.1.into(),
            ip: format!("172.30.1.{}", number + 2),
            ..Default::default()
        };
        let instance = |number: u64| wire::InstanceInfo {
            instance: Some(common::InstanceIdent {
                item_id: format!("item{number:02}"),
                subject_id: "subject".into(),
                ..common::InstanceIdent::default()
            }),
            version: "1.0.0".into(),
            manifest_digest: what.digest.clone(),
            runtime_id: what.runtime.clone(),
            uid: 5000,
            gid: 5000,
            network_parameters: what.has_network.then(|| network(number)),
            ..wire::InstanceInfo::default()
        };
        let update = In::UpdateInstances(wire::UpdateInstances {
            start_instances: (0..count).map(instance).collect(),
            stop_instances: Vec::new(),
        });
        let begun = Instant::now();
        self.send(update).await?;
        loop {
            if let Out::NodeInstancesStatus(all) = self.next().await? {
                let active = all.instances.iter().filter(|it| it.state == "active");
                let (active, all) = (active.count() as u64, all.instances.len() as u64);
                if active == count && all == count {
                    return Ok(begun.elapsed());
                }
            }
        }
    }
}

/// What instances are made of.
struct What {
    digest: String,
    runtime: String,
    has_network: bool,
}

/// Proportional share of the Service Manager's memory, in KiB.
fn pss() -> Outcome<u64> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let folder = entry.path();
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if name.trim_end() == "muster-sm" {
            let rollup = fs::read_to_string(folder.join("smaps_rollup"))?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
            let number = line.and_then(|line| line.split_whitespace().next());
            return Ok(number.ok_or("no share")?.parse()?);
        }
    }
    Err("no service manager runs".into())
}

/// Its share once work is over: the median of a while, since now and then it measures its instances, and says so.
async fn at_rest() -> Outcome<u64> {
    // Measurements, not synchronisation: what is looked at is what is left after a while.
    tokio::time::sleep(SETTLE).await;
    let mut seen = Vec::with_capacity(WINDOW_SECONDS);
    for _ in 0..WINDOW_SECONDS {
        tokio::time::sleep(Duration::from_secs(1)).await;
        seen.push(pss()?);
    }
    seen.sort_unstable();
    let (least, most) = (seen[0], seen[WINDOW_SECONDS - 1]);
    println!("  memory over {WINDOW_SECONDS} s: {least} to {most} KiB");
    Ok(seen[WINDOW_SECONDS / 2])
}

struct Table {
    is_good: bool,
}

impl Table {
    fn row(&mut self, what: &str, found: u64, limit: u64) {
        let verdict = if found <= limit { "" } else { "  not reached" };
        self.is_good &= found <= limit;
        println!("  {what:<44} {found:>8} {limit:>8}{verdict}");
    }

    fn verdict(&self) -> Outcome<()> {
        match self.is_good {
            true => Ok(()),
            false => Err("a limit is not kept".into()),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Starts one after the other, then ends all; the median of how long one took, in milliseconds. The first is not counted: it makes
/// what all of them share.
async fn one_by_one(node: &mut Node, what: &What) -> Outcome<u64> {
    node.run(1, what).await?;
    let mut times = Vec::new();
    for count in 2..2 + SINGLE_STARTS {
        times.push(node.run(count, what).await?);
    }
    node.run(0, what).await?;
    times.sort_unstable();
    Ok(millis(times[times.len() / 2]))
}

async fn measure(digest: String, link: Link) -> Outcome<()> {
    let (nodes_in, mut nodes) = mpsc::channel(1);
    let tls = link.server().await?;
    let server = ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .service(SmServiceServer::new(Controller { nodes: nodes_in }))
        .start("127.0.0.1:8093".parse()?, &tls)
        .await?;
    let started = Command::new("sctl")
        .args(["start", "muster-sm.service"])
        .status()?;
    if !started.success() {
        return Err("the service manager does not start".into());
    }
    let mut node = nodes.recv().await.ok_or("no node")?;
    let runtime = loop {
        if let Out::SmInfo(info) = node.next().await? {
            let runtime = info.runtimes.first().ok_or("no runtime")?;
            break runtime.runtime_id.clone();
        }
    };
    println!(
        "a node under a controller, over the {} wire, images present",
        link.word()
    );
    println!("  {:<44} {:>8} {:>8}", "", "found", "limit");
    let mut table = Table { is_good: true };
    table.row("idle, PSS in KiB", at_rest().await?, IDLE_KIB);

    let mut what = What {
        digest,
        runtime,
        has_network: false,
    };
    let took = one_by_one(&mut node, &what).await?;
    table.row("command to active, ms (median of 10)", took, SINGLE_MS);
    if link == Link::Secured {
        return table.verdict();
    }
    let network = wire::UpdateNetworkParameters {
        network_id: NETWORK.0.into(),
        subnet: NETWORK.1.into(),
        ip: "172.30.1.1".into(),
        ..Default::default()
    };
    let networks = vec![network];
    node.send(In::UpdateNetworks(wire::UpdateNetworks { networks }))
        .await?;
    what.has_network = true;
    let took = one_by_one(&mut node, &what).await?;
    table.row("the same with a network", took, NETWORKED_MS);
    what.has_network = false;

    let before = at_rest().await?;
    let all = node.run(INSTANCES, &what).await?;
    println!("  {INSTANCES} instances in one command: {} ms", millis(all));
    let after = at_rest().await?;
    println!("  with {INSTANCES} instances, PSS in KiB: {before} before, {after} after");
    let each = after.saturating_sub(before) / INSTANCES;
    table.row("each instance, PSS in KiB", each, PER_INSTANCE_KIB);
    node.run(0, &what).await?;
    server.shutdown().await;
    table.verdict()
}
