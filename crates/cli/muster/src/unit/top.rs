//! `top`: what nodes and instances use, as they use it.

mod load;
mod screen;

use std::io;
use std::time::Duration;

use muster_control_api::v1;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tonic::Streaming;

use self::load::{Load, Order};
use super::facts::{InstanceFacts, NodeFacts};
use super::{UnitCommandError, connect, get};
use crate::call::Peer;
use crate::cli::Output;
use crate::cli::unit as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::size;

/// How often the thread that reads keys looks whether anybody still wants them.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn top(top: &cli::Top, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&top.connection).await?;
    let for_people = matches!(console.output(), Output::Table | Output::Wide);
    if top.once || !for_people || !console.is_terminal() {
        let mut nodes = get::nodes(&unit).await?;
        let mut instances = get::instances(&unit, None).await?;
        nodes.sort_by_key(|it| std::cmp::Reverse(it.usage.as_ref().map(|usage| usage.cpu)));
        instances.sort_by_key(|it| std::cmp::Reverse(it.usage.as_ref().map(|usage| usage.cpu)));
        return once(Snapshot { nodes, instances }, console);
    }
    let request = v1::FollowUsageRequest {};
    let stream = unit
        .ask("FollowUsage", async |mut it| it.follow_usage(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    live(stream, console).await?;
    Ok(())
}

/// As programs get it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    nodes: Vec<NodeFacts>,
    instances: Vec<InstanceFacts>,
}

impl Answer for Snapshot {
    fn table(&self) -> Table {
        let row = |it: &NodeFacts| {
            let usage = it.usage.as_ref();
            cells(&it.id, "-", usage.map(|it| (it.cpu, it.ram)))
        };
        let of_instance = |it: &InstanceFacts| {
            let usage = it.usage.as_ref();
            let node = it.node.as_deref().unwrap_or("-");
            cells(&it.name, node, usage.map(|it| (it.cpu, it.ram)))
        };
        let rows = self.nodes.iter().map(row);
        let rows = rows.chain(self.instances.iter().map(of_instance));
        Table::list(&["NAME", "NODE", "CPU", "RAM"], rows.collect())
    }
}

fn cells(name: &str, node: &str, usage: Option<(u64, u64)>) -> Vec<String> {
    let (cpu, ram) = usage.map_or(("-".to_owned(), "-".to_owned()), |(cpu, ram)| {
        (cpu.to_string(), size(ram))
    });
    let shown = crate::text::shown;
    vec![shown(name), shown(node), cpu, ram]
}

fn once(snapshot: Snapshot, console: &mut Console) -> Result<(), CommandError> {
    console.answer(&snapshot)?;
    Ok(())
}

/// What the user wants.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Leave,
    Order(Order),
    Scroll(isize),
    Nothing,
}

fn wish_of(key: KeyEvent) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Nothing;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if control => Wish::Leave,
        KeyCode::Char('q') | KeyCode::Esc => Wish::Leave,
        KeyCode::Char('c') => Wish::Order(Order::Cpu),
        KeyCode::Char('m' | 'r') => Wish::Order(Order::Ram),
        KeyCode::Char('n') => Wish::Order(Order::Name),
        KeyCode::Down | KeyCode::Char('j') => Wish::Scroll(1),
        KeyCode::Up | KeyCode::Char('k') => Wish::Scroll(-1),
        KeyCode::PageDown => Wish::Scroll(10),
        KeyCode::PageUp => Wish::Scroll(-10),
        _ => Wish::Nothing,
    }
}

/// Keys and changes of the size, from a thread of their own, which ends soon after nobody listens any more.
fn keys() -> mpsc::Receiver<io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let next = match event::poll(LOOK) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let failed = next.is_err();
            if sender.blocking_send(next).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Gives the terminal back, whatever happens.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn live(
    mut stream: Streaming<v1::UsageSnapshot>,
    console: &Console,
) -> Result<(), UnitCommandError> {
    let mut ended = signal(SignalKind::terminate()).map_err(UnitCommandError::Signals)?;
    let mut terminal = ratatui::try_init().map_err(UnitCommandError::Terminal)?;
    let _restored = Restored;
    let mut keys = keys();
    let mut load = Load::default();
    loop {
        let paint = console.paint();
        terminal
            .draw(|frame| screen::draw(frame, &mut load, paint))
            .map_err(UnitCommandError::Terminal)?;
        tokio::select! {
            message = stream.message() => match message {
                Ok(Some(snapshot)) => load.take(snapshot),
                Ok(None) => return Err(Peer::Unit.ended("FollowUsage").into()),
                Err(status) => return Err(Peer::Unit.failed("FollowUsage", status).into()),
            },
            key = keys.recv() => match key {
                Some(Ok(Event::Key(key))) => match wish_of(key) {
                    Wish::Leave => return Ok(()),
                    Wish::Order(order) => load.sort_by(order),
                    Wish::Scroll(lines) => load.scroll(lines),
                    Wish::Nothing => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(UnitCommandError::Terminal(error)),
                None => return Ok(()),
            },
            _ = ended.recv() => return Ok(()),
        }
    }
}
