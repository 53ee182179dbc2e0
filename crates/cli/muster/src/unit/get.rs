//! `get`: lists, once or as they change.

use jiff::Timestamp;
use muster_control_api::v1::{self, WatchEvent, watch_event::Event};

use super::facts::{
    AlertFacts, InstanceFacts, ItemFacts, Listed, Listing, NetworkFacts, NodeFacts, instance_name,
    item_key, to_wire,
};
use super::naming::{NoSuchError, means};
use super::{UnitClient, UnitCommandError, connect, rollback, watch};
use crate::call::CallError;
use crate::cli::unit::{self as cli, Get};
use crate::console::Console;
use crate::error::CommandError;

/// A kind of thing that a Unit has several of, and tells the changes of.
pub(super) trait Kind: Listed + Sized {
    /// How it is watched.
    const WATCHED: v1::Kind;

    /// What an event says about things of this kind.
    fn news(event: WatchEvent) -> Option<News<Self>>;
}

/// A change.
pub(super) enum News<T> {
    /// It is there, like this.
    Set(T),
    /// What has this key is gone.
    Gone(String),
}

impl Kind for NodeFacts {
    const WATCHED: v1::Kind = v1::Kind::Nodes;

    fn news(event: WatchEvent) -> Option<News<Self>> {
        match event.event? {
            Event::Node(node) => Some(News::Set(node.into())),
            Event::NodeGone(id) => Some(News::Gone(id)),
            _ => None,
        }
    }
}

impl Kind for InstanceFacts {
    const WATCHED: v1::Kind = v1::Kind::Instances;

    fn news(event: WatchEvent) -> Option<News<Self>> {
        match event.event? {
            Event::Instance(instance) => Some(News::Set(instance.into())),
            Event::InstanceGone(ident) => Some(News::Gone(instance_name(&ident))),
            _ => None,
        }
    }
}

impl Kind for ItemFacts {
    const WATCHED: v1::Kind = v1::Kind::Items;

    fn news(event: WatchEvent) -> Option<News<Self>> {
        match event.event? {
            Event::Item(item) => Some(News::Set(item.into())),
            Event::ItemGone(gone) => Some(News::Gone(item_key(&gone.item_id, &gone.version))),
            _ => None,
        }
    }
}

impl Kind for AlertFacts {
    const WATCHED: v1::Kind = v1::Kind::Alerts;

    fn news(event: WatchEvent) -> Option<News<Self>> {
        match event.event? {
            Event::Alert(alert) => Some(News::Set(alert.into())),
            _ => None,
        }
    }
}

impl Kind for NetworkFacts {
    const WATCHED: v1::Kind = v1::Kind::Networks;

    fn news(event: WatchEvent) -> Option<News<Self>> {
        match event.event? {
            Event::Network(network) => Some(News::Set(network.into())),
            Event::NetworkGone(id) => Some(News::Gone(id)),
            _ => None,
        }
    }
}

/// All pages of a list.
async fn pages<Wire, T: From<Wire>>(
    page: impl AsyncFn(Vec<u8>) -> Result<(Vec<Wire>, Vec<u8>), CallError>,
) -> Result<Vec<T>, UnitCommandError> {
    let mut all = Vec::new();
    let mut token = Vec::new();
    loop {
        let (things, next) = page(token).await?;
        all.extend(things.into_iter().map(T::from));
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}

/// Every node.
pub(super) async fn nodes(unit: &UnitClient) -> Result<Vec<NodeFacts>, UnitCommandError> {
    pages(async |page_token| {
        let request = v1::ListNodesRequest { page_token };
        let page = unit
            .ask("ListNodes", async |mut it| it.list_nodes(request).await)
            .await?;
        Ok((page.nodes, page.next_page_token))
    })
    .await
}

/// Every instance, or those of one node.
pub(super) async fn instances(
    unit: &UnitClient,
    node: Option<&str>,
) -> Result<Vec<InstanceFacts>, UnitCommandError> {
    pages(async |page_token| {
        let request = v1::ListInstancesRequest {
            filter: None,
            node_id: node.unwrap_or_default().to_owned(),
            page_token,
        };
        let page = unit
            .ask("ListInstances", async |mut it| {
                it.list_instances(request).await
            })
            .await?;
        Ok((page.instances, page.next_page_token))
    })
    .await
}

/// Every item.
pub(super) async fn items(unit: &UnitClient) -> Result<Vec<ItemFacts>, UnitCommandError> {
    pages(async |page_token| {
        let request = v1::ListItemsRequest { page_token };
        let page = unit
            .ask("ListItems", async |mut it| it.list_items(request).await)
            .await?;
        Ok((page.items, page.next_page_token))
    })
    .await
}

/// Every network.
pub(super) async fn networks(unit: &UnitClient) -> Result<Vec<NetworkFacts>, UnitCommandError> {
    pages(async |page_token| {
        let request = v1::ListNetworksRequest { page_token };
        let page = unit
            .ask("ListNetworks", async |mut it| {
                it.list_networks(request).await
            })
            .await?;
        Ok((page.networks, page.next_page_token))
    })
    .await
}

/// The newest alerts, the oldest of them first.
pub(super) async fn alerts(
    unit: &UnitClient,
    limit: u64,
    from: Option<Timestamp>,
) -> Result<Vec<AlertFacts>, UnitCommandError> {
    let request = v1::ListAlertsRequest {
        limit,
        from: from.map(to_wire),
    };
    let answer = unit
        .ask("ListAlerts", async |mut client| {
            client.list_alerts(request).await
        })
        .await?;
    Ok(answer.alerts.into_iter().map(AlertFacts::from).collect())
}

pub(super) async fn run(get: Get, console: &mut Console) -> Result<(), CommandError> {
    match get {
        Get::Nodes(get) => get_nodes(&get, console).await,
        Get::Instances(get) => get_instances(&get, console).await,
        Get::Items(get) => get_items(&get, console).await,
        Get::Alerts(get) => get_alerts(&get, console).await,
        Get::Networks(get) => get_networks(&get, console).await,
        Get::Desired(get) => rollback::desired(&connect(&get.connection).await?, console).await,
    }
}

/// Whether a wish, if there is one, is met.
fn fits(wanted: Option<&String>, is: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == is)
}

async fn get_nodes(get: &cli::GetNodes, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&get.connection).await?;
    let wanted = |node: &NodeFacts| {
        fits(get.name.as_ref(), &node.id)
            && fits(get.state.as_ref(), &node.state)
            && get.labels.iter().all(|label| node.labels.contains(label))
    };
    if get.watching.watch {
        return watch::watch(&unit, wanted, console).await;
    }
    let all = nodes(&unit).await?;
    expect(get.name.as_deref(), &all, |node, name| node.id == name)?;
    show(all, wanted, console)
}

async fn get_instances(get: &cli::GetInstances, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&get.connection).await?;
    let wanted = |instance: &InstanceFacts| {
        let name = get.name.as_deref();
        name.is_none_or(|name| means(name, instance))
            && fits(get.state.as_ref(), &instance.state)
            && fits(
                get.node.as_ref(),
                instance.node.as_deref().unwrap_or_default(),
            )
    };
    if get.watching.watch {
        return watch::watch(&unit, wanted, console).await;
    }
    let all = instances(&unit, None).await?;
    expect(get.name.as_deref(), &all, |instance, name| {
        means(name, instance)
    })?;
    show(all, wanted, console)
}

async fn get_items(get: &cli::GetItems, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&get.connection).await?;
    let wanted = |item: &ItemFacts| {
        fits(get.name.as_ref(), &item.id) && fits(get.state.as_ref(), &item.state)
    };
    if get.watching.watch {
        return watch::watch(&unit, wanted, console).await;
    }
    let all = items(&unit).await?;
    expect(get.name.as_deref(), &all, |item, name| item.id == name)?;
    show(all, wanted, console)
}

async fn get_alerts(get: &cli::GetAlerts, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&get.connection).await?;
    let from = get.since.map(|since| since.time(Timestamp::now()));
    let wanted = |alert: &AlertFacts| {
        fits(get.node.as_ref(), alert.node.as_deref().unwrap_or_default())
            && from.is_none_or(|from| alert.at.is_some_and(|at| at >= from))
    };
    if get.watching.watch {
        return watch::watch(&unit, wanted, console).await;
    }
    let all = alerts(&unit, get.limit, from).await?;
    show(all, wanted, console)
}

async fn get_networks(get: &cli::GetNetworks, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&get.connection).await?;
    let wanted = |network: &NetworkFacts| fits(get.name.as_ref(), &network.id);
    if get.watching.watch {
        return watch::watch(&unit, wanted, console).await;
    }
    let all = networks(&unit).await?;
    expect(get.name.as_deref(), &all, |network, name| {
        network.id == name
    })?;
    show(all, wanted, console)
}

/// What was asked for by its name has to be there.
pub(super) fn expect<T: Listed>(
    name: Option<&str>,
    all: &[T],
    is: impl Fn(&T, &str) -> bool,
) -> Result<(), NoSuchError> {
    match name {
        Some(name) if !all.iter().any(|thing| is(thing, name)) => {
            let known: Vec<String> = all.iter().map(Listed::name).collect();
            let known = known.iter().map(String::as_str);
            Err(NoSuchError::unknown(T::KIND, name, known))
        }
        _ => Ok(()),
    }
}

impl From<NoSuchError> for CommandError {
    fn from(error: NoSuchError) -> Self {
        UnitCommandError::from(error).into()
    }
}

fn show<T: Listed>(
    mut all: Vec<T>,
    wanted: impl Fn(&T) -> bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    all.retain(wanted);
    if all.is_empty() {
        console.note(format_args!("There are no such {}s.", T::KIND));
    }
    console.answer(&Listing(all))?;
    Ok(())
}
