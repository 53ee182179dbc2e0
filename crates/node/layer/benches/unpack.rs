//! Unpacking a real layer of about 200 MB, beside GNU tar and umoci.
//!
//! `cargo bench -p muster-layer --bench unpack`. The layer is made of this machine's own `/usr`, in gzip and zstd. Each
//! program unpacks it in turn, several times, into a fresh folder of the same file system; the table has the medians. Muster
//! checks both digests meanwhile, the others check nothing. None of them syncs, but in the last rows: there Muster flushes the
//! file system as a node does that believes in a layer only when it is on disk, and tar is followed by the same flush. Fails when
//! one of them is faster.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the measurement, which is the report"
)]

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use muster_layer::{
    Compression, Durability, Options, Ownership, Privilege, Special, remove_tree, unpack,
};

/// As many bytes of gzip as a layer of a usual service has.
const LAYER_BYTES: u64 = 200 << 20;
const ROUNDS: usize = 5;
/// Of the others' time.
const AT_MOST: f64 = 1.0;
/// Set in the process whose memory is measured.
const ALONE: &str = "MUSTER_LAYER_BENCH_UNPACK";

/// A name for the table, the row that it is compared with, and what unpacks into the folder.
type Run<'a> = (&'a str, usize, &'a dyn Fn(&Path));

fn main() -> ExitCode {
    if let Some(layer) = std::env::var_os(ALONE) {
        let destination = std::env::args_os().nth(1).unwrap();
        muster(Path::new(&layer), Path::new(&destination), Durability::None);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!("{}", peak.unwrap().trim());
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    let layers = Layers::make(folder.path());
    let none = Durability::None;
    let runs: [Run<'_>; 7] = [
        ("muster, gzip", 0, &|to| muster(&layers.gzip, to, none)),
        ("tar -xzf", 0, &|to| tar(&layers.gzip, "-xzf", to)),
        ("umoci raw unpack, gzip", 0, &|to| umoci(&layers.image, to)),
        ("muster, zstd", 3, &|to| muster(&layers.zstd, to, none)),
        ("tar --zstd -xf", 3, &|to| tar(&layers.zstd, "--zstd", to)),
        ("muster, gzip, flushed", 5, &|to| {
            muster(&layers.gzip, to, Durability::SyncFs);
        }),
        ("tar -xzf, flushed", 5, &|to| {
            tar(&layers.gzip, "-xzf", to);
            rustix::fs::syncfs(File::open(to).unwrap()).unwrap();
        }),
    ];
    let mut times = vec![Vec::new(); runs.len()];
    // In turns, so that whatever else the machine does hits all of them.
    for _ in 0..ROUNDS {
        for ((_, _, run), times) in runs.iter().zip(&mut times) {
            times.push(timed(folder.path(), run));
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    println!(
        "layer: {} entries, {} MB unpacked, {} MB gzip, {} MB zstd; medians of {ROUNDS}",
        layers.entries,
        layers.bytes >> 20,
        size(&layers.gzip) >> 20,
        size(&layers.zstd) >> 20,
    );
    println!(
        "{:<24} {:>8} {:>8} {:>16} {:>8}",
        "", "seconds", "MB/s", "muster's time is", "at most"
    );
    let mut missed = false;
    for (n, ((name, with, _), seconds)) in runs.iter().zip(&medians).enumerate() {
        let speed = layers.bytes as f64 / seconds / f64::from(1 << 20);
        let ratio = medians[*with] / seconds;
        missed |= n != *with && ratio > AT_MOST;
        let verdict = match (n == *with, ratio <= AT_MOST) {
            (true, _) => String::new(),
            (false, true) => format!("{AT_MOST:>8.2}  reached"),
            (false, false) => format!("{AT_MOST:>8.2}  not reached"),
        };
        println!("{name:<24} {seconds:>8.2} {speed:>8.0} {ratio:>15.2}x {verdict}");
    }
    for (name, layer) in [("gzip", &layers.gzip), ("zstd", &layers.zstd)] {
        println!(
            "peak memory of muster, {name}: {}",
            peak_memory(folder.path(), layer)
        );
    }
    match missed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

struct Layers {
    gzip: PathBuf,
    zstd: PathBuf,
    /// An image with the gzip layer, for umoci.
    image: PathBuf,
    entries: usize,
    bytes: u64,
}

impl Layers {
    fn make(folder: &Path) -> Self {
        let names = choose();
        let list = folder.join("names");
        fs::write(&list, names.join("\n")).unwrap();
        let plain = folder.join("layer.tar");
        let (gzip, zstd) = (folder.join("layer.tar.gz"), folder.join("layer.tar.zst"));
        run(Command::new("tar")
            .args(["--no-recursion", "-C", "/usr", "-T"])
            .arg(&list)
            .arg("-cf")
            .arg(&plain));
        // The quickest levels: how long compressing takes is not measured, and unpacking hardly depends on it.
        run(Command::new("gzip").arg("-k").arg(&plain));
        run(Command::new("zstd").arg("-q").arg(&plain));
        let image = folder.join("image");
        run(Command::new("umoci")
            .arg("init")
            .arg("--layout")
            .arg(&image));
        let tagged = format!("{}:bench", image.display());
        run(Command::new("umoci").args(["new", "--image", &tagged]));
        run(Command::new("umoci")
            .args(["raw", "add-layer", "--image", &tagged])
            .arg(&plain));
        let bytes = size(&plain);
        fs::remove_file(&plain).unwrap();
        Self {
            gzip,
            zstd,
            image: tagged.into(),
            entries: names.len(),
            bytes,
        }
    }
}

/// Names below `/usr` that make a layer of the wanted size: programs, libraries and many small files.
fn choose() -> Vec<String> {
    let mut names = Vec::new();
    // Such files shrink to about two fifths.
    let mut left = LAYER_BYTES * 5 / 2;
    let mut waiting: Vec<String> = ["share", "lib/x86_64-linux-gnu", "lib", "sbin", "bin"]
        .map(str::to_owned)
        .into();
    let mut seen = std::collections::BTreeSet::new();
    while let (Some(name), 1..) = (waiting.pop(), left) {
        let path = Path::new("/usr").join(&name);
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !seen.insert(name.clone()) || meta.len() > 64 << 20 {
            continue;
        }
        if meta.is_dir() {
            let entries = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            let inner = entries.filter_map(|inner| inner.into_string().ok());
            waiting.extend(inner.map(|inner| format!("{name}/{inner}")));
        } else if meta.is_file() {
            left = left.saturating_sub(meta.len());
        }
        names.push(name);
    }
    names
}

fn timed(folder: &Path, run: &dyn Fn(&Path)) -> f64 {
    let destination = folder.join("destination");
    fs::create_dir(&destination).unwrap();
    // What the last one left to write is not for this one to wait for.
    rustix::fs::sync();
    let start = Instant::now();
    run(&destination);
    let seconds = start.elapsed().as_secs_f64();
    let parent = File::open(folder).unwrap();
    remove_tree(parent.as_fd(), b"destination").unwrap();
    seconds
}

fn muster(layer: &Path, destination: &Path, durability: Durability) {
    let compression = match layer.extension().unwrap().as_encoded_bytes() {
        b"gz" => Compression::Gzip,
        _ => Compression::Zstd,
    };
    let options = Options {
        ownership: Ownership::Keep,
        set_id: Privilege::Keep,
        fifos: Special::Make,
        durability,
        ..Options::default()
    };
    let folder = File::open(destination).unwrap();
    unpack(
        File::open(layer).unwrap(),
        compression,
        folder.as_fd(),
        &options,
    )
    .unwrap();
}

fn tar(layer: &Path, how: &str, destination: &Path) {
    let mut command = Command::new("tar");
    command.arg("-C").arg(destination).arg(how);
    if how == "--zstd" {
        command.arg("-xf");
    }
    run(command.arg(layer));
}

fn umoci(image: &Path, destination: &Path) {
    // It makes the folder itself.
    let rootfs = destination.join("rootfs");
    run(Command::new("umoci")
        .args(["raw", "unpack", "--image"])
        .arg(image)
        .arg(rootfs));
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().size()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Of a process that does nothing else; what it maps of its program is in it.
fn peak_memory(folder: &Path, layer: &Path) -> String {
    let destination = folder.join("destination");
    fs::create_dir(&destination).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command
        .arg(&destination)
        .env(ALONE, layer)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let parent = File::open(folder).unwrap();
    remove_tree(parent.as_fd(), b"destination").unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
