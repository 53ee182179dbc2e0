//! What services can do.

use muster_control::manager::UnitStatus;
use muster_units::security::{Assessment, Exposure, Finding, Level};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::style::Style;
use super::table::{Cell, Table};

/// What is known about the security of a service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SecurityView {
    /// Which.
    pub(crate) unit: String,
    /// What it can do, by its files.
    pub(crate) assessment: Assessment,
    /// What of its files cannot be read and is ignored, with file and line.
    pub(crate) ignored: Vec<String>,
    /// What of its files nobody knows, misspelt or newer, with file and line.
    pub(crate) unknown: Vec<String>,
    /// What the manager says that it lacks; nothing where no manager was asked.
    pub(crate) lacking: Option<Lacking>,
}

/// Protections that a unit asks for and does not have here.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Lacking {
    /// Somebody has tried to give it all that it asks for.
    has_run: bool,
    /// What its run could not be given, and why.
    dropped: Vec<String>,
    /// Directives that are never carried out.
    not_applied: Vec<String>,
    /// Why the last run could not be set up.
    #[serde(skip_serializing_if = "String::is_empty")]
    setup_failure: String,
}

impl Lacking {
    fn is_nothing(&self) -> bool {
        self.dropped.is_empty() && self.not_applied.is_empty() && self.setup_failure.is_empty()
    }

    /// Of what a manager says.
    pub(crate) fn of(status: UnitStatus) -> Self {
        let has_run = !status.commands.is_empty()
            || !status.dropped.is_empty()
            || !status.setup_failure.is_empty();
        Self {
            has_run,
            dropped: status.dropped,
            not_applied: status.not_applied,
            setup_failure: status.setup_failure,
        }
    }
}

/// Numbers are for programs.
fn number(exposure: Exposure) -> f64 {
    f64::from(exposure.tenths()) / 10.0
}

struct FindingView<'a>(&'a Finding);

impl Serialize for FindingView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Finding", 5)?;
        object.serialize_field("setting", self.0.setting)?;
        object.serialize_field("topic", self.0.topic.as_str())?;
        object.serialize_field("description", &self.0.text)?;
        object.serialize_field("weight", &self.0.weight)?;
        object.serialize_field("exposure", &self.0.exposure.map(number))?;
        object.end()
    }
}

/// A service in a row of a table.
#[derive(Debug, Serialize)]
pub(crate) struct ExposureRow<'a> {
    unit: &'a str,
    exposure: f64,
    predicate: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    ignored: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unknown: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    lacking: Option<&'a Lacking>,
}

impl SecurityView {
    /// In short.
    pub(crate) fn row(&self) -> ExposureRow<'_> {
        ExposureRow {
            unit: &self.unit,
            exposure: number(self.assessment.exposure),
            predicate: self.assessment.level().as_str(),
            ignored: &self.ignored,
            unknown: &self.unknown,
            lacking: self.lacking.as_ref().filter(|one| !one.is_nothing()),
        }
    }
}

impl Serialize for SecurityView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.row();
        let mut object = serializer.serialize_struct("Security", 7)?;
        object.serialize_field("unit", row.unit)?;
        object.serialize_field("exposure", &row.exposure)?;
        object.serialize_field("predicate", row.predicate)?;
        let findings: Vec<FindingView<'_>> =
            self.assessment.findings.iter().map(FindingView).collect();
        object.serialize_field("findings", &findings)?;
        object.serialize_field("ignored", &self.ignored)?;
        object.serialize_field("unknown", &self.unknown)?;
        object.serialize_field("lacking", &self.lacking)?;
        object.end()
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::Perfect | Level::Safe | Level::Ok => "32",
        Level::Medium => "",
        Level::Exposed => "33",
        Level::Unsafe | Level::Dangerous => "31",
    }
}

/// Every service in a row, and what those do not have that lack something.
pub(crate) fn exposures(views: &[SecurityView], style: Style) -> String {
    let mut table = Table::new(&["UNIT", "EXPOSURE", "PREDICATE"]);
    for view in views {
        let level = view.assessment.level();
        table.push(vec![
            Cell::new(view.unit.as_str()),
            Cell::new(format!("{:>8}", view.assessment.exposure.to_string())),
            Cell::new(level.as_str()).coloured(colour(level)),
        ]);
    }
    let mut text = table.render(style, true);
    let count = views
        .iter()
        .filter(|view| !unknown(view).is_empty())
        .count();
    if count > 0 {
        let one = "1 of them could be given all that it asks";
        let more = format!("{count} of them could be given all that they ask");
        let who = if count == 1 { one } else { &more };
        text.push_str(&format!(
            "\nWhether {who} for here is unknown: no manager is asked, or there was no run yet.\n"
        ));
    }
    for view in views {
        let missing = without(view, style);
        if !missing.is_empty() {
            text.push_str(&format!("\n{}\n{missing}", style.paint("1", &view.unit)));
        }
    }
    text
}

/// Everything about one service.
pub(crate) fn security(view: &SecurityView, style: Style) -> String {
    let mut table = Table::new(&["", "SETTING", "EXPOSURE", "WHAT IT CAN DO"]);
    for finding in &view.assessment.findings {
        let (sign, colour) = match finding.exposure {
            Some(exposure) if exposure > Exposure::default() => ("\u{2717}", "31"),
            Some(_) => ("\u{2713}", "32"),
            None => (" ", ""),
        };
        let exposure = match finding.exposure {
            Some(exposure) if exposure > Exposure::default() => exposure.to_string(),
            _ => String::new(),
        };
        table.push(vec![
            Cell::raw(sign).coloured(colour),
            Cell::new(finding.setting),
            Cell::raw(format!("{exposure:>8}")),
            Cell::new(finding.text.clone()),
        ]);
    }
    let mut text = table.render(style, true);
    let level = view.assessment.level();
    let overall = format!("{} {}", view.assessment.exposure, level.as_str());
    text.push_str(&format!(
        "\nOverall exposure of {}: {}\n",
        style.paint("1", &view.unit),
        style.paint(colour(level), &overall)
    ));
    text.push_str(&without(view, style));
    text.push_str(&unknown(view));
    text
}

/// What nobody can say yet: silence is no praise.
fn unknown(view: &SecurityView) -> String {
    let why = match &view.lacking {
        Some(lacking) if lacking.has_run => return String::new(),
        Some(_) => "until it has run",
        None => "where no manager is asked",
    };
    format!("Whether it could be given all of that here is unknown {why}.\n")
}

/// What a service asks for and does not have.
fn without(view: &SecurityView, style: Style) -> String {
    let mut text = String::new();
    let mut section = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            text.push_str(&format!("{}\n", style.paint("1;33", title)));
            for line in lines {
                text.push_str(&format!("  {line}\n"));
            }
        }
    };
    section("Ignored, since it cannot be read:", &view.ignored);
    section("Asked for, but not understood:", &view.unknown);
    let Some(lacking) = &view.lacking else {
        return text;
    };
    section("Asked for, but could not be had here:", &lacking.dropped);
    section("Asked for, but not carried out:", &lacking.not_applied);
    if !lacking.setup_failure.is_empty() {
        let failure = std::slice::from_ref(&lacking.setup_failure);
        section("Could not be set up, so it was not started:", failure);
    }
    text
}
