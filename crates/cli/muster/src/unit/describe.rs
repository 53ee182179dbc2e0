//! `describe`: one thing, and what belongs to it.

use jiff::Timestamp;
use serde::Serialize;

use super::facts::{
    AlertFacts, Described, EventFacts, InstanceFacts, ItemFacts, Listing, NetworkFacts, NodeFacts,
};
use super::{UnitClient, UnitCommandError, connect, events, get, naming};
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
        Kind::Node => node(&unit, name).await?.print(console),
        Kind::Instance => instance(&unit, name).await?.print(console),
        Kind::Item => item(&unit, name).await?.print(console),
        Kind::Network => network(&unit, name).await?.print(console),
    }
}

async fn node(unit: &UnitClient, name: &str) -> Result<Description<NodeFacts>, UnitCommandError> {
    let thing = naming::named(name, get::nodes(unit).await?)?;
    let instances = get::instances(unit, Some(&thing.id)).await?;
    let mut alerts = get::alerts(unit, LOOKED_AT, None).await?;
    alerts.retain(|it| it.node.as_ref() == Some(&thing.id));
    Ok(Description {
        thing,
        instances: Some(Listing(instances)),
        alerts: Some(latest(alerts)),
        events: None,
    })
}

async fn instance(
    unit: &UnitClient,
    name: &str,
) -> Result<Description<InstanceFacts>, UnitCommandError> {
    let instances = get::instances(unit, None).await?;
    let thing = naming::one(name, &instances)?.clone();
    let mut alerts = get::alerts(unit, LOOKED_AT, None).await?;
    alerts.retain(|it| it.instance.as_ref() == Some(&thing.name));
    let happened = events::of(unit, |it| it.name == thing.name).await?;
    Ok(Description {
        thing,
        instances: None,
        alerts: Some(latest(alerts)),
        events: Some(latest(happened)),
    })
}

async fn item(unit: &UnitClient, name: &str) -> Result<Description<ItemFacts>, UnitCommandError> {
    let thing = naming::named(name, get::items(unit).await?)?;
    let mut instances = get::instances(unit, None).await?;
    instances.retain(|it| it.item == thing.id && it.version == thing.version);
    Ok(Description {
        thing,
        instances: Some(Listing(instances)),
        alerts: None,
        events: None,
    })
}

async fn network(
    unit: &UnitClient,
    name: &str,
) -> Result<Description<NetworkFacts>, UnitCommandError> {
    let thing = naming::named(name, get::networks(unit).await?)?;
    let mut instances = get::instances(unit, None).await?;
    instances.retain(|it| it.network.as_ref() == Some(&thing.id));
    Ok(Description {
        thing,
        instances: Some(Listing(instances)),
        alerts: None,
        events: None,
    })
}
