//! A unit as settings of a unit file. Pure.

use std::time::Duration;

use crate::spec::{MainProcess, UnitSpec};

/// Settings as `StartTransient` takes them.
pub(super) fn settings(unit: &UnitSpec) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut add = |name: &str, value: String| settings.push((name.to_owned(), value));
    add("Unit.Description", escape_specifiers(&unit.description));
    add("Unit.StartLimitIntervalSec", span(unit.restart.interval));
    add("Unit.StartLimitBurst", unit.restart.burst.to_string());
    match &unit.main {
        MainProcess::Command => add("Service.Type", "exec".to_owned()),
        MainProcess::Notifies => add("Service.Type", "notify".to_owned()),
        MainProcess::Named { pid_file } => {
            add("Service.Type", "forking".to_owned());
            add(
                "Service.PIDFile",
                escape_specifiers(&pid_file.to_string_lossy()),
            );
        }
    }
    add("Service.ExecStart", command_line(&unit.start));
    if !unit.after_end.is_empty() {
        add("Service.ExecStopPost", command_line(&unit.after_end));
    }
    // A service that ends is started again however it ended: whether that is too often, its user counts.
    add("Service.Restart", "always".to_owned());
    add("Service.RestartSec", span(unit.restart.delay));
    add("Service.TimeoutStartSec", span(unit.start_timeout));
    add("Service.TimeoutStopSec", span(unit.stop_timeout));
    // The program is asked, its children are not: they are its business until the time is over.
    add("Service.KillMode", "mixed".to_owned());
    // Below the unit's cgroup there is one writer, and it is not the init system.
    add("Service.Delegate", "yes".to_owned());
    settings
}

/// To the millisecond, as unit files write it. Nothing is written as 0, which would mean "never" for some.
fn span(time: Duration) -> String {
    format!("{}ms", time.as_millis().max(1))
}

fn escape_specifiers(text: &str) -> String {
    let visible = text.replace(|c: char| c.is_control(), " ");
    visible.replace('%', "%%")
}

/// One command line of which every word arrives as it is.
fn command_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() && c.is_ascii() => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Restart, UnitName};

    fn unit() -> UnitSpec {
        UnitSpec {
            name: UnitName::new("a.service").unwrap(),
            description: "100 % sure".into(),
            main: MainProcess::Named {
                pid_file: "/run/a/pid".into(),
            },
            start: vec![
                "/bin/a".into(),
                "two words".into(),
                "$HOME %n \"\\\n".into(),
            ],
            after_end: vec!["/bin/b".into()],
            restart: Restart {
                delay: Duration::ZERO,
                burst: 3,
                interval: Duration::from_secs(5),
            },
            start_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_millis(1500),
        }
    }

    #[test]
    fn everything_said_about_a_unit_is_set() {
        let settings = settings(&unit());
        let settings: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            settings,
            [
                "Unit.Description=100 %% sure",
                "Unit.StartLimitIntervalSec=5000ms",
                "Unit.StartLimitBurst=3",
                "Service.Type=forking",
                "Service.PIDFile=/run/a/pid",
                r#"Service.ExecStart="/bin/a" "two words" "$$HOME %%n \"\\\n""#,
                "Service.ExecStopPost=\"/bin/b\"",
                "Service.Restart=always",
                "Service.RestartSec=1ms",
                "Service.TimeoutStartSec=60000ms",
                "Service.TimeoutStopSec=1500ms",
                "Service.KillMode=mixed",
                "Service.Delegate=yes",
            ]
        );
    }
}
