//! Any text as a command line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::{HostFacts, SpecifierContext};
use muster_unit_file::value::command::Commands;
use muster_unit_file::value::{Names, Setting, ValueContext};

fuzz_target!(|text: &str| {
    let (host, mut names) = (HostFacts::default(), Names::default());
    let Ok(unit) = UnitName::new("a@b.service") else { return };
    let specifiers = SpecifierContext { host: &host, unit: &unit, fragment: None };
    let mut context = ValueContext { specifiers, names: &mut names, warnings: Vec::new() };
    let mut commands = Commands::new();
    if commands.assign(text, &mut context).is_ok() {
        for command in &commands {
            assert!(!command.path.is_empty());
            assert!(command.argv.first().is_some_and(|first| !first.is_empty()));
        }
    }
});
