//! `muster doctor`: what of this machine keeps Muster from running, or from running well.
//!
//! A check reads what it needs from a [`Machine`] and gives findings; it changes nothing. To add one: a function in the module
//! of its area, and a line in [`examine`].

mod daemons;
mod host;
mod kernel;
mod machine;
mod programs;

use serde::Serialize;

use self::machine::Machine;
use crate::cli::Output;
use crate::cli::doctor::Doctor;
use crate::console::{Answer, Console, Table, Tone};
use crate::error::CommandError;
use crate::text::{count, shown};
use crate::unit::UnitCommandError;

/// Something is wrong that keeps Muster from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}; each says what to do", count(*.0, "error"))]
pub(crate) struct NotWellError(usize);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Ok,
    /// Something will not work, or not well.
    Warning,
    /// Muster cannot run here.
    Error,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    /// Never renamed, so that programs can look for it.
    check: &'static str,
    state: Verdict,
    message: String,
    /// What to do; `null` where nothing has to be done.
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            state: Verdict::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    fn warning(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            state: Verdict::Warning,
            message: message.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn error(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: Verdict::Error,
            ..Self::warning(check, message, remedy)
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Findings(Vec<Finding>);

impl Answer for Findings {
    fn table(&self) -> Table {
        let row = |it: &Finding| {
            vec![
                it.check.to_owned(),
                it.state.word().to_owned(),
                shown(&it.message),
                shown(it.remedy.as_deref().unwrap_or_default()),
            ]
        };
        Table::list(
            &["CHECK", "STATE", "FOUND", "WHAT TO DO"],
            self.0.iter().map(row).collect(),
        )
    }
}

impl Findings {
    /// A line for each check, and below it what to do.
    fn print(&self, console: &mut Console) -> Result<(), CommandError> {
        let paint = console.paint();
        let width = self.0.iter().map(|it| it.check.len()).max().unwrap_or(0);
        for finding in &self.0 {
            let tone = match finding.state {
                Verdict::Ok => Tone::Good,
                Verdict::Warning => Tone::Unsettled,
                Verdict::Error => Tone::Bad,
            };
            let word = paint.tone(tone, finding.state.word());
            let blanks = " ".repeat("warning".len() - finding.state.word().len() + 2);
            let message = shown(&finding.message);
            console.print(&format!(
                "{word}{blanks}{:width$}  {message}\n",
                finding.check
            ))?;
            if let Some(remedy) = &finding.remedy {
                let indent = " ".repeat("warning".len() + 2 + width + 2);
                console.print(&format!("{indent}-> {}\n", shown(remedy)))?;
            }
        }
        Ok(())
    }
}

/// Everything that can be told without a daemon, in the order in which things depend on each other.
async fn examine(machine: &Machine, doctor: &Doctor) -> Vec<Finding> {
    let mut findings = vec![
        host::user(machine),
        kernel::version(machine),
        kernel::namespaces(machine),
        kernel::overlay(machine),
        kernel::seccomp(machine),
        kernel::cgroups(machine),
        kernel::inotify(machine),
    ];
    findings.push(programs::oci_runtime(machine).await);
    findings.push(programs::cni_plugins(machine));
    findings.push(programs::nftables(machine).await);
    findings.push(host::clock(machine));
    findings.push(host::disk(&doctor.state));
    let folder = (doctor.programs.clone()).unwrap_or_else(crate::sm::programs);
    findings.push(programs::own(&folder).await);
    let iam = daemons::iam(&doctor.iam).await;
    let cm = daemons::cm(&doctor.connection).await;
    let answers = |finding: &Finding| finding.state == Verdict::Ok;
    findings.push(host::ports(machine, answers(&iam), answers(&cm)));
    findings.extend([iam, cm]);
    findings
}

/// Carries out the command.
pub(crate) fn run(doctor: &Doctor, console: &mut Console) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(UnitCommandError::Runtime)?;
    let machine = Machine::this_one();
    let findings = Findings(runtime.block_on(examine(&machine, doctor)));
    match console.output() {
        Output::Table => findings.print(console)?,
        _ => console.answer(&findings)?,
    }
    let errors = findings.0.iter().filter(|it| it.state == Verdict::Error);
    match errors.count() {
        0 => Ok(()),
        errors => Err(NotWellError(errors).into()),
    }
}

#[cfg(test)]
mod tests;
