//! Where a process reads from and writes to.

use muster_engine::protocol::{ExecKind, SpawnError};
use muster_exec::{FileAccess, Step, Stream, TakeControl, Terminal};
use muster_unit_file::config::{ExecInput, ExecOutput, UnitConfig};
use muster_units::effective;

use super::{Facts, failed};

const ENOENT: i32 = 2;

/// The three streams and the terminal that they may refer to.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: Stream,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    pub(super) terminal: Option<Terminal>,
    /// Standard input reads the unit's own data, at [`Facts::descriptors`].
    pub(super) reads_data: bool,
}

pub(super) fn build(
    config: &UnitConfig,
    kind: ExecKind,
    facts: &Facts<'_>,
) -> Result<Streams, SpawnError> {
    if let Some([stdin, stdout, stderr]) = facts.stdio {
        return Ok(Streams {
            stdin: Stream::Fd(stdin),
            stdout: Stream::Fd(stdout),
            stderr: Stream::Fd(stderr),
            terminal: None,
            reads_data: false,
        });
    }
    let input = settled_input(config, kind, facts);
    let output = settled_output(effective::stdout(config), facts);
    let errors = settled_output(effective::stderr(config), facts);
    let stdin = self::stdin(&input, &output, facts)?;
    let stdout = match &output {
        ExecOutput::Inherit => inherited_from_input(config, &input),
        ExecOutput::File(path) if is_file(&input, path) => Stream::Same(0),
        other => written(other, Step::Stdout, "stdout", facts)?,
    };
    let stderr = match &errors {
        ExecOutput::Inherit => Stream::Same(1),
        ExecOutput::File(path) if is_file(&input, path) => Stream::Same(0),
        same if *same == output && names_a_file(same) => Stream::Same(1),
        other => written(other, Step::Stderr, "stderr", facts)?,
    };
    let terminal = [&stdin, &stdout, &stderr]
        .contains(&&Stream::Terminal)
        .then(|| terminal(config, &input));
    Ok(Streams {
        stdin,
        stdout,
        stderr,
        terminal,
        reads_data: input == ExecInput::Data,
    })
}

/// Only what may talk to people has the terminal as its input; a connection that is not there reads nothing.
fn settled_input(config: &UnitConfig, kind: ExecKind, facts: &Facts<'_>) -> ExecInput {
    let input = effective::stdin(config);
    let talks = matches!(
        kind,
        ExecKind::Condition | ExecKind::StartPre | ExecKind::Start | ExecKind::StopPost
    );
    match input {
        ExecInput::Tty | ExecInput::TtyForce | ExecInput::TtyFail if !talks => ExecInput::Null,
        ExecInput::Socket if socket(facts).is_none() => ExecInput::Null,
        ExecInput::Data if config.exec.terminal.stdin_data.0.is_empty() => ExecInput::Null,
        other => other,
    }
}

fn settled_output(output: ExecOutput, facts: &Facts<'_>) -> ExecOutput {
    match output {
        ExecOutput::Socket if socket(facts).is_none() => ExecOutput::Inherit,
        other => other,
    }
}

/// The connection that is served, or the only socket that is passed.
fn socket(facts: &Facts<'_>) -> Option<u16> {
    let only = (facts.passed.len() == 1).then_some(0);
    facts.connection.or(only)
}

fn stdin(input: &ExecInput, output: &ExecOutput, facts: &Facts<'_>) -> Result<Stream, SpawnError> {
    Ok(match input {
        ExecInput::Null => Stream::Null,
        ExecInput::Tty | ExecInput::TtyForce | ExecInput::TtyFail => Stream::Terminal,
        ExecInput::Socket => socket(facts).map_or(Stream::Null, Stream::Fd),
        ExecInput::Fd(name) => named(name.as_deref(), Step::Stdin, "stdin", facts)?,
        ExecInput::Data => Stream::Fd(facts.descriptors),
        ExecInput::File(path) => Stream::File {
            path: path.clone(),
            // The same file for both is opened once, for both.
            access: match output {
                ExecOutput::File(other) if other == path => FileAccess::ReadWrite,
                _ => FileAccess::Read,
            },
        },
    })
}

/// What inherits from an input that takes no answers gets nothing, but for a terminal that was only too much for input.
fn inherited_from_input(config: &UnitConfig, input: &ExecInput) -> Stream {
    match input {
        ExecInput::Null => match effective::stdin(config) {
            ExecInput::Tty | ExecInput::TtyForce | ExecInput::TtyFail => Stream::Terminal,
            _ => Stream::Null,
        },
        ExecInput::Data => Stream::Null,
        _ => Stream::Same(0),
    }
}

fn written(
    output: &ExecOutput,
    step: Step,
    default_name: &str,
    facts: &Facts<'_>,
) -> Result<Stream, SpawnError> {
    let file = |path: &str, access| Stream::File {
        path: path.into(),
        access,
    };
    Ok(match output {
        ExecOutput::Inherit | ExecOutput::Null => Stream::Null,
        ExecOutput::Tty => Stream::Terminal,
        ExecOutput::Journal
        | ExecOutput::JournalConsole
        | ExecOutput::Kmsg
        | ExecOutput::KmsgConsole => facts.log.map_or(Stream::Null, Stream::Fd),
        ExecOutput::Socket => socket(facts).map_or(Stream::Null, Stream::Fd),
        ExecOutput::Fd(name) => named(name.as_deref(), step, default_name, facts)?,
        ExecOutput::File(path) => file(path, FileAccess::Write),
        ExecOutput::Append(path) => file(path, FileAccess::Append),
        ExecOutput::Truncate(path) => file(path, FileAccess::Truncate),
    })
}

/// A descriptor that is passed under this name.
fn named(
    name: Option<&str>,
    step: Step,
    default_name: &str,
    facts: &Facts<'_>,
) -> Result<Stream, SpawnError> {
    let name = name.unwrap_or(default_name);
    let place = facts.passed.iter().position(|passed| *passed == name);
    let place = place.and_then(|place| u16::try_from(place).ok());
    place.map(Stream::Fd).ok_or_else(|| {
        let what = format!("no descriptor with the name {name} is passed");
        failed(step, what, ENOENT)
    })
}

fn is_file(input: &ExecInput, path: &str) -> bool {
    matches!(input, ExecInput::File(file) if **file == *path)
}

fn names_a_file(output: &ExecOutput) -> bool {
    matches!(
        output,
        ExecOutput::File(_) | ExecOutput::Append(_) | ExecOutput::Truncate(_)
    )
}

/// How the terminal of a unit is left when the unit has ended, if it uses one and wants that, or was lent it.
pub(super) fn left_terminal(config: &UnitConfig) -> Option<Terminal> {
    let settings = &config.exec.terminal;
    let wants = settings.reset || settings.vhangup || settings.vt_disallocate;
    let writes = [effective::stdout(config), effective::stderr(config)].contains(&ExecOutput::Tty);
    let is_used = reads_terminal(config) || writes;
    (wants && is_used || lends_terminal(config)).then(|| Terminal {
        size: None,
        ..terminal(config, &ExecInput::Null)
    })
}

/// Whether a unit's user owns its terminal while it runs.
pub(super) fn lends_terminal(config: &UnitConfig) -> bool {
    reads_terminal(config) && effective::user(config).is_some()
}

fn reads_terminal(config: &UnitConfig) -> bool {
    matches!(
        effective::stdin(config),
        ExecInput::Tty | ExecInput::TtyForce | ExecInput::TtyFail
    )
}

fn terminal(config: &UnitConfig, input: &ExecInput) -> Terminal {
    let settings = &config.exec.terminal;
    let path = settings
        .path
        .as_ref()
        .map_or("/dev/console", |path| &path.0);
    let size = |number: Option<u32>| number.map(|number| u16::try_from(number).unwrap_or(u16::MAX));
    Terminal {
        path: path.into(),
        control: match input {
            ExecInput::TtyForce => TakeControl::Force,
            ExecInput::TtyFail => TakeControl::IfFree,
            ExecInput::Tty => TakeControl::Wait,
            _ => TakeControl::No,
        },
        reset: settings.reset,
        hang_up: settings.vhangup,
        clear: settings.vt_disallocate,
        size: size(settings.rows).zip(size(settings.columns)),
    }
}
