//! From a wish to candidates, and to an order: pure.

mod offer;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Moment, State};
use muster_machines::{MachineOrder, Record};
use muster_mapping::MachineSpec;
use muster_provider::{Capabilities, Isolation, MachineId, Purchase};
use muster_schedule::{
    Candidate, Decision, Market, Need, Origin, Policy, Room, Spot, Taint, World, choose,
};
use muster_template::{Fields, ProviderId, UnknownTemplate, Value};

pub use self::offer::{Offer, Place, Price, Prices};
use crate::catalog::{Catalog, ResolveError, ZONE};

/// What keeps people from machines that are no barrier unless they ask for them.
const INSECURE: &str = "insecure";
/// The field for a provider's own type of machine.
const KIND: &str = "instance_type";
/// The same, as a provider tells it of a machine that there is.
const TOLD_KIND: &str = "instanceType";

/// A machine that is wanted.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Its template.
    pub template: String,
    /// Who shall make it, if that matters.
    pub provider: Option<ProviderId>,
    /// What is wanted instead of what the template says.
    pub given: Fields,
    /// What counts.
    pub policy: Policy,
    /// Whether a machine that is free will do.
    pub reuse: bool,
    /// Whether one will do that is no barrier, though its provider was not named.
    pub insecure: bool,
    /// It must be usable like this.
    pub access: Capabilities,
    /// It must live so long.
    pub runs_for: Option<Duration>,
    /// It must not cost more.
    pub max_price: Option<u64>,
    /// It may have these taints.
    pub tolerates: BTreeSet<Taint>,
    /// A new one lives so long, if there is an end.
    pub lives_for: Option<Duration>,
}

/// A machine that there is.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    /// What is known about it.
    pub record: &'a Record,
    /// Whether somebody uses it.
    pub busy: bool,
    /// Whether it runs and did not answer when it was tried.
    pub silent: bool,
}

/// Something that was no candidate at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruled {
    /// What it is called.
    pub name: String,
    /// Whose it is, or would be.
    pub provider: ProviderId,
    /// The machine, if it is one.
    pub machine: Option<MachineId>,
    /// Why not.
    pub why: String,
}

/// Why there is nothing to choose from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// There is no such template.
    #[error(transparent)]
    Template(UnknownTemplate),
    /// The provider is not there.
    #[error(
        "the provider {0} is not configured: name it under `providers` of the configuration, or use another (`muster machine providers`)"
    )]
    NoProvider(ProviderId),
    /// There is no provider at all.
    #[error(
        "there is no provider: is an engine of Docker running, or does the configuration name one under `providers`?"
    )]
    NoProviders,
}

/// A choice, with all that it was made from.
#[derive(Debug)]
pub struct Choice {
    /// The template.
    pub template: String,
    need: Need,
    policy: Policy,
    world: World,
    /// What there was to choose from.
    pub candidates: Vec<Candidate>,
    decision: Decision,
    /// What was none of them, and why.
    pub ruled: Vec<Ruled>,
    /// What would be ordered, by the name of the candidate.
    specs: BTreeMap<String, MachineSpec>,
}

/// One candidate, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its name.
    pub name: String,
    /// Whose it is, or would be.
    pub provider: ProviderId,
    /// The machine, if it exists.
    pub machine: Option<MachineId>,
    /// The place it came in, from 0, if it fits.
    pub place: Option<u32>,
    /// Why.
    pub why: Vec<String>,
}

/// What to do about a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum Take {
    /// Use this one.
    Existing(MachineId),
    /// Order one.
    New(Box<MachineOrder>),
}

impl Wish {
    /// For a new machine that ends after so long.
    #[must_use]
    pub fn living_for(self, lives_for: Option<Duration>) -> Self {
        Self { lives_for, ..self }
    }

    fn need(&self) -> Need {
        let mut need = Need {
            access: self.access.clone(),
            runs_for: self.runs_for,
            max_price: self.max_price,
            tolerates: self.tolerates.clone(),
            ..Need::default()
        };
        for provider in ProviderId::ALL {
            // Whoever names a provider knows what he gets.
            if self.insecure || self.provider == Some(provider) {
                need.tolerates.insert(taint(provider));
            }
        }
        need
    }
}

fn taint(provider: ProviderId) -> Taint {
    Taint {
        key: INSECURE.to_owned(),
        value: provider.to_string(),
    }
}

/// Chooses among the machines that there are and those that could be made.
///
/// # Errors
/// There is nothing to choose from.
pub fn decide<'a>(
    wish: &Wish,
    catalog: &Catalog,
    offers: &[Offer],
    machines: impl IntoIterator<Item = Existing<'a>>,
    now: Moment,
) -> Result<Choice, ChooseError> {
    let found = catalog.templates().get(&wish.template);
    found.map_err(ChooseError::Template)?;
    let wanted = |offer: &&Offer| wish.provider.is_none_or(|it| it == offer.profile.id);
    let asked: Vec<&Offer> = offers.iter().filter(wanted).collect();
    if asked.is_empty() {
        let none = wish
            .provider
            .map_or(ChooseError::NoProviders, ChooseError::NoProvider);
        return Err(none);
    }
    let mut world = World::default();
    for offer in offers {
        world.limit(offer.profile.id, offer.quota);
    }
    let mut choice = Choice {
        template: wish.template.clone(),
        need: wish.need(),
        policy: wish.policy.clone(),
        world,
        candidates: Vec::new(),
        decision: choose(&Need::default(), &Policy::default(), &World::default(), &[]),
        ruled: Vec::new(),
        specs: BTreeMap::new(),
    };
    for offer in &asked {
        choice.add_new(wish, catalog, offer);
    }
    for existing in machines {
        choice.add_existing(wish, &asked, existing, now);
    }
    choice.decision = choose(
        &choice.need,
        &choice.policy,
        &choice.world,
        &choice.candidates,
    );
    Ok(choice)
}

impl Choice {
    /// One in every place where the provider can make it, unless somebody fixed the place.
    fn add_new(&mut self, wish: &Wish, catalog: &Catalog, offer: &Offer) {
        let provider = offer.profile.id;
        let name = format!("new {} at {provider}", wish.template);
        let specs = match specs_in_places(wish, catalog, offer) {
            Ok(specs) => specs,
            Err(error) => {
                return self.ruled.push(Ruled {
                    name,
                    provider,
                    machine: None,
                    why: resolve_problem(&error),
                });
            }
        };
        let several = specs.len() > 1;
        for spec in specs {
            let place = zone(&spec).or(spec.region.as_deref());
            let name = match place.filter(|_| several) {
                Some(place) => format!("{name} in {place}"),
                None => name.clone(),
            };
            self.add_spec(&name, wish, offer, spec);
        }
    }

    fn add_spec(&mut self, name: &str, wish: &Wish, offer: &Offer, spec: MachineSpec) {
        let mut candidate = described(name, &wish.template, offer, &spec);
        candidate.access.clone_from(&offer.profile.access);
        candidate.ready_in = offer.ready_in;
        candidate.lives_for = wish.lives_for;
        if offer.profile.spot && self.policy.spot != Spot::Never {
            for kind in spot_types(&self.policy.spot) {
                let mut spot = candidate.clone();
                spot.name = match &kind {
                    Some(kind) => format!("{name}, spot {kind}"),
                    None => format!("{name}, spot"),
                };
                spot.price = match &kind {
                    Some(kind) => offer.prices.of(Market::Spot, Some(kind)),
                    None => price(offer, Market::Spot, &spec),
                };
                spot.origin = Origin::New {
                    market: Market::Spot,
                    kind,
                };
                self.specs.insert(spot.name.clone(), spec.clone());
                self.candidates.push(spot);
            }
        }
        self.specs.insert(candidate.name.clone(), spec);
        self.candidates.push(candidate);
    }

    fn add_existing(&mut self, wish: &Wish, asked: &[&Offer], existing: Existing<'_>, now: Moment) {
        let record = existing.record;
        let provider = record.order.provider;
        if record.state().is_ending() {
            return;
        }
        // Every machine counts for its provider's quota, whoever asks for it.
        let mut used = Candidate::new("", "", provider);
        used.room = room(&record.order.spec);
        used.region.clone_from(&record.order.spec.region);
        used.zone = zone(&record.order.spec).map(ToOwned::to_owned);
        self.world.take(&used);
        let Some(offer) = asked.iter().find(|offer| offer.profile.id == provider) else {
            return;
        };
        if !wish.reuse || record.order.template != wish.template {
            return;
        }
        let own = self.candidates.iter().filter(|it| it.provider == provider);
        let wanted: Vec<&MachineSpec> = own.filter_map(|it| self.specs.get(&it.name)).collect();
        if wanted.is_empty() {
            return;
        }
        let name = record.id.to_string();
        if let Some(why) = not_free(existing, &wanted) {
            return self.ruled.push(Ruled {
                name,
                provider,
                machine: Some(record.id.clone()),
                why,
            });
        }
        let mut candidate = described(&name, &wish.template, offer, &record.order.spec);
        let told = record.made().and_then(|made| made.details.get(TOLD_KIND));
        let kind = told.map(String::as_str);
        let kind = kind.or_else(|| texts(&record.order.spec, KIND).next());
        let market = match record.made().is_some_and(|made| made.spot) {
            true => Market::Spot,
            false => Market::OnDemand,
        };
        candidate.price = match told {
            Some(told) => offer.prices.of(market, Some(told)),
            None => price(offer, market, &record.order.spec),
        };
        candidate.origin = Origin::Existing {
            machine: record.id.clone(),
            state: record.state(),
            market,
            kind: kind.map(ToOwned::to_owned),
        };
        if let Some(made) = record.made() {
            candidate.access.clone_from(&made.access);
            let end = record.order.timers.lifetime.map(|it| made.at.after(it));
            candidate.lives_for = end.map(|end| {
                let left = end.as_millis().saturating_sub(now.as_millis());
                Duration::from_millis(left)
            });
        }
        if record.state() != State::Running {
            candidate.ready_in = offer.ready_in;
        }
        self.candidates.push(candidate);
    }

    /// Every candidate with its reasons: those that fit first, the best of them at the top.
    #[must_use]
    pub fn explain(&self) -> Vec<Explained> {
        let told = self
            .decision
            .explain(&self.need, &self.policy, &self.world, &self.candidates);
        let candidates = told
            .zip(&self.candidates)
            .map(|(told, candidate)| Explained {
                name: told.candidate,
                provider: candidate.provider,
                machine: existing_id(candidate).cloned(),
                place: told.place,
                why: told.why,
            });
        let ruled = self.ruled.iter().map(|ruled| Explained {
            name: ruled.name.clone(),
            provider: ruled.provider,
            machine: ruled.machine.clone(),
            place: None,
            why: vec![ruled.why.clone()],
        });
        let mut all: Vec<Explained> = candidates.chain(ruled).collect();
        all.sort_by_key(|it| it.place.unwrap_or(u32::MAX));
        all
    }

    /// What to try, the best first.
    pub fn takes<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
        timers: Timers,
    ) -> impl Iterator<Item = Take> + 'a {
        let mut seen: Vec<(ProviderId, Option<&str>, Option<&str>, Purchase)> = Vec::new();
        let ranked = self.decision.ranking();
        ranked.filter_map(move |index| {
            let candidate = self.candidates.get(index)?;
            if let Some(machine) = existing_id(candidate) {
                return Some(Take::Existing(machine.clone()));
            }
            let (need, policy) = (&self.need, &self.policy);
            let purchase = self
                .decision
                .purchase(index, need, policy, &self.candidates);
            // One order goes through all types of a provider in a place, so only the first of them is one.
            let (region, zone) = (candidate.region.as_deref(), candidate.zone.as_deref());
            let this = (candidate.provider, region, zone, purchase.clone());
            if seen.contains(&this) {
                return None;
            }
            seen.push(this);
            Some(Take::New(Box::new(MachineOrder {
                provider: candidate.provider,
                template: self.template.clone(),
                spec: self.specs.get(&candidate.name)?.clone(),
                purchase,
                labels: labels.clone(),
                timers,
                key: None,
                asked: None,
            })))
        })
    }
}

fn existing_id(candidate: &Candidate) -> Option<&MachineId> {
    match &candidate.origin {
        Origin::Existing { machine, .. } => Some(machine),
        Origin::New { .. } => None,
    }
}

fn resolve_problem(error: &ResolveError) -> String {
    match error {
        // One line: it stands in a table.
        ResolveError::Spec(spec) => {
            let problems: Vec<String> = spec.problems.iter().map(ToString::to_string).collect();
            problems.join("; ")
        }
        ResolveError::Unknown(_) | ResolveError::Frozen(_) => error.to_string(),
    }
}

fn room(spec: &MachineSpec) -> Room {
    Room {
        cpus: spec.cpus.map(Into::into),
        memory_mb: spec.memory_mb.map(Into::into),
        disk_mb: spec.disk_mb.map(Into::into),
    }
}

fn described(name: &str, template: &str, offer: &Offer, spec: &MachineSpec) -> Candidate {
    let provider = offer.profile.id;
    let mut candidate = Candidate::new(name, template, provider);
    candidate.room = room(spec);
    candidate.arch = spec.arch;
    candidate.region.clone_from(&spec.region);
    candidate.zone = zone(spec).map(ToOwned::to_owned);
    candidate.labels.clone_from(&spec.labels);
    candidate.price = price(offer, Market::OnDemand, spec);
    candidate.taints.clone_from(&offer.taints);
    if let Isolation::Insecure(_) = offer.profile.isolation {
        candidate.taints.insert(taint(provider));
    }
    candidate
}

/// What a template comes to in each place; in one where it says itself where.
fn specs_in_places(
    wish: &Wish,
    catalog: &Catalog,
    offer: &Offer,
) -> Result<Vec<MachineSpec>, ResolveError> {
    let provider = offer.profile.id;
    let spec = |catalog: &Catalog| catalog.spec(&wish.template, provider, &wish.given);
    if offer.places.is_empty() {
        return Ok(vec![spec(catalog)?]);
    }
    let mut specs: Vec<MachineSpec> = Vec::new();
    for Place { region, zone } in &offer.places {
        let mut made = spec(&catalog.in_place(provider, region, None))?;
        // A zone says nothing in a region that is not its own.
        if zone.is_some() && made.region.as_deref() == Some(region) {
            made = spec(&catalog.in_place(provider, region, zone.as_deref()))?;
        }
        if !specs.contains(&made) {
            specs.push(made);
        }
    }
    Ok(specs)
}

/// The texts of a field that takes one or several, in their order.
fn texts<'a>(spec: &'a MachineSpec, field: &str) -> impl Iterator<Item = &'a str> {
    let all = match spec.extra.get(field) {
        Some(Value::List(all)) => all.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    all.iter().filter_map(|one| match one {
        Value::String(text) => Some(text.as_str()),
        _ => None,
    })
}

fn zone(spec: &MachineSpec) -> Option<&str> {
    texts(spec, ZONE).next()
}

/// What an hour of a new machine costs at most: of the types that a template lists, any may be taken. One without a price makes
/// it unknown.
fn price(offer: &Offer, market: Market, spec: &MachineSpec) -> Option<u64> {
    let mut kinds = texts(spec, KIND).peekable();
    if kinds.peek().is_none() {
        return offer.prices.of(market, None);
    }
    kinds.try_fold(0, |dearest, kind| {
        let this = offer.prices.of(market, Some(kind))?;
        Some(dearest.max(this))
    })
}

fn spot_types(spot: &Spot) -> Vec<Option<String>> {
    match spot {
        Spot::Prefer { types } | Spot::Only { types } if !types.is_empty() => {
            types.iter().cloned().map(Some).collect()
        }
        _ => vec![None],
    }
}

/// Why a machine of the template cannot be taken.
fn not_free(existing: Existing<'_>, wanted: &[&MachineSpec]) -> Option<String> {
    let record = existing.record;
    if existing.busy {
        return Some("it has work".to_owned());
    }
    if existing.silent {
        return Some("it does not answer".to_owned());
    }
    if record.is_leaving() {
        return Some("it is being stopped, hibernated or ended".to_owned());
    }
    if let Some(unit) = &record.unit {
        return Some(format!("it is a node of the Unit in {unit}"));
    }
    if let Some(pool) = &record.pool {
        return Some(format!("it belongs to the pool {pool}"));
    }
    let has = &record.order.spec;
    let differs = !wanted.iter().any(|wanted| covers(has, wanted));
    differs.then(|| "it is not what the template says now".to_owned())
}

/// Whether a machine is all that is wanted, or has more room.
fn covers(has: &MachineSpec, wanted: &MachineSpec) -> bool {
    let (own, other) = (room(has), room(wanted));
    let enough = |own: Option<u64>, other: Option<u64>| other.is_none_or(|it| own >= Some(it));
    if !enough(own.cpus.map(u64::from), other.cpus.map(u64::from))
        || !enough(own.memory_mb, other.memory_mb)
        || !enough(own.disk_mb, other.disk_mb)
    {
        return false;
    }
    let of_any_size = |spec: &MachineSpec| MachineSpec {
        cpus: None,
        memory_mb: None,
        disk_mb: None,
        ..spec.clone()
    };
    of_any_size(has).is_like(&of_any_size(wanted))
}
