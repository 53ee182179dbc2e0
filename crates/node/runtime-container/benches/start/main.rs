//! Starting pre-pulled containers, against the bare OCI runtime with the same bundles and against containerd, in the same machine
//! and run.
//!
//! Ours counts from the specification to the running program: mounting, the bundle, the unit, and the OCI runtime in it, so many
//! at a time as the launcher starts. The bare runtime is given everything ready, in one turn all at once and in the next as many at
//! a time as ours. containerd is asked over CRI and starts a pod with each container. Of several turns the best of each counts:
//! everything else that a machine does only makes them longer. Each begins on a machine at rest: the first process that enters a
//! cgroup makes the kernel wait for a grace period, and whoever begins within the one of somebody before need not. Fails when a
//! target is missed. runc is measured in a machine of namespaces; crun, which does not work beside cgroups of version 1, in a guest,
//! where everything that enters the kernel takes longer for both.

mod cri;
mod unified;

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
use muster_runtime::{InstanceSpec, RunId, Runtime as _};
use muster_runtime_container::{ContainerConfig, ContainerRuntime, Containers, WRITABLE_ROOT};
use muster_unit_runner::{InitSystem, detect};

use self::cri::Containerd;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TIME: Duration = Duration::from_secs(300);
/// So many containers, in so many turns.
const ROUNDS: [(usize, usize); 2] = [(1, 20), (50, 6)];
/// The same where everything takes longer.
const SLOW_ROUNDS: [(usize, usize); 2] = [(1, 10), (50, 2)];
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["inside", name, unit_program, layer] = words[..] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        return runtime.block_on(measure(name, unit_program, layer));
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
    let words = [INSIDE, "inside", "runc", UNIT_PROGRAM, "/image"];
    let mut process = machine.program(words).start()?;
    let status = process.wait(TIME)?;
    print!("{}", process.text(Stream::Stdout));
    let beside_v1: Outcome<()> = match status.success() {
        true => Ok(()),
        false => Err(process.text(Stream::Stderr).into()),
    };
    drop((process, machine));
    let on_v2 = unified::measure(&programs);
    beside_v1.and(on_v2)
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

async fn measure(name: &str, unit_program: &str, layer: &str) -> Outcome<()> {
    let config = ContainerConfig {
        info: info(name),
        folder: FOLDER.into(),
        oci_runtime: Some(name.into()),
        unit_program: unit_program.into(),
        granted_capabilities: Default::default(),
        first_mapped_id: None,
        host_binds: Vec::new(),
        writable_root: WRITABLE_ROOT,
    };
    let starter = Starter {
        runtime: Containers::runtime(config, detect(&InitSystem::Detect)?.runner())?,
        bare: name,
        layer: Path::new(layer),
    };
    let archive = Path::new("/archive/image.tar");
    let containerd = match archive.exists() {
        true => Containerd::start(archive).await?,
        false => None,
    };
    if containerd.is_none() {
        println!("containerd is not there, and not compared with");
    }
    let rounds = match containerd {
        Some(_) => ROUNDS,
        None => SLOW_ROUNDS,
    };
    println!(
        "{:<24}{:>12}{:>12}{:>8}{:>9}  {:<13}{:>12}{:>8}{:>9}",
        "start",
        "muster",
        format!("bare {name}"),
        "ratio",
        "at most",
        "",
        "containerd",
        "ratio",
        "below"
    );
    let mut missed = false;
    for (count, turns) in rounds {
        let mut best = [Duration::MAX; 2];
        let mut theirs: Option<Duration> = None;
        for turn in 0..turns {
            let ours = starter.start_ours(count).await?;
            let at_once = if turn % 2 == 0 { count } else { AT_A_TIME };
            let bare = starter.start_bare(count, at_once).await?;
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

/// What starts containers.
struct Starter<'a> {
    runtime: ContainerRuntime,
    /// The OCI runtime's name.
    bare: &'a str,
    /// Where what is in the image is.
    layer: &'a Path,
}

impl Starter<'_> {
    fn spec(&self, number: usize) -> Arc<InstanceSpec> {
        let options = Options {
            layers: vec![self.layer.to_owned()],
            ..Options::default()
        };
        Arc::new(spec(&name(number), "exec sleep 1000", options))
    }

    async fn start_ours(&self, count: usize) -> Outcome<Duration> {
        tokio::time::sleep(REST).await;
        let begun = Instant::now();
        let start = |number| async move {
            let spec = self.spec(number);
            self.runtime.prepare(spec.clone()).await?;
            self.runtime.start(spec, RunId(1)).await
        };
        let mut starts = stream::iter((0..count).map(start)).buffer_unordered(AT_A_TIME);
        while starts.try_next().await?.is_some() {}
        let took = begun.elapsed();
        let stop = |number| self.runtime.stop(ident(&name(number)), Duration::ZERO);
        try_join_all((0..count).map(stop)).await?;
        Ok(took)
    }

    async fn start_bare(&self, count: usize, at_once: usize) -> Outcome<Duration> {
        let prepare = |number| self.runtime.prepare(self.spec(number));
        try_join_all((0..count).map(prepare)).await?;
        let folder =
            |number: usize| Path::new(FOLDER).join(ident(&name(number)).instance_id().to_string());
        let run = |number: usize| async move {
            let folder: PathBuf = folder(number);
            let mut command = tokio::process::Command::new(self.bare);
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
            Command::new(self.bare)
                .arg("--root")
                .arg(root)
                .args(["delete", "--force"])
                .arg(name(number))
                .status()?;
            self.runtime
                .stop(ident(&name(number)), Duration::ZERO)
                .await?;
        }
        Ok(took)
    }
}
