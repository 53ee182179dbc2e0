//! `kill`, `freeze`, `thaw`, `clean`, `reset-failed`, `set-property`.

use muster_control::manager::{
    CleanCall, Cleanable, Empty, FreezeCall, KillCall, SetPropertyCall, UnitCall, method,
};
use muster_unit_file::name::UnitType;
use muster_unit_file::value::signal::Signal;
use thiserror::Error;

use super::{ActionError, VerbError};
use crate::cli::{AskUnits, Clean, Kill, ResetFailed, SetProperty};
use crate::console::{Console, Exit};
use crate::manager::{Manager, ManagerError};
use crate::names;

/// Why nothing was asked for.
#[derive(Debug, Error)]
pub(crate) enum ManageError {
    /// `--signal=`
    #[error("Unknown signal '{text}'.")]
    Signal {
        /// What was given.
        text: String,
    },
    /// Not `NAME=VALUE`.
    #[error("'{text}' is not an assignment: write NAME=VALUE.")]
    Assignment {
        /// What was given.
        text: String,
    },
}

/// Does the same to each unit; one that fails does not keep the others from it.
fn each(
    action: &str,
    units: &[String],
    manager: &mut Manager,
    console: &mut Console,
    mut one: impl FnMut(&mut Manager, String) -> Result<Empty, ManagerError>,
) -> Result<Exit, VerbError> {
    let mut exit = Exit::Success;
    for unit in names::expand(units, UnitType::Service, false, manager, console)? {
        if let Err(source) = one(manager, unit.clone()) {
            let error = ActionError::new(action, format!("unit {unit}"), source);
            console.report(&error.into());
            exit = Exit::Failure;
        }
    }
    Ok(exit)
}

/// A signal by name or number.
fn signal(text: &str) -> Result<i32, ManageError> {
    let number = text.parse().ok().and_then(Signal::from_number);
    let named = || Signal::parse(text).ok();
    number
        .or_else(named)
        .map(|signal| i32::from(signal.number()))
        .ok_or_else(|| ManageError::Signal {
            text: text.to_owned(),
        })
}

pub(super) fn kill(
    arguments: &Kill,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if matches!(arguments.signal.as_str(), "help" | "list") {
        for signal in (1..=64).filter_map(Signal::from_number) {
            console.line(format_args!("{:>2} {signal}", signal.number()))?;
        }
        return Ok(Exit::Success);
    }
    let signal = signal(&arguments.signal)?;
    let whom = &arguments.kill_whom;
    each(
        "kill",
        &arguments.units,
        manager,
        console,
        |manager, unit| {
            let call = KillCall {
                unit,
                whom: whom.clone(),
                signal,
            };
            manager.tell(method::KILL, &call)
        },
    )
}

pub(super) fn freeze(
    arguments: &AskUnits,
    frozen: bool,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let action = if frozen { "freeze" } else { "thaw" };
    each(
        action,
        &arguments.units,
        manager,
        console,
        |manager, unit| manager.tell(method::FREEZE, &FreezeCall { unit, frozen }),
    )
}

pub(super) fn clean(
    arguments: &Clean,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    const WORDS: [(&str, Cleanable); 7] = [
        ("configuration", Cleanable::Configuration),
        ("state", Cleanable::State),
        ("cache", Cleanable::Cache),
        ("logs", Cleanable::Logs),
        ("runtime", Cleanable::Runtime),
        ("fdstore", Cleanable::Fdstore),
        ("all", Cleanable::All),
    ];
    if arguments.what.iter().any(|word| word == "help") {
        for (word, _) in WORDS {
            console.line(word)?;
        }
        return Ok(Exit::Success);
    }
    let what: Vec<Cleanable> = WORDS
        .into_iter()
        .filter(|(word, _)| arguments.what.iter().any(|given| given == word))
        .map(|(_, what)| what)
        .collect();
    each(
        "clean",
        &arguments.units,
        manager,
        console,
        |manager, unit| {
            let what = what.clone();
            manager.tell(method::CLEAN, &CleanCall { unit, what })
        },
    )
}

pub(super) fn reset_failed(
    arguments: &ResetFailed,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if arguments.units.is_empty() {
        let _: Empty = manager.ask(method::RESET_FAILED, &UnitCall::default())?;
        return Ok(Exit::Success);
    }
    let action = "reset failed state of";
    each(
        action,
        &arguments.units,
        manager,
        console,
        |manager, unit| {
            // It changes nothing to do it twice.
            manager.ask(method::RESET_FAILED, &UnitCall { unit })
        },
    )
}

pub(super) fn set_property(
    arguments: &SetProperty,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let properties = arguments
        .assignments
        .iter()
        .map(|text| assignment(text))
        .collect::<Result<Vec<_>, ManageError>>()?;
    let unit = names::unit(&arguments.unit, UnitType::Service, false, console)?;
    let unit = unit.as_str().to_owned();
    let call = SetPropertyCall {
        unit: unit.clone(),
        runtime: arguments.runtime,
        properties,
    };
    let _: Empty = manager
        .ask(method::SET_PROPERTY, &call)
        .map_err(|source| ActionError::new("set unit properties on", unit, source))?;
    Ok(Exit::Success)
}

/// `NAME=VALUE`
pub(super) fn assignment(text: &str) -> Result<(String, String), ManageError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ManageError::Assignment {
            text: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in [
            ("9", 9),
            ("SIGKILL", 9),
            ("KILL", 9),
            ("HUP", 1),
            ("34", 34),
        ] {
            assert_eq!(signal(text).ok(), Some(number), "{text}");
        }
        for text in ["", "0", "65", "-9", "SIGNONE"] {
            assert!(signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn assignments_have_names() {
        assert_eq!(
            assignment("A=b=c").ok(),
            Some(("A".to_owned(), "b=c".to_owned()))
        );
        assert!(assignment("=x").is_err());
        assert!(assignment("x").is_err());
    }
}
