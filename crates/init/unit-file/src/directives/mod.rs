//! The table of directives: which section has which, of what type, and what Muster does with it.
//!
//! One row per directive says its name, the type of its value, the field of
//! [`UnitConfig`] it lands in and its [`Status`]. Everything else is generic: [`apply`] looks an entry
//! up, lets the value read itself, and turns whatever went wrong into a diagnostic.

mod exec;
mod kinds;
mod resources;
mod service;
mod socket;
#[cfg(test)]
mod tests;
mod unit;
mod verify;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub use resources::PROGRAM_TYPES;
pub use verify::verify;

use crate::config::UnitConfig;
use crate::diagnostic::{Diagnostic, Diagnostics, Problem, Severity};
use crate::name::UnitType;
use crate::syntax::Entry;
use crate::value::{AssignError, Setting, ValueContext, ValueError};

/// What Muster does with a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has an effect.
    Applied,
    /// It is read and checked, and has no effect yet.
    NotApplied(&'static str),
    /// What it asks for cannot be done, and must not be done without: commands of a unit that has it fail.
    Refused(&'static str),
    /// An older name; the newer one is given.
    Renamed(&'static str),
    /// systemd itself ignores it, or will soon.
    Obsolete(&'static str),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// The name before `=`.
    pub name: &'static str,
    /// The type of the value.
    pub kind: &'static str,
    /// The field it lands in.
    pub lands_in: &'static str,
    /// What Muster does with it.
    pub status: Status,
    assign: Assign,
}

type Assign = fn(&mut UnitConfig, &str, &mut ValueContext<'_>) -> Result<(), AssignError>;

/// Settings for parts of systemd that Muster has nothing like.
const EXECUTION: Status = Status::NotApplied("execution environment");
/// What is signed or hashed is worth nothing if nobody checks it.
const VERITY: Status = Status::Refused("images are not verified");
/// What is encrypted is of no use to anybody.
const ENCRYPTED: Status = Status::Refused("credentials are not decrypted");

/// The type of a field, for the table.
const fn kind_of<T: Setting>(_: fn(&mut UnitConfig) -> &mut T) -> &'static str {
    T::KIND
}

/// A row whose value lands in a field of [`UnitConfig`] that reads itself.
macro_rules! field {
    ($name:literal, $($path:ident).+, $status:expr) => {
        $crate::directives::Directive {
            name: $name,
            kind: $crate::directives::kind_of(|unit: &mut $crate::config::UnitConfig| &mut unit.$($path).+),
            lands_in: stringify!($($path).+),
            status: $status,
            assign: |unit, text, context| $crate::value::Setting::assign(&mut unit.$($path).+, text, context),
        }
    };
}
use field;

/// A row whose value lands in a field of one unit type.
macro_rules! typed_field {
    ($type:ident, $config:ty, $name:literal, $($path:ident).+, $status:expr) => {
        $crate::directives::Directive {
            name: $name,
            kind: {
                const fn kind_of<T: $crate::value::Setting>(_: fn(&mut $config) -> &mut T) -> &'static str {
                    T::KIND
                }
                kind_of(|config: &mut $config| &mut config.$($path).+)
            },
            lands_in: concat!(stringify!($type), " ", stringify!($($path).+)),
            status: $status,
            assign: |unit, text, context| match &mut unit.kind {
                $crate::config::UnitKind::$type(config) => {
                    $crate::value::Setting::assign(&mut config.$($path).+, text, context)
                }
                _ => Err($crate::directives::wrong_type($name)),
            },
        }
    };
}
use typed_field;

/// A row with a function of its own.
macro_rules! custom {
    ($name:literal, $kind:literal, $lands_in:literal, $status:expr, $assign:expr) => {
        $crate::directives::Directive {
            name: $name,
            kind: $kind,
            lands_in: $lands_in,
            status: $status,
            assign: $assign,
        }
    };
}
use custom;

/// The section of a type holds rows of that type only, so this is never seen from files.
fn wrong_type(name: &'static str) -> AssignError {
    AssignError::Ignored(ValueError::invalid(name, "a directive of this unit type"))
}

type Tables = &'static [(&'static str, &'static [&'static [Directive]])];

/// Every section with its rows.
const SECTIONS: Tables = &[
    ("Unit", &[unit::UNIT, unit::CONDITIONS]),
    ("Install", &[unit::INSTALL]),
    (
        "Service",
        &[
            service::SERVICE,
            exec::EXEC,
            exec::SANDBOX,
            resources::RESOURCES,
            resources::KILL,
        ],
    ),
    (
        "Socket",
        &[
            socket::SOCKET,
            exec::EXEC,
            exec::SANDBOX,
            resources::RESOURCES,
            resources::KILL,
        ],
    ),
    (
        "Mount",
        &[
            kinds::MOUNT,
            exec::EXEC,
            exec::SANDBOX,
            resources::RESOURCES,
            resources::KILL,
        ],
    ),
    (
        "Swap",
        &[
            kinds::SWAP,
            exec::EXEC,
            exec::SANDBOX,
            resources::RESOURCES,
            resources::KILL,
        ],
    ),
    ("Automount", &[kinds::AUTOMOUNT]),
    ("Timer", &[kinds::TIMER]),
    ("Path", &[kinds::PATH]),
    ("Slice", &[resources::RESOURCES]),
    (
        "Scope",
        &[kinds::SCOPE, resources::RESOURCES, resources::KILL],
    ),
    ("Target", &[]),
    ("Device", &[]),
];

/// Every row with its section.
pub fn table() -> impl Iterator<Item = (&'static str, &'static Directive)> {
    SECTIONS.iter().flat_map(|(section, groups)| {
        groups
            .iter()
            .flat_map(|rows| rows.iter())
            .map(move |row| (*section, row))
    })
}

static INDEX: LazyLock<HashMap<&'static str, HashMap<&'static str, &'static Directive>>> =
    LazyLock::new(|| {
        let mut index: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (section, row) in table() {
            // The first row wins, so a type's own rows stand before the shared ones.
            index
                .entry(section)
                .or_default()
                .entry(row.name)
                .or_insert(row);
        }
        index
    });

/// The row of a directive.
#[must_use]
pub fn lookup(section: &str, name: &str) -> Option<&'static Directive> {
    INDEX.get(section)?.get(name).copied()
}

/// Whether units of a type have a section.
#[must_use]
pub fn has_section(kind: UnitType, section: &str) -> bool {
    // Targets and devices have no section of their own.
    let own = !matches!(kind, UnitType::Target | UnitType::Device) && section == kind.section();
    own || matches!(section, "Unit" | "Install")
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was used, or ignored with a diagnostic.
    Done,
    /// The unit must not be used.
    Fatal,
}

/// Carries an assignment out on a unit, reporting what is wrong with it.
pub fn apply(
    unit: &mut UnitConfig,
    entry: &Entry<'_>,
    file: &Arc<str>,
    context: &mut ValueContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Applied {
    let report = |diagnostics: &mut Diagnostics,
                  severity,
                  problem,
                  message: String,
                  hint: Option<String>| {
        diagnostics.push(Diagnostic {
            severity,
            problem,
            file: file.clone(),
            line: entry.line,
            message: message.into(),
            hint: hint.map(Into::into),
        });
    };
    let (section, key) = (&*entry.section, &*entry.key);
    let Some(row) = lookup(section, key) else {
        if !key.starts_with("X-") {
            let hint = if diagnostics.is_full() {
                None
            } else {
                hint_for(section, key)
            };
            let shown = crate::syntax::truncate(key);
            let message = format!("unknown directive {shown}= in section [{section}], ignored");
            report(
                diagnostics,
                Severity::Warning,
                Problem::UnknownDirective,
                message,
                hint,
            );
        }
        return Applied::Done;
    };
    match row.status {
        Status::Applied => {}
        Status::NotApplied(reason) => {
            let message = format!("{key}= is accepted, but has no effect yet: {reason}");
            report(
                diagnostics,
                Severity::Note,
                Problem::NotApplied,
                message,
                None,
            );
        }
        Status::Refused(reason) => {
            let message = format!("{key}= cannot be carried out, commands fail with it: {reason}");
            report(
                diagnostics,
                Severity::Warning,
                Problem::NotApplied,
                message,
                None,
            );
        }
        Status::Renamed(newer) => {
            let hint = Some(format!("write {newer}="));
            report(
                diagnostics,
                Severity::Note,
                Problem::Obsolete,
                format!("{key}= is an older name"),
                hint,
            );
        }
        Status::Obsolete(why) => {
            report(
                diagnostics,
                Severity::Note,
                Problem::Obsolete,
                format!("{key}= is obsolete: {why}"),
                None,
            );
        }
    }
    let result = (row.assign)(unit, &entry.value, context);
    for error in context.warnings.drain(..) {
        let message = format!("in {key}=: {}, ignored", error.chain());
        report(
            diagnostics,
            Severity::Warning,
            Problem::BadValue,
            message,
            None,
        );
    }
    match result {
        Ok(()) => Applied::Done,
        Err(AssignError::Ignored(error)) => {
            let message = format!("{key}= is ignored: {}", error.chain());
            report(
                diagnostics,
                Severity::Warning,
                Problem::BadValue,
                message,
                None,
            );
            Applied::Done
        }
        Err(AssignError::Fatal(error)) => {
            let message = format!("{key}= is unusable: {}", error.chain());
            report(
                diagnostics,
                Severity::Error,
                Problem::BadValue,
                message,
                None,
            );
            Applied::Fatal
        }
    }
}

/// Where an unknown directive would have been right: the same name in another section, or in another
/// spelling.
fn hint_for(section: &str, key: &str) -> Option<String> {
    let elsewhere = SECTIONS
        .iter()
        .find(|(other, _)| *other != section && lookup(other, key).is_some());
    if let Some((other, _)) = elsewhere {
        return Some(format!("{key}= belongs into section [{other}]"));
    }
    let mut rows = table().filter(|(other, _)| *other == section);
    let close = rows.find(|(_, row)| row.name.eq_ignore_ascii_case(key));
    close.map(|(_, row)| format!("write {}=", row.name))
}
