//! A unit as properties of systemd's `StartTransientUnit`, and a unit's properties as a look at it. Pure.

use std::collections::HashMap;
use std::time::Duration;

use zbus::zvariant::{OwnedValue, Value};

use crate::spec::{MainProcess, UnitSpec};
use crate::state::Observation;

/// Properties by systemd's names.
pub(super) fn properties(unit: &UnitSpec) -> Vec<(&'static str, Value<'static>)> {
    let mut properties = vec![
        ("Description", text(&unit.description)),
        ("StartLimitIntervalUSec", span(unit.restart.interval)),
        ("StartLimitBurst", Value::new(unit.restart.burst)),
    ];
    match &unit.main {
        MainProcess::Command => properties.push(("Type", text("exec"))),
        MainProcess::Notifies => properties.push(("Type", text("notify"))),
        MainProcess::Named { pid_file } => {
            properties.push(("Type", text("forking")));
            properties.push(("PIDFile", text(&pid_file.to_string_lossy())));
        }
    }
    properties.push(("ExecStart", command(&unit.start)));
    if !unit.after_end.is_empty() {
        properties.push(("ExecStopPost", command(&unit.after_end)));
    }
    properties.extend([
        ("Restart", text("always")),
        ("RestartUSec", span(unit.restart.delay)),
        ("TimeoutStartUSec", span(unit.start_timeout)),
        ("TimeoutStopUSec", span(unit.stop_timeout)),
        ("KillMode", text("mixed")),
        ("Delegate", Value::new(true)),
    ]);
    properties
}

fn text(text: &str) -> Value<'static> {
    Value::new(text.to_owned())
}

/// In microseconds; never 0, which would mean "for ever" for some.
fn span(time: Duration) -> Value<'static> {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1);
    Value::new(micros.max(1))
}

/// One command; its failure counts. Words arrive as they are: systemd expands only `$`.
fn command(words: &[String]) -> Value<'static> {
    let program = words.first().cloned().unwrap_or_default();
    let words: Vec<String> = words.iter().map(|word| word.replace('$', "$$")).collect();
    Value::new(vec![(program, words, false)])
}

/// What systemd says about a unit; `None` for one that it does not have.
pub(super) fn observation(
    unit: &HashMap<String, OwnedValue>,
    service: &HashMap<String, OwnedValue>,
) -> Option<Observation> {
    let word = |of: &HashMap<String, OwnedValue>, name: &str| -> String {
        let value = of.get(name).and_then(|value| <&str>::try_from(value).ok());
        value.unwrap_or_default().to_owned()
    };
    let number = |name: &str| -> i32 {
        let value = service
            .get(name)
            .and_then(|value| i32::try_from(value).ok());
        value.unwrap_or_default()
    };
    let count = |name: &str| -> u32 {
        let value = service
            .get(name)
            .and_then(|value| u32::try_from(value).ok());
        value.unwrap_or_default()
    };
    (word(unit, "LoadState") == "loaded").then(|| Observation {
        active: word(unit, "ActiveState"),
        sub: word(unit, "SubState"),
        result: word(service, "Result"),
        main_code: number("ExecMainCode"),
        main_status: number("ExecMainStatus"),
        restarts: count("NRestarts"),
        main_pid: count("MainPID"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Restart, UnitName};

    #[test]
    fn everything_said_about_a_unit_is_set() {
        let unit = UnitSpec {
            name: UnitName::new("a.service").unwrap(),
            description: "A".into(),
            main: MainProcess::Command,
            start: vec!["/bin/a".into(), "$HOME".into()],
            after_end: vec!["/bin/b".into()],
            restart: Restart {
                delay: Duration::ZERO,
                burst: 3,
                interval: Duration::from_secs(5),
            },
            start_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(1),
        };
        let set: Vec<String> = properties(&unit)
            .into_iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        assert_eq!(
            set,
            [
                "Description \"A\"",
                "StartLimitIntervalUSec uint64 5000000",
                "StartLimitBurst uint32 3",
                "Type \"exec\"",
                "ExecStart [(\"/bin/a\", [\"/bin/a\", \"$$HOME\"], false)]",
                "ExecStopPost [(\"/bin/b\", [\"/bin/b\"], false)]",
                "Restart \"always\"",
                "RestartUSec uint64 1",
                "TimeoutStartUSec uint64 60000000",
                "TimeoutStopUSec uint64 1000000",
                "KillMode \"mixed\"",
                "Delegate true",
            ]
        );
    }

    #[test]
    fn a_unit_that_is_not_there_is_none() {
        assert_eq!(observation(&HashMap::new(), &HashMap::new()), None);
    }
}
