//! Queued jobs.

use muster_control::manager::Job;

use super::lists::{ListStyle, json};
use super::table::{Cell, Table};
use crate::cli::Format;

/// Which other jobs are told about each job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// Those that wait for it.
    pub(crate) after: bool,
    /// Those that it waits for.
    pub(crate) before: bool,
}

/// `list-jobs`
pub(crate) fn jobs(all: &[Job], shown: &[&Job], neighbours: Neighbours, how: ListStyle) -> String {
    if how.format != Format::Short {
        return json(&shown, how.format);
    }
    if shown.is_empty() {
        return if how.legend {
            "No jobs running.\n".to_owned()
        } else {
            String::new()
        };
    }
    let mut table = Table::new(&["JOB", "UNIT", "TYPE", "STATE"]);
    for job in shown {
        let colour = if job.state == "running" { "1;32" } else { "" };
        table.push(vec![
            Cell::new(job.id.to_string()),
            Cell::new(&job.unit).coloured(colour),
            Cell::new(&job.kind),
            Cell::new(&job.state).coloured(colour),
        ]);
        let mut tell = |ids: &[u32], what: &str| {
            for id in ids {
                let name = all.iter().find(|other| other.id == *id);
                let name = name.map_or_else(String::new, |other| {
                    format!(" ({}/{})", other.unit, other.kind)
                });
                table.push(vec![
                    Cell::new("\u{2514}\u{2500}"),
                    Cell::new(format!("    {what} job {id}{name}")),
                    Cell::new(""),
                    Cell::new(""),
                ]);
            }
        };
        if neighbours.after {
            tell(&job.before, "blocking");
        }
        if neighbours.before {
            tell(&job.after, "waiting for");
        }
    }
    let mut text = table.render(how.style, how.legend);
    if how.legend {
        text.push_str(&format!("\n{} jobs listed.\n", shown.len()));
    }
    text
}
