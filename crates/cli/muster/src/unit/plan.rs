//! What a wish changes, and where instances will run.

use muster_control_api::v1;
use serde::Serialize;

use super::facts::instance_name;
use crate::cli::Output;
use crate::console::{Answer, Console, Table, Tone};
use crate::error::CommandError;
use crate::text::shown;

/// A plan, as programs get it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    /// `null` if nothing was begun.
    pub(super) update: Option<u64>,
    changes: Vec<Change>,
    placements: Vec<Placement>,
    /// Beyond those listed.
    more_placements: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    action: String,
    kind: String,
    name: String,
    before: Option<String>,
    after: Option<String>,
}

/// Where an instance will be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Placement {
    instance: String,
    node: Option<String>,
    runtime_type: Option<String>,
    /// Why it has no place.
    reason: Option<String>,
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl From<v1::Placement> for Placement {
    fn from(placement: v1::Placement) -> Self {
        Self {
            instance: instance_name(&placement.instance.unwrap_or_default()),
            node: given(placement.node_id),
            runtime_type: given(placement.runtime_type),
            reason: given(placement.reason),
        }
    }
}

impl From<v1::ApplyResponse> for Plan {
    fn from(answer: v1::ApplyResponse) -> Self {
        let change = |it: v1::Change| Change {
            action: it.action,
            kind: it.kind,
            name: it.name,
            before: given(it.before),
            after: given(it.after),
        };
        Self {
            update: Some(answer.update_id).filter(|&id| id != 0),
            changes: answer.changes.into_iter().map(change).collect(),
            placements: answer.placements.into_iter().map(Placement::from).collect(),
            more_placements: answer.more_placements,
        }
    }
}

/// Where instances will be, as a list of its own.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Placements(pub(super) Vec<Placement>);

impl Placement {
    const COLUMNS: &'static [&'static str] = &["INSTANCE", "NODE", "RUNTIME", "WHY NOT"];

    fn row(&self) -> Vec<String> {
        vec![
            shown(&self.instance),
            shown(self.node.as_deref().unwrap_or("-")),
            shown(self.runtime_type.as_deref().unwrap_or("-")),
            shown(self.reason.as_deref().unwrap_or_default()),
        ]
    }
}

impl Answer for Placements {
    fn table(&self) -> Table {
        Table::list(
            Placement::COLUMNS,
            self.0.iter().map(Placement::row).collect(),
        )
    }
}

impl Change {
    fn tone(&self) -> (char, Tone) {
        match self.action.as_str() {
            "add" => ('+', Tone::Good),
            "remove" => ('-', Tone::Bad),
            _ => ('~', Tone::Unsettled),
        }
    }

    /// One line, as in other tools: `+` comes, `-` goes, `~` changes.
    fn line(&self) -> String {
        let (sign, _) = self.tone();
        let name = match self.name.as_str() {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let how = match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!(": {before} -> {after}"),
            (Some(one), None) | (None, Some(one)) => format!(": {one}"),
            (None, None) => String::new(),
        };
        shown(&format!("{sign} {}{name}{how}", self.kind))
    }
}

impl Plan {
    /// The changes, one on each line, and where instances will be.
    pub(super) fn print(&self, dry_run: bool, console: &mut Console) -> Result<(), CommandError> {
        match console.output() {
            Output::Json | Output::Yaml => {
                console.answer(self)?;
                return Ok(());
            }
            Output::Name => {
                for change in &self.changes {
                    console.print(&format!(
                        "{}/{}\n",
                        shown(&change.kind),
                        shown(&change.name)
                    ))?;
                }
                return Ok(());
            }
            Output::Table | Output::Wide => {}
        }
        for change in &self.changes {
            let (_, tone) = change.tone();
            let line = console.paint().tone(tone, &change.line());
            console.print(&format!("{line}\n"))?;
        }
        if self.changes.is_empty() {
            console.print("Nothing changes.\n")?;
        }
        if dry_run && !self.placements.is_empty() {
            console.print("\n")?;
            let table = self.table();
            console.print(&table.render(console.paint()))?;
            if self.more_placements > 0 {
                console.print(&format!("and {} more\n", self.more_placements))?;
            }
        }
        if dry_run && !self.changes.is_empty() {
            let of = |action: &str| self.changes.iter().filter(|it| it.action == action).count();
            let line = format!(
                "\n{} to add, {} to change, {} to remove; nothing was changed.\n",
                of("add"),
                of("change"),
                of("remove")
            );
            console.print(&line)?;
        }
        Ok(())
    }
}

impl Answer for Plan {
    fn table(&self) -> Table {
        let rows = self.placements.iter().map(Placement::row);
        Table::list(Placement::COLUMNS, rows.collect())
    }
}
