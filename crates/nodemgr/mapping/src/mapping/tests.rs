use proptest::prelude::*;

use super::*;
use muster_template::{ProviderId, Target};

/// The example of the node manager's own description, with comments where it has some.
const EXAMPLE: &str = r#"mapping:
  - match:
      image: "ubuntu:24.04"
      match_type: "glob" # glob | exact
    overrides:
      all:
        user: "ubuntu"
      aws:
        # an image of one region and architecture
        ami: "ami-0a116fa7c861dd5f9"
        image_type: "ami"
      libvirt:
        # an image of one architecture
        # found in the provider's folder
        iso: "ubuntu-24.04.3-live-server-amd64.iso"
        image_type: "iso"
      docker:
        image: "ubuntu:24.04"    # keep same
"#;

fn read(text: &str) -> Result<Mappings, Vec<String>> {
    let read = Mappings::read(
        Path::new("m.yaml"),
        Format::Yaml,
        text.as_bytes(),
        &Limits::default(),
    );
    match read {
        Ok(mappings) => Ok(mappings),
        Err(DescriptionError::Invalid { problems }) => {
            Err(problems.iter().map(ToString::to_string).collect())
        }
        Err(other) => panic!("no file was read, yet {other}"),
    }
}

fn one(text: &str) -> Mapping {
    let mappings = read(text).expect("it is valid");
    assert_eq!(mappings.len(), 1);
    mappings.list[0].clone()
}

fn conditions(mapping: &Mapping) -> Vec<String> {
    let shown = mapping
        .conditions
        .iter()
        .map(|it| format!("{}={}", it.field, it.pattern));
    shown.collect()
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn the_example_of_the_description_loads_as_it_is() {
    let mapping = one(EXAMPLE);
    assert_eq!(conditions(&mapping), ["image=ubuntu:24.04"]);
    assert_eq!(mapping.origin().to_string(), "m.yaml:2:5");
    let said = |target| {
        let fields = mapping.overrides.get(target).expect("it is there");
        let said = fields
            .iter()
            .map(|(name, it)| format!("{name}={}", it.value));
        said.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(Target::All), "user=ubuntu");
    assert_eq!(
        said(Target::Provider(ProviderId::Aws)),
        "ami=ami-0a116fa7c861dd5f9 image_type=ami"
    );
    assert_eq!(
        said(Target::Provider(ProviderId::Libvirt)),
        "image_type=iso iso=ubuntu-24.04.3-live-server-amd64.iso"
    );
    assert_eq!(
        said(Target::Provider(ProviderId::Docker)),
        "image=ubuntu:24.04"
    );
}

#[test]
fn the_type_of_a_match_may_stand_inside_or_beside_it_and_is_exact_by_default() {
    let overrides = "overrides: {all: {user: a}}";
    for (text, matches) in [
        (
            format!("mapping: [{{match: {{image: 'u*'}}, {overrides}}}]"),
            false,
        ),
        (
            format!("mapping: [{{match: {{image: 'u*', match_type: exact}}, {overrides}}}]"),
            false,
        ),
        (
            format!("mapping: [{{match: {{image: 'u*', match_type: glob}}, {overrides}}}]"),
            true,
        ),
        (
            format!("mapping: [{{match: {{image: 'u*'}}, match_type: glob, {overrides}}}]"),
            true,
        ),
        (
            format!(
                "mapping: [{{match: {{image: 'u*', match_type: glob}}, match_type: glob, {overrides}}}]"
            ),
            true,
        ),
    ] {
        let mapping = one(&text);
        let condition = &mapping.conditions[0];
        assert_eq!(
            condition.holds(Some(&self::text("ubuntu"))),
            matches,
            "{text}"
        );
        assert!(condition.holds(Some(&self::text("u*"))));
        assert!(!condition.holds(None));
        assert!(!condition.holds(Some(&Value::List(vec![self::text("ubuntu")]))));
    }
}

#[test]
fn what_is_matched_is_what_is_kept() {
    let mapping = one("
mapping:
- match: {arch: x86_64, cpu: 2, diskGB: 3, region: eu-west-1, name: w, labels: {team: a}, gpu: true}
  overrides: {all: {user: a}}
");
    assert_eq!(
        conditions(&mapping),
        [
            "arch=amd64",
            "cpus=2",
            "diskMB=3072",
            "gpu=true",
            "labels.team=a",
            "name=w",
            "region=eu-west-1"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once_with_file_line_and_column() {
    let found = read(
        "mapping:
- match: {image: '[u'}
  match_type: glob
  overrides: {}
- match: {imgae: x, arch: amd, cpus: 0, userData: x, env: [a]}
  overrides: {ec2: {user: a}}
- match: {image: a, match_type: glob}
  match_type: exact
  overides: {}
- match: {}
  overrides:
- overrides: {all: {memoryMb: 1}}
- match: {cpu: 1, cpus: 2, diskGB: 1}
  match_type: globb
  overrides: {}
- 7
mappings: 1
",
    )
    .expect_err("much is wrong");
    let expected = [
        "m.yaml:2:18: mapping[0].match.image: is not a glob: unclosed character class; missing ']'",
        "m.yaml:5:18: mapping[1].match.imgae: unknown key; did you mean `image`?",
        "m.yaml:5:27: mapping[1].match.arch: `amd` is not one of amd64",
        "m.yaml:5:38: mapping[1].match.cpus: 0 processors make no machine",
        "m.yaml:5:51: mapping[1].match.userData: cannot be matched",
        "m.yaml:5:59: mapping[1].match.env: is a list; a field is matched with text or a number",
        "m.yaml:6:15: mapping[1].overrides.ec2: `ec2` is not one of all, aws, docker, libvirt, local, sim; did you mean `aws`?",
        "m.yaml:7:3: mapping[2]: the required key `overrides` is missing",
        "m.yaml:7:21: mapping[2].match.match_type: says something else than `match_type` beside `match`",
        "m.yaml:9:3: mapping[2].overides: unknown key, expected one of match, match_type, overrides; did you mean `overrides`?",
        "m.yaml:10:10: mapping[3].match: matches every machine; to mean that, match `image: \"*\"` as a glob",
        "m.yaml:12:3: mapping[4]: the required key `match` is missing",
        "m.yaml:12:21: mapping[4].overrides.all.memoryMb: unknown key; did you mean `memoryMB`?",
        "m.yaml:13:19: mapping[5].match.cpus: `cpus` is matched twice, by another name",
        "m.yaml:14:15: mapping[5].match_type: `globb` is not one of exact, glob; did you mean `glob`?",
        "m.yaml:16:3: mapping[6]: expected a mapping, which is a table, found a number",
        "m.yaml:17:1: mappings: unknown key, expected one of mapping; did you mean `mapping`?",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn what_is_no_list_of_mappings_is_refused() {
    for (text, message) in [
        (
            "- 1",
            "m.yaml:1:1: expected a table with the key `mapping`, found a list",
        ),
        (
            "mapping: {}",
            "m.yaml:1:10: mapping: expected a list of mappings, found a table",
        ),
    ] {
        assert_eq!(read(text).expect_err("refused"), [message]);
    }
    assert!(read("").expect("nothing").is_empty());
    assert!(read("mapping:\n").expect("nothing").is_empty());
}

#[test]
fn files_are_read_in_the_order_in_which_they_are_named_and_their_number_of_mappings_is_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mapping = |image: &str| format!("mapping: [{{match: {{image: {image}}}, overrides: }}]");
    for name in ["a", "b"] {
        std::fs::write(path(&format!("{name}.yaml")), mapping(name)).expect("written");
    }
    let images = |paths: &[PathBuf]| {
        let loaded = Mappings::load(paths, &Limits::default()).expect("valid");
        loaded.iter().flat_map(conditions).collect::<Vec<_>>()
    };
    assert_eq!(images(&[folder.path().to_owned()]), ["image=a", "image=b"]);
    assert_eq!(
        images(&[path("b.yaml"), path("a.yaml")]),
        ["image=b", "image=a"]
    );
    let limits = Limits {
        mappings: 1,
        ..Limits::default()
    };
    let error = Mappings::load(&[folder.path().to_owned()], &limits).expect_err("two");
    assert!(
        error.to_string().contains("more than 1 mappings"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_panics_and_every_problem_is_one_line(
        text in "(mapping|match|match_type|glob|overrides|image|all|[ \n:\\-\\[\\]{},&*a0'\"#]|\\PC){0,40}",
    ) {
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.is_empty() && problems.len() <= 64);
            prop_assert!(problems.iter().all(|it| !it.contains(char::is_control)));
        }
    }
}
