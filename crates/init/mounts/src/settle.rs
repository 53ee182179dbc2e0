//! Finds where everything that a view lists really goes.

use std::collections::BTreeMap;

use crate::entries::{Entry, Rule, What};
use crate::machine::{Machine, Tree};
use crate::plan::PlanError;
use crate::sight::{Found, Looker, Provided, Providers, Sight};

/// How often places are found anew because of what was found about others.
const MAX_ROUNDS: usize = 8;

/// What holds where, by paths without symlinks.
pub(crate) struct Settled<'a, M> {
    pub(crate) looker: &'a Looker<'a, M>,
    pub(crate) tree: Tree,
    pub(crate) providers: Providers,
    pub(crate) rules: BTreeMap<String, Vec<Ruled>>,
}

/// A rule at its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ruled {
    pub(crate) rule: Rule,
    /// One that must be there comes before those that need not.
    pub(crate) optional: bool,
    pub(crate) directive: &'static str,
    pub(crate) mount: bool,
}

impl<'a, M: Machine> Settled<'a, M> {
    pub(crate) fn new(
        looker: &'a Looker<'a, M>,
        tree: Tree,
        entries: &[Entry],
        problems: &mut Vec<PlanError>,
    ) -> Self {
        let providers = settle_providers(looker, tree, entries, problems);
        let mut rules: BTreeMap<String, Vec<Ruled>> = BTreeMap::new();
        let sight = Sight::new(looker, tree, &providers);
        for entry in entries {
            let What::Rule(rule) = entry.what else {
                continue;
            };
            let resolved = match sight.chase(entry.directive, &entry.path) {
                Ok(resolved) => resolved,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let mount = match resolved.found {
                Found::Folder { mount } | Found::Other { mount } => mount,
                Found::Unknown => false,
                Found::Missing if entry.optional => continue,
                Found::Missing => {
                    problems.push(PlanError::Missing {
                        directive: entry.directive,
                        path: entry.path.as_str().into(),
                    });
                    continue;
                }
            };
            rules.entry(resolved.path).or_default().push(Ruled {
                rule,
                optional: entry.optional,
                directive: entry.directive,
                mount,
            });
        }
        for ruled in rules.values_mut() {
            ruled.sort_unstable();
        }
        Self {
            looker,
            tree,
            providers,
            rules,
        }
    }

    pub(crate) fn sight(&self) -> Sight<'_, M> {
        Sight::new(self.looker, self.tree, &self.providers)
    }
}

/// Where a provider goes may depend on what other ones provide, so places are found until they no longer change.
fn settle_providers<M: Machine>(
    looker: &Looker<'_, M>,
    tree: Tree,
    entries: &[Entry],
    problems: &mut Vec<PlanError>,
) -> Providers {
    let mut providers = Providers::new();
    for _ in 0..MAX_ROUNDS {
        let (next, round_problems) = one_round(looker, tree, entries, &providers);
        let settled = next == providers;
        providers = next;
        if settled {
            problems.extend(round_problems);
            return providers;
        }
    }
    let first = entries
        .iter()
        .filter(|entry| matches!(entry.what, What::Provide(_)))
        .min_by(|one, other| one.path.cmp(&other.path));
    problems.extend(first.map(|entry| PlanError::Unsettled {
        directive: entry.directive,
        path: entry.path.as_str().into(),
    }));
    Providers::new()
}

fn one_round<M: Machine>(
    looker: &Looker<'_, M>,
    tree: Tree,
    entries: &[Entry],
    before: &Providers,
) -> (Providers, Vec<PlanError>) {
    let sight = Sight::new(looker, tree, before);
    let mut providers = Providers::new();
    let mut problems = Vec::new();
    for entry in entries {
        let What::Provide(provider) = &entry.what else {
            continue;
        };
        let resolved = match sight.chase_place(entry.directive, &entry.path) {
            Ok(resolved) => resolved,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let is_bind = matches!(provider.content, crate::entries::Content::Bind { .. });
        if entry.optional && !is_bind && resolved.found == Found::Missing {
            continue;
        }
        let new = Provided {
            directive: entry.directive,
            optional: entry.optional,
            provider: provider.clone(),
        };
        providers
            .entry(resolved.path)
            .and_modify(|known| known.merge(&new))
            .or_insert(new);
    }
    (providers, problems)
}

impl Provided {
    /// Of two at one place the first by rank is left, read-only if one of them is.
    fn merge(&mut self, other: &Self) {
        let read_only = self.provider.read_only || other.provider.read_only;
        let key = |provided: &Self| {
            let provider = &provided.provider;
            (
                provider.rank,
                provider.content.clone(),
                provided.optional,
                provided.directive,
            )
        };
        if key(other) < key(self) {
            *self = other.clone();
        }
        self.provider.read_only = read_only;
    }
}
