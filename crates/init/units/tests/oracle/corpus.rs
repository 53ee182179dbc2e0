//! The corpus: unit files of Debian packages, and the machine on which the oracle ran.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use muster_unit_file::fs::{MemoryFs, UnitFs};
use muster_unit_file::install::InstallPaths;
use muster_unit_file::load::SearchPath;
use muster_unit_file::name::UnitType;
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::value::rlimit::{Resource, ResourceLimit};
use muster_units::Host;
use muster_units::host::KernelMount;

pub(crate) const FOLDER: &str = "/usr/local/lib/systemd/system";
const ENABLED: &str = "/etc/systemd/system";
const GENERATED: &str = "/run/systemd/generator";
const OWN: &str = "/lib/systemd/system";

/// The path of a file of the corpus, or a line that says that there is none.
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/corpus")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the corpus file {name} is not on this machine");
    None
}

/// All files in one folder as the oracle saw them, and the names that packages disagree about.
pub(crate) fn files() -> Option<(MemoryFs, BTreeSet<String>)> {
    let file = std::fs::File::open(file("debian-units.tar.gz")?).expect("the corpus opens");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut fs = MemoryFs::new();
    let mut contents: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for entry in archive.entries().expect("the corpus is an archive") {
        let mut entry = entry.expect("the archive is whole");
        let path = entry.path().expect("paths are UTF-8");
        let path = path.to_str().expect("paths are UTF-8").to_owned();
        if let Some((_, rest)) = path.split_once("systemd/lib/systemd/system-preset/") {
            if !rest.is_empty() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).expect("files are whole");
                fs.write(&format!("/lib/systemd/system-preset/{rest}"), content);
            }
            continue;
        }
        let Some((_, rest)) = path.split_once("/lib/systemd/system/") else {
            continue;
        };
        let path = format!("{FOLDER}/{rest}");
        if let Some(target) = entry.link_name().expect("links are UTF-8") {
            let target = target.to_str().expect("links are UTF-8");
            let target = target
                .rsplit_once("systemd/system/")
                .map_or(target, |(_, name)| name);
            let up = if rest.contains('/') && !target.contains('/') {
                "../"
            } else {
                ""
            };
            fs.link(&path, &format!("{up}{target}"));
        } else if entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("files are whole");
            if contents.get(&path).is_some_and(|known| *known != content) {
                ambiguous.insert(rest.to_owned());
            }
            fs.write(&path, content.clone());
            contents.insert(path, content);
        }
    }
    add_machine(&mut fs);
    Some((fs, ambiguous))
}

/// What the oracle's machine had beside the corpus: units of packages that are not in it, and links
/// of what was enabled.
fn add_machine(fs: &mut MemoryFs) {
    for line in include_str!("../data/oracle-host.txt").lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(how @ ("unit" | "etc")), Some(name), _) => {
                let folder = if how == "etc" { ENABLED } else { OWN };
                let content = line.splitn(3, ' ').nth(2).unwrap_or("");
                fs.write(&format!("{folder}/{name}"), content.replace("; ", "\n"));
            }
            (Some(how @ ("enabled" | "generated")), Some(link), Some(unit)) => {
                let links = if how == "enabled" { ENABLED } else { GENERATED };
                let folder = if fs.stat(&format!("{FOLDER}/{unit}")).is_ok() {
                    FOLDER
                } else {
                    OWN
                };
                fs.link(&format!("{links}/{link}"), &format!("{folder}/{unit}"));
            }
            _ => {}
        }
    }
}

pub(crate) fn search_path() -> SearchPath {
    SearchPath::new([ENABLED, GENERATED, FOLDER, OWN])
}

pub(crate) fn install_paths() -> InstallPaths {
    InstallPaths {
        search: search_path(),
        ..InstallPaths::default()
    }
}

pub(crate) fn host() -> Host {
    let mount = |place: &str, fs_type: &str| KernelMount {
        place: place.into(),
        what: "none".into(),
        fs_type: fs_type.into(),
        options: "rw".into(),
    };
    let both = |resource, value| ResourceLimit {
        resource,
        soft: value,
        hard: value,
    };
    let mut mounts = vec![mount("/tmp", "tmpfs"), mount(FOLDER, "none")];
    let devices = ["full", "null", "random", "tty", "urandom", "zero"];
    mounts.extend(devices.map(|device| mount(&format!("/dev/{device}"), "devtmpfs")));
    let mut host = Host {
        specifiers: HostFacts {
            hostname: Some("vm".into()),
            boot_id: Some("0".repeat(32).into()),
            machine_id: Some("2dcbad5d63604fb98857e3f54bc79c13".into()),
            kernel_release: Some("6.18".into()),
            architecture: Some("x86-64".into()),
            ..HostFacts::default()
        },
        mounts,
        memory: 25_276_518_400,
        tasks: 192_699,
        unsupported: vec![UnitType::Automount],
        memory_control: false,
        ..Host::default()
    };
    host.own_limits.extend([
        both(Resource::Nofile, 20_000),
        both(Resource::Nproc, 96_349),
        both(Resource::Sigpending, 96_349),
    ]);
    host
}
