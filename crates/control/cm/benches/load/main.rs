//! The whole Communication Manager under load: the real daemon, its real identity manager, and many simulated nodes in this
//! process, each with its own certificate, connection and stream.
//!
//! `cargo bench -p muster-cm --bench load`; `MUSTER_BENCH_NODES` (10,000) and `MUSTER_BENCH_SECONDS` (60) set the size. Limits are
//! for 10,000 nodes; the exit code says whether they were held. Memory is the daemon's proportional share (PSS).

#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

#[expect(dead_code, reason = "a measurement needs a part of what tests do")]
#[path = "../../tests/daemon/iam.rs"]
mod iam;
#[expect(dead_code, reason = "a measurement needs a part of what tests do")]
#[path = "../../tests/daemon/node.rs"]
mod node;
#[expect(dead_code, reason = "a measurement needs a part of what tests do")]
#[path = "../../tests/daemon/rig.rs"]
mod rig;
mod table;
mod watched;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_item::Platform;
use muster_smcontroller::testing::{Credentials, Fleet};

use self::iam::Iam;
use self::rig::Site;
use self::table::Table;
use self::watched::Watched;

const REGISTRATION: Duration = Duration::from_secs(30);
const KIB_PER_NODE: f64 = 48.0;
const IDLE_KIB: f64 = 8.0 * 1024.0;
const FAN_OUT: Duration = Duration::from_secs(2);
const MESSAGES_PER_SECOND: u32 = 5_000;
/// Growth within this share of the memory is a page here and there.
const NO_GROWTH: f64 = 0.01;
/// So many long messages of every node fill the buffers of its connection.
const FILL_ROUNDS: usize = 12;
/// Memory that only the work just done has needed goes back within this time.
const SETTLE: Duration = Duration::from_secs(15);

fn setting(name: &str, default: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One instance fits on a node, so that as many instances as nodes are one for each.
fn runtime() -> wire::RuntimeInfo {
    let platform = Platform::of_this_program();
    wire::RuntimeInfo {
        runtime_id: "runc".into(),
        r#type: "runc".into(),
        max_dmips: 10_000,
        total_ram: 1 << 30,
        max_instances: 1,
        os_info: Some(common::OsInfo {
            os: platform.os,
            ..Default::default()
        }),
        arch_info: Some(common::ArchInfo {
            architecture: platform.architecture,
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn fleet(iam: &Iam, count: usize) -> Fleet {
    let nodes = (0..count).map(|number| {
        let node = format!("node-{number}");
        let cert = iam.issue(&node, "sm");
        Credentials {
            node,
            cert_pem: cert.cert_pem,
            key_pem: cert.key_pem,
        }
    });
    let authority = std::fs::read_to_string(iam.folder.join("ca.pem")).unwrap();
    Fleet::new(&authority, runtime(), nodes).await
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure())
}

async fn measure() -> ExitCode {
    let nodes = setting("MUSTER_BENCH_NODES", 10_000);
    let (count, seconds) = (nodes as usize, setting("MUSTER_BENCH_SECONDS", 60));
    // More instances than the usual numbers of users are for.
    let users = serde_json::json!({"userIds": {"first": 5_000, "last": 59_999}});
    let site = Site::new().set("launcher", users);
    let iam = Iam::provisioned(&site).await;
    let site = iam.trusted_by(site);
    let mut fleet = fleet(&iam, count).await;
    // As the unit file has it.
    let program = site.quiet_program();
    let program = program
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_TRIM_THRESHOLD_", "65536");
    let cm = site.start_as(&program);
    let mut watched = Watched::new(&cm).await;
    let mut table = Table::new(&format!("muster-cm with {nodes} nodes over mutual TLS"));

    tokio::time::sleep(SETTLE).await;
    let idle = watched.memory();
    table.at_most("idle, before the first node (KiB)", idle, IDLE_KIB);

    registration(&mut table, &mut watched, &mut fleet, &site, count).await;
    fan_out(&mut table, &mut watched, &fleet, &cm, &site, count).await;
    measurements(&mut table, &mut watched, &mut fleet, count, seconds).await;
    // With an instance and measurements of each, and after all that work.
    table.seen(
        "  memory for each, at work (KiB)",
        (watched.memory() - idle) / count as f64,
    );
    tokio::time::sleep(SETTLE).await;
    let rested = (watched.memory() - idle) / count as f64;
    table.at_most(
        "memory for each after all, at rest (KiB)",
        rested,
        KIB_PER_NODE,
    );
    let lost = count - fleet.connected();
    table.at_most("streams that were lost", lost as f64, 0.0);
    if !table.is_held() {
        eprintln!("{}", cm.last_words());
    }
    cm.end();
    table.print();
    match table.is_held() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

async fn registration(
    table: &mut Table,
    watched: &mut Watched,
    fleet: &mut Fleet,
    site: &Site,
    count: usize,
) {
    // What the first one costs is the server's, not the node's.
    fleet.start(site.address(), 1);
    watched.until_connected(1).await;
    let (memory, cpu, began) = (watched.memory(), watched.cpu_seconds(), Instant::now());
    fleet.start(site.address(), count);
    watched.until_connected(count).await;
    let took = began.elapsed();
    let (at_once, cpu) = (watched.memory(), watched.cpu_seconds() - cpu);
    tokio::time::sleep(SETTLE).await;
    let others = (count.max(2) - 1) as f64;
    let each = |now: f64| (now - memory) / others;
    table.at_most(
        "registration of all (s)",
        took.as_secs_f64(),
        REGISTRATION.as_secs_f64(),
    );
    table.seen("  processor time for each (ms)", cpu * 1e3 / others);
    table.seen("  memory for each, at once (KiB)", each(at_once));
    table.at_most(
        "memory for each node (KiB)",
        each(watched.memory()),
        KIB_PER_NODE,
    );
}

async fn fan_out(
    table: &mut Table,
    watched: &mut Watched,
    fleet: &Fleet,
    cm: &rig::Cm,
    site: &Site,
    count: usize,
) {
    for (version, what) in [("1.0.0", "first instances"), ("2.0.0", "a new version")] {
        let instances = u64::try_from(count).unwrap();
        let document = site.document(&[("service", version, instances)]);
        fleet.forget_updates();
        let (cpu, began) = (watched.cpu_seconds(), Instant::now());
        cm.apply(&document).await;
        table.seen(
            &format!("  {what}: accepted (s)"),
            began.elapsed().as_secs_f64(),
        );
        let arrivals = fleet.updated(count).await;
        let told = arrivals.last.into_std() - began;
        table.at_most(
            &format!("{what}: apply to last node told (s)"),
            told.as_secs_f64(),
            FAN_OUT.as_secs_f64(),
        );
        table.at_most(
            &format!("{what}: first to last node told (s)"),
            (arrivals.last - arrivals.first).as_secs_f64(),
            FAN_OUT.as_secs_f64(),
        );
        watched.until_updated(count).await;
        table.seen(
            &format!("  {what}: apply to all active (s)"),
            began.elapsed().as_secs_f64(),
        );
        let cpu = watched.cpu_seconds() - cpu;
        table.seen(&format!("  {what}: processor time (s)"), cpu);
    }
}

async fn measurements(
    table: &mut Table,
    watched: &mut Watched,
    fleet: &mut Fleet,
    count: usize,
    seconds: u32,
) {
    fleet.fill_buffers(FILL_ROUNDS).await;
    let round = u32::try_from(count).unwrap();
    fleet.measure(MESSAGES_PER_SECOND, round, 1 << 20).await;
    watched.until_measured(count, 1 << 20).await;
    let messages = MESSAGES_PER_SECOND * seconds;
    let (memory, cpu, began) = (watched.memory(), watched.cpu_seconds(), Instant::now());
    fleet
        .measure(MESSAGES_PER_SECOND, messages.saturating_sub(round), 1 << 21)
        .await;
    // Every node's last one is another, so that it can be seen to have arrived.
    fleet.measure(MESSAGES_PER_SECOND, round, 1 << 22).await;
    let sent = began.elapsed();
    let cpu = (watched.cpu_seconds() - cpu) / sent.as_secs_f64() * 100.0;
    watched.until_measured(count, 1 << 22).await;
    let behind = began.elapsed() - sent;
    let grown = (watched.memory() - memory).max(0.0);
    let rate = f64::from(messages.max(round)) / began.elapsed().as_secs_f64();
    // Looking whether the last ones have arrived takes a moment too.
    let asked = f64::from(MESSAGES_PER_SECOND) * 0.97;
    table.at_least(&format!("measurements for {seconds} s (/s)"), rate, asked);
    table.seen("  last one seen after (s)", behind.as_secs_f64());
    table.seen("  processor meanwhile (%)", cpu);
    table.seen("  memory before (KiB)", memory);
    table.at_most("growth meanwhile (KiB)", grown, memory * NO_GROWTH);
}
