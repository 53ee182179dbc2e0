//! What holds for every Unit.

use std::collections::BTreeSet;

use muster_api::domain::{InstanceIdent, ItemType};
use muster_balance::{
    Capacity, Change, DataPools, Ledger, Plan, Reason, Relief, Request, Standing, explain, plan,
};
use muster_item::BalancingPolicy;
use proptest::prelude::*;

use crate::oracle::{Oracle, is_bound};
use crate::world::{all_idents, any_request};

fn planned(request: &Request, ledger: &Ledger) -> Plan {
    plan(request, ledger).expect("made requests do not contradict themselves")
}

fn check_all(request: &Request, plan: &Plan, before: &Ledger) -> Result<(), TestCaseError> {
    let oracle = Oracle { request, plan };
    oracle.everyone_is_decided_once(&all_idents(request))?;
    oracle.nothing_is_overcommitted()?;
    oracle.places_suit()?;
    oracle.what_is_frozen_stays()?;
    oracle.accounts_are_unique_and_stay(before)?;
    oracle.nobody_yields_to_the_less_important(before)
}

/// The request again, with the plan carried out.
fn after(request: &Request, plan: &Plan) -> Request {
    Request {
        running: plan.placement(),
        ..request.clone()
    }
}

/// Who is not where it was, or nowhere.
fn disturbed(before: &Plan, now: &Plan) -> BTreeSet<InstanceIdent> {
    let moved = before.placed.iter().filter(|(ident, placed)| {
        now.placed.get(*ident).map(|placed| &placed.place) != Some(&placed.place)
    });
    moved.map(|(ident, _)| ident.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds(request in any_request()) {
        let before = Ledger::default();
        let first = planned(&request, &before);
        check_all(&request, &first, &before)?;
    }

    #[test]
    fn every_rule_holds_from_plan_to_plan(first in any_request(), second in any_request()) {
        let before = planned(&first, &Ledger::default());
        let request = after(&second, &before);
        let now = planned(&request, &before.ledger);
        check_all(&request, &now, &before.ledger)?;
    }

    #[test]
    fn the_order_of_lists_does_not_matter(request in any_request(), seed in any::<u64>()) {
        let mut shuffled = request.clone();
        let key = |index: usize| (index as u64 + 1).wrapping_mul(seed | 1).rotate_left(17);
        let mut nodes: Vec<_> = shuffled.nodes.into_iter().enumerate().collect();
        nodes.sort_by_key(|(index, _)| key(*index));
        shuffled.nodes = nodes.into_iter().map(|(_, node)| node).collect();
        let mut wanted: Vec<_> = shuffled.wanted.into_iter().enumerate().collect();
        wanted.sort_by_key(|(index, _)| key(*index));
        shuffled.wanted = wanted.into_iter().map(|(_, wanted)| wanted).collect();
        for node in &mut shuffled.nodes {
            node.runtimes.reverse();
            node.resources.reverse();
        }
        let ledger = Ledger::default();
        prop_assert_eq!(planned(&request, &ledger), planned(&shuffled, &ledger));
    }

    #[test]
    fn an_unchanged_unit_stays_as_it_is(request in any_request()) {
        let first = planned(&request, &Ledger::default());
        let again = planned(&after(&request, &first), &first.ledger);
        for (ident, placed) in &again.placed {
            prop_assert_eq!(&placed.change, &Change::Kept, "{}", ident);
        }
        prop_assert_eq!(again.placement(), first.placement());
        prop_assert_eq!(&again.ledger, &first.ledger);
        let unplaced: Vec<_> = again.unplaced.keys().collect();
        prop_assert_eq!(unplaced, first.unplaced.keys().collect::<Vec<_>>());
    }

    #[test]
    fn a_lost_node_disturbs_only_its_own_and_the_less_important(request in any_request(), which in any::<prop::sample::Index>()) {
        let before = planned(&request, &Ledger::default());
        let mut request = after(&request, &before);
        let lost = request.nodes[which.index(request.nodes.len())].id.clone();
        request.reason = Reason::NodeLost(lost.clone());
        let now = planned(&request, &before.ledger);
        check_all(&request, &now, &before.ledger)?;
        let oracle = Oracle { request: &request, plan: &now };
        let own = |ident: &InstanceIdent| before.placed[ident].place.node == lost;
        let highest = before.placed.keys().filter(|ident| own(ident)).map(|ident| oracle.wanted(ident).priority).max();
        for ident in disturbed(&before, &now) {
            let less_important = highest.is_some_and(|highest| oracle.wanted(&ident).priority < highest);
            prop_assert!(own(&ident) || less_important, "{} was disturbed", ident);
        }
    }

    #[test]
    fn explanations_agree_with_plans_and_are_true(first in any_request(), second in any_request()) {
        let before = planned(&first, &Ledger::default());
        let request = after(&second, &before);
        let now = planned(&request, &before.ledger);
        let oracle = Oracle { request: &request, plan: &now };
        for ident in all_idents(&request) {
            let explanation = explain(&request, &before.ledger, &ident).expect("it is wanted");
            oracle.explanation_is_true(&explanation, &before.ledger)?;
            prop_assert!(serde_json::to_string(&explanation).is_ok());
        }
    }

    #[test]
    fn who_is_bound_never_moves(first in any_request(), second in any_request()) {
        let before = planned(&first, &Ledger::default());
        let request = after(&second, &before);
        let now = planned(&request, &before.ledger);
        let oracle = Oracle { request: &request, plan: &now };
        for (ident, placed) in &now.placed {
            let wanted = oracle.wanted(ident);
            let Some(home) = before.placed.get(ident) else { continue };
            let overruled = wanted.kind == ItemType::Service && wanted.pin.is_some();
            let home_exists = request.nodes.iter().any(|node| node.id == home.place.node);
            if is_bound(wanted) && !overruled && home_exists {
                prop_assert_eq!(&placed.place.node, &home.place.node, "{}", ident);
            }
        }
    }

    #[test]
    fn an_alert_stops_nothing_and_moves_only_from_its_node(request in any_request(), which in any::<prop::sample::Index>(), target in (0_u64..60, 0_u64..60)) {
        let before = planned(&request, &Ledger::default());
        let mut request = after(&request, &before);
        let hot = request.nodes[which.index(request.nodes.len())].id.clone();
        let target = Capacity { cpu: Some(target.0), ram: Some(target.1) };
        request.reason = Reason::QuotaAlert(vec![Relief { node: hot.clone(), target }]);
        let now = planned(&request, &before.ledger);
        check_all(&request, &now, &before.ledger)?;
        for ident in disturbed(&before, &now) {
            prop_assert_eq!(&before.placed[&ident].place.node, &hot);
            prop_assert!(now.placed.contains_key(&ident), "{} was stopped", ident);
        }
        for ident in all_idents(&request) {
            let explanation = explain(&request, &before.ledger, &ident).expect("it is wanted");
            let oracle = Oracle { request: &request, plan: &now };
            oracle.explanation_is_true(&explanation, &before.ledger)?;
        }
    }

    #[test]
    fn a_rollback_restores(request in any_request(), changed in any_request()) {
        let mut request = request;
        request.running.clear();
        // Who found room for its data in between keeps it, and may then be the more important one.
        request.pools = DataPools::default();
        for wanted in &mut request.wanted {
            // Who is bound may have found its first place in between.
            wanted.kind = ItemType::Service;
            wanted.policy = BalancingPolicy::Enabled;
        }
        for node in &mut request.nodes {
            // What paused nodes keep is not theirs to give back.
            if matches!(node.standing, Standing::Paused | Standing::Away) {
                node.standing = Standing::Ready;
            }
        }
        let good = planned(&request, &Ledger::default());
        let meanwhile = Request { wanted: request.wanted.clone(), ..after(&changed, &good) };
        let bad = planned(&meanwhile, &good.ledger);
        let back = Request { reason: Reason::Rollback(good.placement()), ..after(&request, &bad) };
        let restored = planned(&back, &bad.ledger);
        for (ident, placed) in &good.placed {
            prop_assert_eq!(restored.placed.get(ident).map(|now| &now.place), Some(&placed.place), "{}", ident);
        }
    }
}
