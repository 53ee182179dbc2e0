//! Command lines.

use muster_unit_file::value::command::{Command, CommandFlags};

use super::Subject;
use super::sheet::Sheet;
use crate::runtime::Run;

/// Adds the commands of a property, one line each.
pub(super) fn add<'c>(
    subject: &Subject<'_>,
    sheet: &mut Sheet<'_>,
    name: &'static str,
    commands: impl Iterator<Item = &'c Command>,
) {
    let rows: Vec<String> = commands
        .enumerate()
        .map(|(n, command)| {
            let ignore = command.flags.contains(CommandFlags::IGNORE_FAILURE);
            let how = format!("ignore_errors={}", if ignore { "yes" } else { "no" });
            line(sheet, command, &how, run(subject, name, n))
        })
        .collect();
    sheet.rows(name, rows);
}

/// Adds the commands of a property with all their flags.
pub(super) fn add_with_flags<'c>(
    subject: &Subject<'_>,
    sheet: &mut Sheet<'_>,
    (name, plain): (&'static str, &'static str),
    commands: impl Iterator<Item = &'c Command>,
) {
    let rows: Vec<String> = commands
        .enumerate()
        .map(|(n, command)| {
            let flags: Vec<&str> = command.flags.names().collect();
            let how = format!("flags={}", flags.join(" "));
            line(sheet, command, &how, run(subject, plain, n))
        })
        .collect();
    sheet.rows(name, rows);
}

fn run(subject: &Subject<'_>, name: &str, at: usize) -> Run {
    let runs = subject.runtime.processes.commands.iter();
    runs.filter(|(property, place, _)| *property == name && *place == at)
        .map(|(_, _, run)| *run)
        .next_back()
        .unwrap_or_default()
}

fn line(sheet: &Sheet<'_>, command: &Command, how: &str, run: Run) -> String {
    let argv: Vec<&str> = command.argv.iter().collect();
    let time = |micros| {
        sheet
            .format_moment(micros)
            .unwrap_or_else(|| "n/a".to_owned())
    };
    let killed = || format!("{}/{}", run.status, signal_name(run.status));
    let (code, status) = match run.code {
        1 => ("exited", run.status.to_string()),
        2 => ("killed", killed()),
        3 => ("dumped", killed()),
        _ => ("(null)", "0/0".to_owned()),
    };
    format!(
        "{{ path={} ; argv[]={} ; {how} ; start_time=[{}] ; stop_time=[{}] ; pid={} ; code={code} ; status={status} }}",
        command.path,
        argv.join(" "),
        time(run.start.real),
        time(run.exit.real),
        run.pid,
    )
}

fn signal_name(number: i32) -> String {
    let signal = u8::try_from(number)
        .ok()
        .and_then(muster_unit_file::value::signal::Signal::from_number);
    let name = signal.map(|signal| signal.to_string()).unwrap_or_default();
    name.trim_start_matches("SIG").to_owned()
}
