//! The machine as a whole.

use muster_control::manager::MachineStatus;

use super::process_tree::{Branch, tree};
use super::style::Style;
use super::time::Now;

/// `status` without a unit.
pub(crate) fn overview(
    name: &str,
    machine: &MachineStatus,
    processes: &Branch,
    now: &Now,
    style: Style,
) -> String {
    let colour = match machine.state.as_str() {
        "running" => "1;32",
        "degraded" | "maintenance" => "1;31",
        _ => "1;33",
    };
    let mut text = format!("{} {name}\n", style.paint(colour, "\u{25cf}"));
    let mut field = |label: &str, value: &str| text.push_str(&format!("{label:>9}: {value}\n"));
    field("State", &style.paint(colour, &machine.state));
    field("Units", &format!("{} loaded", machine.units));
    field("Jobs", &format!("{} queued", machine.jobs));
    let failed = if machine.failed > 0 { "1;31" } else { "" };
    field(
        "Failed",
        &style.paint(failed, &format!("{} units", machine.failed)),
    );
    let since = machine.userspace.real;
    if since > 0 {
        field(
            "Since",
            &format!("{}; {}", now.moment(since), now.distance(since)),
        );
    }
    field("Muster", &machine.version);
    if machine.recoveries > 0 {
        let why = if machine.last_recovery.is_empty() {
            String::new()
        } else {
            format!(" (last: {})", machine.last_recovery)
        };
        field(
            "Restarts",
            &format!("{} of the manager{why}", machine.recoveries),
        );
    }
    if machine.safe_mode {
        let value = "safe mode: nothing is started by itself";
        field("Mode", &style.paint("1;31", value));
    }
    let place = match machine.cgroup_root.as_str() {
        "" => "(no control groups)",
        root => root,
    };
    field("CGroup", place);
    for line in tree(processes, "           ", style) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
