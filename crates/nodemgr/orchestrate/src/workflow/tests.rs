//! What documents are workflows, and what is said about those that are not.

use muster_config::Format;

use super::*;

fn read(text: &str) -> Result<Workflow, ReadWorkflowError> {
    Workflow::read("w.yaml", Format::Yaml, text.as_bytes(), &Limits::default())
}

/// Everything that is wrong, one line each.
fn problems(text: &str) -> String {
    match read(text) {
        Err(ReadWorkflowError::Invalid { source, .. }) => source.to_string(),
        other => panic!("it is refused: {other:?}"),
    }
}

#[test]
fn the_example_of_the_documentation_is_a_workflow() {
    let documentation = include_str!("../lib.rs").lines();
    let example = documentation
        .skip_while(|line| !line.ends_with("```yaml"))
        .skip(1)
        .take_while(|line| !line.ends_with("```"))
        .map(|line| format!("{}\n", line.trim_start_matches("//!").trim_end()));
    let workflow = read(&example.collect::<String>()).expect("a workflow");
    let names: Vec<&str> = workflow.steps().iter().map(Step::name).collect();
    assert_eq!(names, ["sources", "bootstrap", "test", "collect"]);
    assert_eq!(workflow.slots().count(), 3);
}

const SMALL: &str = "name: small\nmachines: {a: {template: t}}\n";

#[test]
fn what_is_not_said_has_a_default() {
    let text = format!(
        "{SMALL}steps:\n- {{name: one, actions: [{{script: {{text: x}}}}]}}\n- {{name: two, actions: [{{upload: {{from: /a, to: /b}}}}]}}\n"
    );
    let workflow = read(&text).expect("a workflow");
    let group = workflow.group("a").expect("the group");
    assert_eq!(
        (group.count, group.end, group.end_on_failure),
        (1, End::Destroy, End::Destroy)
    );
    let [one, two] = workflow.steps() else {
        panic!("two steps")
    };
    assert_eq!(
        (one.needs.as_slice(), one.on.as_slice()),
        (&[][..], &["a".to_owned()][..])
    );
    assert_eq!(two.needs, ["one"], "a step needs the one before it");
    assert_eq!(one.effort.attempts, 1);
    assert!(!one.repeatable, "nobody knows what a script did halfway");
    assert!(two.repeatable, "what was copied halfway is copied again");
    assert_eq!(one.when, When::Success);
}

#[test]
fn a_machine_that_exists_is_kept_unless_the_workflow_says_otherwise() {
    let kept = read("name: w\nmachines: {a: {machine: m-01}}").expect("a workflow");
    assert_eq!(kept.group("a").map(|it| it.end(false)), Some(End::Keep));
    let stopped = read("name: w\nmachines: {a: {machine: m-01, end: stop}}").expect("a workflow");
    assert_eq!(stopped.group("a").map(|it| it.end(true)), Some(End::Stop));
    assert_eq!(stopped.group("a").map(|it| it.end(false)), Some(End::Stop));
}

#[test]
fn a_workflow_is_written_so_that_it_reads_back() {
    let text = "
name: full
timeout: 90m
parallel: 3
machines:
  a: {template: t, provider: sim, count: 2, end: keep, endOnFailure: destroy, ready: {timeout: 5s, attempts: 2, delay: 0}}
  b: {machine: m-01, provision: {timeout: 1m}}
  c: {template: t, set: {image: debian, cpus: '4'}, spot: prefer, spotTypes: [x], prefer: [cost], reuse: true, access: ['ssh:exec'], runsFor: 1h, maxPrice: 5, tolerates: {a: b}}
steps:
- name: one
  on: [b]
  needs: []
  when: always
  timeout: 1s
  attempts: 4
  delay: 250ms
  repeatable: true
  parallel: 2
  actions:
  - run: {command: [make, '-C', /src], cwd: /src, env: {A: 'x y', B: ''}}
  - script: {text: 'true', cwd: /, user: root}
  - file: {to: '~/x', content: 'a: \"b\"', mode: '600', user: me}
  - run: {command: [make], cwd: '{src}/a'}
  - upload: {from: '/in/{run}', to: /x, delete: true}
  - download: {from: /y, to: '/out/{group}'}
  - download: {from: /x, to: '/in/{run}', onlyChanges: true}
- {name: two, needs: [one], actions: [{script: {text: ''}}]}
";
    let first = read(text).expect("a workflow");
    let again = Workflow::read(
        "again",
        Format::Json,
        first.to_json().as_bytes(),
        &Limits::default(),
    );
    assert_eq!(again.expect("the same"), first);
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_what_was_meant() {
    let told = problems(&format!(
        "{SMALL}steps:\n- name: one\n  comands: 1\n  actions: []\n"
    ));
    assert!(told.contains("w.yaml:5:"), "{told}");
    assert!(told.contains("steps[0].comands"), "{told}");
    let told = problems("name: w\nmachines:\n  a: {templat: t}\n");
    assert!(
        told.contains("w.yaml:3:") && told.contains("template"),
        "{told}"
    );
}

#[test]
fn whatever_makes_no_run_is_refused_with_its_place() {
    let step = |body: &str| {
        format!("{SMALL}steps:\n- {{name: first, actions: [{{script: {{text: x}}}}]}}\n- {body}\n")
    };
    let action = |action: &str| step(&format!("{{name: s, actions: [{action}]}}"));
    for (text, says) in [
        (
            "name: W\nmachines: {a: {template: t}}".to_owned(),
            "is no name",
        ),
        (
            "name: w\nmachines: {}".to_owned(),
            "has none under `machines`",
        ),
        (
            "name: w\nmachines: {a: {}}".to_owned(),
            "is needed here, or `machine`",
        ),
        (
            "name: w\nmachines: {a: {template: t, machine: m-1}}".to_owned(),
            "beside `template`",
        ),
        (
            "name: w\nmachines: {a: {machine: m-1, count: 2}}".to_owned(),
            "must be 1",
        ),
        (
            "name: w\nmachines: {a: {machine: m-1, provider: sim}}".to_owned(),
            "beside `machine`",
        ),
        (
            "name: w\nmachines: {a: {machine: m-1, reuse: true}}".to_owned(),
            "it exists",
        ),
        (
            "name: w\nmachines: {a: {template: t, spot: often}}".to_owned(),
            "spot",
        ),
        (
            action("{download: {from: /b, to: /a, onlyChanges: true}}"),
            "needs an earlier `upload`",
        ),
        (action("{upload: {from: /a, to: b}}"), "begins with `~/`"),
        (
            action("{script: {text: x, user: 'a b'}}"),
            "is no name of a user",
        ),
        (
            "name: w\nmachines: {a: {template: t, count: 0}}".to_owned(),
            "count",
        ),
        (
            "name: w\ntimeout: 0\nmachines: {a: {template: t}}".to_owned(),
            "longer than 0s",
        ),
        (
            "name: w\nmachines: {a/b: {template: t}}".to_owned(),
            "is no name",
        ),
        (
            step("{name: first, actions: [{script: {text: x}}]}"),
            "an earlier step too",
        ),
        (
            step("{name: s, needs: [frist], actions: [{script: {text: x}}]}"),
            "did you mean `first`?",
        ),
        (
            step("{name: s, needs: [s], actions: [{script: {text: x}}]}"),
            "is not an earlier step",
        ),
        (
            step("{name: s, needs: [first, first], actions: [{script: {text: x}}]}"),
            "twice",
        ),
        (
            step("{name: s, on: [b], actions: [{script: {text: x}}]}"),
            "is not a group of machines",
        ),
        (
            step("{name: s, on: [], actions: [{script: {text: x}}]}"),
            "names no machines",
        ),
        (step("{name: s, actions: []}"), "must not be empty"),
        (action("{run: {command: []}}"), "names no program"),
        (action("{run: {command: [x], cwd: src}}"), "absolute path"),
        (
            action("{run: {command: [x], env: {A-B: x}}}"),
            "no name of an environment variable",
        ),
        (
            action("{file: {to: /x, content: x, mode: '9'}}"),
            "octal digits",
        ),
        (action("{upload: {from: src, to: /src}}"), "absolute path"),
        (action("{reboot: {}}"), "one key of"),
    ] {
        let told = problems(&text);
        assert!(told.contains(says), "{says:?} is not in {told}");
        // What is missing, and tables, have no place, only a key.
        let only_key = told.contains("machines.a.template") || told.contains(".env:");
        assert!(only_key || told.contains("w.yaml:"), "no place in {told}");
    }
}

#[test]
fn what_several_machines_send_must_not_overwrite_each_other() {
    let with = |machines: &str, to: &str| {
        read(&format!(
            "name: w\nmachines: {machines}\nsteps: [{{name: s, actions: [{{download: {{from: /x, to: '{to}'}}}}]}}]"
        ))
    };
    let several = "{a: {template: t, count: 2}, b: {template: t}}";
    for to in ["/out", "/out/{index}", "/out/{group}"] {
        assert!(with(several, to).is_err(), "{to}");
    }
    for to in ["/out/{group}/{index}", "/out/{machine}"] {
        assert!(with(several, to).is_ok(), "{to}");
    }
    assert!(with("{a: {template: t}}", "/out").is_ok());
}

#[test]
fn too_much_is_refused_before_anything_is_made() {
    let limits = Limits {
        machines: 3,
        jobs: 4,
        ..Limits::default()
    };
    let read = |text: &str| Workflow::read("w", Format::Yaml, text.as_bytes(), &limits);
    let many = "name: w\nmachines: {a: {template: t, count: 4294967295}}";
    assert_eq!(
        read(many).expect_err("too many").to_string(),
        "w asks for 4294967295 machines, and at most 3 are allowed"
    );
    let script = "actions: [{script: {text: x}}]";
    let jobs = format!(
        "name: w\nmachines: {{a: {{template: t, count: 3}}}}\nsteps: [{{name: a, {script}}}, {{name: b, {script}}}]"
    );
    assert!(matches!(
        read(&jobs),
        Err(ReadWorkflowError::TooLarge {
            what: "steps of machines",
            found: 6,
            ..
        })
    ));
}

#[test]
fn what_may_be_secret_is_not_in_debug_texts() {
    let workflow = read(&format!(
        "{SMALL}steps: [{{name: s, actions: [{{run: {{command: [x], env: {{T: hidden-1}}}}}}, {{script: {{text: hidden-2}}}}, {{file: {{to: /x, content: hidden-3}}}}]}}]"
    ));
    let text = format!("{:?}", workflow.expect("a workflow"));
    assert!(!text.contains("hidden"), "{text}");
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_workflow_or_refused(text in "[ -~\n]{0,200}") {
            // Whatever it is, nothing panics.
            drop(read(&text));
            drop(read(&format!("{SMALL}steps: [{text}]")));
        }
    }
}
