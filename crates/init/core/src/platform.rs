//! What core asks of the system on the way from an input to its outcome, behind one trait: clocks, waiting, the record,
//! `muster-init`, processes, cgroups, the log daemon.
//!
//! [`real::RealPlatform`] makes the system calls; tests put a simulated machine in its place and let it die at any moment.
//! Methods are small and do one thing; none of them decides. What `muster-activation` and the control socket do by
//! themselves (sockets, inotify, tables of the kernel, clients) is not behind it.

pub mod real;
mod token;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use muster_activation::sockets::{self, Owner};
use muster_cgroup::{Allotted, Occasion, Offer, PinnedProgram, Plan, Refusals, Unapplied};
use muster_engine::ids::{ActionId, Clock, InvocationId, Time};
use muster_engine::protocol::{Process, SpawnError};
use muster_exec::bpf::PinnedError;
use muster_exec::{ExecContext, Network};
use muster_handover::{FromInit, ShutdownKind};
use muster_unit_file::config::SocketConfig;

use crate::execute::activation::chain;

pub use token::Token;

/// Something that waits to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What.
    pub token: Token,
    /// There is something to read, or the other end is gone.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A process to be started.
#[derive(Debug)]
pub struct Launch<'a> {
    /// How.
    pub context: &'a ExecContext,
    /// Descriptors that the context refers to by their place.
    pub descriptors: &'a [BorrowedFd<'a>],
    /// The cgroup it is put into, below the root of the tree; made if it is not there.
    pub cgroup: &'a str,
    /// The run that it belongs to.
    pub invocation: InvocationId,
}

/// What is known of a process that core did not start itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its cgroup below the root of the tree; `None` if it is elsewhere.
    pub cgroup: Option<Box<str>>,
    /// Its parent.
    pub parent: u32,
    /// The inode of its pidfd; 0 where the kernel has none.
    pub pidfd_inode: u64,
    /// When it was started, in clock ticks since boot.
    pub start: u64,
}

/// What a cgroup uses, as far as it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tasks.
    pub tasks: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// The most bytes of memory that there ever were.
    pub memory_peak: Option<u64>,
    /// Microseconds of processor time.
    pub cpu: Option<u64>,
    /// Block devices: bytes and operations read, bytes and operations written.
    pub disks: [Option<u64>; 4],
    /// Network: bytes and packets in, bytes and packets out.
    pub network: [Option<u64>; 4],
    /// How often limits were reached.
    pub refusals: Refusals,
}

/// Where the sockets of a unit are opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketPlace<'a> {
    /// The cgroup whose filters hold for them.
    pub cgroup: Option<&'a str>,
    /// The network that they are bound in, where that is not the manager's.
    pub network: Option<Network<'a>>,
}

/// The sockets of a unit.
#[derive(Debug, Default)]
pub struct Opened {
    /// One per line, in their order.
    pub sockets: Vec<OwnedFd>,
    /// What could not be set, for people.
    pub warnings: Vec<String>,
}

/// A unit's sockets could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOpened {
    /// Which line, from 0.
    pub index: u16,
    /// The system's error number.
    pub errno: i32,
    /// Why, for people.
    pub message: String,
}

/// Opens the sockets of a unit in this process.
fn open_here(config: &SocketConfig, owner: Owner, kept: Vec<OwnedFd>) -> Result<Opened, NotOpened> {
    match sockets::open(config, owner, kept) {
        Ok(opened) => Ok(Opened {
            warnings: opened.warnings.iter().map(|it| chain(it)).collect(),
            sockets: opened.sockets,
        }),
        Err(error) => Err(NotOpened {
            index: error.index,
            errno: error.source.raw_os_error(),
            message: chain(&error),
        }),
    }
}

/// The system, as core uses it.
pub trait Platform {
    /// Both clocks now.
    fn clock(&self) -> Clock;
    /// Random bits for new runs.
    fn chance(&mut self) -> InvocationId;

    /// Waits until something is ready or the moment has come.
    ///
    /// # Errors
    /// If waiting is not possible at all.
    fn wait(&mut self, until: Option<Time>, ready: &mut Vec<Ready>) -> io::Result<()>;
    /// Reports a descriptor as ready from now on, also for writing if `writable`. Watching it again changes that.
    ///
    /// # Errors
    /// If the descriptor cannot be waited for.
    fn watch(&mut self, fd: BorrowedFd<'_>, token: Token, writable: bool) -> io::Result<()>;
    /// Stops reporting a descriptor.
    fn unwatch(&mut self, fd: BorrowedFd<'_>);

    /// Adds to the record.
    ///
    /// # Errors
    /// If the record cannot take it: nothing may be done then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the record off behind so many bytes: what follows is no entry, and would hide all that is added behind it.
    ///
    /// # Errors
    /// If it cannot be cut.
    fn cut_record(&mut self, length: usize) -> io::Result<()>;
    /// Puts a new record in the place of the old one, as a whole.
    ///
    /// # Errors
    /// If there is no room for it; the old one stays.
    fn replace_record(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Memory that is not used any more goes back to the system: large loads and snapshots leave much of it.
    fn give_memory_back(&mut self);
    /// Keeps bytes that cannot be understood for whoever looks into it, and says where.
    ///
    /// # Errors
    /// If they cannot be written.
    fn set_aside(&mut self, bytes: &[u8]) -> io::Result<PathBuf>;

    /// What `muster-init` said since the last call.
    ///
    /// # Errors
    /// If the link is gone: core cannot go on without it.
    fn hear_init(&mut self, took: &mut Vec<FromInit>) -> io::Result<()>;
    /// Gives a descriptor to `muster-init` under a name; handed over with the next [`Platform::flush`].
    fn keep(&mut self, name: String, fd: OwnedFd);
    /// Lets `muster-init` close what it keeps under this name, and all names that begin with it if it ends in a colon.
    fn release(&mut self, name: &str);
    /// Exits up to this number are recorded.
    fn acknowledge(&mut self, sequence: u64);
    /// Answers a ping.
    fn pong(&mut self);
    /// Everything that ran before was adopted.
    fn adopted(&mut self);
    /// Brings the interface up by which programs of this machine talk to each other.
    ///
    /// # Errors
    /// If there is none, or it may not be changed.
    fn raise_loopback(&mut self) -> io::Result<()>;
    /// Hands over what was gathered since the last call.
    ///
    /// # Errors
    /// If the link is gone.
    fn flush(&mut self) -> io::Result<()>;
    /// This core ends in order to be replaced by another program (or the same).
    ///
    /// # Errors
    /// If the link is gone.
    fn upgrade(&mut self, program: Option<&str>, init_too: bool) -> io::Result<()>;
    /// All units are down: the machine may end.
    ///
    /// # Errors
    /// If the link is gone.
    fn shutdown(&mut self, how: ShutdownKind<'_>) -> io::Result<()>;

    /// Sends a message to the log daemon, with a descriptor perhaps. `false` if there is no room: then
    /// [`Token::Feed`] is reported when there is.
    ///
    /// # Errors
    /// If the message can never be sent.
    fn feed(&mut self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<bool>;
    /// Both ends of a new stream to the log: to read from, to write to.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    fn log_stream(&mut self) -> io::Result<(OwnedFd, OwnedFd)>;
    /// The log daemon's end of the feed.
    fn feed_end(&self) -> Option<OwnedFd>;
    /// The next datagram for sd_notify, without taking it: bytes, sender, descriptors. `None` if there is none.
    fn peek_notification(&mut self, bytes: &mut Vec<u8>) -> Option<(u32, Vec<OwnedFd>)>;
    /// Takes the datagram that was peeked at.
    fn take_notification(&mut self);
    /// Where services send notifications to.
    fn notify_path(&self) -> PathBuf;

    /// Opens the sockets of a unit, or takes those of `kept` that fit. Those that are made are in their place.
    ///
    /// # Errors
    /// One of them cannot be opened, or not there.
    fn open_sockets(
        &mut self,
        _place: SocketPlace<'_>,
        config: &SocketConfig,
        owner: Owner,
        kept: Vec<OwnedFd>,
    ) -> Result<Opened, NotOpened> {
        open_here(config, owner, kept)
    }

    /// Starts a process, exactly once per action.
    ///
    /// # Errors
    /// The step that failed, with the exit code that stands for it.
    fn spawn(&mut self, action: ActionId, launch: &Launch<'_>) -> Result<Process, SpawnError>;
    /// Starts a program of Muster's own, in the manager's cgroup; it is given `descriptors` as the context says.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start_helper(
        &mut self,
        context: &ExecContext,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()>;
    /// The process that an action started, if the kernel got as far before the last core died.
    fn spawned(&self, action: ActionId) -> Option<u32>;
    /// Takes a process over that runs already. `false` if it is gone or its number means another one now.
    fn adopt(&mut self, process: &Process) -> bool;
    /// Sends a signal to exactly this process.
    ///
    /// # Errors
    /// If it is gone, or the system refuses.
    fn signal(&mut self, pid: u32, signal: u8) -> io::Result<()>;
    /// A process was reaped.
    fn forget(&mut self, pid: u32);
    /// What is known of any process; `None` if it is gone.
    fn process(&self, pid: u32) -> Option<ProcessFacts>;
    /// Its command line, for people.
    fn command_line(&self, pid: u32) -> String;

    /// Makes a cgroup and those above it; whether it is new.
    ///
    /// # Errors
    /// If the system refuses.
    fn make_cgroup(&mut self, path: &str) -> io::Result<bool>;
    /// Whether a cgroup is there.
    fn has_cgroup(&self, path: &str) -> bool;
    /// What cgroups can be given here.
    fn offer(&self) -> Offer;
    /// Gives a cgroup its limits and filters. What the system refuses is named.
    fn limit(&mut self, path: &str, plan: &Plan, occasion: Occasion) -> Vec<Unapplied>;
    /// Attaches these programs that others loaded to a cgroup, and takes away others of theirs that it was asked for before. Gives
    /// those that cannot be attached.
    fn attach_pinned(&mut self, _path: &str, _wanted: &[PinnedProgram]) -> Vec<PinnedError> {
        Vec::new()
    }
    /// Where processes of a cgroup are noted that its filter of file systems does not hold for; nothing where it has none.
    fn exemptions(&self, _path: &str) -> Option<OwnedFd> {
        None
    }
    /// Lets a user make cgroups below this one.
    ///
    /// # Errors
    /// If the system refuses.
    fn give_cgroup(&mut self, path: &str, user: u32, group: u32) -> io::Result<()>;
    /// Lets a user ask to be told of pressure on the memory of a cgroup.
    ///
    /// # Errors
    /// If the system refuses.
    fn give_pressure(&mut self, _path: &str, _user: u32, _group: u32) -> io::Result<()> {
        Ok(())
    }
    /// Where a cgroup is in the file system, if the pressure on its memory is measured.
    fn pressure_folder(&self, path: &str) -> Option<PathBuf>;
    /// Moves processes into a cgroup.
    ///
    /// # Errors
    /// If the system refuses one of them.
    fn attach(&mut self, path: &str, pids: &[u32]) -> io::Result<()>;
    /// Removes a cgroup that has no processes. `true` if it is gone.
    fn remove_cgroup(&mut self, path: &str) -> bool;
    /// Whether any process is in a cgroup or below.
    fn is_populated(&self, path: &str) -> bool;
    /// Sends a signal to all processes in a cgroup and below, but for those that are spared; SIGKILL spares nobody. `false` if
    /// there were none.
    ///
    /// # Errors
    /// If the system refuses.
    fn kill_cgroup(&mut self, path: &str, signal: u8, spared: &[u32]) -> io::Result<bool>;
    /// Reports [`Token::Cgroups`] when a cgroup may have become empty; asked with [`Platform::changed_cgroups`].
    ///
    /// # Errors
    /// If the system cannot tell.
    fn watch_cgroup(&mut self, path: &str) -> io::Result<()>;
    /// Stops watching.
    fn unwatch_cgroup(&mut self, path: &str);
    /// Reports [`Token::Cgroups`] when the kernel may have ended a process of a cgroup for lack of memory.
    ///
    /// # Errors
    /// If the system cannot tell.
    fn watch_memory(&mut self, path: &str) -> io::Result<()>;
    /// Stops watching.
    fn unwatch_memory(&mut self, path: &str);
    /// Watched cgroups that may have become empty since the last call, and those that may have run out of memory.
    fn changed_cgroups(&mut self, emptied: &mut Vec<Box<str>>, starved: &mut Vec<Box<str>>);
    /// Processes in a cgroup and below, each with the part of the path below it.
    fn processes(&self, path: &str) -> Vec<(u32, String)>;
    /// All cgroups below the root that have processes of their own.
    fn populated(&self) -> Vec<(String, Vec<u32>)>;
    /// Freezes or thaws.
    ///
    /// # Errors
    /// If the system cannot, or does not in time; then nothing was frozen.
    fn freeze(&mut self, path: &str, frozen: bool) -> io::Result<()>;
    /// Thaws a cgroup that is frozen by itself; gives the unit whose cgroup above it keeps it frozen nevertheless. Waits for
    /// nothing.
    ///
    /// # Errors
    /// If the system cannot.
    fn thaw(&mut self, path: &str) -> io::Result<Option<Box<str>>>;
    /// Whether a cgroup is frozen.
    fn is_frozen(&self, path: &str) -> bool;
    /// What a cgroup has used up so far: processor time, the most memory, and disks and network where somebody counts them. It
    /// is asked at the end of every run, so it looks at nothing else.
    fn consumed(&self, path: &str, disks: bool, network: bool) -> Usage;
    /// What a cgroup may use at the moment.
    fn allotted(&self, path: &str) -> Allotted;
    /// What a cgroup uses.
    fn usage(&self, path: &str) -> Usage;
    /// How often the kernel killed for memory in a cgroup.
    fn oom_kills(&self, path: &str) -> u64;
    /// unified, hybrid, legacy or none; and where the tree's root is in the file system.
    fn cgroup_tree(&self) -> (&'static str, PathBuf);
}
