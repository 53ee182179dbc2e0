//! The exact words of every kind of problem, as the person who has to mend the file reads them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use muster_config::{ByteSize, ConfigError, Duration, Format, Load, Problems, Validate};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    working_dir: Option<String>,
    monitoring: Monitoring,
    listen: Listen,
    log: Log,
    cache_size: ByteSize,
    nodes: Vec<Node>,
    labels: BTreeMap<String, String>,
    runtime: Option<Runtime>,
    token: u32,
    ratio: f64,
    range: (u8, u8),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Monitoring {
    poll_period: Duration,
    average_window: Duration,
    enabled: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listen {
    port: u16,
    workers: Option<NonZeroU16>,
    address: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[expect(dead_code, reason = "only its presence matters")]
    id: String,
    #[serde(default)]
    #[expect(dead_code, reason = "only its type matters")]
    weight: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Log {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Runtime {
    Native,
    Container {
        #[expect(dead_code, reason = "only its type matters")]
        path: String,
    },
}

fn messages(format: Format, text: impl AsRef<[u8]>) -> Vec<String> {
    problems(Load::new("muster-sm").document("sm", format, text.as_ref()))
}

fn problems(load: Load<Raw>) -> Vec<String> {
    match load.load() {
        Err(ConfigError::Invalid { problems, .. }) => {
            problems.iter().map(ToString::to_string).collect()
        }
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn each_bad_document_has_its_exact_message() {
    use Format::{Json, Toml, Yaml};
    let cases: &[(Format, &str, &[&str])] = &[
        // Values that do not fit.
        (
            Toml,
            "\n[monitoring]\npollPeriod = '10 parsecs'",
            &[
                "sm:3: monitoring.pollPeriod: `10 parsecs` is not a duration (expected e.g. 10s, 5m, 30d or ISO 8601 PT1M)",
            ],
        ),
        (
            Json,
            "{\"monitoring\":\n {\"pollPeriod\": 10}}",
            &[
                "sm:2: monitoring.pollPeriod: `10` is not a duration: it has no unit (write e.g. 10s or 5m)",
            ],
        ),
        (
            Yaml,
            "monitoring:\n  averageWindow: P1Y",
            &[
                "sm:2: monitoring.averageWindow: `P1Y` is not a duration: years and months have no fixed length (write days, e.g. 30d)",
            ],
        ),
        (
            Yaml,
            "cacheSize: 1.5GiB",
            &[
                "sm:1: cacheSize: `1.5GiB` is not a size: fractions are not allowed (write e.g. 1536MiB instead of 1.5GiB)",
            ],
        ),
        (
            Json,
            r#"{"listen": {"port": 70000}}"#,
            &["sm:1: listen.port: `70000` is not an integer from 0 to 65535"],
        ),
        (
            Json,
            r#"{"listen": {"port": "80"}}"#,
            &["sm:1: listen.port: `80` is not an integer from 0 to 65535"],
        ),
        (
            Json,
            r#"{"listen": {"workers": 0}}"#,
            &["sm:1: listen.workers: `0` is not an integer from 0 to 65535 other than 0"],
        ),
        (
            Json,
            r#"{"listen": {"address": "here"}}"#,
            &["sm:1: listen.address: `here` is not valid: invalid IP address syntax"],
        ),
        (
            Json,
            r#"{"monitoring": {"enabled": "yes"}}"#,
            &["sm:1: monitoring.enabled: `yes` is not a boolean"],
        ),
        (
            Yaml,
            "monitoring:\n  enabled: yes",
            &["sm:2: monitoring.enabled: `yes` is not a boolean"],
        ),
        (
            Yaml,
            "workingDir: 17",
            &["sm:1: workingDir: `17` is not a string (put it in quotes)"],
        ),
        (
            Yaml,
            "monitoring: [1, {a: b}]",
            &["sm:1: monitoring: `[1, {…}]` is not a table"],
        ),
        (
            Yaml,
            "nodes: {id: x}",
            &["sm:1: nodes: `{…}` is not a list"],
        ),
        (
            Json,
            r#"{"ratio": "much"}"#,
            &["sm:1: ratio: `much` is not a number"],
        ),
        (
            Json,
            r#"{"range": [1]}"#,
            &["sm:1: range: `[1]` is not a list of 2"],
        ),
        // Choices.
        (
            Toml,
            "log = 'jsn'",
            &["sm:1: log: `jsn` is not one of text, json; did you mean `json`?"],
        ),
        (
            Toml,
            "log = 'xml'",
            &["sm:1: log: `xml` is not one of text, json"],
        ),
        (
            Toml,
            "log = 3",
            &["sm:1: log: `3` is not one of text, json"],
        ),
        (
            Json,
            r#"{"runtime": {"vm": {}}}"#,
            &["sm:1: runtime: `{…}` is not a table with one key of native, container"],
        ),
        (
            Json,
            r#"{"runtime": {"native": {}}}"#,
            &["sm:1: runtime.native: `{}` is not allowed here: this choice has no settings"],
        ),
        (
            Json,
            r#"{"runtime": {"Container": {"pth": "a"}}}"#,
            &[
                "sm:1: runtime.container.pth: unknown key (value `a`), expected one of path; did you mean `path`?",
                "sm:1: runtime.container: the required key `path` is missing",
            ],
        ),
        // Unknown and missing keys.
        (
            Toml,
            "[monitoring]\npolPeriod = '10s'",
            &[
                "sm:2: monitoring.polPeriod: unknown key (value `10s`), expected one of averageWindow, enabled, pollPeriod; did you mean `pollPeriod`?",
            ],
        ),
        (
            Yaml,
            "listen:\n  zzz: {a: 1}",
            &[
                "sm:2: listen.zzz: unknown key (value `{…}`), expected one of address, port, workers",
            ],
        ),
        (
            Yaml,
            "nodes:\n- weight: 3\n- id: a",
            &["sm:2: nodes[0]: the required key `id` is missing"],
        ),
        // Everything at once, also a required key whose value does not fit.
        (
            Yaml,
            "listen:\n  port: -1\n  prt: 2\nmonitoring:\n  enabled: 1\n  pollPeriod: x\nnodes:\n- id: 5\n- id: b\n  weight: 999\n",
            &[
                "sm:3: listen.prt: unknown key (value `2`), expected one of address, port, workers; did you mean `port`?",
                "sm:2: listen.port: `-1` is not an integer from 0 to 65535",
                "sm:5: monitoring.enabled: `1` is not a boolean",
                "sm:6: monitoring.pollPeriod: `x` is not a duration (expected e.g. 10s, 5m, 30d or ISO 8601 PT1M)",
                "sm:8: nodes[0].id: `5` is not a string (put it in quotes)",
                "sm:10: nodes[1].weight: `999` is not an integer from 0 to 255",
            ],
        ),
        // Secrets, and values that would break the line.
        (
            Json,
            r#"{"token": "hunter2"}"#,
            &["sm:1: token: `<redacted>` is not an integer from 0 to 4294967295"],
        ),
        (
            Json,
            r#"{"listen": {"password": "hunter2"}}"#,
            &[
                "sm:1: listen.password: unknown key (value `<redacted>`), expected one of address, port, workers",
            ],
        ),
        (
            Json,
            r#"{"log": "a\nb\u001b[31m"}"#,
            &["sm:1: log: `a\\nb\\u{1b}[31m` is not one of text, json"],
        ),
        (
            Json,
            r#"{"log": "http://user:hunter2@host/"}"#,
            &["sm:1: log: `http://user:<redacted>@host/` is not one of text, json"],
        ),
        // Keys given twice.
        (
            Json,
            "{\"log\": \"text\",\n\"LOG\": \"json\"}",
            &["sm:2: LOG: is given twice in this table (upper and lower case are the same)"],
        ),
        (
            Toml,
            "[listen]\nport = 1\nPort = 2",
            &[
                "sm:3: listen.Port: is given twice in this table (upper and lower case are the same)",
            ],
        ),
        (
            Yaml,
            "listen:\n  port: 1\n  PORT: 2",
            &[
                "sm:3: listen.PORT: is given twice in this table (upper and lower case are the same)",
            ],
        ),
        // Syntax.
        (
            Json,
            "{\n  \"log\": text\n}",
            &["sm:2: column 10: expected a value, found `t`"],
        ),
        (
            Json,
            "{\"log\": \"text\",}",
            &["sm:1: column 16: expected a key in double quotes, found `}`"],
        ),
        (
            Json,
            "{\"log\": \"text\"",
            &["sm:1: column 15: expected `,` or `}`, but the document ends"],
        ),
        (
            Json,
            "[1]",
            &["sm:1: the document must be a table of keys and values"],
        ),
        (
            Json,
            "{\"a\": 01}",
            &["sm:1: column 8: a number must not begin with 0"],
        ),
        (
            Toml,
            "log = ",
            &["sm:1: column 7: string values must be quoted, expected literal string"],
        ),
        (
            Toml,
            "log = 'a'\nlog = 'b'",
            &["sm:2: column 1: duplicate key"],
        ),
        (Yaml, "log: [a", &["sm:1: column 6: unclosed bracket '['"]),
        (
            Yaml,
            "log: a\nlog: b",
            &["sm:2: log: is given twice in this table (upper and lower case are the same)"],
        ),
        (
            Yaml,
            "a: &a {}\nb:\n  <<: *a",
            &["sm:3: b: merge keys (`<<`) are not supported; use a drop-in file"],
        ),
        (
            Yaml,
            "log: a\n---\nlog: b",
            &["sm:2: a second document: a file holds only one"],
        ),
    ];
    let mut wrong = Vec::new();
    for (format, document, expected) in cases {
        let found = messages(*format, document);
        if found != *expected {
            wrong.push(format!(
                "{document}\n  expected {expected:#?}\n  found {found:#?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bytes_that_are_no_text_are_named_by_line() {
    assert_eq!(
        messages(Format::Toml, b"a = 1\nb = '\xff'"),
        ["sm:2: is not UTF-8 text"]
    );
}

#[test]
fn environment_and_flags_are_named_by_variable_and_key() {
    let load = || Load::<Raw>::new("muster-sm");
    let environment = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect();
        problems(load().env_from("MUSTER_SM", pairs))
    };
    assert_eq!(
        environment(&[("MUSTER_SM__MONITORING__POL_PERIOD", "1s")]),
        [
            "environment MUSTER_SM__MONITORING__POL_PERIOD: monitoring.POL_PERIOD: unknown key (value `1s`), expected one of averageWindow, enabled, pollPeriod; did you mean `pollPeriod`?"
        ]
    );
    assert_eq!(
        environment(&[("MUSTER_SM__LISTEN__PORT", "http")]),
        [
            "environment MUSTER_SM__LISTEN__PORT: listen.port: `http` is not an integer from 0 to 65535"
        ]
    );
    assert_eq!(
        environment(&[("MUSTER_SM__NODES", "a,b")]),
        ["environment MUSTER_SM__NODES: nodes: `a,b` is not a list (write it as JSON)"]
    );
    assert_eq!(
        environment(&[
            ("MUSTER_SM____PORT", "1"),
            ("MUSTER_SM__LISTEN", "x"),
            ("MUSTER_SM__LISTEN__PORT", "1")
        ]),
        [
            "environment MUSTER_SM__LISTEN__PORT: speaks of the same key as environment MUSTER_SM__LISTEN",
            "environment MUSTER_SM____PORT: has an empty part in its key path",
        ]
    );
    assert_eq!(
        problems(load().set(["listen.port"])),
        ["--set listen.port: has no `=` (write key.path=value)"]
    );
    assert_eq!(
        problems(load().set(["listen..port=1"])),
        ["--set listen..port: has an empty part in its key path"]
    );
    assert_eq!(
        problems(load().set(["Listen.PORT=x"])),
        ["--set Listen.PORT: listen.port: `x` is not an integer from 0 to 65535"]
    );
}

impl Validate for Raw {
    type Valid = u16;

    fn validate(self, problems: &mut Problems<'_>) -> Option<u16> {
        problems.within("listen", |problems| {
            if self.listen.port < 1024 {
                problems.report("port", "must be at least 1024");
            }
        });
        if self.working_dir.is_none() {
            problems.report("workingDir", "must be set");
        }
        problems.is_empty().then_some(self.listen.port)
    }
}

#[test]
fn validation_names_where_the_value_came_from() {
    let loaded = Load::<Raw>::new("muster-sm")
        .document("sm", Format::Toml, "\n[listen]\nport = 80")
        .load()
        .expect("the types are right");
    assert_eq!(
        loaded
            .validate()
            .expect_err("the port is too low")
            .to_string(),
        "the configuration of muster-sm is not valid:\n\
         sm:3: listen.port: `80` must be at least 1024\n\
         muster-sm: workingDir: must be set"
    );
}

#[test]
fn a_required_key_that_nothing_sets_is_named_under_the_program() {
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Needs {
        #[expect(dead_code, reason = "only its presence matters")]
        ca_cert: String,
    }
    let error = Load::<Needs>::new("muster-cm")
        .load()
        .expect_err("nothing is set");
    assert_eq!(
        error.to_string(),
        "the configuration of muster-cm is not valid:\nmuster-cm: the required key `caCert` is missing"
    );
    let nulled = Load::<Needs>::new("muster-cm")
        .document("cm.json", Format::Json, r#"{"caCert": "a"}"#)
        .set(["caCert=null"])
        .load();
    assert_eq!(
        nulled.expect_err("it was taken back").to_string(),
        "the configuration of muster-cm is not valid:\ncm.json: the required key `caCert` is missing"
    );
}
