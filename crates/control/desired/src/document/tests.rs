use muster_config::{Format, Limits};
use proptest::prelude::*;

use super::*;

const YAML: &str = r#"
items:
- id: web
  version: 1.2.0
  owner: acme
  image: {layout: images/web.tar, name: web}
- id: worker
  version: "2"
  image:
    registry: registry.example/worker:2
    user: robot
    passwordFile: /etc/robot
- id: base
  type: component
  version: 7.0.0
  image: {digest: "sha256:0101010101010101010101010101010101010101010101010101010101010101"}
instances:
- {item: web, count: 2, priority: 10, labels: [gpu, fast], distribution: spread}
- {item: worker, subject: night, node: node-2}
nodes:
- {id: node-3, paused: true}
env:
- {item: web, variables: {COLOUR: red, TOKEN: hunter2}}
- {variables: {COLOUR: blue}}
unitConfig: {version: 2.0.0, formatVersion: "1", nodes: [{priority: 3}]}
"#;

fn read(text: &str) -> Result<DesiredStatus, muster_config::ConfigError> {
    let bytes = text.as_bytes();
    DesiredStatus::read("/srv/unit.yaml", Format::Yaml, bytes, Limits::default())
}

#[test]
fn what_people_write_becomes_what_is_meant() {
    let desired = read(YAML).unwrap();
    let web = &desired.items()["web"];
    let layout = ImageSource::Layout {
        path: "/srv/images/web.tar".into(),
        name: Some("web".into()),
        index: None,
    };
    assert_eq!((&web.image, web.kind), (&layout, ItemType::Service));
    assert_eq!(desired.items()["base"].kind, ItemType::Component);
    let (key, instances) = desired.instances().iter().next().unwrap();
    assert_eq!((key.item.as_str(), key.subject.as_str()), ("web", "local"));
    assert_eq!(
        instances.to_string(),
        "2, priority 10, labels fast gpu, spread"
    );
    assert_eq!(desired.pauses(&"node-3".parse().unwrap()), Some(true));
    assert_eq!(desired.pauses(&"node-1".parse().unwrap()), None);
    assert_eq!(desired.unit_config().unwrap().version(), "2.0.0");
    let ident = |item: &str| InstanceIdent {
        item_id: item.parse().unwrap(),
        subject_id: "local".parse().unwrap(),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    };
    let env = |item: &str| -> Vec<String> {
        let variables = desired.env_of(&ident(item));
        let show = |it: &EnvVar| format!("{}={}", it.name(), it.value());
        variables.iter().map(show).collect()
    };
    assert_eq!(env("web"), ["COLOUR=blue", "TOKEN=hunter2"]);
    assert_eq!(env("worker"), ["COLOUR=blue"]);
}

#[test]
fn the_order_in_which_things_are_written_means_nothing() {
    let one = "items:\n- {id: a, version: '1', image: {registry: r/a}}\n- {id: b, version: '1', image: {registry: r/b}}\n";
    let other = "items:\n- {version: '1', image: {registry: r/b}, id: b}\n- {id: a, version: '1', image: {registry: r/a}}\n";
    assert_eq!(read(one).unwrap(), read(other).unwrap());
}

#[test]
fn mistakes_are_told_with_line_and_key() {
    for (text, place) in [
        (
            "items:\n- id: a\n  version: ''\n  image: {registry: r/a}\n",
            "/srv/unit.yaml:3: items[0].version",
        ),
        (
            "items:\n- id: a/b\n  version: '1'\n  image: {registry: r/a}\n",
            "/srv/unit.yaml:2: items[0].id",
        ),
        (
            "items:\n- id: a\n  version: '1'\n  image: {digest: sha256:x}\n",
            "/srv/unit.yaml:4: items[0].image.digest",
        ),
        (
            "items:\n- id: a\n  version: '1'\n  image: {}\n",
            "/srv/unit.yaml:2: items[0].id",
        ),
        (
            "items:\n- id: a\n  version: '1'\n  image: {registry: r, layout: l}\n",
            "/srv/unit.yaml:4: items[0].image.registry",
        ),
        (
            "items:\n- id: a\n  version: '1'\n  image: {registry: r}\n  colour: red\n",
            "/srv/unit.yaml:5: items[0].colour",
        ),
        (
            "items:\n- version: '1'\n  image: {registry: r}\n",
            "/srv/unit.yaml:2: items[0]",
        ),
        (
            "instances:\n- item: nobody\n",
            "/srv/unit.yaml:2: instances[0].item",
        ),
        (
            "instances:\n- item: a\n  count: many\n",
            "/srv/unit.yaml:3: instances[0].count",
        ),
        (
            "nodes:\n- id: n\n- id: n\n",
            "/srv/unit.yaml:3: nodes[1].id",
        ),
        ("env:\n- variables: {'A=B': x}\n", "env[0].variables.A=B"),
        ("items: [\n", "/srv/unit.yaml:1"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(place), "{text}: {error}");
    }
    // All at once.
    let both = "nodes:\n- id: n/1\ninstances:\n- item: nobody\n";
    assert_eq!(read(both).unwrap_err().to_string().lines().count(), 3);
}

#[test]
fn values_of_variables_are_not_printed() {
    let desired = read(YAML).unwrap();
    for text in [format!("{desired:?}"), format!("{:?}", desired.document())] {
        assert!(
            text.contains("TOKEN") && !text.contains("hunter2"),
            "{text}"
        );
    }
}

#[test]
fn chains_name_certificates_that_are_there() {
    let document = Document {
        certificate_chains: vec![ChainEntry {
            name: "a".into(),
            fingerprints: vec!["f".into()],
        }],
        ..Document::default()
    };
    let error = document.check().unwrap_err();
    assert_eq!(
        error.problems[0].to_string(),
        "certificateChains[0].fingerprints[0]: is not one of the certificates"
    );
}

#[test]
fn paths_have_a_folder_or_are_refused() {
    let text = b"items: [{id: a, version: '1', image: {layout: a.tar}}]";
    let desired = DesiredStatus::read("here.yaml", Format::Yaml, text, Limits::default()).unwrap();
    assert!(
        desired.document().items[0]
            .image
            .layout
            .as_ref()
            .unwrap()
            .is_absolute()
    );
    let mut document = desired.document();
    document.items[0].image.layout = Some("a.tar".into());
    let error = document.check().unwrap_err().to_string();
    assert!(
        error.ends_with("items.a.image: a.tar must be absolute"),
        "{error}"
    );
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,6}",
        "[a-zA-Z0-9 #'\"é~.!&*%@-]{1,10}",
        Just("null".to_owned()),
        Just("1e3".to_owned())
    ]
    .prop_filter("a name", |it| it != "." && it != "..")
}

fn image() -> impl Strategy<Value = ImageEntry> {
    let digest = any::<[u8; 32]>().prop_map(|it| Digest::from_sha256(it).to_string());
    let layout = (word(), prop::option::of(word())).prop_map(|(path, name)| ImageEntry {
        layout: Some(PathBuf::from("/").join(path)),
        name,
        ..ImageEntry::default()
    });
    let registry = (word(), any::<bool>()).prop_map(|(reference, insecure)| ImageEntry {
        registry: Some(reference),
        insecure,
        ..ImageEntry::default()
    });
    let cloud = digest.prop_map(|digest| ImageEntry {
        digest: Some(digest),
        ..ImageEntry::default()
    });
    prop_oneof![layout, registry, cloud]
}

prop_compose! {
    pub(crate) fn desired_status()(
        items in prop::collection::btree_map(word(), (word(), prop::option::of(word()), image(), any::<bool>()), 0..4),
        wanted in prop::collection::vec((any::<prop::sample::Index>(), word(), any::<u64>(), 0u64..9, prop::collection::vec(word(), 0..3)), 0..4),
        nodes in prop::collection::btree_map(word(), any::<bool>(), 0..3),
        env in prop::collection::vec((prop::option::of(word()), prop::collection::btree_map("[A-Z]{1,4}", word(), 1..3)), 0..3),
        config in prop::option::of(word()),
    ) -> DesiredStatus {
        let mut document = Document::default();
        for (id, (version, owner, image, component)) in items {
            let kind = if component { ItemKind::Component } else { ItemKind::Service };
            document.items.push(ItemEntry { id, kind, version, owner, image });
        }
        let mut taken = BTreeSet::new();
        for (index, subject, count, priority, labels) in wanted {
            if document.items.is_empty() {
                break;
            }
            let item = index.get(&document.items).id.clone();
            if taken.insert((item.clone(), subject.clone())) {
                let subject = Some(subject);
                document.instances.push(InstancesEntry { item, subject, count, priority, labels, ..InstancesEntry::default() });
            }
        }
        document.nodes = nodes.into_iter().map(|(id, paused)| NodeEntry { id, paused }).collect();
        document.env = env.into_iter().map(|(item, variables)| EnvEntry {
            item,
            variables: variables.into_iter().map(|(name, value)| (name, EnvText(value))).collect(),
            ..EnvEntry::default()
        }).collect();
        document.unit_config = config.map(|version| serde_json::json!({
            "version": version, "nodes": [[], {}, [1, [2.5, null, true]], {"a": {"b": [{"c": "d"}]}}],
        }));
        document.check().expect("it is valid")
    }
}

proptest! {
    #[test]
    fn a_desired_status_survives_its_own_document(desired in desired_status()) {
        prop_assert_eq!(desired.document().check(), Ok(desired.clone()));
        let json = serde_json::to_string(&desired.document()).unwrap();
        let back: Document = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back.check(), Ok(desired));
    }

    #[test]
    fn what_is_shown_to_people_reads_back_as_the_same(desired in desired_status()) {
        let yaml = desired.to_yaml();
        let back = read(&yaml);
        prop_assert!(back.is_ok(), "{:?}\n{}", back, yaml);
        prop_assert_eq!(back.unwrap(), desired);
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[-{}:\\[\\] a-z\n\"']{0,80}") {
        for input in [bytes.as_slice(), text.as_bytes()] {
            for format in [Format::Yaml, Format::Json] {
                let _ = DesiredStatus::read("x", format, input, Limits::default());
            }
        }
    }
}
