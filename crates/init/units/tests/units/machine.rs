//! The fixtures as a machine that has nothing else.

use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::value::rlimit::{Resource, ResourceLimit};
use muster_units::Host;
use muster_units::closure::Closure;

const FOLDER: &str = "/usr/local/lib/systemd/system";

pub(crate) const EXPECTED: &str = include_str!("../fixtures/expected.txt");

fn files() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let entries = std::fs::read_dir(folder).expect("the fixtures are there");
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let entry = entry.expect("the folder can be read");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            (name, std::fs::read(entry.path()).expect("it can be read"))
        })
        .filter(|(name, _)| name != "expected.txt")
        .collect();
    files.sort();
    files
}

/// The units of the fixtures; templates stand for one instance.
pub(crate) fn names() -> Vec<UnitName> {
    let files = files().into_iter();
    files
        .map(|(name, _)| UnitName::new(&name.replace("@.", "@inst.")).expect("a unit's name"))
        .collect()
}

/// A container on the machine where the expectations come from.
pub(crate) fn host() -> Host {
    let both = |resource, value| ResourceLimit {
        resource,
        soft: value,
        hard: value,
    };
    let mut host = Host {
        memory: 25_274_793_984,
        tasks: 192_686,
        unsupported: vec![UnitType::Automount, UnitType::Swap],
        memory_control: false,
        ..Host::default()
    };
    host.own_limits.extend([
        both(Resource::Nofile, 20_000),
        both(Resource::Nproc, 96_343),
        both(Resource::Sigpending, 96_343),
    ]);
    host
}

/// Calls `use_it` with a closure over the fixtures.
pub(crate) fn with_closure<T>(use_it: impl FnOnce(&mut Closure<'_, MemoryFs>) -> T) -> T {
    let mut fs = MemoryFs::new();
    for (name, content) in files() {
        fs.write(&format!("{FOLDER}/{name}"), content);
    }
    let host = host();
    let mut loader = Loader::new(fs, SearchPath::new([FOLDER]), host.specifiers.clone());
    use_it(&mut Closure::new(&mut loader, &host))
}
