//! How fast a large file is copied by SFTP, beside OpenSSH's own `sftp`, over the same server in the same run.
//!
//! `cargo bench -p muster-executor`. A copy that is slower than 0.8 of `sftp` makes the run fail.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the measurement, which is the report"
)]

#[path = "../tests/executor/server.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod server;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use muster_executor::{Executor as _, Transfer};
use server::Server;

const MEGABYTES: u32 = 1024;
const ROUNDS: usize = 3;
const TARGET: f64 = 0.8;

/// What a server and its client are, for the measurement.
const TOOLS: [&str; 4] = [
    "/usr/sbin/sshd",
    "/usr/bin/ssh-keygen",
    "/usr/bin/ssh",
    "/usr/bin/sftp",
];

fn main() -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!(
            "skipped: copy: an SSH server of a measurement lets root in, and this is not root"
        );
        return ExitCode::SUCCESS;
    }
    // Whoever may measure and cannot has measured nothing.
    if let Some(missing) = TOOLS.into_iter().find(|it| !Path::new(it).exists()) {
        println!("copy: {missing} is missing: run scripts/setup");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let mut file = fs::File::create(&from).unwrap();
    let block: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for _ in 0..MEGABYTES {
        file.write_all(&block).unwrap();
    }
    drop(file);
    let (there, back) = (server.path("work/large"), folder.path().join("back"));
    println!("{MEGABYTES} MiB          muster        sftp    ratio (target {TARGET})");
    let mut fast_enough = true;
    for upload in [true, false] {
        let (name, batch, transfer) = match upload {
            true => (
                "upload",
                format!("put {} {}", from.display(), there.display()),
                Transfer::upload(&from, &there),
            ),
            false => (
                "download",
                format!("get {} {}", there.display(), back.display()),
                Transfer::download(&there, &back),
            ),
        };
        let target = if upload { &there } else { &back };
        let executor = server.executor();
        // Turn by turn, so that whatever else the machine does is in both.
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            remove(target);
            theirs = theirs.min(timed(|| sftp(&server, &batch)));
            remove(target);
            ours = ours.min(timed(|| {
                let copied = runtime.block_on(executor.copy(&transfer)).unwrap();
                assert_eq!(copied.bytes, u64::from(MEGABYTES) << 20);
            }));
        }
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        let speed = |time: Duration| f64::from(MEGABYTES) / time.as_secs_f64();
        println!(
            "{name:<12} {:6.0} MiB/s {:6.0} MiB/s    {ratio:.2}",
            speed(ours),
            speed(theirs)
        );
        fast_enough &= ratio >= TARGET;
    }
    match fast_enough {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn remove(path: &Path) {
    // It is not there in the first round.
    let _ = fs::remove_file(path);
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn sftp(server: &Server, batch: &str) {
    let known = server.path("known");
    let line = format!("[127.0.0.1]:{} {}", server.port, server.host_key());
    fs::write(&known, line).unwrap();
    let mut sftp = Command::new("sftp")
        .args(["-q", "-b", "-", "-F", "none", "-o", "IdentitiesOnly=yes"])
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", known.display()))
        .arg("-i")
        .arg(server.path("client"))
        .args(["-P", &server.port.to_string(), "root@127.0.0.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(sftp.stdin.take().unwrap(), "{batch}").unwrap();
    assert!(sftp.wait().unwrap().success());
}
