use std::path::Path;

use muster_config::Format;
use muster_template::{Limits, ProviderId, Template, TemplateSet};

use super::*;
use crate::{Mappings, Request, resolve};

fn resolved(template: &str, provider: ProviderId) -> Resolved {
    let limits = Limits::default();
    let read = Template::read_all(Path::new("t"), Format::Yaml, template.as_bytes(), &limits);
    let set = TemplateSet::new(read.expect("valid"), &limits).expect("valid");
    let name = set.iter().next().map(|it| it.name().to_string());
    let name = name.expect("there is one");
    resolve(&set, &name, &Mappings::default(), &Request::new(provider)).expect("it is there")
}

fn spec(template: &str) -> MachineSpec {
    MachineSpec::from_resolved(&resolved(template, ProviderId::Aws)).expect("it is a machine")
}

#[test]
fn every_field_is_typed_and_the_rest_is_kept() {
    let found = spec(
        "
name: a
image: x
user: u
cpus: 2
memoryMB: 1024
diskGB: 3
arch: aarch64
region: eu-central-1
labels: {team: build}
sshKeys: [ssh-ed25519 AAAAC3Nz me]
userData: '#cloud-config'
extra: {shm_size: 1g}
overrides:
  aws:
    image_type: qcow2
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    env: [A=b=c, B=]
    network: default
    iso: x.iso
    ami: ami-0a116fa7c861dd5f9
    ami_lookup: {owner: '099720109477', name: ubuntu/images/*}
  docker: {user: not-this}
",
    );
    let env = [("A", "b=c"), ("B", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let owned = |text: &str| Some(text.to_owned());
    let expected = MachineSpec {
        image: owned("x"),
        image_type: Some(ImageType::Disk),
        digest: owned(digest),
        user: owned("u"),
        cpus: NonZeroU32::new(2),
        memory_mb: NonZeroU64::new(1024),
        disk_mb: NonZeroU64::new(3072),
        arch: Some(Arch::Arm64),
        region: owned("eu-central-1"),
        labels: [("team".to_owned(), "build".to_owned())].into(),
        ssh_keys: vec!["ssh-ed25519 AAAAC3Nz me".to_owned()],
        user_data: owned("#cloud-config"),
        env: env.into(),
        network: owned("default"),
        iso: owned("x.iso"),
        ami: owned("ami-0a116fa7c861dd5f9"),
        ami_lookup: Some(AmiLookup::Newest {
            owner: "099720109477".to_owned(),
            name: "ubuntu/images/*".to_owned(),
        }),
        pin_for: None,
        extra: [("shm_size".to_owned(), Value::String("1g".to_owned()))].into(),
    };
    assert_eq!(found, expected);
    let json = serde_json::to_string(&found).expect("it is a value");
    assert_eq!(serde_json::from_str::<MachineSpec>(&json).ok(), Some(found));
}

#[test]
fn what_nobody_set_is_none() {
    assert_eq!(spec("name: a"), MachineSpec::default());
    let json = serde_json::to_string(&MachineSpec::default()).expect("it is a value");
    assert_eq!(json, "{}");
}

#[test]
fn variables_may_be_a_map_and_an_image_may_be_found_by_a_parameter() {
    let found = spec("{name: a, extra: {env: {A: 1, B: true}, ami_lookup: {ssm: /aws/x}}}");
    let env = [("A", "1"), ("B", "true")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(found.env, env.into());
    let parameter = "/aws/x".to_owned();
    assert_eq!(found.ami_lookup, Some(AmiLookup::Ssm { parameter }));
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_its_field_and_who_set_it() {
    let error = MachineSpec::from_resolved(&resolved(
        "
name: a
extra: {env: [hunter2], network: 1, iso: ''}
overrides:
  all: {image_type: isoo, digest: sha256:12}
  aws: {ami: ubuntu, ami_lookup: {own: x}}
",
        ProviderId::Aws,
    ));
    assert_eq!(
        error.expect_err("much is wrong").to_string(),
        "template a makes no machine for aws:
t:6:14: ami: is not an image's id: `ami-` and 8 or 17 hexadecimal digits (set by overrides aws of a)
t:6:34: ami_lookup: has the unknown key `own`; expected `owner` and `name`, or `ssm`; did you mean `owner`? (set by overrides aws of a)
t:5:35: digest: is not a checksum: `sha256:` and 64 hexadecimal digits, or `sha512:` and 128 (set by overrides all of a)
t:3:14: env: entry 1 is not `NAME=value` (set by template a)
t:5:21: image_type: `isoo` is not one of ami, container, disk, iso; did you mean `iso`? (set by overrides all of a)
t:3:42: iso: is not text of one line (set by template a)
t:3:34: network: is an integer, not text (set by template a)"
    );
}

#[test]
fn variables_have_names_and_stand_once() {
    for (env, message) in [
        (
            "['1A=x']",
            "`1A` is not the name of an environment variable",
        ),
        ("['=x']", "`` is not the name of an environment variable"),
        ("[A=x, A=y]", "`A` is set twice"),
        ("{A: [x]}", "the value of `A` is a list"),
        ("\"A=x\"", "is text, not a list of `NAME=value` or a map"),
        ("[\"A=\\0\"]", "the value of `A` holds a zero byte"),
    ] {
        let found = resolved(
            &format!("{{name: a, extra: {{env: {env}}}}}"),
            ProviderId::Docker,
        );
        let error = MachineSpec::from_resolved(&found).expect_err(env);
        assert_eq!(error.problems[0].message, message);
    }
}

#[test]
fn secrets_are_not_in_debug_texts() {
    let found = spec("{name: a, userData: hunter2, extra: {env: [A=hunter2], token: hunter2}}");
    let debug = format!("{found:?}");
    assert!(
        !debug.contains("hunter2") && debug.contains("A=…"),
        "{debug}"
    );
}
