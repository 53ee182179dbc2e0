//! `muster machine`.

mod copy;
mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_config::Duration;

use self::copy::{CP_HELP, SYNC_HELP};
pub(crate) use self::copy::{Copy, Sync};
use self::run::RUN_HELP;
pub(crate) use self::run::{Finally, Run, RunLogs, RunNames, Runs};
use super::ports::{Ports, ports};

pub(crate) const EXIT_CODES: &str = "\
A machine is named by its id, a beginning of its id, or what --name called it.

Exit codes:
  0  done
  1  failed
  2  the command line makes no sense
  3  refused: not allowed, or not possible in this state; nothing fits
  4  there is no such machine, template, pool, run or file
  5  the node manager cannot be reached
  6  not in time: a machine that does not answer yet, or a node that is not connected
  130  interrupted by Ctrl-C; 143 and 129 by SIGTERM and SIGHUP
`exec`, `ssh` and `run` exit with what their command exited with, and 128 and the number of the signal that killed it; 124 is a
timeout, 125 a failure around the command, 126 a command that cannot be executed, 127 one that is not there, 141 a reader of the
output that went away. What else fails inside a machine, as `cp`, `sync`, `forward` or `join`, is 1.";

/// What `join` and `provision --join` take.
const JOIN_HELP: &str = "\
The file that describes a Unit (JSON or YAML; `muster up` writes one, join.json in its folder):
  systemId: demo-1
  model: demo;1.0
  subjects: [demo]
  # the Main Node, as machines reach it
  iamPublicUrl: 10.0.0.1:8090
  iamProtectedUrl: 10.0.0.1:8089
  cmUrl: 10.0.0.1:8093
  # files here: what machines shall trust, and the authority that certifies them
  rootCertificate: /srv/pki/root.crt.pem
  revocationLists: [/srv/pki/crl.pem]
  authority: /srv/pki
  # on the Main Node itself
  iamSocket: /run/muster/iam.sock
  controlSocket: /run/muster/cm.sock
  # anywhere else, instead of the two sockets (`muster pki issue --node NAME --role operator`);
  # controlUrl is what muster-cm has as its controlServerUrl
  certificate: /home/me/desk-operator.crt.pem
  key: /home/me/desk-operator.key.pem
  controlUrl: https://10.0.0.1:8094";

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
    Show(Show),
    /// Make a machine, and wait until it answers
    ///
    /// Who makes it is chosen by the policy; `plan` explains the choice. One that does not answer in time stays: it may be booting.
    Provision(Box<Provision>),
    /// Make a machine that exists a node of a Unit
    ///
    /// Muster is put on it, and it is provisioned with the Unit's authority. What was interrupted goes on from where it was.
    #[command(after_help = JOIN_HELP)]
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
    /// Open a terminal on a machine, or run a command with one; also where there is no SSH, as in containers
    Ssh(Ssh),
    /// Copy a file or folder to a machine or from it, as MACHINE:PATH
    #[command(visible_alias = "copy", after_help = CP_HELP)]
    Cp(Copy),
    /// Make a folder on a machine the same as one here, or the other way round: only what changed is moved
    #[command(after_help = SYNC_HELP)]
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
    /// Start hibernated machines, with their memory as it was
    Resume(Verb),
    /// Reboot machines; their disks stay as they are
    Reboot(Reboot),
    /// Destroy machines, with their disks
    #[command(visible_alias = "rm")]
    Destroy(Verb),
    /// Find what this node manager made at providers and has no record of, and destroy it with --destroy
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
    /// An hour must not cost more, e.g. 0.25; an unknown price is too much. Of the types that a template lists, the dearest counts.
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
    /// What happens to it then [default: as configured]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) when_idle: Option<WhenIdle>,
    /// Destroy it after it was stopped for so long [default: as configured]
    #[arg(long, value_name = "TIME")]
    pub(crate) stopped: Option<Duration>,
    /// Destroy it after so long in all, when it has no work [default: as configured]
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
    /// Make it a node of a Unit: the folder of `muster up`, or a file that describes the Unit; `join --help` shows one.
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
    /// Only check whether the Unit is described and the machine answers, and say what would be done.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `muster machine show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) one: One,
    /// Show it again whenever it changes, until it is gone.
    #[arg(short, long)]
    pub(crate) watch: bool,
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
    /// Only say what would be taken out of which Unit.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
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
    /// For whom [default: the first that is configured and a barrier, so not this machine itself]
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
    /// Only say whether it could be done.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
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
    #[command(visible_alias = "ls")]
    List(PoolList),
    /// Make or change a pool
    Set(Box<PoolSet>),
    /// Give a pool up; its machines stay
    #[command(visible_alias = "rm")]
    Remove(PoolRemove),
    /// Take a machine that is ready out of a pool, and show it; `-o name` prints its id alone
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
    /// So many there may be in all [default: as many as are needed]
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

/// `muster machine pool list`
#[derive(Debug, Args)]
pub(crate) struct PoolList {
    /// Go on showing every change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// `muster machine pool remove`
#[derive(Debug, Args)]
pub(crate) struct PoolRemove {
    /// The pool.
    #[arg(value_name = "POOL")]
    pub(crate) name: String,
    /// Only say whether it could be done.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
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
