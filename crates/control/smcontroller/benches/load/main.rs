//! Many nodes on one controller: how long their registration takes, what each costs in memory, how fast one update reaches all,
//! and what a steady flow of measurements does to it.
//!
//! `cargo bench -p muster-smcontroller`; `MUSTER_BENCH_NODES` (2,000) and `MUSTER_BENCH_SECONDS` (20) set the size. The
//! controller is a process of its own with one thread, as the daemon has it, so that memory and processor time are its alone; the
//! nodes are simulated in this one, each with its own certificate and its own connection.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the measurement, which is the report"
)]

mod controller;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_lab::pki::{CertSpec, Pki};
use muster_smcontroller::testing::{Credentials, Fleet};

const FOLDER: &str = "MUSTER_SMCONTROLLER_BENCH_FOLDER";
/// What the project has set itself: memory per node, and for 10,000 nodes registration and fan-out.
const KIB_PER_NODE: u64 = 48;
const REGISTRATION: Duration = Duration::from_secs(30);
const FAN_OUT: Duration = Duration::from_secs(2);
const MESSAGES_PER_SECOND: u32 = 5_000;
/// So many long messages of every node fill the buffers of its connection.
const FILL_ROUNDS: usize = 12;
/// What nodes say that they use, in bytes.
const RAM: u64 = 1 << 28;

fn setting(name: &str, default: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    match std::env::var_os(FOLDER) {
        Some(folder) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(controller::run(Path::new(&folder))),
        None => tokio::runtime::Runtime::new().unwrap().block_on(measure()),
    }
}

/// The controller's process.
struct Controller {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Controller {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            child,
            output,
            address: line.trim().parse().unwrap(),
        }
    }

    /// Gives an order and waits for the number that it is answered with.
    fn ask(&mut self, order: &str) -> u64 {
        writeln!(self.input, "{order}").unwrap();
        let mut line = String::new();
        let read = self.output.read_line(&mut line).unwrap();
        assert_ne!(read, 0, "the controller has ended");
        line.trim().parse().unwrap()
    }

    /// Resident memory, in KiB.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse().unwrap()
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It is a child of this process and waited for, so its id is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the controller's certificate into the folder, and makes one for every node.
async fn fleet(folder: &Path, count: u32) -> Fleet {
    let pki = Pki::new("system-1").unwrap();
    pki.write_ca(folder, "ca").unwrap();
    let server = pki.issue(&CertSpec::node("main", "cm")).unwrap();
    server.write_to(folder, "server").unwrap();
    let runtime = wire::RuntimeInfo {
        runtime_id: "runc".into(),
        r#type: "runc".into(),
        max_instances: 100,
        os_info: Some(common::OsInfo {
            os: "linux".into(),
            ..Default::default()
        }),
        arch_info: Some(common::ArchInfo {
            architecture: "arm64".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let nodes = (0..count).map(|number| {
        let node = format!("node-{number}");
        let cert = pki.issue(&CertSpec::node(&node, "sm")).unwrap();
        Credentials {
            node,
            cert_pem: cert.cert_pem,
            key_pem: cert.key_pem,
        }
    });
    Fleet::new(pki.ca_pem(), runtime, nodes).await
}

fn row(what: &str, value: String, limit: &str) {
    println!("{what:<48} {value:>14}   {limit}");
}

async fn measure() {
    let count = setting("MUSTER_BENCH_NODES", 2_000);
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path(), count).await;
    let mut controller = Controller::start(folder.path());

    // What the first one costs is the server's, not the node's.
    fleet.start(controller.address, 1);
    controller.ask("wait 1");
    let (before, cpu, began) = (
        controller.resident(),
        controller.cpu_seconds(),
        Instant::now(),
    );
    fleet.start(controller.address, count as usize);
    controller.ask(&format!("wait {count}"));
    let (took, cpu) = (began.elapsed(), controller.cpu_seconds() - cpu);
    let per_node = (controller.resident() - before) / u64::from(count.max(2) - 1);
    row(
        "nodes, each with its own certificate",
        count.to_string(),
        "",
    );
    let limit = format!("(10,000 in {REGISTRATION:?})");
    row(
        "registration of all over mutual TLS",
        format!("{:.2} s", took.as_secs_f64()),
        &limit,
    );
    let each = cpu * 1e3 / f64::from(count);
    row(
        "controller's processor time for each",
        format!("{each:.2} ms"),
        "",
    );
    row(
        "controller's memory for each",
        format!("{per_node} KiB"),
        &format!("({KIB_PER_NODE} KiB)"),
    );

    let began = Instant::now();
    controller.ask("update");
    let handed_over = began.elapsed();
    fleet.updated(count as usize).await;
    let limit = format!("(10,000 in {FAN_OUT:?})");
    row(
        "one update to all: handed over",
        format!("{:.3} s", handed_over.as_secs_f64()),
        "",
    );
    row(
        "one update to all: arrived",
        format!("{:.3} s", began.elapsed().as_secs_f64()),
        &limit,
    );

    let seconds = setting("MUSTER_BENCH_SECONDS", 20);
    // Every node's buffers reach their size with its first messages, which is no growth.
    fleet.fill_buffers(FILL_ROUNDS).await;
    fleet.measure(MESSAGES_PER_SECOND, count, RAM).await;
    let sent = u64::from(count) * (FILL_ROUNDS as u64 + 1);
    let first = controller.ask(&format!("take {sent}"));
    let (memory, cpu, began) = (
        controller.resident(),
        controller.cpu_seconds(),
        Instant::now(),
    );
    fleet
        .measure(MESSAGES_PER_SECOND, MESSAGES_PER_SECOND * seconds, RAM)
        .await;
    let wanted = first + u64::from(MESSAGES_PER_SECOND * seconds);
    controller.ask(&format!("take {wanted}"));
    let took = began.elapsed().as_secs_f64();
    let rate = f64::from(MESSAGES_PER_SECOND * seconds) / took;
    let busy = (controller.cpu_seconds() - cpu) / took * 100.0;
    let grown = controller.resident().saturating_sub(memory);
    row(
        &format!("measurements for {seconds} s"),
        format!("{rate:.0} /s"),
        &format!("({MESSAGES_PER_SECOND} /s)"),
    );
    row(
        "controller's processor meanwhile",
        format!("{busy:.0} %"),
        "",
    );
    row(
        "growth of its memory meanwhile",
        format!("{grown} KiB"),
        "(none)",
    );
}
