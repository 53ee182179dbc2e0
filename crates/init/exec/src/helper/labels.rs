//! Labels of the kernel's security modules. A label for a module that the kernel does not run has no effect, as systemd
//! documents it; that is said.

use std::path::Path;

use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::sandbox::Sandbox;
use crate::step::Step;

/// When a label is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// As long as the process has all of its rights: SMACK lets nobody else change what a process is.
    WithRights,
    /// When it has none left that it is not to keep: these labels count from the execution on, and everybody may set them.
    AtTheEnd,
}

/// A label to be set, as found before the view of the file system changes.
pub(super) struct Label {
    kind: Kind,
    text: String,
    /// Errors are ignored.
    optional: bool,
}

/// A module, and how it is told a label.
#[derive(Clone, Copy)]
struct Kind {
    directive: &'static str,
    step: Step,
    file: &'static str,
    moment: Moment,
    /// Whether the kernel runs the module.
    runs: fn() -> bool,
}

const APPARMOR: Kind = Kind {
    directive: "AppArmorProfile",
    step: Step::ApparmorProfile,
    file: "/proc/self/attr/apparmor/exec",
    moment: Moment::AtTheEnd,
    runs: || {
        std::fs::read("/sys/module/apparmor/parameters/enabled")
            .is_ok_and(|text| text.starts_with(b"Y"))
    },
};
const SELINUX: Kind = Kind {
    directive: "SELinuxContext",
    step: Step::SelinuxContext,
    file: "/proc/self/attr/exec",
    moment: Moment::AtTheEnd,
    runs: || Path::new("/sys/fs/selinux/enforce").exists(),
};
const SMACK: Kind = Kind {
    directive: "SmackProcessLabel",
    step: Step::SmackLabel,
    file: "/proc/self/attr/current",
    moment: Moment::WithRights,
    runs: || Path::new("/sys/fs/smackfs/load2").exists(),
};

/// The labels of a sandbox whose modules run here.
pub(super) fn plan(sandbox: &Sandbox, reporter: &Reporter) -> Vec<Label> {
    let wanted = [
        (APPARMOR, sandbox.apparmor_profile.as_deref(), "exec "),
        (SELINUX, sandbox.selinux_context.as_deref(), ""),
        (SMACK, sandbox.smack_label.as_deref(), ""),
    ];
    let mut labels = Vec::new();
    for (kind, text, prefix) in wanted {
        let Some(text) = text else { continue };
        if !(kind.runs)() {
            reporter.dropped(
                kind.directive,
                "this kernel does not run its security module",
            );
            continue;
        }
        labels.push(Label {
            kind,
            text: format!("{prefix}{}", text.strip_prefix('-').unwrap_or(text)),
            optional: text.starts_with('-'),
        });
    }
    labels
}

/// Sets those whose moment it is.
pub(super) fn set(labels: &[Label], moment: Moment, reporter: &Reporter) -> Result<(), SetupError> {
    let due = labels.iter().filter(|label| label.kind.moment == moment);
    for label in due {
        let Kind {
            directive,
            step,
            file,
            ..
        } = label.kind;
        let set = std::fs::write(file, &label.text)
            .during(step, || format!("cannot set the label {:?}", label.text));
        match set {
            Err(error) if label.optional => {
                reporter.dropped(directive, &format!("{error}: {}", error.source));
            }
            set => {
                reporter.lenient(directive, Leniency::IfAsked, set)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that writes what it is told into a file of ours.
    fn label(kind: Kind, file: &'static str) -> Label {
        Label {
            kind: Kind { file, ..kind },
            text: "x".to_owned(),
            optional: false,
        }
    }

    #[test]
    fn a_label_that_takes_rights_is_set_while_there_are_some() {
        const NOWHERE: &str = "/nonexistent/label";
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let reporter = Reporter::new(writer.into());
        let set = |kind, moment| set(&[label(kind, NOWHERE)], moment, &reporter);
        // Whoever tries to write there fails.
        let failed = set(SMACK, Moment::WithRights).expect_err("it is its moment");
        assert_eq!(failed.step, Step::SmackLabel);
        assert!(set(SMACK, Moment::AtTheEnd).is_ok());
        for kind in [APPARMOR, SELINUX] {
            assert!(set(kind, Moment::WithRights).is_ok());
            let failed = set(kind, Moment::AtTheEnd).expect_err("it is its moment");
            assert_eq!(failed.step, kind.step);
        }
    }
}
