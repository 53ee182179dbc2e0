//! `muster machine`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_config::Duration;

use super::ports::{Ports, ports};

pub(crate) const EXIT_CODES: &str = "\
A machine is named by its id, a beginning of its id, or what --name called it.

Exit codes:
  0  done
  1  failed
  2  the command line makes no sense
  3  refused: not allowed, or not possible in this state; nothing fits
  4  there is no such machine, template, pool or run
  5  the node manager cannot be reached
  6  not in time: a machine that does not answer yet, or a node that is not connected
  130  interrupted
`exec`, `ssh` and `run` exit with what their command exited with; 124 is a timeout, 125 a failure around the command, 126 a command
that cannot be executed, 127 one that is not there.";

const RUN_HELP: &str = "\
Examples:
  muster machine run --image gcc:14 -- make test             this folder, in a container that has make, and back
  muster machine run -t small --no-back -- ./measure.sh      what changes there stays there
  muster machine run --workflow nightly.yaml                 several machines and steps

The folder goes to /src of the machine (--to), the command runs there, and what it changed comes back, also when it failed. The
machine is destroyed at the end. Ctrl-C cancels the run and cleans up.";

/// Machines on demand.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: MachineCommand,
}

/// How to reach the node manager.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// The socket of the node manager [default: your own, or the system's for root]
    #[arg(long, value_name = "SOCKET", env = "MUSTER_MANAGER", global = true)]
    pub(crate) manager: Option<PathBuf>,
    /// Do not start a node manager where none answers.
    #[arg(long, global = true)]
    pub(crate) no_start: bool,
}

/// What can be done about machines.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// Run a command on a machine that is made for it, with this folder there and back
    #[command(after_help = RUN_HELP)]
    Run(Box<Run>),
    /// List machines
    #[command(visible_alias = "ls")]
    List(List),
    /// Show one machine
    Show(One),
    /// Make a machine, and wait until it answers
    ///
    /// Who makes it is chosen by the policy; `plan` explains the choice. One that does not answer in time stays: it may be booting.
    Provision(Box<Provision>),
    /// Make a machine that exists a node of a Unit
    ///
    /// Muster is put on it, and it is provisioned with the Unit's authority. What was interrupted goes on from where it was.
    Join(Join),
    /// Take machines that are nodes out of their Unit, also those that are gone
    ///
    /// `destroy` does that by itself. What has ended otherwise, by its lifetime or with a run, is listed until it was done: the
    /// certificates of such a node are revoked, and the Unit shows it as not connected.
    Leave(Leave),
    /// Show which machine would be used or made, and why not the others
    Plan(WishArgs),
    /// Show what a template comes to for a provider, field by field, and which rule set it
    Explain(Explain),
    /// List templates, add or remove some
    ///
    /// Templates are files that the node manager reads whenever it needs them, and those that were added to it.
    #[command(args_conflicts_with_subcommands = true)]
    Templates(Templates),
    /// List providers and what each can do
    Providers,
    /// Run a command on a machine
    Exec(Exec),
    /// Open a terminal on a machine, or run a command with one
    Ssh(Ssh),
    /// Copy a file or folder to a machine or from it, as MACHINE:PATH
    #[command(visible_alias = "copy")]
    Cp(Copy),
    /// Make a folder on a machine the same as one here, or the other way round: only what changed is moved
    Sync(Sync),
    /// Say that a machine is in use: it is not put away meanwhile
    ///
    /// For work that nobody here sees. What was said before is never shortened, and holds for a manager that is started anew, too.
    Busy(Busy),
    /// Make ports of a machine, or of what it can reach, ports of this machine, until it is interrupted
    Forward(Forward),
    /// Start stopped machines
    Start(Verb),
    /// Stop machines: their disks are kept
    Stop(Stop),
    /// Stop machines and keep their memory
    Hibernate(Verb),
    /// Go on after a hibernation
    Resume(Verb),
    /// Start machines anew
    Reboot(Reboot),
    /// Destroy machines, with their disks
    #[command(visible_alias = "rm")]
    Destroy(Verb),
    /// Find what bears our mark at a provider and is known to nobody, and destroy it with --destroy
    Gc(Gc),
    /// Warm pools: machines that are ready before somebody asks
    #[command(subcommand)]
    Pool(Pool),
    /// Show what happened to machines
    Events(Events),
    /// Runs of workflows and commands: list, show, logs, cancel
    #[command(subcommand)]
    Runs(Runs),
    /// Show what is pinned of images, or forget it so that it is found anew
    Lock(Lock),
    /// Check whether providers answer and templates can be read, and say what to do
    Doctor,
    /// Show which node manager answers, and where it keeps what, or end it with --stop
    Manager(ManagerArgs),
}

/// A machine that is wanted.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WishArgs {
    /// The template [default: plain, which says nothing]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Who makes it: docker, libvirt, aws, local or sim [default: as the policy chooses]
    #[arg(short, long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// The image; short for --set image=IMAGE
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// A field instead of what the template says, such as cpus=4 or region=eu-central-1; can be repeated.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// What to think of spot machines [default: as configured]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) spot: Option<Spot>,
    /// A type of spot machines that will do, the best first; can be repeated.
    #[arg(long, value_name = "TYPE", requires = "spot")]
    pub(crate) spot_type: Vec<String>,
    /// What counts first: reuse (which is also --reuse), cost, speed, locality, spread; can be repeated.
    #[arg(long, value_name = "CRITERION")]
    pub(crate) prefer: Vec<String>,
    /// Take a machine of the template that is free, stopped or hibernated, instead of a new one.
    #[arg(long)]
    pub(crate) reuse: bool,
    /// It must be usable like this, such as ssh:exec; can be repeated.
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) access: Vec<String>,
    /// It must live at least this long, e.g. 2h.
    #[arg(long, value_name = "TIME")]
    pub(crate) runs_for: Option<Duration>,
    /// An hour must not cost more, e.g. 0.25; an unknown price is too much.
    #[arg(long, value_name = "PRICE", value_parser = price)]
    pub(crate) max_price: Option<u64>,
    /// A taint of a provider that does not keep it away; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub(crate) tolerate: Vec<(String, String)>,
}

/// What to think of spot machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spot {
    /// None.
    Never,
    /// Rather than one on demand.
    Prefer,
    /// Nothing else.
    Only,
    /// As it comes.
    Either,
}

/// When a machine is put away.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TimerArgs {
    /// Put it away after so long without work, e.g. 30m; 0s is never [default: as configured]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle: Option<Duration>,
    /// What happens to it then.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) when_idle: Option<WhenIdle>,
    /// Destroy it after it was stopped for so long.
    #[arg(long, value_name = "TIME")]
    pub(crate) stopped: Option<Duration>,
    /// Destroy it after so long in all, when it has no work.
    #[arg(long, value_name = "TIME")]
    pub(crate) lifetime: Option<Duration>,
}

/// What becomes of an idle machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenIdle {
    /// It is switched off.
    Stop,
    /// Its memory is kept, where that can be done.
    Hibernate,
    /// It is destroyed.
    Terminate,
}

/// `muster machine provision`
#[derive(Debug, Args)]
pub(crate) struct Provision {
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// What to call it.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What you say about it; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub(crate) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) timers: TimerArgs,
    /// Asking again with the same key gives the machine that was made first.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Make it a node of a Unit: the folder of `muster up`, or a file that describes the Unit.
    #[arg(long, value_name = "UNIT", conflicts_with = "no_wait")]
    pub(crate) join: Option<PathBuf>,
    /// For --join: the folder of Muster's programs for such a machine [default: this machine's own]
    #[arg(long, value_name = "FOLDER", requires = "join")]
    pub(crate) programs: Option<PathBuf>,
    /// Do not wait until it runs and answers.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long a machine that runs may take until it answers.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        conflicts_with = "no_wait"
    )]
    pub(crate) timeout: Duration,
    /// Only show which machine it would be, as `plan` does.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `muster machine join`
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// The Unit: the folder of `muster up`, or a file that describes it.
    #[arg(value_name = "UNIT")]
    pub(crate) unit: PathBuf,
    /// The folder of Muster's programs for such a machine [default: this machine's own]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
}

/// `muster machine leave`
#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// The machines.
    #[arg(value_name = "MACHINE", required = true)]
    pub(crate) machines: Vec<String>,
    /// Do not ask the Unit: there is none any more, or it does not know the node.
    #[arg(long)]
    pub(crate) forget: bool,
}

/// `muster machine busy`
#[derive(Debug, Args)]
pub(crate) struct Busy {
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// For how long from now on, at most 30d.
    #[arg(long = "for", value_name = "TIME", default_value = "10m")]
    pub(crate) time: Duration,
}

/// `muster machine explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The template.
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: String,
    /// For whom [default: the first provider that is configured]
    #[arg(short, long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// A field instead of what the template says; can be repeated.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

/// `muster machine templates`
#[derive(Debug, Args)]
pub(crate) struct Templates {
    #[command(subcommand)]
    pub(crate) command: Option<TemplatesCommand>,
}

/// What can be done about templates.
#[derive(Debug, Subcommand)]
pub(crate) enum TemplatesCommand {
    /// List templates; so does the command without a word
    #[command(visible_alias = "ls")]
    List,
    /// Add the templates of a file to the node manager, or replace those that were added before
    ///
    /// They are read by the same rules as the manager's own files: all of them are added, or none. The manager keeps them when it is
    /// started anew, and does not look at FILE again. A name that one of its own files has is refused.
    Add(AddTemplates),
    /// Remove templates that were added
    ///
    /// One that pools, machines or other templates are made of is not removed.
    #[command(visible_alias = "rm")]
    Remove(RemoveTemplates),
}

/// `muster machine templates add`
#[derive(Debug, Args)]
pub(crate) struct AddTemplates {
    /// YAML, or JSON if its name ends in .json, with one or several templates.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only say what would become of them.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `muster machine templates remove`
#[derive(Debug, Args)]
pub(crate) struct RemoveTemplates {
    /// Templates.
    #[arg(required = true, value_name = "TEMPLATE")]
    pub(crate) templates: Vec<String>,
    /// Also if pools and machines were made of it: they stay as they are.
    #[arg(long)]
    pub(crate) force: bool,
}

/// `muster machine list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also those that are gone and remembered.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Go on showing every change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// One machine.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
}

/// `muster machine start` and its like
#[derive(Debug, Args)]
pub(crate) struct Verb {
    /// Machines.
    #[arg(required = true, value_name = "MACHINE")]
    pub(crate) machines: Vec<String>,
    /// Do not wait until it has come about.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Only say whether it could be done.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `muster machine stop`
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Cut the power instead of shutting the system down.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Let the machine switch itself off by a command in it, where it does not hear its provider. Nothing is waited for.
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub(crate) from_inside: bool,
    #[command(flatten)]
    pub(crate) verb: Verb,
}

/// `muster machine reboot`
#[derive(Debug, Args)]
pub(crate) struct Reboot {
    /// Let the machine boot itself by a command in it, where it does not hear its provider. Nothing is waited for.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) from_inside: bool,
    #[command(flatten)]
    pub(crate) verb: Verb,
}

/// `muster machine gc`
#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Destroy what was found. What does not bear our mark is never touched.
    #[arg(long)]
    pub(crate) destroy: bool,
}

/// `muster machine pool`
#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// List pools
    List,
    /// Make or change a pool
    Set(Box<PoolSet>),
    /// Give a pool up; its machines stay
    Remove(PoolName),
    /// Take a machine that is ready out of a pool, and print its id
    Claim(Claim),
    /// Give a machine back to its pool
    Release(One),
}

/// `muster machine pool set`
#[derive(Debug, Args)]
pub(crate) struct PoolSet {
    /// What it is called.
    #[arg(value_name = "POOL")]
    pub(crate) name: String,
    /// So many are ready without work.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) min_idle: u32,
    /// So many there may be in all.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max: Option<u32>,
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    #[command(flatten)]
    pub(crate) timers: TimerArgs,
    /// Only show what its machines would be, and what is tried where that cannot be had, as `plan` does.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// A pool.
#[derive(Debug, Args)]
pub(crate) struct PoolName {
    /// The pool.
    #[arg(value_name = "POOL")]
    pub(crate) name: String,
}

/// `muster machine pool claim`
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// The pool.
    #[arg(value_name = "POOL")]
    pub(crate) name: String,
    /// For whom, for people [default: your user's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Wait so long for one that is ready.
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
}

/// `muster machine events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only of this machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Go on showing what happens.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only what happened after the event of this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
}

/// With what and where a command runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CommandArgs {
    /// A variable as NAME=value; can be repeated.
    #[arg(short, long, value_name = "VARIABLE", value_parser = assignment)]
    pub(crate) env: Vec<(String, String)>,
    /// The folder of the machine that it starts in.
    #[arg(short = 'C', long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Whom it runs as.
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Kill it after so long.
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
}

/// `muster machine exec`
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) place: CommandArgs,
    /// Give it what comes on standard input.
    #[arg(short, long)]
    pub(crate) input: bool,
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `muster machine ssh`
#[derive(Debug, Args)]
pub(crate) struct Ssh {
    #[command(flatten)]
    pub(crate) place: CommandArgs,
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// The command and its arguments [default: a login shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `muster machine forward`
#[derive(Debug, Args)]
pub(crate) struct Forward {
    /// The machine.
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: String,
    /// A port here, and where it leads as seen from the machine: [ADDRESS:]PORT:HOST:PORT, or PORT for the same port there.
    /// Port 0 here takes a free one, which is shown.
    #[arg(required = true, value_name = "PORTS", value_parser = ports)]
    pub(crate) ports: Vec<Ports>,
}

/// `muster machine cp`
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// What is copied: a path of this machine, or MACHINE:PATH.
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// What it becomes: a path of this machine, or MACHINE:PATH.
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Compare and verify files by what they hold instead of by size and time.
    #[arg(long)]
    pub(crate) checksum: bool,
}

/// `muster machine sync`
#[derive(Debug, Args)]
pub(crate) struct Sync {
    #[command(flatten)]
    pub(crate) copy: Copy,
    /// Remove what is only in the target.
    #[arg(long)]
    pub(crate) delete: bool,
}

/// What a workflow says itself, or has no use for.
const NOT_OF_WORKFLOWS: [&str; 24] = [
    "command",
    "machine",
    "folder",
    "no_sync",
    "no_back",
    "to",
    "env",
    "cwd",
    "timeout",
    "finally",
    "on_failure",
    "dry_run",
    "template",
    "provider",
    "image",
    "set",
    "spot",
    "spot_type",
    "prefer",
    "reuse",
    "access",
    "runs_for",
    "max_price",
    "tolerate",
];

/// `muster machine run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// Run on this machine, which is kept, instead of on a new one.
    #[arg(short, long, value_name = "MACHINE", conflicts_with_all = ["template", "provider", "image", "set"])]
    pub(crate) machine: Option<String>,
    /// The folder that goes there and back [default: the one you are in]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Bring no folder there.
    #[arg(long, conflicts_with = "folder")]
    pub(crate) no_sync: bool,
    /// Do not bring the folder back.
    #[arg(long)]
    pub(crate) no_back: bool,
    /// Where the folder goes on the machine [default: /src for root, src in the home of any other login]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<String>,
    /// A variable as NAME=value; can be repeated.
    #[arg(short, long, value_name = "VARIABLE", value_parser = assignment)]
    pub(crate) env: Vec<(String, String)>,
    /// The folder of the machine that the command starts in [default: where the folder went]
    #[arg(short = 'C', long, value_name = "FOLDER")]
    pub(crate) cwd: Option<String>,
    /// End the command after so long [default: it may take as long as it likes]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// What becomes of the machine [default: destroy]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) finally: Option<Finally>,
    /// What becomes of the machine if the command fails [default: the same]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_failure: Option<Finally>,
    /// Run this workflow (YAML or JSON) instead of a command. It says itself which machines it needs, how long its steps may
    /// take (an hour each, if it says nothing) and what becomes of the machines.
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_OF_WORKFLOWS)]
    pub(crate) workflow: Option<PathBuf>,
    /// Only print the id of the run; `runs logs -f` follows it.
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Only show which machine it would be, as `plan` does.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// The command and its arguments.
    #[arg(required_unless_present_any = ["workflow", "dry_run"], last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What becomes of a machine after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Finally {
    /// It is destroyed.
    Destroy,
    /// It is stopped.
    Stop,
    /// It stays as it is.
    Keep,
}

/// `muster machine runs`
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, the newest first
    #[command(visible_alias = "ls")]
    List,
    /// Show one run and its steps
    Show(RunName),
    /// Show what a run's commands wrote
    Logs(RunLogs),
    /// Show what happened in a run
    Events(RunLogs),
    /// End runs early; their machines are cleaned up
    Cancel(RunNames),
    /// Forget runs that are over, with their logs
    #[command(visible_alias = "rm")]
    Remove(RunNames),
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct RunName {
    /// The run's id, or a beginning of it.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

/// Runs.
#[derive(Debug, Args)]
pub(crate) struct RunNames {
    /// Runs, by their ids or beginnings of them.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

/// `muster machine runs logs` and `events`
#[derive(Debug, Args)]
pub(crate) struct RunLogs {
    /// The run's id, or a beginning of it.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Go on until the run is over.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// `muster machine manager`
#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    /// End it; machines stay as they are, and the next command may start another one.
    #[arg(long)]
    pub(crate) stop: bool,
}

/// `muster machine lock`
#[derive(Debug, Args)]
pub(crate) struct Lock {
    /// Forget what is pinned for this template; can be repeated.
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) forget: Vec<String>,
    /// Forget everything.
    #[arg(long)]
    pub(crate) forget_all: bool,
}

/// A price in millionths.
fn price(text: &str) -> Result<u64, String> {
    let wrong = || "write it as a number that is not negative, such as 0.25".to_owned();
    let price: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.0..=1e9).contains(&price) {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and a thousand million millionths"
    )]
    let millionths = (price * 1e6).round() as u64;
    Ok(millionths)
}

/// `NAME=value`.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}
