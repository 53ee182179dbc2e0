//! `describe`: one thing, and what belongs to it.

use jiff::Timestamp;
use serde::Serialize;

use super::facts::{
    AlertFacts, Described, EventFacts, InstanceFacts, ItemFacts, Listing, NetworkFacts, NodeFacts,
};
use super::{connect, events, get, naming};
use crate::cli::Output;
use crate::cli::unit::{self as cli, Kind};
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;

/// How much of what happened is shown.
const LATEST: usize = 10;
/// How many alerts are looked through for those of one thing.
const LOOKED_AT: u64 = 1000;

/// A thing with what belongs to it. Programs get all of it in one object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<T> {
    #[serde(flatten)]
    thing: T,
    #[serde(rename = "instanceList", skip_serializing_if = "Option::is_none")]
    instances: Option<Listing<InstanceFacts>>,
    #[serde(rename = "latestAlerts", skip_serializing_if = "Option::is_none")]
    alerts: Option<Listing<AlertFacts>>,
    #[serde(rename = "latestEvents", skip_serializing_if = "Option::is_none")]
    events: Option<Listing<EventFacts>>,
}

impl<T: Described> Answer for Description<T> {
    fn table(&self) -> Table {
        Table::facts(self.thing.facts(Timestamp::now()))
    }
}

impl<T: Described> Description<T> {
    fn print(&self, console: &mut Console) -> Result<(), CommandError> {
        console.answer(self)?;
        if !matches!(console.output(), Output::Table | Output::Wide) {
            return Ok(());
        }
        section("Instances", self.instances.as_ref(), console)?;
        section("Alerts", self.alerts.as_ref(), console)?;
        section("Events", self.events.as_ref(), console)
    }
}

fn section<L: super::facts::Listed>(
    title: &str,
    listing: Option<&Listing<L>>,
    console: &mut Console,
) -> Result<(), CommandError> {
    if let Some(listing) = listing.filter(|listing| !listing.0.is_empty()) {
        let title = console.paint().bold(title);
        console.print(&format!("\n{title}\n"))?;
        console.answer(listing)?;
    }
    Ok(())
}

fn latest<T>(mut things: Vec<T>) -> Listing<T> {
    let rest = things.len().saturating_sub(LATEST);
    things.drain(..rest);
    Listing(things)
}

pub(super) async fn describe(
    describe: &cli::Describe,
    console: &mut Console,
) -> Result<(), CommandError> {
    let name = describe.name.as_str();
    let unit = connect(&describe.connection).await?;
    match describe.kind {
        Kind::Node => {
            let nodes = get::nodes(&unit).await?;
            get::expect(Some(name), &nodes, |it, name| it.id == name)?;
            let instances = get::instances(&unit, Some(name)).await?;
            let alerts = get::alerts(&unit, LOOKED_AT, None).await?;
            let of_node = |it: &AlertFacts| it.node.as_deref() == Some(name);
            let things = nodes.into_iter().filter(|it| it.id == name);
            each(things, console, |thing: NodeFacts| Description {
                thing,
                instances: Some(Listing(instances.clone())),
                alerts: Some(latest(
                    alerts.iter().filter(|it| of_node(it)).cloned().collect(),
                )),
                events: None,
            })
        }
        Kind::Instance => {
            let instances = get::instances(&unit, None).await?;
            let thing = naming::one(name, &instances)?.clone();
            let alerts = get::alerts(&unit, LOOKED_AT, None).await?;
            let alerts = alerts.into_iter();
            let of_it = |it: &AlertFacts| it.instance.as_deref() == Some(&*thing.name);
            let alerts = latest(alerts.filter(of_it).collect());
            let happened = events::of(&unit, |it: &EventFacts| it.name == thing.name).await?;
            let description = Description {
                thing,
                instances: None,
                alerts: Some(alerts),
                events: Some(latest(happened)),
            };
            description.print(console)
        }
        Kind::Item => {
            let items = get::items(&unit).await?;
            get::expect(Some(name), &items, |it, name| it.id == name)?;
            let instances = get::instances(&unit, None).await?;
            let things = items.into_iter().filter(|it| it.id == name);
            each(things, console, |thing: ItemFacts| {
                let of_it = |it: &&InstanceFacts| it.item == name && it.version == thing.version;
                let instances = instances.iter().filter(of_it).cloned().collect();
                Description {
                    thing,
                    instances: Some(Listing(instances)),
                    alerts: None,
                    events: None,
                }
            })
        }
        Kind::Network => {
            let networks = get::networks(&unit).await?;
            get::expect(Some(name), &networks, |it, name| it.id == name)?;
            let mut instances = get::instances(&unit, None).await?;
            instances.retain(|it| it.network.as_deref() == Some(name));
            let things = networks.into_iter().filter(|it| it.id == name);
            each(things, console, |thing: NetworkFacts| Description {
                thing,
                instances: Some(Listing(instances.clone())),
                alerts: None,
                events: None,
            })
        }
    }
}

/// Several only where an item is there in several versions.
fn each<T: Described>(
    things: impl Iterator<Item = T>,
    console: &mut Console,
    description: impl Fn(T) -> Description<T>,
) -> Result<(), CommandError> {
    for (nth, thing) in things.enumerate() {
        if nth > 0 {
            console.print("\n")?;
        }
        description(thing).print(console)?;
    }
    Ok(())
}
