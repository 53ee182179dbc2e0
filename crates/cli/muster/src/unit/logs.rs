//! `logs`: what instances and nodes wrote.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::common::v2 as common;
use muster_control_api::v1;
use serde::Serialize;

use super::facts::to_wire;
use super::{UnitClient, UnitCommandError, connect, get, naming};
use crate::call::Peer;
use crate::cli::Output;
use crate::cli::unit as cli;
use crate::console::Console;
use crate::error::CommandError;
use crate::text::shown;

/// A line that is longer is printed in pieces.
const LONGEST_LINE: usize = 64 << 10;

/// A line as programs get it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    node: &'a str,
    line: &'a str,
}

pub(super) async fn logs(logs: &cli::Logs, console: &mut Console) -> Result<(), CommandError> {
    let unit = connect(&logs.connection).await?;
    let filter = match &logs.instance {
        Some(name) => Some(instance(&unit, name).await?),
        None => None,
    };
    let now = Timestamp::now();
    let request = v1::ReadLogsRequest {
        filter,
        node_ids: logs.nodes.clone(),
        from: logs.since.map(|since| to_wire(since.time(now))),
        till: logs.until.map(|until| to_wire(until.time(now))),
        crash: logs.crash,
        follow: logs.follow,
    };
    let mut stream = unit
        .ask("ReadLogs", async |mut it| it.read_logs(request).await)
        .await
        .map_err(UnitCommandError::Call)?;
    let failed = |status| UnitCommandError::Call(Peer::Unit.failed("ReadLogs", status));
    let mut printer = Printer::new(logs.nodes.len() > 1);
    while let Some(chunk) = stream.message().await.map_err(failed)? {
        printer.take(chunk, console)?;
        console.flush()?;
    }
    printer.finish(console)?;
    if logs.follow {
        let call = "ReadLogs";
        return Err(UnitCommandError::Call(Peer::Unit.ended(call)).into());
    }
    printer.judge(console)
}

async fn instance(
    unit: &UnitClient,
    name: &str,
) -> Result<common::InstanceFilter, UnitCommandError> {
    let instances = get::instances(unit, None).await?;
    let instance = naming::one(name, &instances)?;
    Ok(common::InstanceFilter {
        item_id: instance.item.clone(),
        subject_id: instance.subject.clone(),
        instance: i64::try_from(instance.instance).unwrap_or(-1),
    })
}

/// Puts chunks together to lines, for each node.
struct Printer {
    /// The beginning of a line of each node that has told something.
    begun: BTreeMap<String, Vec<u8>>,
    /// Each line says where it is from.
    several: bool,
    /// Nodes that could not tell.
    failed: usize,
    printed: bool,
}

impl Printer {
    fn new(several: bool) -> Self {
        Self {
            begun: BTreeMap::new(),
            several,
            failed: 0,
            printed: false,
        }
    }

    fn take(&mut self, chunk: v1::LogChunk, console: &mut Console) -> Result<(), CommandError> {
        let node = chunk.node_id;
        if chunk.status == "error" {
            self.failed += 1;
            let why = chunk.error.map(|error| error.message).unwrap_or_default();
            let why = match why.as_str() {
                "" => "it gives no reason",
                why => why,
            };
            console.note(format_args!("muster: {}: {}", shown(&node), shown(why)));
        }
        if chunk.data.is_empty() {
            // Whoever has nothing to tell does not make lines longer.
            return Ok(());
        }
        let mut begun = self.begun.remove(&node).unwrap_or_default();
        self.several |= !self.begun.is_empty();
        for piece in chunk.data.split_inclusive(|&byte| byte == b'\n') {
            begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || begun.len() >= LONGEST_LINE {
                self.print(&node, &begun, console)?;
                begun.clear();
            }
        }
        self.begun.insert(node, begun);
        Ok(())
    }

    fn print(
        &mut self,
        node: &str,
        line: &[u8],
        console: &mut Console,
    ) -> Result<(), CommandError> {
        self.printed = true;
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        if matches!(console.output(), Output::Json | Output::Yaml) {
            console.line(&Line { node, line: text }, String::new)?;
            return Ok(());
        }
        // A terminal does not obey what a service writes; files and pipes get all of it.
        let text = match console.is_terminal() {
            true => shown(&text.replace('\t', "        ")),
            false => text.to_owned(),
        };
        let from = match self.several {
            true => format!("{}: ", shown(node)),
            false => String::new(),
        };
        console.print(&format!("{from}{text}\n"))?;
        Ok(())
    }

    /// What does not end in a new line is a line too.
    fn finish(&mut self, console: &mut Console) -> Result<(), CommandError> {
        for (node, line) in std::mem::take(&mut self.begun) {
            if !line.is_empty() {
                self.print(&node, &line, console)?;
            }
        }
        Ok(())
    }

    fn judge(&self, console: &mut Console) -> Result<(), CommandError> {
        if self.failed > 0 {
            return Err(UnitCommandError::Logs(self.failed).into());
        }
        if !self.printed {
            console.note("Nothing was logged.");
        }
        Ok(())
    }
}
