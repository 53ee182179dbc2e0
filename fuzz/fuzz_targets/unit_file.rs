//! Any bytes as the file of a unit of any type, with a drop-in and specifiers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::install::{InstallOptions, InstallPaths, Installer};
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::specifier::HostFacts;

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let (kind, fragment, dropin) = input;
    let kind = UnitType::ALL[usize::from(kind) % UnitType::ALL.len()];
    let Ok(name) = UnitName::new(&format!("a-b@c.{kind}")) else { return };
    let mut fs = MemoryFs::new();
    fs.write(&format!("/usr/lib/systemd/system/a-b@.{kind}"), fragment);
    fs.write(&format!("/etc/systemd/system/{name}.d/x.conf"), dropin);
    let mut loader = Loader::new(fs.clone(), SearchPath::system(), HostFacts::default());
    let first = loader.load(&name);
    assert_eq!(first.config, loader.load(&name).config);
    let mut installer = Installer::new(&fs, InstallPaths::default(), HostFacts::default());
    if installer.enable(&[name.clone()], InstallOptions::default()).is_ok() {
        let _ = installer.disable(&[name], InstallOptions::default());
    }
});
