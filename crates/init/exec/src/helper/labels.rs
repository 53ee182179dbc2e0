//! Labels of the kernel's security modules. A label for a module that the kernel does not run has no effect, as systemd
//! documents it; that is said.

use std::path::Path;

use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::sandbox::Sandbox;
use crate::step::Step;

/// A label to be set, as found before the view of the file system changes.
pub(super) struct Label {
    directive: &'static str,
    step: Step,
    file: &'static str,
    text: String,
    /// Errors are ignored.
    optional: bool,
}

/// The labels of a sandbox whose modules run here.
pub(super) fn plan(sandbox: &Sandbox, reporter: &Reporter) -> Vec<Label> {
    let apparmor = Kind {
        directive: "AppArmorProfile",
        step: Step::ApparmorProfile,
        file: "/proc/self/attr/apparmor/exec",
        runs: || {
            std::fs::read("/sys/module/apparmor/parameters/enabled")
                .is_ok_and(|text| text.starts_with(b"Y"))
        },
    };
    let selinux = Kind {
        directive: "SELinuxContext",
        step: Step::SelinuxContext,
        file: "/proc/self/attr/exec",
        runs: || Path::new("/sys/fs/selinux/enforce").exists(),
    };
    let smack = Kind {
        directive: "SmackProcessLabel",
        step: Step::SmackLabel,
        file: "/proc/self/attr/current",
        runs: || Path::new("/sys/fs/smackfs/load2").exists(),
    };
    let wanted = [
        (apparmor, sandbox.apparmor_profile.as_deref(), "exec "),
        (selinux, sandbox.selinux_context.as_deref(), ""),
        (smack, sandbox.smack_label.as_deref(), ""),
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
            directive: kind.directive,
            step: kind.step,
            file: kind.file,
            text: format!("{prefix}{}", text.strip_prefix('-').unwrap_or(text)),
            optional: text.starts_with('-'),
        });
    }
    labels
}

struct Kind {
    directive: &'static str,
    step: Step,
    file: &'static str,
    /// Whether the kernel runs the module.
    runs: fn() -> bool,
}

/// Sets them; most count from the execution on.
pub(super) fn set(labels: &[Label], reporter: &Reporter) -> Result<(), SetupError> {
    for label in labels {
        let set = std::fs::write(label.file, &label.text).during(label.step, || {
            format!("cannot set the label {:?}", label.text)
        });
        match set {
            Err(error) if label.optional => {
                reporter.dropped(label.directive, &format!("{error}: {}", error.source));
            }
            set => {
                reporter.lenient(label.directive, Leniency::IfAsked, set)?;
            }
        }
    }
    Ok(())
}
