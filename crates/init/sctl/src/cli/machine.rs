//! Verbs about the manager and the machine.

use clap::{Args, Subcommand};

use super::JobOptions;

/// How the machine ends.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shutdown {
    /// At once, without stopping units in order.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// For `reboot`: what the firmware or boot loader is told. For `exit`: the exit code.
    #[arg(value_name = "ARGUMENT")]
    pub(crate) argument: Option<String>,
}

/// Variables to set.
#[derive(Debug, Clone, Args)]
pub(crate) struct Environment {
    /// Such as LANG=C.UTF-8.
    #[arg(required = true, value_name = "NAME=VALUE")]
    pub(crate) assignments: Vec<String>,
}

/// Names of variables.
#[derive(Debug, Clone, Args)]
pub(crate) struct EnvironmentNames {
    /// Names of variables.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Verbs about the manager and the machine.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MachineVerb {
    /// Say whether the machine is up and well
    IsSystemRunning(super::SystemRunning),
    /// Have the manager read unit files again; only changed ones are read
    DaemonReload,
    /// Replace the running manager by the program on disk; nothing is restarted
    DaemonReexec,
    /// Go to the default target
    Default(JobOptions),
    /// Go to rescue mode
    Rescue(JobOptions),
    /// Go to emergency mode
    Emergency(JobOptions),
    /// Switch the machine off
    Poweroff(Shutdown),
    /// Start the machine anew
    Reboot(Shutdown),
    /// Stop the machine without switching it off
    Halt(Shutdown),
    /// Start the machine anew with the loaded kernel
    Kexec(Shutdown),
    /// Stop everything and end the manager
    Exit(Shutdown),
    /// Print the environment that services get
    ShowEnvironment,
    /// Set variables of the environment that services get
    SetEnvironment(Environment),
    /// Remove variables from the environment that services get
    UnsetEnvironment(EnvironmentNames),
    /// Take variables over from the environment of this command
    ImportEnvironment(EnvironmentNames),
}
