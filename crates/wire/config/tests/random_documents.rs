//! Ten thousand random and mutated documents per format: refused or read, never a panic, and every
//! message stays on one line.
//!
//! `MUSTER_CONFIG_SEED` repeats a run; a failure prints the seed.

use std::collections::BTreeMap;

use muster_config::{ByteSize, ConfigError, Duration, Format, Load};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde::Deserialize;

const DOCUMENTS: usize = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(dead_code, reason = "only read")]
struct Raw {
    name: String,
    period: Duration,
    size: ByteSize,
    on: bool,
    count: i16,
    ratio: f32,
    list: Vec<Raw>,
    map: BTreeMap<String, Option<Raw>>,
    choice: Choice,
    pair: (u8, char),
    #[serde(flatten)]
    rest: Rest,
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

#[derive(Debug, Default, Deserialize)]
#[expect(dead_code, reason = "only read")]
struct Rest {
    extra: Option<u64>,
}

const SEEDS: [(Format, &[&str]); 3] = [
    (
        Format::Json,
        &[
            r#"{"name":"a","period":"1m30s","size":"64KiB","on":true,"count":-3,"ratio":0.5,"list":[{"name":"b"},{}],"map":{"x":{"on":false},"y":null},"choice":{"three":{"a":"none"}},"pair":[1,"c"],"extra":7}"#,
            r#"{"choice":{"two":[1,2]},"name":"\u00e9\ud83d\ude00\n","period":"P1DT12H"}"#,
        ],
    ),
    (
        Format::Toml,
        &[
            "name = 'a'\nperiod = \"1m30s\"\nsize = 0xff\non = true\ncount = -3\nratio = 5e-1\npair = [1, 'c']\n[[list]]\nname = \"\"\"x\ny\"\"\"\n[map.x]\non = false\n[choice.three]\na = 'none'\n",
            "a.b.c = 1979-05-27T07:32:00Z\nchoice = {two = [1, 2]}\n# c\n",
        ],
    ),
    (
        Format::Yaml,
        &[
            "name: &n a\nperiod: 1m30s\nsize: 64KiB\non: true\nlist:\n- name: *n\n- {}\nmap:\n  x: {on: false}\n  y: ~\nchoice:\n  three:\n    a: none\npair: [1, c]\n",
            "name: |\n  text\n  more\nperiod: >-\n  10s\n? complex\n: !!str 1\n",
        ],
    ),
];

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\n",
    " ",
    "  ",
    "- ",
    "? ",
    ": ",
    "&a",
    "*a",
    "<<: ",
    "!!int ",
    "# ",
    "---\n",
    "...\n",
    "|",
    ">",
    "=",
    "[[",
    "]]",
    ".",
    "1",
    "-1",
    "1e999",
    "0x",
    "null",
    "~",
    "true",
    "\\u",
    "\\ud800",
    "\0",
    "\u{feff}",
    "\u{1f600}",
    "\r",
    "\t",
    "%YAML 1.2\n",
    "name",
    "list",
    "map",
    "choice",
    "99999999999999999999999999999999999999999",
];

fn mutate(rng: &mut TestRng, bytes: &mut Vec<u8>) {
    let at =
        |rng: &mut TestRng, len: usize| usize::try_from(rng.next_u64()).unwrap_or(0) % (len + 1);
    for _ in 0..1 + rng.next_u32() % 6 {
        let start = at(rng, bytes.len());
        let end = (start + at(rng, 12)).min(bytes.len());
        match rng.next_u32() % 6 {
            0 => drop(bytes.drain(start..end)),
            1 => {
                let copy = bytes[start..end].to_vec();
                let to = at(rng, bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            2 if start < bytes.len() => bytes[start] ^= 1 << (rng.next_u32() % 8),
            3 => bytes.truncate(start),
            _ => {
                let token = TOKENS[at(rng, TOKENS.len() - 1)];
                let times = if rng.next_u32().is_multiple_of(16) {
                    200
                } else {
                    1
                };
                drop(bytes.splice(start..start, token.repeat(times).into_bytes()));
            }
        }
    }
}

fn check(format: Format, bytes: &[u8]) -> bool {
    match Load::<Raw>::new("random")
        .document("d", format, bytes)
        .load()
    {
        Ok(_) => true,
        Err(ConfigError::Invalid { problems, .. }) => {
            assert!(!problems.is_empty() && problems.len() <= 64);
            for problem in problems {
                let line = problem.to_string();
                assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
                assert!(line.chars().count() < 2_000, "{line}");
            }
            false
        }
        Err(other) => panic!("{other}"),
    }
}

fn run(format: Format) {
    let seed: u64 = std::env::var("MUSTER_CONFIG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("MUSTER_CONFIG_SEED={seed}");
    let mut bytes_of_seed = [0_u8; 32];
    bytes_of_seed[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes_of_seed);
    let seeds = SEEDS
        .iter()
        .find(|(of, _)| *of == format)
        .map(|(_, seeds)| *seeds)
        .unwrap_or_default();
    for seed in seeds {
        let load = Load::<Raw>::new("random")
            .document("d", format, *seed)
            .load();
        let message = load
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            message.is_empty() || message.contains("unknown key"),
            "{message}"
        );
    }
    let mut read = 0;
    for number in 0..DOCUMENTS {
        let mut bytes = if number % 4 == 0 {
            (0..rng.next_u32() % 40)
                .flat_map(|_| {
                    let token = usize::try_from(rng.next_u32()).unwrap_or(0) % TOKENS.len();
                    TOKENS[token].bytes().collect::<Vec<_>>()
                })
                .collect()
        } else {
            seeds[number % seeds.len()].as_bytes().to_vec()
        };
        mutate(&mut rng, &mut bytes);
        read += usize::from(check(format, &bytes));
    }
    // A generator that makes only rubbish would test only the first line of the parser.
    assert!(
        read > DOCUMENTS / 100,
        "only {read} of {DOCUMENTS} were valid"
    );
}

#[test]
fn random_json_never_panics() {
    run(Format::Json);
}

#[test]
fn random_toml_never_panics() {
    run(Format::Toml);
}

#[test]
fn random_yaml_never_panics() {
    run(Format::Yaml);
}
