//! How long loading the files of 705 Debian packages takes, from memory, on one thread.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;

const FOLDER: &str = "/usr/lib/systemd/system";

fn main() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/corpus/debian-units.tar.gz");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: the corpus is not on this machine");
        return;
    };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut fs = MemoryFs::new();
    let mut bytes = 0;
    for entry in archive.entries().expect("the corpus is a tar archive") {
        let mut entry = entry.expect("the corpus is whole");
        let path = entry
            .path()
            .expect("paths are UTF-8")
            .to_string_lossy()
            .into_owned();
        let Some((_, rest)) = path.split_once("/systemd/system/") else {
            continue;
        };
        let mut content = Vec::new();
        entry
            .read_to_end(&mut content)
            .expect("the corpus is whole");
        if !content.is_empty() {
            bytes += content.len();
            fs.write(&format!("{FOLDER}/{rest}"), content);
        }
    }
    let mut loader = Loader::new(fs, SearchPath::new([FOLDER]), HostFacts::default());
    let names: Vec<UnitName> = loader
        .index()
        .names()
        .map(|name| name.with_instance("x").unwrap_or_else(|_| name.clone()))
        .collect();
    let mut times: Vec<Duration> = Vec::new();
    let mut reloads: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        loader.rescan();
        let units: Vec<_> = names.iter().map(|name| loader.load(name)).collect();
        times.push(started.elapsed());
        let started = Instant::now();
        loader.rescan();
        let changed = names
            .iter()
            .zip(&units)
            .filter(|(name, unit)| loader.fingerprint(name) != unit.fingerprint);
        assert_eq!(changed.count(), 0, "nothing changed in between");
        reloads.push(started.elapsed());
    }
    // What units cost: many at once, so that the noise of the allocator does not count.
    let before = resident_bytes();
    let mut kept = Vec::new();
    for _ in 0..5 {
        kept.extend(names.iter().map(|name| loader.load(name).config));
    }
    let per_unit = resident_bytes().saturating_sub(before) / kept.len();
    times.sort_unstable();
    reloads.sort_unstable();
    println!("{} units, {bytes} bytes", names.len());
    println!(
        "load everything: median {:?}, best {:?}",
        times[times.len() / 2],
        times[0]
    );
    println!(
        "reload, nothing changed: median {:?}, best {:?}",
        reloads[reloads.len() / 2],
        reloads[0]
    );
    println!(
        "memory: {per_unit} bytes per unit, over {} units",
        kept.len()
    );
}

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
