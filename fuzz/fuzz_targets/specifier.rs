//! Any text with specifiers, for any unit name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::{HostFacts, MAX_EXPANDED, SpecifierContext, expand};

fuzz_target!(|input: (&str, &str)| {
    let (name, text) = input;
    let Ok(unit) = UnitName::new(name).or_else(|_| UnitName::new("a-b@c.service")) else { return };
    let host = HostFacts { hostname: Some("h.example".into()), ..HostFacts::default() };
    let context = SpecifierContext { host: &host, unit: &unit, fragment: Some("/etc/x/y.service") };
    if let Ok(expanded) = expand(text, context) {
        assert!(expanded.len() <= MAX_EXPANDED.max(text.len()));
    }
});
