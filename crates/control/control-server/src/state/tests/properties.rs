use std::collections::BTreeMap;

use muster_api::domain::{InstanceIdent, InstanceState, NodeId, NodeState};
use proptest::prelude::*;

use super::world::{Model, Watcher, ident, monitoring, node, node_info, progress, share, sm_info};
use crate::facts::{CloudFacts, NodeConfigFacts};

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const NETWORKS: [Option<&str>; 3] = [None, Some("net-a"), Some("net-b")];

#[derive(Debug, Clone)]
enum Step {
    Info(usize, usize),
    Connect(usize, bool),
    Disconnect(usize),
    Remove(usize),
    Config(usize, u64),
    Told(usize, bool, Vec<(InstanceIdent, InstanceState)>),
    Given(usize, Vec<(InstanceIdent, Option<&'static str>)>),
    Progress(u64, bool, Vec<(InstanceIdent, Option<NodeId>)>),
    Measured(usize, u64),
    Cloud(bool),
    /// A watcher takes a turn.
    Read(usize, usize),
}

fn an_ident() -> impl Strategy<Value = InstanceIdent> {
    (prop_oneof!["web", "db"], 0..3u64).prop_map(|(item, number)| ident(&item, number))
}

/// At most one entry for each instance.
fn of_instances<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<(InstanceIdent, T)>> {
    prop::collection::btree_map(an_ident(), value, 0..5)
        .prop_map(|map: BTreeMap<_, _>| map.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let node_index = 0..NODES.len();
    let state = prop::sample::select(InstanceState::ALL);
    let place = prop::option::of(prop::sample::select(&NODES[..]));
    let place = place.prop_map(|place| place.map(node));
    prop_oneof![
        1 => (node_index.clone(), 0..NodeState::ALL.len()).prop_map(|(n, s)| Step::Info(n, s)),
        1 => (node_index.clone(), any::<bool>()).prop_map(|(n, other)| Step::Connect(n, other)),
        1 => node_index.clone().prop_map(Step::Disconnect),
        1 => node_index.clone().prop_map(Step::Remove),
        1 => (node_index.clone(), 0..3u64).prop_map(|(n, priority)| Step::Config(n, priority)),
        3 => (node_index.clone(), any::<bool>(), of_instances(state))
            .prop_map(|(n, whole, told)| Step::Told(n, whole, told)),
        3 => (node_index.clone(), of_instances(prop::sample::select(&NETWORKS[..])))
            .prop_map(|(n, given)| Step::Given(n, given)),
        3 => (1..3u64, any::<bool>(), of_instances(place))
            .prop_map(|(update, done, wanted)| Step::Progress(update, done, wanted)),
        1 => (node_index, any::<u64>()).prop_map(|(n, cpu)| Step::Measured(n, cpu)),
        1 => any::<bool>().prop_map(Step::Cloud),
        6 => (0..2usize, 1..6usize).prop_map(|(watcher, limit)| Step::Read(watcher, limit)),
    ]
}

fn carry_out(model: &mut Model, step: &Step) {
    match step.clone() {
        Step::Info(n, state) => {
            let info = node_info(NODES[n], NodeState::ALL[state]);
            model.fact(|it, _, notes| it.node_info(info, notes));
        }
        Step::Connect(n, other) => {
            let info = sm_info(NODES[n], if other { "vm" } else { "container" });
            model.fact(|it, now, notes| it.node_connected(info, now, notes));
        }
        Step::Disconnect(n) => {
            model.fact(|it, now, notes| it.node_disconnected(&node(NODES[n]), now, notes));
        }
        Step::Remove(n) => {
            model.fact(|it, now, notes| it.node_removed(&node(NODES[n]), now, notes));
        }
        Step::Config(n, priority) => {
            let config = NodeConfigFacts {
                version: format!("{priority}.0.0"),
                labels: Vec::new(),
                priority,
            };
            model.fact(|it, _, notes| it.node_config(&node(NODES[n]), config, notes));
        }
        Step::Told(n, whole, told) => drop(model.told(NODES[n], whole, &told)),
        Step::Given(n, given) => {
            let node = node(NODES[n]);
            let share = share(&node, &given);
            model.fact(|it, now, notes| it.share(&node, &share, now, notes));
        }
        Step::Progress(update, done, wanted) => {
            model.progress(&progress(update, done, &wanted));
        }
        Step::Measured(n, cpu) => {
            let all: Vec<_> = (0..3).map(|number| ident("web", number)).collect();
            model.fact(|it, _, _| it.measured(&node(NODES[n]), monitoring(cpu, &all)));
        }
        Step::Cloud(connected) => {
            let cloud = CloudFacts {
                configured: true,
                connected,
            };
            model.fact(|it, _, notes| it.cloud(cloud, notes));
        }
        Step::Read(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whoever has caught up knows exactly what the lists say, however slow it was, and also when more is gone than is
    /// remembered.
    #[test]
    fn what_a_watcher_was_told_is_what_lists_say(
        steps in prop::collection::vec(step(), 1..60),
        gone_kept in 0..6usize,
    ) {
        let mut model = Model::new(gone_kept);
        let mut watchers = [Watcher::new(&model), Watcher::new(&model)];
        for step in &steps {
            carry_out(&mut model, step);
            model.state.check_counts();
            if let Step::Read(watcher, limit) = step {
                let watcher = &mut watchers[*watcher];
                if watcher.read(&model, *limit) {
                    prop_assert!(watcher.is_synced());
                    prop_assert_eq!(&watcher.seen, &model.listed());
                }
            }
        }
        for watcher in &mut watchers {
            let mut turns = 0;
            while !watcher.read(&model, 3) {
                turns += 1;
                prop_assert!(turns < 1000, "a watcher that never catches up");
            }
            prop_assert_eq!(&watcher.seen, &model.listed());
        }
        let mut newcomer = Watcher::new(&model);
        while !newcomer.read(&model, 2) {}
        prop_assert_eq!(newcomer.seen, model.listed());
        prop_assert_eq!(newcomer.restarts, 0);
    }

    /// Pages put together are the list, in whatever size they come, and a filter takes exactly what matches.
    #[test]
    fn pages_put_together_are_the_list(
        steps in prop::collection::vec(step(), 1..40),
        limit in 1..4usize,
        item in prop::option::of(prop::sample::select(&["web", "db", "none"][..])),
        at in prop::option::of(prop::sample::select(&NODES[..])),
    ) {
        let mut model = Model::new(8);
        for step in &steps {
            carry_out(&mut model, step);
        }
        let (item, at) = (item.map(|it| it.parse().unwrap()), at.map(node));
        let filter = muster_api::domain::InstanceFilter::new(item.clone(), None, None).unwrap();
        let state = &model.state;
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = state.list_instances(&filter, item.as_ref(), at.as_ref(), after.as_ref(), limit);
            prop_assert!(page.keys.len() <= limit);
            found.extend(page.keys);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let all = state.list_instances(&Default::default(), None, None, None, 1000).keys;
        let expected: Vec<_> = all.into_iter().filter(|ident| {
            filter.matches(ident)
                && at.as_ref().is_none_or(|at| {
                    state.instance(ident).unwrap().place() == Some(at)
                })
        }).collect();
        prop_assert_eq!(found, expected);
    }
}
