//! Which variables a process gets beside those that its context lists.

use std::borrow::Cow;

use crate::context::ExecContext;

/// A process's variables. Those that hold its own pid are known by name only, until it runs.
pub(crate) struct Variables<'a> {
    /// `NAME=value`
    pub(crate) known: Vec<Cow<'a, str>>,
    /// Names of those that hold the pid.
    pub(crate) pids: Vec<&'a str>,
}

/// The variables of a process. What follows from passed descriptors replaces what the context says.
pub(crate) fn variables(context: &ExecContext) -> Variables<'_> {
    let passes = !context.passed.is_empty();
    let pids = context.pid_variables.iter().map(|name| &**name);
    let pids: Vec<&str> = pids.chain(passes.then_some("LISTEN_PID")).collect();
    let is_replaced = |variable: &str| {
        let name = variable.split('=').next().unwrap_or("");
        pids.contains(&name) || passes && matches!(name, "LISTEN_FDS" | "LISTEN_FDNAMES")
    };
    let listed = context.environment.iter().map(|variable| &**variable);
    let listed = listed.filter(|variable| !is_replaced(variable));
    let mut known: Vec<Cow<'_, str>> = listed.map(Cow::Borrowed).collect();
    if passes {
        let names: Vec<&str> = context.passed.iter().map(|fd| &*fd.name).collect();
        known.push(format!("LISTEN_FDS={}", names.len()).into());
        known.push(format!("LISTEN_FDNAMES={}", names.join(":")).into());
    }
    Variables { known, pids }
}
