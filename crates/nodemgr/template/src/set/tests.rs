use std::fs;
use std::path::Path;

use muster_config::Format;
use proptest::prelude::*;

use super::*;

fn set(text: &str) -> Result<TemplateSet, Vec<String>> {
    set_within(text, &Limits::default())
}

fn set_within(text: &str, limits: &Limits) -> Result<TemplateSet, Vec<String>> {
    let templates = Template::read_all(Path::new("t"), Format::Yaml, text.as_bytes(), limits);
    let templates = templates.expect("each by itself is valid");
    TemplateSet::new(templates, limits).map_err(problems)
}

fn problems(error: DescriptionError) -> Vec<String> {
    match error {
        DescriptionError::Invalid { problems } => {
            problems.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_lineage_begins_with_the_topmost_ancestor() {
    let set = set("- {name: c, extends: b}\n- {name: a}\n- {name: b, extends: a}").expect("valid");
    let lineage = set.lineage("c").expect("it is there");
    let names: Vec<&str> = lineage.iter().map(|it| it.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(set.lineage("a").map(|it| it.len()), Ok(1));
    assert_eq!(set.len(), 3);
}

#[test]
fn a_circle_is_refused_with_the_chain_named() {
    let found = set(
        "- {name: a, extends: b}\n- {name: b, extends: c}\n- {name: c, extends: a}\n- {name: d, extends: a}",
    );
    assert_eq!(
        found,
        Err([
            "t:1:22: extends: templates extend each other: a -> b -> c -> a",
            "t:2:22: extends: templates extend each other: b -> c -> a -> b",
            "t:3:22: extends: templates extend each other: c -> a -> b -> c",
        ]
        .map(str::to_owned)
        .into())
    );
    assert_eq!(
        set("{name: a, extends: a}"),
        Err(vec![
            "t:1:20: extends: templates extend each other: a -> a".to_owned()
        ])
    );
}

#[test]
fn a_parent_that_is_not_there_is_reported_once_with_what_was_meant() {
    let found =
        set("- {name: worker}\n- {name: small, extends: wroker}\n- {name: tiny, extends: small}");
    let message = "t:2:26: extends: there is no template `wroker`; did you mean `worker`?";
    assert_eq!(found, Err(vec![message.to_owned()]));
}

#[test]
fn a_name_stands_once() {
    let message = "t:2:3: name: there is a template `a` already, at t:1:3";
    assert_eq!(
        set("- {name: a}\n- {name: a}"),
        Err(vec![message.to_owned()])
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_one_that_was_meant() {
    let set = set("- {name: ubuntu-worker-small}\n- {name: debian}").expect("valid");
    let text = |name: &str| set.get(name).expect_err("it is not there").to_string();
    assert_eq!(
        text("ubuntu-worker-smal"),
        "there is no template `ubuntu-worker-smal`; did you mean `ubuntu-worker-small`?"
    );
    assert_eq!(
        text("zzz"),
        "there is no template `zzz` among the 2 that are loaded"
    );
    let none = TemplateSet::default().get("a").expect_err("it is empty");
    assert_eq!(
        none.to_string(),
        "there is no template `a`: no templates are loaded"
    );
    assert_eq!(
        text("a\nb"),
        "there is no template `a\\nb` among the 2 that are loaded"
    );
}

#[test]
fn numbers_of_templates_and_of_ancestors_are_limited() {
    let limits = Limits {
        templates: 3,
        ancestors: 1,
        ..Limits::default()
    };
    let chain = "- {name: a}\n- {name: b, extends: a}\n- {name: c, extends: b}\n";
    let message = "t:3:22: extends: more than 1 templates above this one";
    assert_eq!(set_within(chain, &limits), Err(vec![message.to_owned()]));
    let four = "- {name: a}\n- {name: b}\n- {name: c}\n- {name: d}\n";
    let message = "t:4:3: more than 3 templates";
    assert_eq!(set_within(four, &limits), Err(vec![message.to_owned()]));
}

#[test]
fn files_and_folders_are_loaded_in_order_and_their_problems_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it can be written");
    };
    write("b.yaml", "name: b\nextends: a");
    write("a.json", r#"{"name": "a"}"#);
    write(".hidden.yaml", "nonsense: 1");
    write("readme.txt", "nonsense");
    let limits = Limits::default();
    let paths = [folder.path().to_owned()];
    let set = TemplateSet::load(&paths, &limits).expect("valid");
    assert_eq!(set.len(), 2);

    write("c.yml", "name: a");
    write("d.yaml", "nam: d");
    let found = problems(TemplateSet::load(&paths, &limits).expect_err("two are wrong"));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("c.yml:1:1: name: there is a template `a` already, at "));
    assert!(found[2].contains("d.yaml:1:1: the required key `name` is missing"));
    assert!(
        found[1].contains("d.yaml:1:1: nam: unknown key")
            && found[1].contains("did you mean `name`?")
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        file_bytes: 10,
        files: 1,
        ..Limits::default()
    };
    let load = |name: &str| {
        let path = folder.path().join(name);
        let error = TemplateSet::load(&[path], &limits).expect_err("it cannot be read");
        assert!(error.to_string().contains(name), "{error}");
        let source = std::error::Error::source(&error).expect("there is a cause");
        source.to_string()
    };
    load("missing.yaml");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("large.yaml"), "name: a1234567890").expect("written");
    load("large.yaml");
    fs::write(path("a.txt"), "name: a").expect("written");
    assert!(load("a.txt").contains("extension"));
    fs::write(path("b.yaml"), "name: a").expect("written");
    let error = TemplateSet::load(&[folder.path().to_owned()], &limits).expect_err("two files");
    let source = std::error::Error::source(&error).expect("there is a cause");
    assert_eq!(source.to_string(), "there are more than 1 files");
}

proptest! {
    /// Whatever extends whatever: a set is refused, or every lineage ends.
    #[test]
    fn a_set_that_is_taken_has_only_lineages_that_end(
        parents in proptest::collection::vec(proptest::option::of(0_usize..8), 1..8),
    ) {
        let text: String = parents.iter().enumerate().map(|(nth, parent)| match parent {
            Some(parent) => format!("- {{name: t{nth}, extends: t{parent}}}\n"),
            None => format!("- {{name: t{nth}}}\n"),
        }).collect();
        let follow = |start: usize| {
            let mut at = start;
            for _ in 0..=parents.len() {
                match parents.get(at) {
                    Some(Some(parent)) => at = *parent,
                    Some(None) => return true,
                    None => return false,
                }
            }
            false
        };
        let good = (0..parents.len()).all(follow);
        match set(&text) {
            Ok(set) => {
                prop_assert!(good);
                for template in set.iter() {
                    let lineage = set.lineage(template.name().as_str()).expect("it is there");
                    prop_assert_eq!(lineage.last().map(|it| it.name()), Some(template.name()));
                    prop_assert!(lineage[0].extends().is_none());
                }
            }
            Err(problems) => prop_assert!(!good && !problems.is_empty()),
        }
    }
}
