//! Runs of workflows on machines: from the order of the machines to their end, durable, and cleaned up whatever happens.
//!
//! ```yaml
//! name: nightly
//! timeout: 2h                        # for machines and steps together (24h); cleaning up comes on top
//! parallel: 16                       # machines at work at once
//! machines:
//!   builders:
//!     template: ubuntu-worker        # or `machine: m-01`, one that exists
//!     set: { cpus: "4" }             # fields instead of the template's; also spot, prefer, reuse, access, runsFor, maxPrice
//!     count: 3
//!     ready: { timeout: 10m }
//!     end: destroy                   # or stop, or keep; `endOnFailure` says it for runs that fail
//! steps:
//!   - name: sources
//!     actions:
//!       - upload: { from: /home/me/src, to: "{src}", delete: true }
//!   - name: bootstrap
//!     attempts: 3
//!     actions:
//!       - file: { to: /etc/builder.conf, content: "jobs=4\n", user: root }
//!       - script: { text: "apt-get update && apt-get install -y make", user: root }
//!   - name: test
//!     parallel: 2
//!     timeout: 30m                   # for each attempt on each machine; 1h if nothing is said
//!     actions:
//!       - run: { command: [make, test], cwd: "{src}", env: { CI: "1" } }
//!   - name: collect
//!     when: always                   # after a failure too
//!     actions:
//!       - download: { from: "{src}/report", to: "/home/me/reports/{run}/{index}" }
//! ```
//!
//! # Entry points
//! * [`Workflow::read`] reads a document, YAML or JSON: whatever is wrong is said with its line, and with what was probably
//!   meant. [`one_command`] makes the workflow of a single command.
//! * [`Runs::start`] with [`Parts`] gives the handle and the one task. [`Runs::begin`] answers when a run is durable,
//!   [`Runs::wait`] when it is over; [`Runs::cancel`] ends it early.
//! * [`Runs::list`], [`Runs::show`], [`Runs::events`], [`Runs::events_after`] and [`Runs::log`] tell how it goes.
//! * [`Reach`] and [`Chooser`] are what the daemon brings: an executor for a machine, and an order for a template.
//!
//! # A run
//! Every machine is provided and waited for, by trying whether it answers. A step is done on all its machines when everything
//! that it needs is done: by default the step before it. Within a step, each machine does its actions one after the other.
//! After a failure nothing begins but steps that are done `always`; what is under way comes to its end. A cancellation, and the
//! end of the run's time, abort what is under way. Then every machine that was asked for is cleaned up, once, and the run is
//! over. [`RunOutcome::exit_code`] is what a command in its place would have exited with.
//!
//! # Who, and where
//! Commands run as whom the manager logs in as, unless they name a `user`: another one is root's to become, or `sudo -n`'s. A
//! path of a machine is absolute, or begins with `~/`, the home of that login, or with `{src}`: `/src` where the login is root,
//! and `~/src` elsewhere.
//!
//! # How long
//! | what | if nothing is said |
//! |---|---|
//! | all machines and steps of a workflow | 24h |
//! | each attempt at a step, on each machine | 1h |
//! | each attempt to make a machine | 30m |
//! | each wait for a machine to answer | 10m |
//! | [`one_command`], and the folders that it needs | as long as it takes |
//!
//! # Folders that come back
//! A download with `onlyChanges: true` brings a folder back that an earlier upload brought there, with `from` and `to` the other
//! way round: what changed, was made or was removed in the machine since then. What changed here meanwhile stays as it is; if it
//! changed in the machine too, the step's end warns of it by name. What both sides held is kept beside the run's log.
//!
//! A folder that is not there in the machine any more, as one in memory after a reboot, does not come back; nothing here is touched then.
//!
//! If it does not come back in all of the step's attempts ([`one_command`] makes five), a machine that was to be destroyed is kept
//! for three days, and named with what to do.
//!
//! # Logs
//! What commands write is kept byte for byte, in eight files of 4 MiB at most for each run; the oldest goes first, and whoever reads
//! is told how much is gone, and where.
//!
//! # After a crash
//! | what was on disk | what is done |
//! |---|---|
//! | a run | it goes on |
//! | that a machine is to be provided | the registry is asked again with the same key, and gives the machine that it had ordered |
//! | that a machine is to be waited for, or cleaned up | it is done again |
//! | that a step was begun | it is interrupted: nobody knows how far it came. It is done again if it is `repeatable`, which steps that only copy are, or if it has `attempts` left; otherwise the run fails |
//! | that a run is over | nothing; its log is there |
//! | that a run was removed | what is left of its log is removed |
//!
//! # What goes on in a machine
//! A command may go on inside its machine when the manager dies, when the connection is lost, or when it took too long and the machine
//! answers nobody who wants to kill it. So it is with every attempt of a step with commands that ended neither well nor by the end of
//! a command. Before any step begins on that machine, what goes on is killed: whatever has the variables `MUSTER_RUN`, `MUSTER_GROUP`,
//! `MUSTER_INDEX` and `MUSTER_STEP` of such a step that is not under way, looked for as the login and as every `user` that the step
//! names, each as far as he may. Where that cannot be done the attempt fails, unless the step whose command may go on is `repeatable`:
//! who says so, says that it does no harm. Before such a machine is put away or kept, whatever has the run's `MUSTER_RUN` is killed.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | orchestrator, one | the daemon, from [`Runs::start`] | commands (bounded to 64), ends of jobs, deadlines | database; then a broadcast of events (bounded to 256), answers; then jobs | when every handle is gone, or it is dropped, which is safe at any time |
//! | jobs, as many as workflows allow | the orchestrator, once they are on disk | registry, executors | its log; its end | with its end, or when its run is cancelled |
//! | log writer, one for each run under way | the orchestrator | what its jobs write (bounded to 64 records) | files of the run's log | with its run |
//!
//! # Invariants
//! * Nothing is done before that it will be done is on disk, and nobody is told of what is not on disk.
//! * What is decided follows from the workflow and the journal alone, so that a manager that takes over decides the same.
//! * Every machine that was asked for is cleaned up exactly once, after all work has ended, by its key even if nobody knows it.
//! * No limit of machines at work at once is ever passed, and no step begins before what it needs is done.
//! * A machine counts as busy from when it runs until it is cleaned up.
//! * Whoever hears of a job's end finds in the log everything that it wrote, as far as the log's bound allows.
//!
//! # What this crate does not do
//! It chooses no provider and no size ([`Chooser`]), makes no machine (`muster-machines`), moves no byte itself
//! (`muster-executor`), and keeps no artifacts: what is downloaded goes where the workflow says. Values of variables, scripts
//! and contents of files are in the database, which only its owner can read, and in no `Debug` text.

#![forbid(unsafe_code)]

mod database;
mod driver;
mod engine;
mod entry;
mod error;
mod fault;
mod handle;
mod job;
mod jobs;
mod log;
mod one_command;
mod reach;
mod retention;
mod run;
mod settings;
mod uploaded;
mod workflow;

pub use database::SCHEMA;
pub use engine::{JobPhase, JobState};
pub use entry::{Entry, JobResult, RunEvent, RunOutcome, Why};
pub use error::{BadRecord, BeginError, RunError, StartRunsError};
pub use fault::FAULT_POINTS;
pub use handle::{Parts, RunView, Runs};
pub use job::{BadSlot, Job, Slot};
pub use log::{LogPage, LogRecord, Stream};
pub use one_command::{COMMAND_STEP, OneCommand, SyncedFolder, one_command};
pub use reach::{BoxError, ChooseError, Chooser, Chosen, Reach, ReachError, Wish};
pub use run::{BadRunId, RunId, RunOrder, RunSummary};
pub use settings::Settings;
pub use workflow::{
    Action, Effort, End, FileContent, Group, Limits, Place, ReadWorkflowError, Run, SOURCES,
    Script, Source, SpotWish, Step, Transfer, Wants, When, Workflow,
};

/// What documents are written in.
pub use muster_config::Format;
