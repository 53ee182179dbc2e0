use proptest::prelude::*;

use super::*;
use crate::provider::{ProviderId, Target};
use crate::value::{Finite, Value};

mod strategy;

/// The example of the node manager's own description, byte for byte.
const EXAMPLE: &str = r#"name: ubuntu-worker-small
cpu: 2
memoryMB: 256
image: ubuntu:24.04
user: ubuntu
overrides:
  docker:
    env: ["FOO=bar"]
  libvirt:
    memoryMB: 1024
    diskGB: 3
    network: default
"#;

fn read(text: &str) -> Result<Vec<Template>, Vec<String>> {
    read_as(Format::Yaml, text)
}

fn read_as(format: Format, text: &str) -> Result<Vec<Template>, Vec<String>> {
    let limits = Limits::default();
    match Template::read_all(Path::new("t.yaml"), format, text.as_bytes(), &limits) {
        Ok(templates) => Ok(templates),
        Err(DescriptionError::Invalid { problems }) => {
            Err(problems.iter().map(ToString::to_string).collect())
        }
        Err(other) => panic!("no file was read, yet {other}"),
    }
}

fn one(text: &str) -> Template {
    let mut templates = read(text).expect("it is valid");
    assert_eq!(templates.len(), 1);
    templates.remove(0)
}

fn refused(text: &str) -> Vec<String> {
    read(text).expect_err("it is not valid")
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn value_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.get(name).map(|it| &it.value)
}

#[test]
fn the_example_of_the_description_loads_as_it_is() {
    let template = one(EXAMPLE);
    assert_eq!(template.name().as_str(), "ubuntu-worker-small");
    let fields = template.fields();
    for (name, value) in [
        ("cpus", Value::Integer(2)),
        ("memoryMB", Value::Integer(256)),
        ("image", text("ubuntu:24.04")),
        ("user", text("ubuntu")),
    ] {
        assert_eq!(value_of(fields, name), Some(&value));
    }
    assert_eq!(fields.iter().count(), 4);
    let overrides = template.overrides();
    assert_eq!(overrides.iter().count(), 2);
    let docker = overrides.get(Target::Provider(ProviderId::Docker));
    let env = docker.and_then(|it| value_of(it, "env"));
    assert_eq!(env, Some(&Value::List(vec![text("FOO=bar")])));
    let libvirt = overrides.get(Target::Provider(ProviderId::Libvirt));
    let libvirt = libvirt.expect("it has overrides");
    assert_eq!(value_of(libvirt, "memoryMB"), Some(&Value::Integer(1024)));
    assert_eq!(value_of(libvirt, "diskMB"), Some(&Value::Integer(3072)));
    assert_eq!(value_of(libvirt, "network"), Some(&text("default")));
    assert_eq!(overrides.get(Target::All), None);
}

#[test]
fn every_key_of_a_template_is_read() {
    let template = one(r"
name: full
extends: base
image: debian:12
user: admin
cpus: 4
memoryMB: 2048
diskMB: 10240
arch: aarch64
region: eu-central-1
labels: {team: build, tier: null}
ssh_keys: [ssh-ed25519 AAAAC3Nz me]
user-data: '#cloud-config'
extra: {shm_size: 1g, ports: [80, 443], limits: {a: 1.5, b: null, c: true}}
overrides: {all: {labels: {team: all}}, aws: , sim: {latency: 0}}
");
    assert_eq!(template.extends().map(TemplateName::as_str), Some("base"));
    let names: Vec<&str> = template.fields().iter().map(|(name, _)| name).collect();
    let expected = "arch cpus diskMB image labels.team labels.tier limits memoryMB ports region shm_size sshKeys user userData";
    assert_eq!(names.join(" "), expected);
    assert_eq!(
        value_of(template.fields(), "labels.tier"),
        Some(&Value::Null)
    );
    assert_eq!(value_of(template.fields(), "arch"), Some(&text("arm64")));
    let half = Finite::new(1.5).expect("it is finite");
    let limits = [
        ("a".to_owned(), Value::Float(half)),
        ("b".to_owned(), Value::Null),
        ("c".to_owned(), Value::Bool(true)),
    ];
    assert_eq!(
        value_of(template.fields(), "limits"),
        Some(&Value::Map(limits.into()))
    );
    let all = template.overrides().get(Target::All).expect("it is there");
    assert_eq!(value_of(all, "labels.team"), Some(&text("all")));
    // A target without anything is not there, and what only a provider knows may be 0.
    let aws = template.overrides().get(Target::Provider(ProviderId::Aws));
    assert_eq!(aws, None);
    let sim = template.overrides().get(Target::Provider(ProviderId::Sim));
    let latency = sim.and_then(|it| value_of(it, "latency"));
    assert_eq!(latency, Some(&Value::Integer(0)));
}

#[test]
fn everything_that_is_wrong_is_reported_at_once_with_file_line_and_column() {
    let found = refused(
        "name: a b
cpuss: 2
cpus: 0
memoryMb: 1
labels: {tier: 1}
overrides:
  docker-pulumi: {}
  libvirt:
    memory_mb: 1024
    diskGB: 1
    diskMB: 1
    name: x
extra:
  image: x
  ok: .nan
zzzzzzzz: 1
",
    );
    let expected = [
        "t.yaml:1:7: name: a template's name consists of",
        "t.yaml:2:1: cpuss: unknown key, expected one of arch, cpu, cpus,",
        "t.yaml:3:7: cpus: 0 processors make no machine; leave the field out",
        "t.yaml:4:1: memoryMb: unknown key, expected one of",
        "t.yaml:5:16: labels.tier: is an integer; a label is text: put it in quotes",
        "t.yaml:7:3: overrides.docker-pulumi: `docker-pulumi` is not one of all, aws, docker, libvirt, local, sim; did you \
         mean `docker`?",
        "t.yaml:9:5: overrides.libvirt.memory_mb: unknown key; did you mean `memoryMB`?",
        "t.yaml:11:13: overrides.libvirt.diskMB: says `diskMB` a second time, by another name",
        "t.yaml:12:5: overrides.libvirt.name: describes the template and cannot be overridden",
        "t.yaml:14:3: extra.image: stands at the top of a template and not under `extra`",
        "t.yaml:15:7: extra.ok: the number is not finite",
        "t.yaml:16:1: zzzzzzzz: unknown key, expected one of",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert!(found[1].ends_with("did you mean `cpus`?"), "{}", found[1]);
    assert!(found[3].ends_with("did you mean `memoryMB`?"));
    assert!(!found[11].contains("did you mean"));
}

#[test]
fn what_is_no_template_is_refused() {
    for (text, message) in [
        ("cpus: 1", "t.yaml:1:1: the required key `name` is missing"),
        (
            "just text",
            "t.yaml:1:1: expected a template, which is a table, found text",
        ),
        (
            "- 1",
            "t.yaml:1:3: expected a template, which is a table, found a number",
        ),
        (
            "name: [a]",
            "t.yaml:1:7: name: expected a template's name, which is text, found a list",
        ),
        (
            "name: a\nname: b",
            "t.yaml:2:1: name: is given twice in this table",
        ),
        (
            "name: a\ncpu: 1\ncpus: 2",
            "t.yaml:3:7: cpus: says `cpus` a second time, by another name",
        ),
        (
            "name: a\noverrides: docker",
            "t.yaml:2:12: overrides: expected a table, found text",
        ),
        (
            "name: a\nextends: ''",
            "t.yaml:2:10: extends: a template's name must not be empty",
        ),
        ("name: [a", "t.yaml:1:7: unclosed bracket '['"),
    ] {
        assert_eq!(refused(text), [message]);
    }
}

#[test]
fn a_file_holds_any_number_of_templates() {
    let yaml = "---\nname: a\n---\nname: b\n---\n- name: c\n- {name: d}\n---\n";
    let names = |templates: Vec<Template>| -> Vec<String> {
        templates.iter().map(|it| it.name().to_string()).collect()
    };
    assert_eq!(
        read(yaml).map(names),
        Ok(["a", "b", "c", "d"].map(str::to_owned).into())
    );
    let json = r#"[{"name": "a"}, {"name": "b"}]"#;
    assert_eq!(
        read_as(Format::Json, json).map(names),
        Ok(["a", "b"].map(str::to_owned).into())
    );
    assert_eq!(read("").map(names), Ok(Vec::new()));
}

#[test]
fn json_means_what_yaml_means() {
    let json = serde_json::to_string(&one(EXAMPLE)).expect("it is a value");
    assert_eq!(
        json,
        r#"{"name":"ubuntu-worker-small","cpus":2,"image":"ubuntu:24.04","memoryMB":256,"user":"ubuntu","overrides":{"docker":{"env":["FOO=bar"]},"libvirt":{"diskMB":3072,"memoryMB":1024,"network":"default"}}}"#
    );
    assert_eq!(read_as(Format::Json, &json), Ok(vec![one(EXAMPLE)]));
    let error = serde_json::from_str::<Template>(r#"{"name": "a", "cpuz": 1, "cpus": 0}"#)
        .expect_err("it is not valid");
    assert!(
        error.to_string().contains("template: cpus: 0 processors"),
        "{error}"
    );
    assert!(error.to_string().contains("did you mean `cpu`?"), "{error}");
    let deep = format!(
        r#"{{"name": "a", "extra": {{"a": {}1{}}}}}"#,
        "[".repeat(40),
        "]".repeat(40)
    );
    let error = serde_json::from_str::<Template>(&deep).expect_err("it is too deep");
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

#[test]
fn secrets_are_not_in_debug_texts() {
    let template = one(
        "name: a\nuserData: hunter2\noverrides: {docker: {env: [A=hunter2], password: hunter2}}",
    );
    let debug = format!("{template:?}");
    assert!(
        !debug.contains("hunter2") && debug.contains("<7 bytes>"),
        "{debug}"
    );
}

#[test]
fn limits_hold() {
    let limits = Limits {
        file_bytes: 64,
        depth: 3,
        values: 5,
        ..Limits::default()
    };
    for (text, message) in [
        (
            format!("name: a{}", " ".repeat(64)),
            "is larger than 64 bytes",
        ),
        (
            "name: a\nextra: {a: [[1]]}".to_owned(),
            "nested deeper than 3",
        ),
        (
            "name: a\nextra: {a: 1, b: 2, c: 3, d: 4}".to_owned(),
            "more than 5 values",
        ),
    ] {
        let error = Template::read_all(Path::new("t"), Format::Yaml, text.as_bytes(), &limits);
        let error = error.expect_err("it is over a limit").to_string();
        assert!(error.contains(message), "{error}");
    }
}

proptest! {
    #[test]
    fn a_template_comes_back_from_json(template in strategy::template()) {
        let value = serde_json::to_value(&template).expect("it is a value");
        prop_assert_eq!(&serde_json::from_value::<Template>(value).expect("it is valid"), &template);
        let json = serde_json::to_string(&template).expect("it is a value");
        prop_assert_eq!(read_as(Format::Json, &json), Ok(vec![template]));
    }

    #[test]
    fn what_nobody_set_is_not_there(template in strategy::template()) {
        let value = serde_json::to_value(&template).expect("it is a value");
        for field in field::COMMON {
            let found = template.fields().get(field);
            prop_assert_eq!(found.is_some(), value.get(field).is_some());
            prop_assert_ne!(found.map(|it| &it.value), Some(&Value::Integer(0)));
        }
    }

    #[test]
    fn no_text_panics_and_every_problem_is_one_line(
        text in "(name|cpus|extends|overrides|labels|extra|docker|all|sshKeys|[ \n:\\-\\[\\]{},&*a0'\"#]|\\PC){0,40}",
    ) {
        for format in [Format::Yaml, Format::Json] {
            if let Err(problems) = read_as(format, &text) {
                prop_assert!(!problems.is_empty() && problems.len() <= 64);
                prop_assert!(problems.iter().all(|it| !it.contains(char::is_control)));
            }
        }
    }
}
