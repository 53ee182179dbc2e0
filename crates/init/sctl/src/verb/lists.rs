//! `list-units`, `list-sockets`, `list-timers`, `list-paths`, `list-jobs` and `cancel`.

use muster_control::manager::{
    CancelCall, Empty, Job, ListJobsReply, ListUnitsCall, UnitRow, method,
};
use muster_unit_file::install::glob;
use muster_unit_file::name::UnitType;

use super::{ActionError, VerbError};
use crate::cli::{Format, List, ListJobs, ListUnits};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::names::is_pattern;
use crate::render::{self, ListStyle, Neighbours, Now};

/// What `--type=` and `--state=` mean to `systemctl`: types and load states stand in either.
const LOAD_STATES: &[&str] = &[
    "stub",
    "loaded",
    "not-found",
    "bad-setting",
    "error",
    "merged",
    "masked",
];

fn style(list: &List, console: &Console) -> ListStyle {
    let style = console.style();
    ListStyle {
        format: list.output,
        legend: !list.no_legend && !list.quiet,
        all: list.all,
        plain: list.plain,
        types: list.show_types,
        style: if list.full { style.full() } else { style },
    }
}

fn rows(
    list: &List,
    types: &[String],
    states: Vec<String>,
    manager: &mut Manager,
) -> Result<Vec<UnitRow>, VerbError> {
    let patterns = list.patterns.iter().map(|pattern| {
        if is_pattern(pattern) || pattern.contains('.') {
            pattern.clone()
        } else {
            // Who names a unit without its type means a service, or whatever is listed.
            format!(
                "{pattern}.{}",
                types.first().map_or("service", String::as_str)
            )
        }
    });
    let call = ListUnitsCall {
        patterns: patterns.collect(),
        // A state that is asked for is listed, whether it is an interesting one or not.
        all: list.all || !states.is_empty(),
        states,
        types: types.to_vec(),
    };
    let mut rows = manager
        .list(&call)
        .map_err(|source| ActionError::new("list", "units", source))?;
    rows.sort_by_cached_key(|row| {
        let (stem, suffix) = row.name.rsplit_once('.').unwrap_or((&row.name, ""));
        (suffix.to_owned(), stem.to_ascii_lowercase())
    });
    Ok(rows)
}

pub(super) fn units(
    arguments: &ListUnits,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if arguments.types.iter().any(|word| word == "help") {
        console.line("Available unit types:")?;
        for kind in UnitType::ALL {
            console.line(kind)?;
        }
        return Ok(Exit::Success);
    }
    let mut states = arguments.list.states.clone();
    let (mut types, mut unknown) = (Vec::new(), None);
    for word in &arguments.types {
        if UnitType::from_suffix(word).is_some() {
            types.push(word.clone());
        } else if LOAD_STATES.contains(&word.as_str()) {
            states.push(word.clone());
        } else {
            unknown = Some(word.clone());
        }
    }
    if let Some(text) = unknown {
        return Err(super::list::ListError::UnknownType { text }.into());
    }
    if arguments.failed {
        states.push("failed".to_owned());
    }
    let rows = rows(&arguments.list, &types, states, manager)?;
    let mut how = style(&arguments.list, console);
    how.all |= arguments.failed || !arguments.list.states.is_empty();
    console.print(&render::units(&rows, how))?;
    Ok(Exit::Success)
}

pub(super) fn sockets(
    list: &List,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let rows = rows(list, &["socket".to_owned()], list.states.clone(), manager)?;
    console.print(&render::sockets(&rows, style(list, console)))?;
    Ok(Exit::Success)
}

pub(super) fn timers(
    list: &List,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let rows = rows(list, &["timer".to_owned()], list.states.clone(), manager)?;
    let text = render::timers(&rows, &Now::of_process(), style(list, console));
    console.print(&text)?;
    Ok(Exit::Success)
}

pub(super) fn paths(
    list: &List,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let rows = rows(list, &["path".to_owned()], list.states.clone(), manager)?;
    console.print(&render::paths(&rows, style(list, console)))?;
    Ok(Exit::Success)
}

pub(super) fn jobs(
    arguments: &ListJobs,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let reply: ListJobsReply = manager.ask(method::LIST_JOBS, &Empty {})?;
    let fits = |job: &&Job| {
        let patterns = &arguments.patterns;
        patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, &job.unit))
    };
    let shown: Vec<&Job> = reply.jobs.iter().filter(fits).collect();
    let how = ListStyle {
        format: arguments.output,
        legend: !arguments.no_legend,
        all: true,
        plain: true,
        types: false,
        style: console.style(),
    };
    let neighbours = Neighbours {
        after: arguments.after,
        before: arguments.before,
    };
    console.print(&render::jobs(&reply.jobs, &shown, neighbours, how))?;
    Ok(Exit::Success)
}

pub(super) fn cancel(
    jobs: &[u32],
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if jobs.is_empty() {
        let _: Empty = manager.tell(method::CANCEL, &CancelCall { job: None })?;
        return Ok(Exit::Success);
    }
    let mut exit = Exit::Success;
    for job in jobs {
        let told: Result<Empty, _> = manager.tell(method::CANCEL, &CancelCall { job: Some(*job) });
        if let Err(source) = told {
            let error = ActionError::new("cancel", format!("job {job}"), source);
            exit = console.report(&error.into());
        }
    }
    Ok(exit)
}

/// Values for programs, where a verb has no other use of [`Format`].
pub(super) fn print_json<T: serde::Serialize>(
    value: &T,
    format: Format,
    console: &mut Console,
) -> Result<(), VerbError> {
    Ok(console.print(&render::json(value, format))?)
}
