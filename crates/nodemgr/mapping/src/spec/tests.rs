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
extra: {init: true, encrypted: true}
overrides:
  aws:
    image_type: qcow2
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    network: default
    iso: x.iso
    ami: ami-0a116fa7c861dd5f9
    ami_lookup: {owner: '099720109477', name: ubuntu/images/*}
  docker: {user: not-this}
",
    );
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
        env: BTreeMap::new(),
        network: owned("default"),
        iso: owned("x.iso"),
        ami: owned("ami-0a116fa7c861dd5f9"),
        ami_lookup: Some(AmiLookup::Newest {
            owner: "099720109477".to_owned(),
            name: "ubuntu/images/*".to_owned(),
        }),
        pin_for: None,
        found_from: None,
        extra: [("encrypted".to_owned(), Value::Bool(true))].into(),
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
    let variables = |text: &str| {
        let template = format!("{{name: a, extra: {{env: {text}}}}}");
        let found = MachineSpec::from_resolved(&resolved(&template, ProviderId::Docker));
        let found = found.expect("it is a machine").env.into_iter();
        found
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(variables("{A: 1, B: true}"), ["A=1", "B=true"]);
    assert_eq!(variables("[A=b=c, B=]"), ["A=b=c", "B="]);
    let found = spec("{name: a, extra: {ami_lookup: {ssm: /aws/x}}}");
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

/// They would be in no command's environment, and nobody would say so.
#[test]
fn variables_are_refused_where_nobody_would_set_them() {
    let of = |template: &str, provider| MachineSpec::from_resolved(&resolved(template, provider));
    let common = "{name: a, extra: {env: [A=hunter2]}}";
    for provider in [ProviderId::Aws, ProviderId::Libvirt, ProviderId::Local] {
        let error = of(common, provider)
            .expect_err("nobody sets them")
            .to_string();
        let why = format!("env: {provider} sets no variables in its machines (docker does)");
        assert!(
            error.contains(&why) && !error.contains("hunter2"),
            "{error}"
        );
        let meant = "{name: a, overrides: {docker: {env: [A=b]}}}";
        assert_eq!(of(meant, provider).map(|it| it.env.len()), Ok(0));
    }
    for provider in [ProviderId::Docker, ProviderId::Sim] {
        assert_eq!(of(common, provider).map(|it| it.env.len()), Ok(1));
    }
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
fn a_field_that_a_provider_does_not_know_is_refused_where_it_was_meant_for_it() {
    let template = "
name: a
extra: {init: true, zone: b}
overrides:
  all: {mounts: []}
  libvirt: {bridge: br0, privileged: true}
  aws: {instance_typ: t3.micro}
  docker: {privilegd: true}
";
    for (provider, problems) in [
        (
            ProviderId::Libvirt,
            "
t:6:21: bridge: libvirt does not know this field (it has none of its own) (set by overrides libvirt of a)
t:6:38: privileged: libvirt does not know this field (it has none of its own); docker does (set by overrides libvirt of a)",
        ),
        (
            ProviderId::Aws,
            "
t:7:23: instance_typ: aws does not know this field (it knows encrypted, hibernation, iam_profile, instance_type, key_name, \
             security_groups, subnet, tenancy, volume_type, zone); did you mean `instance_type`? (set by overrides aws of a)",
        ),
        (
            ProviderId::Docker,
            "
t:8:23: privilegd: docker does not know this field (it knows apparmor, capabilities, command, dropCapabilities, init, mounts, \
             privileged, seccomp); did you mean `privileged`? (set by overrides docker of a)",
        ),
    ] {
        let error = MachineSpec::from_resolved(&resolved(template, provider)).expect_err(template);
        let head = format!("template a makes no machine for {provider}:");
        assert_eq!(error.to_string(), head + problems);
    }
    // What others know harms nobody, and is not passed on.
    let found = MachineSpec::from_resolved(&resolved(template, ProviderId::Sim));
    assert_eq!(found.map(|it| it.extra), Ok(BTreeMap::new()));
    // What nobody knows helps nobody.
    let nobody = resolved("{name: a, extra: {intance_type: x}}", ProviderId::Aws);
    let error = MachineSpec::from_resolved(&nobody).expect_err("a slip");
    assert!(error.to_string().contains("did you mean `instance_type`"));
}

#[test]
fn secrets_are_not_in_debug_texts() {
    let mut found = spec("{name: a, userData: hunter2}");
    found.env.insert("A".to_owned(), "hunter2".to_owned());
    let secret = Value::String("hunter2".to_owned());
    found.extra.insert("token".to_owned(), secret);
    let debug = format!("{found:?}");
    assert!(
        !debug.contains("hunter2") && debug.contains("A=…"),
        "{debug}"
    );
}
