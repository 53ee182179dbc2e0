//! Any bytes as an environment file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::value::environment::{is_variable_name, parse_environment_file};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_environment_file(bytes);
    for (name, value) in &parsed.variables {
        assert!(is_variable_name(name));
        assert!(!value.contains('\0'));
    }
});
