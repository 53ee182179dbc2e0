use crate::schema::Step;

use super::*;

const ONE: Migration = Migration {
    number: 1,
    name: "one",
    step: Step::Sql("CREATE TABLE a (x)"),
};
const TWO: Migration = Migration {
    number: 2,
    name: "two",
    step: Step::Sql("CREATE TABLE b (x)"),
};
const TWO_EDITED: Migration = Migration {
    number: 2,
    name: "two",
    step: Step::Sql("CREATE TABLE b (y)"),
};

static V1: Schema = Schema::new("s", &[ONE]);
static V2: Schema = Schema::new("s", &[ONE, TWO]);
static V2_EDITED: Schema = Schema::new("s", &[ONE, TWO_EDITED]);
static OTHER: Schema = Schema::new("other", &[ONE]);

fn records(schema: &'static Schema) -> Vec<Record> {
    let record = |migration: &Migration| Record {
        schema: schema.name().to_owned(),
        number: migration.number,
        digest: migration.digest(),
        writer: format!("test {}", migration.number),
    };
    schema.migrations().iter().map(record).collect()
}

fn numbers(plan: &Plan) -> Vec<(&str, u32)> {
    plan.steps
        .iter()
        .map(|(schema, migration)| (schema.name(), migration.number))
        .collect()
}

#[test]
fn only_missing_steps_are_planned() {
    assert_eq!(numbers(&plan(&[], &[&V2]).unwrap()), [("s", 1), ("s", 2)]);
    assert_eq!(numbers(&plan(&records(&V1), &[&V2]).unwrap()), [("s", 2)]);
    assert_eq!(numbers(&plan(&records(&V2), &[&V2]).unwrap()), []);
}

#[test]
fn schemas_are_independent() {
    let plan = plan(&records(&V1), &[&V2, &OTHER]).unwrap();
    assert_eq!(numbers(&plan), [("s", 2), ("other", 1)]);
    assert_eq!(
        plan.summary,
        [
            Migrated {
                schema: "s",
                from: 1,
                to: 2
            },
            Migrated {
                schema: "other",
                from: 0,
                to: 1
            }
        ]
    );
}

#[test]
fn a_newer_version_is_refused_with_its_writer() {
    assert_eq!(
        plan(&records(&V2), &[&V1]).unwrap_err(),
        Refusal::Future {
            schema: "s".into(),
            found: 2,
            known: 1,
            writer: "test 2".into()
        }
    );
}

#[test]
fn a_schema_that_the_program_does_not_have_is_refused() {
    let both: Vec<_> = records(&OTHER).into_iter().chain(records(&V1)).collect();
    assert_eq!(
        plan(&both, &[&V1]).unwrap_err(),
        Refusal::Future {
            schema: "other".into(),
            found: 1,
            known: 0,
            writer: "test 1".into()
        }
    );
}

#[test]
fn an_edited_migration_is_named() {
    assert_eq!(
        plan(&records(&V2), &[&V2_EDITED]).unwrap_err(),
        Refusal::Edited {
            schema: "s".into(),
            number: 2,
            name: "two".into()
        }
    );
}

#[test]
fn a_gap_in_the_record_is_refused() {
    let second = records(&V2).split_off(1);
    assert_eq!(plan(&second, &[&V2]).unwrap_err(), Refusal::Incomplete);
}

#[test]
fn sql_and_code_do_not_share_a_digest() {
    let code = Migration {
        number: 1,
        name: "one",
        step: Step::Code {
            id: "x",
            run: |_| Ok(()),
        },
    };
    let sql = Migration {
        number: 1,
        name: "one",
        step: Step::Sql("x"),
    };
    assert_ne!(code.digest(), sql.digest());
}
