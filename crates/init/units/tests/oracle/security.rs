//! The overall exposure of every service of the corpus beside that of `systemd-analyze security`, where that is installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_unit_file::fs::RealFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::security::assess;

use super::corpus;

/// How far figures may be apart, in tenths.
const APART: u8 = 1;

/// Puts the services of the corpus and their drop-ins into a folder.
fn unpack(archive: &Path, folder: &Path) {
    let file = fs::File::open(archive).expect("the corpus opens");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().expect("the corpus is an archive") {
        let mut entry = entry.expect("the archive is whole");
        let path = entry.path().expect("paths are UTF-8").into_owned();
        let path = path.to_str().expect("paths are UTF-8");
        let Some((_, rest)) = path.split_once("/lib/systemd/system/") else {
            continue;
        };
        let target = folder.join(rest);
        if entry.header().entry_type().is_file() && rest.contains(".service") && !target.exists() {
            fs::create_dir_all(target.parent().expect("it is in the folder")).expect("a folder");
            entry.unpack(&target).expect("files are whole");
        }
    }
}

/// What systemd says of units, in tenths.
fn theirs(folder: &Path, names: &[String]) -> Option<BTreeMap<String, u8>> {
    let mut command = Command::new("systemd-analyze");
    let output = command
        .args(["security", "--offline=true", "--no-pager"])
        .args(names)
        .env("SYSTEMD_UNIT_PATH", folder)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("Overall exposure level for ")?;
        let (name, rest) = rest.split_once(": ")?;
        let digits = rest.split(' ').next()?.replace('.', "");
        Some((name.to_owned(), digits.parse().ok()?))
    });
    Some(lines.collect())
}

#[test]
fn exposures_are_those_that_systemd_finds() {
    let Some(archive) = corpus::file("debian-units.tar.gz") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    unpack(&archive, folder.path());
    let path = folder.path().to_str().expect("a path");
    let host = corpus::host();
    let mut loader = Loader::new(RealFs::host(), SearchPath::new([path]), host.specifiers);
    let names: Vec<UnitName> = loader
        .index()
        .names()
        .filter(|name| name.unit_type() == UnitType::Service && !name.is_template())
        .cloned()
        .collect();
    let words: Vec<String> = names.iter().map(ToString::to_string).collect();
    let Some(theirs) = theirs(folder.path(), &words) else {
        println!("exposures_are_those_that_systemd_finds: systemd is not installed");
        return;
    };
    let mut apart = Vec::new();
    let mut compared = 0;
    for name in &names {
        let Some(their) = theirs.get(&name.to_string()) else {
            continue;
        };
        let our = assess(&loader.load(name).config).exposure.tenths();
        compared += 1;
        if our.abs_diff(*their) > APART {
            apart.push(format!("{name}: {our}, not {their}"));
        }
    }
    println!("{compared} services compared");
    assert!(compared > 800, "only {compared} services");
    assert!(apart.is_empty(), "{apart:#?}");
}
