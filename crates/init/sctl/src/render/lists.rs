//! Units, sockets, timers and paths in rows.

use muster_control::manager::UnitRow;
use serde::Serialize;

use super::style::{Style, load_colour};
use super::table::{Cell, Table};
use super::time::Now;
use crate::cli::Format;

/// How a list looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListStyle {
    /// For people, or for programs.
    pub(crate) format: Format,
    /// With a head line and a count.
    pub(crate) legend: bool,
    /// Also what is down was asked for.
    pub(crate) all: bool,
    /// Without dots.
    pub(crate) plain: bool,
    /// With the kinds of addresses.
    pub(crate) types: bool,
    /// Colours and width.
    pub(crate) style: Style,
}

/// Values for programs.
pub(crate) fn json<T: Serialize>(values: &T, format: Format) -> String {
    let text = if format == Format::JsonPretty {
        serde_json::to_string_pretty(values)
    } else {
        serde_json::to_string(values)
    };
    let mut text = text.expect("rows of texts and numbers have a JSON form");
    text.push('\n');
    text
}

/// `list-units`
pub(crate) fn units(rows: &[UnitRow], how: ListStyle) -> String {
    if how.format != Format::Short {
        return json_units(rows, how.format);
    }
    let with_jobs = rows.iter().any(|row| row.job.is_some());
    let mut head = vec!["UNIT", "LOAD", "ACTIVE", "SUB"];
    if with_jobs {
        head.push("JOB");
    }
    head.push("DESCRIPTION");
    if !how.plain {
        head.insert(0, " ");
    }
    let mut table = Table::new(&head);
    for row in rows {
        let bad_load = !matches!(row.load.as_str(), "loaded" | "stub");
        let marked = row.active == "failed" || bad_load;
        let colour = if marked { "1;31" } else { "" };
        let mut cells = Vec::new();
        if !how.plain {
            let dot = if marked { "\u{25cf}" } else { " " };
            cells.push(Cell::raw(dot).coloured(colour));
        }
        cells.push(Cell::new(&row.name).coloured(colour));
        cells.push(Cell::new(&row.load).coloured(load_colour(&row.load)));
        let state = if row.active == "failed" { colour } else { "" };
        cells.push(Cell::new(&row.active).coloured(state));
        cells.push(Cell::new(&row.sub).coloured(state));
        if with_jobs {
            cells.push(Cell::raw(&row.job_kind));
        }
        cells.push(Cell::raw(if row.description.is_empty() {
            &row.name
        } else {
            &row.description
        }));
        table.push(cells);
    }
    let mut text = table.render(how.style, how.legend);
    if how.legend {
        text.push_str(&unit_legend(rows.len(), with_jobs, how.all));
    }
    text
}

fn unit_legend(count: usize, with_jobs: bool, all: bool) -> String {
    let mut text = String::new();
    if count > 0 {
        text.push_str("\nLOAD   = whether the unit's files could be read.\n");
        text.push_str("ACTIVE = whether the unit is up, in words that all types share.\n");
        text.push_str("SUB    = the same in the words of its type.\n");
        if with_jobs {
            text.push_str("JOB    = the job that is queued for it.\n");
        }
        text.push('\n');
    }
    let rest = if all {
        ""
    } else {
        " Pass --all to see loaded but inactive units, too."
    };
    text.push_str(&format!("{count} loaded units listed.{rest}\n"));
    text.push_str("To show all installed unit files use 'sctl list-unit-files'.\n");
    text
}

fn json_units(rows: &[UnitRow], format: Format) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        unit: &'a str,
        load: &'a str,
        active: &'a str,
        sub: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<u32>,
        #[serde(skip_serializing_if = "str::is_empty")]
        job_type: &'a str,
        description: &'a str,
    }
    let rows: Vec<Row<'_>> = rows
        .iter()
        .map(|row| Row {
            unit: &row.name,
            load: &row.load,
            active: &row.active,
            sub: &row.sub,
            job: row.job,
            job_type: &row.job_kind,
            description: &row.description,
        })
        .collect();
    json(&rows, format)
}

/// `list-timers`: the next one first, those that never fire last.
pub(crate) fn timers(rows: &[UnitRow], now: &Now, how: ListStyle) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        next: u64,
        left: u64,
        last: u64,
        passed: u64,
        unit: &'a str,
        activates: String,
    }
    let mut list: Vec<Row<'_>> = rows
        .iter()
        .filter_map(|row| {
            let timer = row.timer.as_ref()?;
            Some(Row {
                next: timer.next.real,
                left: timer.next.real.saturating_sub(now.real),
                last: timer.last.real,
                passed: if timer.last.real == 0 {
                    0
                } else {
                    now.real.saturating_sub(timer.last.real)
                },
                unit: &row.name,
                activates: row.triggers.join(", "),
            })
        })
        .collect();
    list.sort_by_key(|row| (row.next == 0, row.next, row.unit));
    if how.format != Format::Short {
        return json(&list, how.format);
    }
    let mut table = Table::new(&["NEXT", "LEFT", "LAST", "PASSED", "UNIT", "ACTIVATES"]);
    for row in &list {
        let distance = |moment: u64| match moment {
            0 => String::new(),
            moment => now.distance(moment),
        };
        table.push(vec![
            Cell::new(now.moment(row.next)),
            Cell::new(distance(row.next)),
            Cell::new(now.moment(row.last)),
            Cell::new(distance(row.last)),
            Cell::new(row.unit),
            Cell::new(&row.activates),
        ]);
    }
    finish(&table, list.len(), "timers", how)
}

/// `list-sockets`: one row per address.
pub(crate) fn sockets(rows: &[UnitRow], how: ListStyle) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        listen: &'a str,
        #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
        kind: Option<&'a str>,
        unit: &'a str,
        activates: String,
    }
    let mut list: Vec<Row<'_>> = rows
        .iter()
        .flat_map(|row| {
            row.listens.iter().map(move |listen| Row {
                listen: &listen.address,
                kind: how.types.then_some(listen.kind.as_str()),
                unit: &row.name,
                activates: row.triggers.join(", "),
            })
        })
        .collect();
    list.sort_by_key(|row| (row.listen, row.unit));
    if how.format != Format::Short {
        return json(&list, how.format);
    }
    let mut head = vec!["LISTEN", "UNIT", "ACTIVATES"];
    if how.types {
        head.insert(1, "TYPE");
    }
    let mut table = Table::new(&head);
    for row in &list {
        let mut cells = vec![
            Cell::new(row.listen),
            Cell::new(row.unit),
            Cell::new(&row.activates),
        ];
        if let Some(kind) = row.kind {
            cells.insert(1, Cell::new(kind));
        }
        table.push(cells);
    }
    finish(&table, list.len(), "sockets", how)
}

/// `list-paths`: one row per watched path.
pub(crate) fn paths(rows: &[UnitRow], how: ListStyle) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        path: &'a str,
        condition: &'a str,
        unit: &'a str,
        activates: String,
    }
    let mut list: Vec<Row<'_>> = rows
        .iter()
        .flat_map(|row| {
            row.paths.iter().map(move |watch| Row {
                path: &watch.path,
                condition: &watch.kind,
                unit: &row.name,
                activates: row.triggers.join(", "),
            })
        })
        .collect();
    list.sort_by_key(|row| (row.path, row.unit));
    if how.format != Format::Short {
        return json(&list, how.format);
    }
    let mut table = Table::new(&["PATH", "CONDITION", "UNIT", "ACTIVATES"]);
    for row in &list {
        table.push(vec![
            Cell::new(row.path),
            Cell::new(row.condition),
            Cell::new(row.unit),
            Cell::new(&row.activates),
        ]);
    }
    finish(&table, list.len(), "paths", how)
}

fn finish(table: &Table, count: usize, what: &str, how: ListStyle) -> String {
    let mut text = table.render(how.style, how.legend);
    if how.legend {
        text.push_str(&format!("\n{count} {what} listed.\n"));
        if !how.all {
            text.push_str(&format!(
                "Pass --all to see loaded but inactive {what}, too.\n"
            ));
        }
    }
    text
}
