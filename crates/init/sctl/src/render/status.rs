//! One unit in full.

use std::collections::BTreeMap;

use muster_control::manager::{CommandRun, Moment, UnitStatus};

use super::process_tree::{Branch, tree};
use super::style::{Style, active_colour, file_state_colour, load_colour, sign};
use super::time::{Now, bytes, span};
use super::words;

/// Labels stand right-aligned in so many columns.
const LABEL: usize = 11;
/// What continues a value stands below it.
const INDENT: &str = "             ";

/// A unit, and what else is told about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnitView<'a> {
    /// The unit.
    pub(crate) status: &'a UnitStatus,
    /// Active states of units that it triggers or that trigger it.
    pub(crate) related: &'a BTreeMap<String, String>,
    /// Lines of its log.
    pub(crate) log: &'a [String],
}

/// The unit as `systemctl status` shows it, with Muster's own lines.
pub(crate) fn unit(view: UnitView<'_>, now: &Now, style: Style) -> String {
    let mut sheet = Sheet {
        text: String::new(),
        now,
        style,
    };
    let status = view.status;
    sheet.head(status);
    sheet.loaded(status);
    sheet.drop_ins(&status.drop_ins);
    sheet.active(status);
    sheet.timer(status);
    sheet.units("TriggeredBy", &status.triggered_by, view.related);
    sheet.units("Triggers", &status.row.triggers, view.related);
    sheet.list("Docs", &status.documentation);
    sheet.condition(status);
    sheet.listens(status);
    sheet.watches(status);
    sheet.processes(status);
    sheet.resources(status);
    sheet.remarks(status);
    sheet.group(status);
    if !view.log.is_empty() {
        sheet.text.push('\n');
        for line in view.log {
            sheet.text.push_str(line);
            sheet.text.push('\n');
        }
    }
    sheet.text
}

struct Sheet<'a> {
    text: String,
    now: &'a Now,
    style: Style,
}

impl Sheet<'_> {
    fn field(&mut self, label: &str, value: &str) {
        self.text.push_str(&format!("{label:>LABEL$}: {value}\n"));
    }

    fn below(&mut self, value: &str) {
        self.text.push_str(&format!("{INDENT}{value}\n"));
    }

    fn list(&mut self, label: &str, values: &[String]) {
        for (n, value) in values.iter().enumerate() {
            if n == 0 {
                self.field(label, value);
            } else {
                self.below(value);
            }
        }
    }

    /// `since Sun 2026-11-15 11:26:55 UTC; 1h ago`, or nothing for never.
    fn since(&self, moment: Moment) -> String {
        if moment.real == 0 {
            return String::new();
        }
        let (when, ago) = (self.now.moment(moment.real), self.now.distance(moment.real));
        format!("{when}; {ago}")
    }

    fn head(&mut self, status: &UnitStatus) {
        let row = &status.row;
        let dot = self
            .style
            .paint(active_colour(&row.active), sign(&row.active));
        let description = if row.description.is_empty() || row.description == row.name {
            String::new()
        } else {
            format!(" - {}", row.description)
        };
        self.text
            .push_str(&format!("{dot} {}{description}\n", row.name));
    }

    fn loaded(&mut self, status: &UnitStatus) {
        let load = self
            .style
            .paint(load_colour(&status.row.load), &status.row.load);
        let mut facts: Vec<String> = Vec::new();
        if !status.fragment.is_empty() {
            facts.push(status.fragment.clone());
        }
        if !status.file_state.is_empty() {
            facts.push(
                self.style
                    .paint(file_state_colour(&status.file_state), &status.file_state),
            );
        }
        // What cannot be enabled, or was not written by a person, has no sensible preset.
        let none = ["alias", "static", "generated", "transient"];
        if !status.preset.is_empty() && !none.contains(&status.file_state.as_str()) {
            let preset = self
                .style
                .paint(file_state_colour(&status.preset), &status.preset);
            facts.push(format!("preset: {preset}"));
        }
        let value = match (facts.is_empty(), status.row.load.as_str()) {
            (true, "not-found") => format!("{load} (Reason: Unit {} not found.)", status.row.name),
            (true, _) => load,
            (false, _) => format!("{load} ({})", facts.join("; ")),
        };
        self.field("Loaded", &value);
        if status.transient {
            self.field("Transient", "yes");
        }
        self.list("Also", &status.aliases);
    }

    /// Files by their folders.
    fn drop_ins(&mut self, files: &[String]) {
        let split = |file: &String| {
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
            (folder.to_owned(), name.to_owned())
        };
        let mut folders: Vec<(String, Vec<String>)> = Vec::new();
        for (folder, name) in files.iter().map(split) {
            match folders.last_mut() {
                Some((last, names)) if *last == folder => names.push(name),
                _ => folders.push((folder, vec![name])),
            }
        }
        for (n, (folder, names)) in folders.iter().enumerate() {
            if n == 0 {
                self.field("Drop-In", folder);
            } else {
                self.below(folder);
            }
            self.below(&format!("\u{2514}\u{2500}{}", names.join(", ")));
        }
    }

    fn active(&mut self, status: &UnitStatus) {
        let row = &status.row;
        let mut state = row.active.clone();
        if !row.sub.is_empty() && row.sub != row.active {
            state.push_str(&format!(" ({})", row.sub));
        }
        let mut value = self.style.paint(active_colour(&row.active), &state);
        if matches!(status.freezer.as_str(), "frozen" | "freezing" | "thawing") {
            value.push_str(&format!(" ({})", status.freezer));
        }
        if !matches!(status.outcome.as_str(), "" | "success") {
            value.push_str(&format!(" (Result: {})", status.outcome));
        }
        let moment = match row.active.as_str() {
            "active" | "reloading" => row.active_enter,
            "inactive" | "failed" => row.inactive_enter,
            "activating" => row.inactive_exit,
            _ => row.active_exit,
        };
        let since = self.since(moment);
        if !since.is_empty() {
            value.push_str(&format!(" since {since}"));
        }
        self.field("Active", &value);
        let (from, to) = (row.active_enter.monotonic, row.active_exit.monotonic);
        if matches!(row.active.as_str(), "inactive" | "failed") && from > 0 && to >= from {
            self.field("Duration", &span(to - from));
        }
        if let Some(job) = row.job {
            self.field("Job", &format!("{job} ({})", row.job_kind));
        }
    }

    fn timer(&mut self, status: &UnitStatus) {
        let Some(timer) = &status.row.timer else {
            return;
        };
        match self.since(timer.next) {
            next if next.is_empty() => self.field("Trigger", "n/a"),
            next => self.field("Trigger", &next),
        }
    }

    fn units(&mut self, label: &str, names: &[String], states: &BTreeMap<String, String>) {
        let values: Vec<String> = names
            .iter()
            .map(|name| {
                let active = states.get(name).map_or("inactive", String::as_str);
                format!(
                    "{} {name}",
                    self.style.paint(active_colour(active), sign(active))
                )
            })
            .collect();
        self.list(label, &values);
    }

    fn condition(&mut self, status: &UnitStatus) {
        let Some(check) = &status.failed_check else {
            return;
        };
        let kind = if check.starts_with("Assert") {
            "assertion"
        } else {
            "condition"
        };
        let at = self.since(status.checked);
        let value = format!("start {kind} failed at {at}");
        self.field("Condition", &self.style.paint("1;33", &value));
        self.below(&format!("\u{2514}\u{2500} {check} was not met"));
    }

    fn listens(&mut self, status: &UnitStatus) {
        let listens: Vec<String> = status
            .row
            .listens
            .iter()
            .map(|listen| format!("{} ({})", listen.address, listen.kind))
            .collect();
        self.list("Listen", &listens);
        if status.accepted > 0 || status.connections > 0 {
            let value = format!("{}; Connected: {};", status.accepted, status.connections);
            self.field("Accepted", &value);
        }
    }

    fn watches(&mut self, status: &UnitStatus) {
        let watches = status.row.paths.iter();
        let watches: Vec<String> = watches
            .map(|watch| format!("{} ({})", watch.path, watch.kind))
            .collect();
        self.list("Watch", &watches);
    }

    fn processes(&mut self, status: &UnitStatus) {
        // A main process that was named runs none of the lines.
        let lines = status.commands.iter().filter(|run| !run.command.is_empty());
        for run in lines.filter(|run| !run.code.is_empty()) {
            let value = format!(
                "{} {}={} ({})",
                run.pid,
                run.phase,
                run.command,
                self.ending(run)
            );
            self.field("Process", &value);
        }
        let main = status
            .commands
            .iter()
            .rev()
            .find(|run| run.phase == "ExecStart" && run.pid > 0);
        let name = |pid: u32| -> String {
            let found = status.processes.iter().find(|process| process.pid == pid);
            found.map_or_else(String::new, |process| {
                format!(" ({})", short(&process.command))
            })
        };
        if status.main_pid > 0 {
            let value = format!("{}{}", status.main_pid, name(status.main_pid));
            self.field("Main PID", &value);
        } else if let Some(run) = main.filter(|run| !run.code.is_empty()) {
            let value = format!("{} ({})", run.pid, self.ending(run));
            self.field("Main PID", &value);
        }
        if status.control_pid > 0 {
            let value = format!("{}{}", status.control_pid, name(status.control_pid));
            self.field("Cntrl PID", &value);
        }
        if !status.status_text.is_empty() {
            let text = self.style.paint("36", &status.status_text);
            self.field("Status", &format!("\"{text}\""));
        }
        if status.status_errno != 0 {
            let cause = std::io::Error::from_raw_os_error(status.status_errno);
            self.field("Error", &format!("{} ({cause})", status.status_errno));
        }
        if status.restarts > 0 {
            self.field("Restarts", &status.restarts.to_string());
        }
    }

    fn ending(&self, run: &CommandRun) -> String {
        let text = words::ending(&run.code, run.status);
        let good = run.code == "exited" && run.status == 0;
        self.style.paint(if good { "" } else { "1;31" }, &text)
    }

    fn resources(&mut self, status: &UnitStatus) {
        if let (Some(received), Some(sent)) = (status.network_in, status.network_out) {
            let value = format!("{} in, {} out", bytes(received), bytes(sent));
            self.field("IP", &value);
        }
        if let (Some(read), Some(written)) = (status.disk_read, status.disk_written) {
            let value = format!("{} read, {} written", bytes(read), bytes(written));
            self.field("IO", &value);
        }
        if let Some(tasks) = status.tasks {
            let limit = status
                .tasks_max
                .map_or_else(String::new, |max| format!(" (limit: {max})"));
            self.field("Tasks", &format!("{tasks}{limit}"));
        }
        if let Some(memory) = status.memory {
            let more = [("max", status.memory_max), ("peak", status.memory_peak)];
            let more: Vec<String> = more
                .iter()
                .filter_map(|(name, amount)| Some(format!("{name}: {}", bytes((*amount)?))))
                .collect();
            let mut value = bytes(memory);
            if !more.is_empty() {
                value.push_str(&format!(" ({})", more.join(" ")));
            }
            self.field("Memory", &value);
        } else if let Some(peak) = status.memory_peak {
            self.field("Mem peak", &bytes(peak));
        }
        if let Some(cpu) = status.cpu {
            self.field("CPU", &span(cpu));
        }
        if status.stored_descriptors > 0 {
            let value = format!(
                "{} (limit: {})",
                status.stored_descriptors, status.stored_descriptors_max
            );
            self.field("FD Store", &value);
        }
        if let Some(health) = &status.health {
            let colour = match health.state.as_str() {
                "healthy" => "1;32",
                "unhealthy" => "1;31",
                _ => "1;33",
            };
            let mut value = self.style.paint(colour, &health.state);
            if health.failures > 0 {
                value.push_str(&format!(
                    " ({} of {} failures)",
                    health.failures, health.retries
                ));
            }
            if health.checked.real > 0 {
                value.push_str(&format!(
                    "; checked {}",
                    self.now.distance(health.checked.real)
                ));
            }
            self.field("Health", &value);
        }
    }

    fn remarks(&mut self, status: &UnitStatus) {
        if !status.setup_failure.is_empty() {
            let value = format!("failed at {}", status.setup_failure);
            self.field("Setup", &self.style.paint("1;31", &value));
        }
        self.list("Dropped", &status.dropped);
        if !status.limits_reached.is_empty() {
            let value = status.limits_reached.join(", ");
            self.field("Reached", &self.style.paint("1;33", &value));
        }
        if !status.not_applied.is_empty() {
            let value = status.not_applied.join(", ");
            self.field("Not applied", &self.style.paint("1;33", &value));
        }
        self.list("Remarks", &status.remarks);
    }

    fn group(&mut self, status: &UnitStatus) {
        if status.cgroup.is_empty() && status.processes.is_empty() {
            return;
        }
        let mut root = Branch::default();
        for process in &status.processes {
            root.add(&process.cgroup, process.pid, &process.command);
        }
        let place = match status.cgroup.trim_start_matches('/') {
            "" => "(no control group)".to_owned(),
            path => format!("/{path}"),
        };
        self.field("CGroup", &place);
        for line in tree(&root, INDENT, self.style) {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }
}

/// The name of a program in a command line.
fn short(command: &str) -> &str {
    let first = command
        .trim_start_matches(['"', '[', '('])
        .split([' ', '"', ']', ')'])
        .next();
    let path = first.unwrap_or_default().trim_end_matches(':');
    path.rsplit('/').next().unwrap_or(path)
}
