//! Any bytes as a configuration document: the first byte chooses the format.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use muster_config::{ByteSize, ConfigError, Duration, Format, Load};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    name: String,
    password: u8,
    period: Duration,
    size: ByteSize,
    on: bool,
    count: i16,
    ratio: f32,
    list: Vec<Raw>,
    map: BTreeMap<String, Option<Raw>>,
    choice: Choice,
    pair: (u8, char),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only read")]
enum Choice {
    #[default]
    None,
    One(u8),
    Two(u8, u8),
    Three {
        a: Option<Box<Choice>>,
    },
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let format = match first % 3 {
        0 => Format::Json,
        1 => Format::Toml,
        _ => Format::Yaml,
    };
    // The rest also as a flag, when it is text.
    let flag = std::str::from_utf8(rest).ok().filter(|_| first & 0x80 != 0);
    let load = Load::<Raw>::new("fuzz").document("d", format, rest).set(flag);
    match load.load() {
        Ok(loaded) => {
            for setting in loaded.explain() {
                assert!(!setting.value.contains(|c: char| c.is_control()));
            }
        }
        Err(ConfigError::Invalid { problems, .. }) => {
            assert!(!problems.is_empty() && problems.len() <= 64);
            for problem in problems {
                assert!(!problem.to_string().contains(|c: char| c.is_control()));
            }
        }
        Err(other) => panic!("no file was read, yet {other}"),
    }
});
