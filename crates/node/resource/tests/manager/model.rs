//! The manager over a real store, with restarts, against the pure decision: they never differ.

use std::collections::BTreeSet;

use muster_item::ResourceRequest;
use muster_launcher::seams::Resources as _;
use muster_resource::{Ledger, Missing, ResourceTable};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::rig::{Node, Rig, instance, item};

const FILE: &str =
    r#"[{"name": "a", "sharedCount": 1}, {"name": "b", "sharedCount": 2}, {"name": "c"}]"#;

#[derive(Debug, Clone)]
enum Step {
    Take(u64, BTreeSet<&'static str>),
    Release(u64),
    Restart(BTreeSet<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = btree_set(prop::sample::select(vec!["a", "b", "c", "unknown"]), 0..4);
    let step = prop_oneof![
        6 => (0_u64..4, names).prop_map(|(number, names)| Step::Take(number, names)),
        2 => (0_u64..4).prop_map(Step::Release),
        1 => btree_set(0_u64..4, 0..4).prop_map(Step::Restart),
    ];
    vec(step, 1..30)
}

async fn take(
    node: &Node,
    model: &mut Ledger,
    table: &ResourceTable,
    number: u64,
    names: BTreeSet<&str>,
) {
    let names: Vec<&str> = names.into_iter().collect();
    let given = node.manager.take(&instance(number), &item(&names)).await;
    let requests: Vec<ResourceRequest> = item(&names).resources;
    match model.plan(table, &Missing::new(), &instance(number), &requests) {
        Ok(planned) => {
            assert_eq!(given.expect("what the decision gives"), planned.grants);
            model.hold(&instance(number), planned.names);
        }
        Err(refused) => {
            let given = given.expect_err("what the decision refuses");
            assert_eq!(given.source.to_string(), refused.to_string());
        }
    }
}

async fn follow(steps: Vec<Step>) {
    let rig = Rig::new();
    rig.describe(FILE);
    let table = ResourceTable::load(&rig.file()).expect("the table");
    let (mut node, mut model) = (rig.start().await, Ledger::default());
    for step in steps {
        match step {
            Step::Take(number, names) => take(&node, &mut model, &table, number, names).await,
            Step::Release(number) => {
                node.manager
                    .release(&instance(number))
                    .await
                    .expect("released");
                model.release(&instance(number));
            }
            Step::Restart(running) => {
                node.stop().await;
                node = rig.start_unsorted().await;
                let running: BTreeSet<_> = running.into_iter().map(instance).collect();
                for gone in model.others(&running) {
                    model.release(&gone);
                }
                node.manager.keep_only(running).await;
            }
        }
    }
    node.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_manager_does_what_the_decision_says_across_restarts(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(follow(steps));
    }
}
