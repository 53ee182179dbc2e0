//! Starting pre-pulled containers, against the bare OCI runtime with the same bundles and against containerd, in the same machine
//! and run.
//!
//! Ours counts from the specification to the running program: mounting, the bundle, the unit, and the OCI runtime in it, so many
//! at a time as the launcher starts. The bare runtime is given everything ready, in one turn all at once and in the next as many at
//! a time as ours. containerd is asked over CRI and starts a pod with each container. Of several turns the best of each counts:
//! everything else that a machine does only makes them longer. Each begins on a machine at rest: the first process that enters a
//! cgroup makes the kernel wait for a grace period, and whoever begins within the one of somebody before need not. Fails when a
//! target is missed.

mod cri;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_bundle::testing::{Options, ident, info, spec};
use muster_lab::machine::Build;
use muster_lab::muster;
use muster_lab::oci::{Compression, Image, Layer, Layout};
use muster_lab::program::Stream;
use muster_runtime::{RunId, Runtime as _};
use muster_runtime_container::{ContainerConfig, ContainerRuntime, Containers, WRITABLE_ROOT};
use muster_unit_runner::{InitSystem, detect};

use self::cri::Containerd;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TIME: Duration = Duration::from_secs(300);
/// So many containers, in so many turns.
const ROUNDS: [(usize, usize); 2] = [(1, 20), (50, 6)];
/// So many the launcher starts at a time, unless its configuration says otherwise.
const AT_A_TIME: usize = 8;
/// So long the machine rests before each turn of anybody.
const REST: Duration = Duration::from_millis(150);
/// How much longer than the bare runtime it may take.
const TARGET: f64 = 1.3;
/// Of containerd's time it takes less than all.
const FASTER: f64 = 1.0;
const INSIDE: &str = "/usr/local/lib/start-bench";
const UNIT_PROGRAM: &str = "/usr/local/lib/muster-container";
const FOLDER: &str = "/run/muster/container";

fn main() -> Outcome<()> {
    if std::env::args().nth(1).as_deref() == Some("inside") {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        return runtime.block_on(measure());
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/bin/busybox").exists() {
        println!("skipped: start: needs root, runc and /bin/busybox");
        return Ok(());
    }
    let image = image()?;
    let archive = archive(image.path())?;
    let programs = muster::programs(Build::Bench, &[])?;
    let builder = muster::machine(&programs)
        .hybrid_cgroups()
        .bind(std::env::current_exe()?, INSIDE)
        .bind(env!("CARGO_BIN_EXE_muster-container"), UNIT_PROGRAM)
        .bind(image.path(), "/image")
        .bind(archive.path(), "/archive");
    let machine = muster::boot(&builder, TIME)?;
    let mut process = machine.program([INSIDE, "inside"]).start()?;
    let status = process.wait(TIME)?;
    print!("{}", process.text(Stream::Stdout));
    match status.success() {
        true => Ok(()),
        false => Err(process.text(Stream::Stderr).into()),
    }
}

fn image() -> Outcome<tempfile::TempDir> {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    std::fs::create_dir(folder.path().join("bin"))?;
    std::fs::copy("/bin/busybox", folder.path().join("bin/busybox"))?;
    for tool in ["sh", "sleep"] {
        symlink("busybox", folder.path().join("bin").join(tool))?;
    }
    Ok(folder)
}

/// The same as an archive of an image layout.
fn archive(image: &Path) -> Outcome<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let layer = Layer::from_folder(image, Compression::Gzip)?;
    let image = Image::new()
        .layer(layer)
        .entrypoint(["/bin/sleep", "100000"]);
    let mut layout = Layout::create(folder.path().join("layout"))?;
    layout.add("1", image.build())?;
    let packed = Command::new("tar")
        .arg("-C")
        .arg(layout.folder())
        .arg("-cf")
        .arg(folder.path().join("image.tar"))
        .arg(".")
        .status()?;
    match packed.success() {
        true => Ok(folder),
        false => Err("tar failed".into()),
    }
}

async fn measure() -> Outcome<()> {
    let config = ContainerConfig {
        info: info("runc"),
        folder: FOLDER.into(),
        oci_runtime: Some("runc".into()),
        unit_program: UNIT_PROGRAM.into(),
        granted_capabilities: Default::default(),
        first_mapped_id: None,
        host_binds: Vec::new(),
        writable_root: WRITABLE_ROOT,
    };
    let runtime = Containers::runtime(config, detect(&InitSystem::Detect)?)?;
    let containerd = Containerd::start(Path::new("/archive/image.tar")).await?;
    if containerd.is_none() {
        println!("containerd is not installed, and not compared with");
    }
    println!(
        "{:<24}{:>12}{:>12}{:>8}{:>9}  {:<13}{:>12}{:>8}{:>9}",
        "start", "muster", "bare runc", "ratio", "at most", "", "containerd", "ratio", "below"
    );
    let mut missed = false;
    for (count, turns) in ROUNDS {
        let mut best = [Duration::MAX; 2];
        let mut theirs: Option<Duration> = None;
        for turn in 0..turns {
            let ours = start_ours(&runtime, count).await?;
            let at_once = if turn % 2 == 0 { count } else { AT_A_TIME };
            let bare = start_bare(&runtime, count, at_once).await?;
            if let Some(containerd) = &containerd {
                tokio::time::sleep(REST).await;
                let took = containerd.start_containers(count).await?;
                theirs = Some(theirs.map_or(took, |best| best.min(took)));
            }
            best = best_of(best, [bare, ours]);
        }
        let [bare, ours] = best.map(|time| time.as_secs_f64() * 1e3);
        let ratio = ours / bare;
        let what = format!("{count} containers");
        let against_bare = verdict(ratio <= TARGET);
        missed |= ratio > TARGET;
        let against_theirs = match theirs {
            Some(theirs) => {
                let theirs = theirs.as_secs_f64() * 1e3;
                let ratio = ours / theirs;
                let verdict = verdict(ratio < FASTER);
                missed |= ratio >= FASTER;
                format!("{theirs:>9.0} ms{ratio:>8.2}{FASTER:>9.2}  {verdict}")
            }
            None => format!("{:>12}", "not measured"),
        };
        println!(
            "{what:<24}{ours:>9.0} ms{bare:>9.0} ms{ratio:>8.2}{TARGET:>9.2}  {against_bare:<13}{against_theirs}"
        );
    }
    match missed {
        true => Err("a target is missed".into()),
        false => Ok(()),
    }
}

fn best_of(one: [Duration; 2], other: [Duration; 2]) -> [Duration; 2] {
    [one[0].min(other[0]), one[1].min(other[1])]
}

fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "not reached" }
}

fn name(number: usize) -> String {
    format!("bench-{number}")
}

async fn start_ours(runtime: &ContainerRuntime, count: usize) -> Outcome<Duration> {
    tokio::time::sleep(REST).await;
    let begun = Instant::now();
    let start = |number| async move {
        let spec = Arc::new(spec(&name(number), "exec sleep 1000", Options::default()));
        runtime.prepare(spec.clone()).await?;
        runtime.start(spec, RunId(1)).await
    };
    let mut starts = stream::iter((0..count).map(start)).buffer_unordered(AT_A_TIME);
    while starts.try_next().await?.is_some() {}
    let took = begun.elapsed();
    let stop = |number| runtime.stop(ident(&name(number)), Duration::ZERO);
    try_join_all((0..count).map(stop)).await?;
    Ok(took)
}

async fn start_bare(runtime: &ContainerRuntime, count: usize, at_once: usize) -> Outcome<Duration> {
    let prepare = |number| {
        let spec = Arc::new(spec(&name(number), "exec sleep 1000", Options::default()));
        runtime.prepare(spec)
    };
    try_join_all((0..count).map(prepare)).await?;
    let folder =
        |number: usize| Path::new(FOLDER).join(ident(&name(number)).instance_id().to_string());
    let run = |number: usize| async move {
        let folder: PathBuf = folder(number);
        let mut command = tokio::process::Command::new("runc");
        command.arg("--root").arg(folder.join("oci"));
        command
            .args(["run", "--detach", "--pid-file"])
            .arg(folder.join("pid"));
        command.arg("--bundle").arg(&folder).arg(name(number));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command.status().await?;
        let failed = || "the bare runtime failed".into();
        let ended: Outcome<()> = status.success().then_some(()).ok_or_else(failed);
        ended
    };
    tokio::time::sleep(REST).await;
    let begun = Instant::now();
    let mut runs = stream::iter((0..count).map(run)).buffer_unordered(at_once);
    while runs.try_next().await?.is_some() {}
    let took = begun.elapsed();
    for number in 0..count {
        let root = folder(number).join("oci");
        Command::new("runc")
            .arg("--root")
            .arg(root)
            .args(["delete", "--force"])
            .arg(name(number))
            .status()?;
        runtime.stop(ident(&name(number)), Duration::ZERO).await?;
    }
    Ok(took)
}
