use std::collections::BTreeSet;
use std::path::Path;

use muster_config::Format;
use muster_template::Limits;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const TEMPLATES: &str = "
name: base
cpus: 1
image: ubuntu:24.04
labels: {team: base, tier: base}
userData: hunter2
overrides:
  all: {network: all-of-base}
  libvirt: {cpus: 8}
---
name: small
extends: base
cpus: 2
userData:
labels: {tier: small}
overrides:
  all: {network: all-of-small, user: all}
  docker: {user: docker, env: [A=hunter2]}
";

const MAPPINGS: &str = "
mapping:
- match: {image: 'ubuntu:*'}
  match_type: glob
  overrides:
    all: {user: mapped}
    aws: {image: null, ami: ami-0a116fa7c861dd5f9}
    docker: {image: registry/ubuntu}
- match: {image: registry/ubuntu, cpus: 2}
  overrides: {docker: {network: chained}}
- match: {image: debian}
  overrides: {all: {user: debian}}
- match: {name: small}
  overrides: {sim: {user: sim}}
";

fn templates(text: &str) -> TemplateSet {
    let limits = Limits::default();
    let read = Template::read_all(Path::new("t"), Format::Yaml, text.as_bytes(), &limits);
    TemplateSet::new(read.expect("valid"), &limits).expect("valid")
}

fn mappings(text: &str) -> Mappings {
    let limits = Limits::default();
    Mappings::read(Path::new("m"), Format::Yaml, text.as_bytes(), &limits).expect("valid")
}

fn resolved(name: &str, request: &Request) -> Resolved {
    resolve(&templates(TEMPLATES), name, &mappings(MAPPINGS), request).expect("it is there")
}

/// Every field that is set, its value and who set it.
fn winners(resolved: &Resolved) -> Vec<String> {
    let shown = resolved
        .fields()
        .map(|(name, it)| format!("{name} = {} [{}]", it.value, it.provenance));
    shown.collect()
}

#[test]
fn the_last_one_that_speaks_of_a_field_wins_and_is_named() {
    assert_eq!(
        winners(&resolved("small", &Request::new(ProviderId::Docker))),
        [
            "cpus = 2 [template small]",
            "env = [A=hunter2] [overrides docker of small]",
            "image = registry/ubuntu [mapping #1 (docker) at m:3:3]",
            "labels.team = base [extends base]",
            "labels.tier = small [template small]",
            "name = small [template small]",
            "network = chained [mapping #2 (docker) at m:9:3]",
            "user = mapped [mapping #1 (all) at m:3:3]",
        ]
    );
}

#[test]
fn what_a_parent_says_for_a_provider_beats_what_a_child_says_for_all() {
    let found = resolved("small", &Request::new(ProviderId::Libvirt));
    let cpus = found.get("cpus").expect("it is set");
    assert_eq!(cpus.value, Value::Integer(8));
    assert_eq!(cpus.provenance.to_string(), "overrides libvirt of base");
}

#[test]
fn null_takes_a_field_back_and_the_story_says_so() {
    let found = resolved("small", &Request::new(ProviderId::Aws));
    assert_eq!(found.get("userData"), None);
    assert_eq!(found.get("image"), None);
    assert!(found.get("ami").is_some());
    let image = found.history().find(|(name, _)| *name == "image");
    let steps: Vec<String> = image
        .expect("it was spoken of")
        .1
        .iter()
        .map(|it| it.value.to_string())
        .collect();
    assert_eq!(steps, ["ubuntu:24.04", "null"]);
}

#[test]
fn defaults_come_first_and_wishes_before_mappings() {
    let mut request = Request::new(ProviderId::Sim);
    request
        .defaults
        .set("arch", Value::String("x86_64".to_owned()))
        .expect("valid");
    request
        .defaults
        .set("cpu", Value::Integer(64))
        .expect("valid");
    request
        .given
        .set("image", Value::String("debian".to_owned()))
        .expect("valid");
    assert!(
        request
            .given
            .set("name", Value::String("other".to_owned()))
            .is_err()
    );
    let found = resolved("small", &request);
    let shown = winners(&found);
    for line in [
        "arch = amd64 [default of sim]",
        "cpus = 2 [template small]",
        "image = debian [request]",
        "user = sim [mapping #4 (sim) at m:13:3]",
    ] {
        assert!(shown.contains(&line.to_owned()), "{line}: {shown:#?}");
    }
}

#[test]
fn the_story_of_every_field_and_every_mapping_is_told_without_secrets() {
    let found = resolved("small", &Request::new(ProviderId::Docker));
    let story = found.explain();
    let text = story.to_string();
    assert_eq!(
        text,
        "template small for docker
cpus = 2  [template small, t:13:7]
    instead of 1  [extends base, t:3:7]
env = [A=…]  [overrides docker of small, t:18:31]
image = registry/ubuntu  [mapping #1 (docker) at m:3:3, m:8:21]
    instead of ubuntu:24.04  [extends base, t:4:8]
labels.team = base  [extends base, t:5:16]
labels.tier = small  [template small, t:15:16]
    instead of base  [extends base, t:5:28]
name = small  [template small, t:11:1]
network = chained  [mapping #2 (docker) at m:9:3, m:10:33]
    instead of all-of-small  [overrides all of small, t:17:18]
    instead of all-of-base  [overrides all of base, t:8:18]
user = mapped  [mapping #1 (all) at m:3:3, m:6:17]
    instead of docker  [overrides docker of small, t:18:18]
    instead of all  [overrides all of small, t:17:38]
userData = (taken back)  [template small, t:14:9]
    instead of <7 bytes>  [extends base, t:6:11]
mapping #1 at m:3:3: applied
mapping #2 at m:9:3: applied
mapping #3 at m:11:3: not matched: `image` is not `debian`
mapping #4 at m:13:3: matched, but says nothing for docker
"
    );
    let json = serde_json::to_string(&story).expect("it is a value");
    assert!(!json.contains("hunter2") && !format!("{found:?}").contains("hunter2"));
}

#[test]
fn an_unknown_template_is_answered_with_the_one_that_was_meant() {
    let request = Request::new(ProviderId::Sim);
    let error = resolve(
        &templates(TEMPLATES),
        "smal",
        &Mappings::default(),
        &request,
    );
    let error = error.expect_err("it is not there").to_string();
    assert!(error.ends_with("did you mean `small`?"), "{error}");
}

/// A mapping: the fields that it wants, and those that it sets, of a few.
#[derive(Debug, Clone)]
struct Rule {
    wants: Vec<(usize, u8)>,
    sets: Vec<(usize, u8, bool)>,
}

impl Rule {
    fn yaml(&self) -> String {
        let wants: BTreeSet<_> = self.wants.iter().map(|(field, _)| field).collect();
        let want = |field: &usize| {
            let value = self
                .wants
                .iter()
                .find(|(it, _)| it == field)
                .map_or(0, |(_, it)| *it);
            format!("f_{field}: v{value}")
        };
        let wants: Vec<String> = wants.into_iter().map(want).collect();
        let part = |for_all: bool| {
            let fields: BTreeMap<_, _> = (self.sets.iter())
                .filter(|(_, _, all)| *all == for_all)
                .map(|(field, value, _)| (field, value))
                .collect();
            let fields = fields.into_iter().map(|(field, value)| match value {
                0 => format!("f_{field}: null"),
                _ => format!("f_{field}: v{value}"),
            });
            fields.collect::<Vec<_>>().join(", ")
        };
        format!(
            "- match: {{{}}}\n  overrides: {{all: {{{}}}, sim: {{{}}}}}\n",
            wants.join(", "),
            part(true),
            part(false)
        )
    }

    fn touches(&self, other: &Self) -> bool {
        let sets = |rule: &Self, field: usize| rule.sets.iter().any(|(it, ..)| *it == field);
        let wants = |rule: &Self, field: usize| rule.wants.iter().any(|(it, _)| *it == field);
        (0..6).any(|field| {
            (sets(self, field) && (sets(other, field) || wants(other, field)))
                || (sets(other, field) && wants(self, field))
        })
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let wants = vec((0_usize..6, 1_u8..3), 1..3);
    let sets = vec((0_usize..6, 0_u8..4, any::<bool>()), 0..3);
    (wants, sets).prop_map(|(wants, sets)| Rule { wants, sets })
}

fn values(resolved: &Resolved) -> BTreeMap<String, Value> {
    let fields = resolved.fields();
    fields
        .map(|(name, it)| (name.to_owned(), it.value.clone()))
        .collect()
}

fn start() -> TemplateSet {
    templates("{name: a, extra: {f_0: v1, f_1: v1, f_2: v1, f_3: v2, f_4: v2}}")
}

fn list(rules: &[Rule]) -> Mappings {
    let rules: String = rules.iter().map(Rule::yaml).collect();
    mappings(&format!("mapping:\n{rules}"))
}

proptest! {
    #[test]
    fn resolving_is_deterministic_and_a_rule_twice_in_a_row_is_as_one(rules in vec(rule(), 0..6)) {
        let (templates, request) = (start(), Request::new(ProviderId::Sim));
        let once = resolve(&templates, "a", &list(&rules), &request).expect("it is there");
        let again = resolve(&start(), "a", &list(&rules), &request).expect("it is there");
        prop_assert_eq!(&once, &again);
        let twice: Vec<Rule> = rules.iter().flat_map(|it| [it.clone(), it.clone()]).collect();
        let twice = resolve(&templates, "a", &list(&twice), &request).expect("it is there");
        prop_assert_eq!(values(&once), values(&twice));
    }

    #[test]
    fn the_order_of_two_rules_matters_only_where_one_sets_what_the_other_sets_or_wants(
        rules in vec(rule(), 2..6),
        nth in 0_usize..5,
    ) {
        let nth = nth % (rules.len() - 1);
        let mut swapped = rules.clone();
        swapped.swap(nth, nth + 1);
        prop_assume!(!rules[nth].touches(&rules[nth + 1]));
        let request = Request::new(ProviderId::Sim);
        let one = resolve(&start(), "a", &list(&rules), &request).expect("it is there");
        let other = resolve(&start(), "a", &list(&swapped), &request).expect("it is there");
        prop_assert_eq!(values(&one), values(&other));
    }

    #[test]
    fn every_field_that_is_set_was_set_by_somebody_and_unset_is_never_zero(rules in vec(rule(), 0..6)) {
        let request = Request::new(ProviderId::Sim);
        let found = resolve(&start(), "a", &list(&rules), &request).expect("it is there");
        for field in ["cpus", "memoryMB", "diskMB", "image", "f_5"] {
            let spoken = rules.iter().any(|rule| rule.yaml().contains(field));
            prop_assert!(spoken || found.get(field).is_none());
        }
        // Nobody knows the fields that are set, and nothing else is wrong: the others are not there.
        match crate::MachineSpec::from_resolved(&found) {
            Ok(spec) => prop_assert_eq!((spec.cpus, spec.memory_mb, spec.disk_mb), (None, None, None)),
            Err(refused) => {
                let unknown = refused.problems.iter().map(|it| it.field.as_str()).collect::<BTreeSet<_>>();
                let set = found.fields().map(|(name, _)| name).filter(|name| name.starts_with("f_"));
                prop_assert_eq!(unknown, set.collect::<BTreeSet<_>>());
            }
        }
        for (name, assignment) in found.fields() {
            let (_, history) = found.history().find(|(it, _)| *it == name).expect("it has one");
            prop_assert_eq!(history.last(), Some(assignment));
        }
        prop_assert_eq!(found.considered().len(), rules.len());
    }
}
