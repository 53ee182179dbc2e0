//! The manager and the machine: reload, replace, switch off, environment.

use std::time::{Duration, Instant};

use muster_control::manager::{
    Empty, EnvironmentCall, EnvironmentReply, MachineStatus, ReloadReply, ShutdownCall, method,
};
use thiserror::Error;

use super::{VerbError, jobs};
use crate::cli::{Environment, EnvironmentNames, JobOptions, MachineVerb, Shutdown};
use crate::console::{Console, Exit};
use crate::manager::{Manager, ManagerError};

/// How long a manager that replaces itself may take.
const REPLACED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why the machine is as it was.
#[derive(Debug, Error)]
pub(crate) enum MachineError {
    /// `exit CODE`
    #[error("'{text}' is not an exit code: give a number from 0 to 255.")]
    ExitCode {
        /// What was given.
        text: String,
    },
    /// Not `NAME=VALUE`, or a name that no shell takes.
    #[error("'{text}' is not an assignment of a variable: write NAME=VALUE.")]
    Variable {
        /// What was given.
        text: String,
    },
    /// `import-environment`
    #[error("Environment variable ${name} is not set, so it cannot be imported.")]
    NotSet {
        /// Which.
        name: String,
    },
    /// `import-environment`
    #[error("Environment variable ${name} is not valid UTF-8, so it cannot be imported.")]
    NotText {
        /// Which.
        name: String,
    },
    /// `daemon-reexec`
    #[error(
        "The manager answers, but it is still the one that was to be replaced; see its log for why."
    )]
    NotReplaced,
}

pub(super) fn run(
    verb: &MachineVerb,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    match verb {
        MachineVerb::IsSystemRunning(arguments) => {
            super::ask::is_system_running(arguments, manager, console)
        }
        MachineVerb::DaemonReload => reload(manager, console),
        MachineVerb::DaemonReexec => reexec(manager),
        MachineVerb::Default(options) => target("default.target", options, manager, console),
        MachineVerb::Rescue(options) => target("rescue.target", options, manager, console),
        MachineVerb::Emergency(options) => target("emergency.target", options, manager, console),
        MachineVerb::Poweroff(arguments) => shut_down("poweroff", arguments, manager),
        MachineVerb::Reboot(arguments) => shut_down("reboot", arguments, manager),
        MachineVerb::Halt(arguments) => shut_down("halt", arguments, manager),
        MachineVerb::Kexec(arguments) => shut_down("kexec", arguments, manager),
        MachineVerb::Exit(arguments) => shut_down("exit", arguments, manager),
        MachineVerb::ShowEnvironment => show_environment(manager, console),
        MachineVerb::SetEnvironment(arguments) => set_environment(arguments, manager),
        MachineVerb::UnsetEnvironment(arguments) => unset_environment(arguments, manager),
        MachineVerb::ImportEnvironment(arguments) => import_environment(arguments, manager),
    }
}

/// Has unit files read again, and says what is remarkable about them.
pub(super) fn reload(manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    let reply: ReloadReply = manager.ask(method::RELOAD, &Empty {})?;
    for remark in &reply.remarks {
        console.note(remark);
    }
    Ok(Exit::Success)
}

fn reexec(manager: &mut Manager) -> Result<Exit, VerbError> {
    let is_same = |a: &MachineStatus, b: &MachineStatus| {
        (a.core_pid, a.recoveries) == (b.core_pid, b.recoveries)
    };
    let before = manager.machine()?;
    lossy(manager.tell(method::REEXEC, &Empty {}))?;
    let deadline = Instant::now() + REPLACED_WITHIN;
    loop {
        manager.come_back()?;
        if !is_same(&manager.machine()?, &before) {
            return Ok(Exit::Success);
        }
        if Instant::now() >= deadline {
            return Err(MachineError::NotReplaced.into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Who is asked to end may end before it answers.
fn lossy(answer: Result<Empty, ManagerError>) -> Result<(), ManagerError> {
    match answer {
        Ok(Empty {}) => Ok(()),
        Err(error) if error.is_lost() => Ok(()),
        Err(error) => Err(error),
    }
}

fn target(
    name: &str,
    options: &JobOptions,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    jobs::submit("isolate", &[name.to_owned()], options, manager, console)
}

fn shut_down(how: &str, arguments: &Shutdown, manager: &mut Manager) -> Result<Exit, VerbError> {
    let mut call = ShutdownCall {
        how: how.to_owned(),
        force: arguments.force,
        ..ShutdownCall::default()
    };
    match (&arguments.argument, how) {
        (Some(text), "exit") => {
            call.code = text
                .parse()
                .map_err(|_| MachineError::ExitCode { text: text.clone() })?;
        }
        (Some(text), _) => call.argument.clone_from(text),
        (None, _) => {}
    }
    lossy(manager.tell(method::SHUTDOWN, &call))?;
    Ok(Exit::Success)
}

fn show_environment(manager: &mut Manager, console: &mut Console) -> Result<Exit, VerbError> {
    let reply: EnvironmentReply = manager.ask(method::ENVIRONMENT, &EnvironmentCall::default())?;
    for variable in &reply.variables {
        console.line(shell_assignment(variable))?;
    }
    Ok(Exit::Success)
}

/// A variable as a shell reads it.
fn shell_assignment(variable: &str) -> String {
    let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if value.chars().all(plain) {
        return variable.to_owned();
    }
    let mut text = format!("{name}=$'");
    for c in value.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            '\'' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            c if c.is_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}

fn change(set: Vec<String>, unset: Vec<String>, manager: &mut Manager) -> Result<Exit, VerbError> {
    let call = EnvironmentCall { set, unset };
    let _: EnvironmentReply = manager.ask(method::ENVIRONMENT, &call)?;
    Ok(Exit::Success)
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next().unwrap_or(b'0');
    !first.is_ascii_digit()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn set_environment(arguments: &Environment, manager: &mut Manager) -> Result<Exit, VerbError> {
    for text in &arguments.assignments {
        let valid = text.split_once('=').is_some_and(|(name, _)| is_name(name));
        if !valid {
            return Err(MachineError::Variable { text: text.clone() }.into());
        }
    }
    change(arguments.assignments.clone(), Vec::new(), manager)
}

fn unset_environment(
    arguments: &EnvironmentNames,
    manager: &mut Manager,
) -> Result<Exit, VerbError> {
    change(Vec::new(), arguments.names.clone(), manager)
}

fn import_environment(
    arguments: &EnvironmentNames,
    manager: &mut Manager,
) -> Result<Exit, VerbError> {
    let mut set = Vec::new();
    for name in &arguments.names {
        if !is_name(name) {
            return Err(MachineError::Variable { text: name.clone() }.into());
        }
        let value =
            std::env::var_os(name).ok_or_else(|| MachineError::NotSet { name: name.clone() })?;
        let value = value
            .into_string()
            .map_err(|_| MachineError::NotText { name: name.clone() })?;
        set.push(format!("{name}={value}"));
    }
    change(set, Vec::new(), manager)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_printed_for_a_shell() {
        for (given, shown) in [
            ("LANG=C.UTF-8", "LANG=C.UTF-8"),
            ("EMPTY=", "EMPTY="),
            ("A=b c", "A=$'b c'"),
            ("A=it's\n", "A=$'it\\'s\\n'"),
        ] {
            assert_eq!(shell_assignment(given), shown);
        }
    }

    #[test]
    fn names_of_variables_are_those_of_shells() {
        assert!(is_name("_A1"));
        assert!(!is_name("1A"));
        assert!(!is_name(""));
        assert!(!is_name("A-B"));
    }
}
