//! Files, drop-ins, environment and flags over each other, from real files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_config::{ByteSize, ConfigError, Duration, Format, Limits, Load, Loaded};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    ca_cert: String,
    monitoring: Monitoring,
    cache_size: ByteSize,
    hosts: Vec<String>,
    labels: BTreeMap<String, String>,
    db_password: Option<String>,
    cm_server_url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Monitoring {
    poll_period: Duration,
    send_period: Duration,
    retries: u32,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            ca_cert: "default.pem".to_owned(),
            monitoring: Monitoring::default(),
            cache_size: ByteSize::default(),
            hosts: Vec::new(),
            labels: BTreeMap::new(),
            db_password: None,
            cm_server_url: String::new(),
        }
    }
}

impl Default for Monitoring {
    fn default() -> Self {
        let seconds = |n| Duration::new(std::time::Duration::from_secs(n)).expect("it is short");
        Self {
            poll_period: seconds(10),
            send_period: seconds(60),
            retries: 3,
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it is in the folder")).expect("create the folder");
    fs::write(path, text).expect("write the file");
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

fn explained(loaded: &Loaded<Raw>, folder: &Path) -> Vec<String> {
    let folder = format!("{}/", folder.display());
    loaded
        .explain()
        .map(|s| format!("{} = {} ({})", s.key, s.value, s.origin).replace(&folder, ""))
        .collect()
}

#[test]
fn every_layer_wins_over_the_ones_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    write(
        at,
        "sm.json",
        r#"{"CACert": "main.pem", "monitoring": {"PollPeriod": "1s",
        "sendPeriod": "2s", "retries": 1}, "hosts": ["a", "b"], "labels": {"x": "1", "y_z": "2"},
        "dbPassword": "hunter2"}"#,
    );
    write(
        at,
        "sm.json.d/20-b.toml",
        "cacheSize = '64KiB'\n[monitoring]\npollPeriod = '3s'\n",
    );
    write(
        at,
        "sm.json.d/10-a.yaml",
        "monitoring:\n  pollPeriod: 2s\n  sendPeriod: 5s\nhosts: [c]\n",
    );
    write(at, "sm.json.d/30-c.json", r#"{"labels": {"x": null}}"#);
    write(at, "sm.json.d/README", "not configuration");
    write(at, "sm.json.d/.hidden.json", "{]");
    let loaded = Load::<Raw>::new("muster-sm")
        .file(at.join("sm.json"))
        .drop_ins()
        .env_from(
            "MUSTER_SM",
            environment(&[
                ("MUSTER_SM__MONITORING__SEND_PERIOD", "7s"),
                ("MUSTER_SM__CM_SERVER_URL", "[::1]:8093"),
                ("MUSTER_SM__LABELS", r#"{"w": "9"}"#),
                ("MUSTER_SMART__X", "ignored"),
                ("MUSTER_SM_LOG", "ignored"),
            ]),
        )
        .set([
            "monitoring.retries=5",
            "monitoring.retries=6",
            "cacert=flag.pem",
            "cacert=null",
        ])
        .load()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        explained(&loaded, at),
        [
            "cacheSize = 64KiB (sm.json.d/20-b.toml:1)",
            "cmServerUrl = [::1]:8093 (environment MUSTER_SM__CM_SERVER_URL)",
            "dbPassword = <redacted> (sm.json:3)",
            "hosts = [c] (sm.json.d/10-a.yaml:4)",
            "labels.w = 9 (environment MUSTER_SM__LABELS)",
            "labels.y_z = 2 (sm.json:2)",
            "monitoring.pollPeriod = 3s (sm.json.d/20-b.toml:3)",
            "monitoring.retries = 6 (--set monitoring.retries)",
            "monitoring.sendPeriod = 7s (environment MUSTER_SM__MONITORING__SEND_PERIOD)",
        ]
    );
    let raw = loaded.into_raw();
    assert_eq!(
        raw.ca_cert, "default.pem",
        "null takes a key back to its default"
    );
    assert_eq!(raw.monitoring.poll_period.to_string(), "3s");
    assert_eq!(raw.monitoring.send_period.to_string(), "7s");
    assert_eq!(raw.monitoring.retries, 6);
    assert_eq!(raw.cache_size.bytes(), 65_536);
    assert_eq!(raw.hosts, ["c"]);
    assert_eq!(raw.labels.keys().collect::<Vec<_>>(), ["w", "y_z"]);
    assert_eq!(raw.db_password.as_deref(), Some("hunter2"));
    assert_eq!(raw.cm_server_url, "[::1]:8093");
}

#[test]
fn defaults_alone_are_a_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = Load::<Raw>::new("muster-sm")
        .optional_file(folder.path().join("none.toml"))
        .drop_ins()
        .load()
        .expect("nothing is wrong")
        .into_raw();
    assert_eq!(raw.ca_cert, "default.pem");
    assert_eq!(raw.monitoring.poll_period.to_string(), "10s");
}

#[test]
fn empty_documents_and_a_byte_order_mark_are_accepted_in_every_format() {
    for format in [Format::Json, Format::Toml, Format::Yaml] {
        for text in ["", "\n \t\r\n", "\u{feff}", "\u{feff}\n"] {
            let load = Load::<Raw>::new("muster-sm").document("sm", format, text);
            assert!(load.load().is_ok(), "{format:?} {text:?}");
        }
    }
    for (format, text) in [
        (Format::Toml, "# only a comment"),
        (Format::Yaml, "# only a comment"),
        (Format::Yaml, "---\n"),
        (Format::Json, "null"),
        (Format::Json, "\u{feff}{\"caCert\": \"a\"}"),
        (Format::Toml, "\u{feff}caCert = 'a'"),
        (Format::Yaml, "\u{feff}caCert: a"),
    ] {
        let load = Load::<Raw>::new("muster-sm").document("sm", format, text);
        load.load()
            .unwrap_or_else(|error| panic!("{format:?} {text:?}: {error}"));
    }
}

#[test]
fn the_three_formats_say_the_same() {
    let documents = [
        (
            Format::Json,
            r#"{"caCert": "a", "monitoring": {"pollPeriod": "5s", "retries": 2}, "hosts": ["x"]}"#,
        ),
        (
            Format::Toml,
            "caCert = 'a'\nhosts = ['x']\n[monitoring]\npollPeriod = '5s'\nretries = 2\n",
        ),
        (
            Format::Yaml,
            "caCert: a\nhosts: [x]\nmonitoring: {pollPeriod: 5s, retries: 2}\n",
        ),
    ];
    let read = documents.map(|(format, text)| {
        let loaded = Load::<Raw>::new("p").document("sm", format, text).load();
        format!(
            "{:?}",
            loaded.unwrap_or_else(|error| panic!("{error}")).into_raw()
        )
    });
    assert_eq!(read[0], read[1]);
    assert_eq!(read[0], read[2]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("sm.json");
    let error = Load::<Raw>::new("p")
        .file(&missing)
        .load()
        .expect_err("there is no file");
    assert!(
        matches!(&error, ConfigError::ReadFile { path, .. } if *path == missing),
        "{error}"
    );

    let error = Load::<Raw>::new("p")
        .file(folder.path())
        .load()
        .expect_err("it is a folder");
    assert!(matches!(error, ConfigError::ReadFile { .. }));

    let fifo = folder.path().join("fifo.json");
    let made = Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .expect("run mkfifo");
    assert!(made.success());
    let error = Load::<Raw>::new("p")
        .file(&fifo)
        .load()
        .expect_err("it is a pipe");
    assert!(
        matches!(error, ConfigError::ReadFile { .. }),
        "a pipe must not be waited for"
    );

    write(folder.path(), "sm.conf", "{}");
    let error = Load::<Raw>::new("p")
        .file(folder.path().join("sm.conf"))
        .load();
    assert!(
        error
            .expect_err("no format")
            .to_string()
            .contains("the extension says no format")
    );
    let explicit = Load::<Raw>::new("p")
        .file(folder.path().join("sm.conf"))
        .format(Format::Json);
    explicit.load().expect("the format is given");
}

#[test]
fn limits_are_enforced_with_a_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let refuse = |load: Load<Raw>, words: &str| {
        let error = load.load().expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    };
    let limits = Limits {
        file_bytes: 100,
        nodes: 10,
        drop_ins: 1,
        ..Limits::default()
    };
    let load = || Load::<Raw>::new("p").limits(limits);
    write(folder.path(), "sm.json", &" ".repeat(101));
    refuse(
        load().file(folder.path().join("sm.json")),
        "sm.json: is larger than 100 bytes",
    );
    write(folder.path(), "sm.json", "{}");
    write(folder.path(), "sm.json.d/a.toml", "");
    write(folder.path(), "sm.json.d/b.toml", "");
    refuse(
        load().file(folder.path().join("sm.json")).drop_ins(),
        "holds more than 1 files",
    );

    for (format, text) in [
        (Format::Json, r#"{"hosts": [1,2,3,4,5,6,7,8,9,0]}"#),
        (Format::Toml, "hosts = [1,2,3,4,5,6,7,8,9,0]"),
    ] {
        refuse(
            load().document("sm", format, text),
            "sm:1: more than 10 values",
        );
    }
    let bomb = "a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n";
    assert!(load().document("sm", Format::Yaml, bomb).load().is_err());
    refuse(
        Load::new("p").set([format!("{}a=1", "a.".repeat(64))]),
        "more than 64 parts",
    );
}

#[test]
fn deep_documents_are_refused_and_64_levels_are_read() {
    fn nested(format: Format, depth: usize) -> String {
        match format {
            Format::Json => format!(
                "{{\"labels\":{}{}}}",
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            ),
            Format::Toml => format!(
                "labels = {}{}",
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            ),
            Format::Yaml => format!("labels: {}{}", "[".repeat(depth - 1), "]".repeat(depth - 1)),
        }
    }
    for format in [Format::Json, Format::Toml, Format::Yaml] {
        let message = |depth| {
            let load = Load::<Raw>::new("p").document("sm", format, nested(format, depth));
            load.load().expect_err("a list is no table").to_string()
        };
        let type_error = message(64);
        assert!(
            type_error.contains("is not a table"),
            "{format:?}: {type_error}"
        );
        for depth in [65, 66, 100, 1000, 100_000] {
            let refused = message(depth);
            assert!(
                !refused.contains("is not a table"),
                "{format:?} {depth}: {refused}"
            );
            assert!(
                refused.lines().count() == 2,
                "{format:?} {depth}: {refused}"
            );
        }
    }
    let dotted = format!("{}a = 1", "a.".repeat(100_000));
    assert!(
        Load::<Raw>::new("p")
            .document("sm", Format::Toml, dotted)
            .load()
            .is_err()
    );
    let header = format!("[{}a]\nb = 1", "a.".repeat(100_000));
    assert!(
        Load::<Raw>::new("p")
            .document("sm", Format::Toml, header)
            .load()
            .is_err()
    );
    let block: String = (0..5000)
        .map(|n| format!("{}a:\n", " ".repeat(n % 200 + n / 200)))
        .collect();
    assert!(
        Load::<Raw>::new("p")
            .document("sm", Format::Yaml, block)
            .load()
            .is_err()
    );
}

#[test]
fn an_alias_bomb_is_refused_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let uses = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{uses}]\n"));
    }
    let begun = std::time::Instant::now();
    assert!(
        Load::<Raw>::new("p")
            .document("sm", Format::Yaml, bomb)
            .load()
            .is_err()
    );
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn anchors_and_aliases_are_read() {
    let text = "monitoring:\n  pollPeriod: &p 4s\n  sendPeriod: *p\n";
    let loaded = Load::<Raw>::new("p")
        .document("sm", Format::Yaml, text)
        .load()
        .expect("it is valid");
    assert_eq!(loaded.raw().monitoring.send_period.to_string(), "4s");
}

#[test]
fn neither_the_loader_nor_what_it_explains_shows_a_secret() {
    let variables = environment(&[("P__DB_PASSWORD", "hunter2"), ("OTHER_SECRET", "hunter2")]);
    let load = Load::<Raw>::new("p")
        .document("sm", Format::Json, r#"{"dbPassword": "hunter2"}"#)
        .env_from("P", variables)
        .set(["dbPassword=hunter2"]);
    assert!(!format!("{load:?}").contains("hunter2"));
    let loaded = load.load().expect("it is valid");
    assert!(
        loaded
            .explain()
            .all(|setting| !format!("{setting:?}").contains("hunter2"))
    );
    assert_eq!(loaded.raw().db_password.as_deref(), Some("hunter2"));
}

/// How long this thread has had a processor: what a document costs, whoever else is at work.
fn busy() -> std::time::Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into()
        .expect("the clock of a thread begins at zero")
}

#[test]
fn the_largest_documents_are_read_or_refused_in_seconds() {
    let mebibyte = 1 << 20;
    let unique = |line: &dyn Fn(usize) -> String| -> String {
        let mut text = String::new();
        let mut number = 0;
        while text.len() < mebibyte - 64 {
            text.push_str(&line(number));
            number += 1;
        }
        text
    };
    let filled = |pattern: &str| pattern.repeat((mebibyte - 64) / pattern.len());
    let mut documents = vec![
        (
            Format::Json,
            format!("{{{}\"a\":1}}", unique(&|n| format!("\"k{n}\":{n},"))),
        ),
        (Format::Json, format!("{{\"a\":[{}1]}}", filled("1,"))),
        (Format::Json, filled("{\"a\":")),
        (Format::Toml, unique(&|n| format!("k{n} = {n}\n"))),
        (Format::Toml, unique(&|n| format!("a.k{n}.b = {n}\n"))),
        (Format::Toml, filled("[[a]]\n")),
        (Format::Toml, format!("a = [{}]", filled("{},"))),
        (Format::Yaml, unique(&|n| format!("k{n}: {n}\n"))),
        (Format::Yaml, unique(&|n| format!("k{n}: &a{n} [x]\n"))),
        (
            Format::Yaml,
            format!(
                "a: &a {}\nb: [{}]",
                "x".repeat(500_000),
                "*a, ".repeat(100_000)
            ),
        ),
    ];
    let patterns = [
        "{", "[", "\"", "- ", "&a ", "!!str ", "? ", "a: ", "a\n", "# \n", "*a ", "|\n", "---\n",
        "\t", ",", "'",
    ];
    documents.extend(patterns.map(|pattern| (Format::Yaml, filled(pattern))));
    documents.extend(patterns.map(|pattern| (Format::Toml, filled(pattern))));
    for (format, text) in documents {
        let head: String = text.chars().take(30).collect();
        let begun = busy();
        let _read_or_refused = Load::<Raw>::new("p").document("sm", format, text).load();
        let took = busy() - begun;
        assert!(
            took < std::time::Duration::from_secs(10),
            "{format:?} {head:?} took {took:?}"
        );
        println!("{format:?} {head:?} {took:?}");
    }
}
