//! What is left of a context for `muster-exec` to do, and how a context is divided.

use serde::{Deserialize, Serialize};

use crate::context::{
    ExecContext, FileAccess, Identity, Limit, PassedFd, Stream, TakeControl, Terminal,
    WorkingDirectory,
};
use crate::environment::variables;
use crate::sandbox::Sandbox;

/// The first descriptor behind the standard streams.
pub(crate) const FIRST_PASSED: u16 = 3;
/// `muster-exec`'s own descriptors begin with the job and the pipe ...
const JOB_AND_PIPE: u16 = 2;
/// ... and with two pairs in which namespaces are kept and a map there are no more than these.
const MOST_OWN: u16 = 7;
/// The largest job: a megabyte of secrets, an environment as large as the kernel takes it, and room.
pub(crate) const MAX_JOB: usize = 16 << 20;

/// What `muster-exec` does itself, all of it after the direct path has set up what it can.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) program: Box<str>,
    pub(crate) argv: Vec<Box<str>>,
    /// The program's, not the helper's: a library that the helper loads must not hear of it.
    pub(crate) environment: Vec<Box<str>>,
    pub(crate) pid_variables: Vec<Box<str>>,
    pub(crate) working_directory: Option<WorkingDirectory>,
    pub(crate) identity: Option<Identity>,
    pub(crate) umask: u16,
    pub(crate) limits: Vec<Limit>,
    pub(crate) no_new_privileges: bool,
    /// Said once more: the standard library ignores the signal in every program of its own.
    pub(crate) ignore_sigpipe: bool,
    pub(crate) sandbox: Sandbox,
    pub(crate) invocation: Option<[u8; 16]>,
    /// Numbers of the descriptors that namespaces are kept in.
    pub(crate) network_store: Option<[u16; 2]>,
    pub(crate) ipc_store: Option<[u16; 2]>,
    /// A terminal that may have to be waited for.
    pub(crate) terminal: Option<AwaitedTerminal>,
    /// Whoever it runs as owns the terminal that it reads from.
    pub(crate) gives_terminal: bool,
    /// Files that may have to be waited for, in the order of their streams.
    pub(crate) files: Vec<AwaitedFile>,
    /// Mode of those that are made.
    pub(crate) stream_mode: u16,
    /// Number of the descriptor of the map in which this process is exempt from the restriction of its group.
    pub(crate) exemptions: Option<u16>,
}

/// A terminal that becomes the controlling one as soon as it is free.
#[derive(Serialize, Deserialize)]
pub(crate) struct AwaitedTerminal {
    pub(crate) terminal: Terminal,
    /// Numbers of the streams that it is.
    pub(crate) streams: Vec<u8>,
}

impl AwaitedTerminal {
    /// Takes the terminal out of a context that is to wait for it: its streams are nothing until then.
    fn out_of(context: &mut ExecContext) -> Option<Self> {
        let waits = |terminal: &&Terminal| terminal.control == TakeControl::Wait;
        let terminal = context.terminal.as_ref().filter(waits)?.clone();
        let found = take_streams(context, |stream| *stream == Stream::Terminal);
        let found = found.into_iter().map(|(number, _)| number).collect();
        context.terminal = None;
        Some(Self {
            terminal,
            streams: found,
        })
    }
}

/// A file that a stream is connected to.
#[derive(Serialize, Deserialize)]
pub(crate) struct AwaitedFile {
    /// Number of the stream.
    pub(crate) stream: u8,
    pub(crate) file: FileOrStream,
}

/// What a stream is connected to.
#[derive(Serialize, Deserialize)]
pub(crate) enum FileOrStream {
    /// A file.
    File(Box<str>, FileAccess),
    /// What an earlier stream is connected to.
    Same(u8),
}

impl AwaitedFile {
    /// Takes the files out of a context that is to wait for them: their streams are nothing until then.
    fn out_of(context: &mut ExecContext) -> Vec<Self> {
        if !context.waits_for_files {
            return Vec::new();
        }
        let found = take_streams(context, |stream| matches!(stream, Stream::File { .. }));
        let found = found.into_iter().filter_map(|(stream, taken)| {
            let file = match taken {
                Stream::File { path, access } => FileOrStream::File(path, access),
                Stream::Same(other) => FileOrStream::Same(other),
                _ => return None,
            };
            Some(Self { stream, file })
        });
        found.collect()
    }
}

/// Takes streams out of a context, with those that are the same: they are nothing from now on.
fn take_streams(
    context: &mut ExecContext,
    is_wanted: impl Fn(&Stream) -> bool,
) -> Vec<(u8, Stream)> {
    let mut taken: Vec<(u8, Stream)> = Vec::new();
    let streams = [&mut context.stdin, &mut context.stdout, &mut context.stderr];
    for (number, stream) in (0..).zip(streams) {
        let is_one = match &*stream {
            Stream::Same(other) => taken.iter().any(|(number, _)| number == other),
            other => is_wanted(other),
        };
        if is_one {
            taken.push((number, std::mem::take(stream)));
        }
    }
    taken
}

impl Job {
    /// All of a context that the direct path does not do, but for namespaces that are kept.
    pub(crate) fn of(context: &ExecContext) -> Self {
        let variables = variables(context);
        Self {
            program: context.program.clone(),
            argv: context.argv.clone(),
            environment: variables.known.into_iter().map(Into::into).collect(),
            pid_variables: variables.pids.into_iter().map(Into::into).collect(),
            working_directory: context.working_directory.clone(),
            identity: context.identity.clone(),
            umask: context.umask,
            limits: context.limits.clone(),
            no_new_privileges: context.no_new_privileges,
            ignore_sigpipe: context.ignore_sigpipe,
            sandbox: context.sandbox.as_deref().cloned().unwrap_or_default(),
            invocation: context.invocation,
            network_store: None,
            ipc_store: None,
            terminal: None,
            gives_terminal: context.stdin == Stream::Terminal,
            files: Vec::new(),
            stream_mode: context.stream_mode,
            exemptions: None,
        }
    }
}

/// A context divided between the direct path and `muster-exec`.
#[derive(Clone, PartialEq, Eq)]
pub struct Delegated {
    /// What is spawned: `muster-exec`, which inherits all that the direct path sets up.
    pub outer: ExecContext,
    /// What `muster-exec` reads. It may hold secrets.
    pub job: Vec<u8>,
}

impl std::fmt::Debug for Delegated {
    /// Secrets are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delegated")
            .field("outer", &self.outer)
            .field("job", &format_args!("{} bytes", self.job.len()))
            .finish()
    }
}

/// A context cannot be handed to `muster-exec`.
#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    /// It is larger than any that makes sense.
    #[error("what muster-exec would have to do for {program} takes {size} bytes to say")]
    TooLarge {
        /// The program.
        program: Box<str>,
        /// How large.
        size: usize,
    },
    /// No number is left for the job's descriptors.
    #[error("{program} is passed more descriptors than can be counted")]
    TooManyDescriptors {
        /// The program.
        program: Box<str>,
    },
    /// It cannot be written down.
    #[error("cannot write down how {program} is run")]
    Encode {
        /// The program.
        program: Box<str>,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Divides a context. `helper` is the path of `muster-exec`, `descriptors` how many the context's list has: two more are
/// appended to it, in this order: a memory file that holds the job, to be read from its beginning, and the writing end of
/// the pipe that a [`Report`](crate::Report) is read from. A context without a sandbox gets one that asks for nothing.
///
/// # Errors
/// It is too large, or has too many descriptors.
pub fn delegate(
    context: &ExecContext,
    helper: &str,
    descriptors: u16,
) -> Result<Delegated, DelegateError> {
    let program = || context.program.clone();
    let place = u16::try_from(context.passed.len())
        .ok()
        .and_then(|passed| passed.checked_add(FIRST_PASSED))
        .filter(|place| *place < u16::MAX - MOST_OWN && descriptors < u16::MAX)
        .ok_or_else(|| DelegateError::TooManyDescriptors { program: program() })?;
    let own = |fd| PassedFd {
        fd,
        name: "".into(),
        nonblocking: None,
    };
    let mut passed = context.passed.clone();
    passed.extend([own(descriptors), own(descriptors + 1)]);
    let mut next = place + JOB_AND_PIPE;
    let mut stored = |store: Option<[u16; 2]>| {
        let store = store?;
        passed.extend(store.map(own));
        next += 2;
        Some([next - 2, next - 1])
    };
    let (network_store, ipc_store) = (stored(context.network_store), stored(context.ipc_store));
    let exemptions = context.exemptions.map(|map| {
        passed.push(own(map));
        next
    });
    let mut outer = ExecContext {
        program: helper.into(),
        argv: vec!["muster-exec".into(), place.to_string().into()],
        passed,
        // Everything else that the direct path does is inherited by the program.
        nice: context.nice,
        scheduler: context.scheduler,
        processors: context.processors.clone(),
        io_priority: context.io_priority,
        coredump_filter: context.coredump_filter,
        timer_slack: context.timer_slack,
        ignore_sigpipe: context.ignore_sigpipe,
        new_session: context.new_session,
        stream_mode: context.stream_mode,
        waits_for_files: context.waits_for_files,
        stdin: context.stdin.clone(),
        stdout: context.stdout.clone(),
        stderr: context.stderr.clone(),
        terminal: context.terminal.clone(),
        exemptions: context.exemptions,
        ..ExecContext::default()
    };
    let job = Job {
        network_store,
        ipc_store,
        terminal: AwaitedTerminal::out_of(&mut outer),
        files: AwaitedFile::out_of(&mut outer),
        exemptions,
        ..Job::of(context)
    };
    let job = serde_json::to_vec(&job).map_err(|source| DelegateError::Encode {
        program: program(),
        source,
    })?;
    if job.len() > MAX_JOB {
        return Err(DelegateError::TooLarge {
            program: program(),
            size: job.len(),
        });
    }
    Ok(Delegated { outer, job })
}

#[cfg(test)]
mod tests;
