//! The real system.

mod cgroups;
mod init;
mod logs;
mod memory;
mod process;
mod sockets;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use muster_activation::sockets::Owner;
use muster_cgroup::{
    Allotted, CgroupPath, Hierarchy, HierarchyError, Legacy, Occasion, Offer, PinnedProgram, Plan,
    Tree, Unapplied,
};
use muster_engine::ids::{ActionId, Clock, InvocationId, Time};
use muster_engine::protocol::{Process, SpawnError};
use muster_exec::bpf::PinnedError;
use muster_exec::{Slot, Spawner};
use muster_handover::{Begun, CoreLink, FromInit, ShutdownKind};
use muster_unit_file::config::SocketConfig;
use rustix::event::{Timespec, epoll};
use rustix::fs::{Access, access};
use rustix::time::{ClockId, clock_gettime};

use self::cgroups::Watch;
use super::{
    Launch, NotOpened, Opened, Platform, ProcessFacts, Ready, SocketPlace, Token, Usage, open_here,
};
use crate::core::CoreError;
use crate::options::Options;

/// Events taken in one go.
const BATCH: usize = 64;

/// The system calls themselves.
#[derive(Debug)]
pub struct RealPlatform {
    epoll: OwnedFd,
    link: CoreLink,
    keep: Vec<(String, OwnedFd)>,
    release: Vec<String>,
    acknowledge: Option<u64>,
    record: Option<OwnedFd>,
    runtime: PathBuf,
    slot: Slot,
    spawner: Spawner,
    pidfds: HashMap<u32, OwnedFd>,
    tree: Tree,
    /// The tree's root as the kernel names it.
    root: Box<str>,
    watched: cgroups::Watched,
    /// The cgroup that was made last, until something is done with it.
    fresh: Option<CgroupPath>,
    notify: OwnedFd,
    feed: OwnedFd,
    feed_end: OwnedFd,
    feed_is_full: bool,
    chance: u128,
}

impl RealPlatform {
    /// Opens everything, or takes it from what was kept. Gives the record of the core before this one, if there was one.
    ///
    /// # Errors
    /// If something cannot be opened that core cannot do without.
    pub fn new(
        link: CoreLink,
        begun: &mut Begun,
        options: &Options,
    ) -> Result<(Self, Option<Vec<u8>>), CoreError> {
        let open = |what: &str| {
            let what = what.to_owned();
            move |source: io::Error| CoreError::Open { what, source }
        };
        std::fs::create_dir_all(&options.runtime).map_err(open("the runtime folder"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| open("epoll")(error.into()))?;
        let mut keep = Vec::new();
        let record = begun.kept.remove("state");
        let bytes = match &record {
            Some(fd) => Some(init::read_record(fd).map_err(open("the record"))?),
            None => None,
        };
        let slot = match begun.kept.remove("slot").map(Slot::map) {
            Some(Ok(slot)) => slot,
            _ => {
                let (slot, fd) =
                    Slot::create().map_err(|error| open("the slot")(io::Error::other(error)))?;
                keep.push(("slot".to_owned(), fd));
                slot
            }
        };
        let (feed, feed_end) = logs::feed(&mut begun.kept, &mut keep).map_err(open("the feed"))?;
        let notify = logs::notify(&mut begun.kept, &mut keep, &options.runtime.join("notify"))
            .map_err(open("the notification socket"))?;
        let tree = open_tree(options).map_err(open("the cgroup tree"))?;
        let spawner = Spawner::new()
            .map_err(|error| open("what processes are started with")(io::Error::other(error)))?;
        let mut chance = [0u8; 16];
        let _ = rustix::rand::getrandom(&mut chance, rustix::rand::GetRandomFlags::empty());
        let watched = cgroups::Watched::new().map_err(open("inotify"))?;
        let mut platform = Self {
            epoll,
            link,
            keep,
            release: Vec::new(),
            acknowledge: None,
            record,
            runtime: options.runtime.clone(),
            slot,
            spawner,
            pidfds: HashMap::new(),
            root: cgroups::kernel_root(tree.mode()),
            tree,
            watched,
            fresh: None,
            notify,
            feed,
            feed_end,
            feed_is_full: false,
            chance: u128::from_le_bytes(chance),
        };
        platform.watch_own().map_err(open("epoll"))?;
        Ok((platform, bytes))
    }

    /// Tasks that the cgroup may have which everything runs below.
    #[must_use]
    pub fn task_limit(&self) -> u64 {
        self.tree.task_limit().unwrap_or(u64::MAX)
    }

    fn watch_own(&mut self) -> io::Result<()> {
        let add = |fd: BorrowedFd<'_>, token: Token| {
            let data = epoll::EventData::new_u64(token.to_bits());
            epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)
        };
        add(self.link.as_fd(), Token::Init)?;
        add(self.notify.as_fd(), Token::Notify)?;
        add(self.watched.as_fd(), Token::Cgroups)?;
        Ok(())
    }
}

/// The tree that the command line names, or that of this process.
fn open_tree(options: &Options) -> io::Result<Tree> {
    let hierarchy = match &options.cgroup {
        Some(folder) => Hierarchy::at(folder),
        None => Hierarchy::detect(),
    };
    let hierarchy = hierarchy.unwrap_or_else(|error| {
        eprintln!("muster-core: {error}; processes are tracked by their sessions");
        Hierarchy::sessions()
    });
    let hierarchy = match &hierarchy.folder {
        Some(folder) if access(folder, Access::WRITE_OK).is_err() => {
            let folder = folder.display();
            eprintln!(
                "muster-core: {folder} is not this user's to make cgroups in; processes are tracked by their sessions"
            );
            Hierarchy::sessions()
        }
        _ => hierarchy,
    };
    let mut tree = match Tree::open(&hierarchy, &CgroupPath::root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("muster-core: {error}; processes are tracked by their sessions");
            Tree::open(&Hierarchy::sessions(), &CgroupPath::root()).map_err(io::Error::other)?
        }
    };
    match legacy(options) {
        Ok(Some((legacy, below))) => tree.use_legacy(&legacy, &below),
        Ok(None) => {}
        Err(error) => eprintln!("muster-core: {error}; controllers of cgroup v1 are not used"),
    }
    if let Some(notice) = tree.notice() {
        eprintln!("muster-core: {notice}");
    }
    let own: Vec<muster_cgroup::Pid> =
        [Some(rustix::process::getpid()), rustix::process::getppid()]
            .into_iter()
            .flatten()
            .collect();
    if let Err(error) = tree.settle(&own) {
        eprintln!("muster-core: {error}; resource controllers are not handed on");
    }
    Ok(tree)
}

/// Controllers of cgroup v1, and where the tree is in their hierarchies; `None` if the command line names a place that has no
/// counterpart there.
fn legacy(options: &Options) -> Result<Option<(Legacy, CgroupPath)>, HierarchyError> {
    let below = match &options.cgroup {
        Some(place) => Legacy::below_own(place)?,
        None => Some(CgroupPath::root()),
    };
    let legacy = Legacy::detect()?;
    Ok(below.map(|below| (legacy, below)))
}

fn micros(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000) + nanos / 1000
}

impl Platform for RealPlatform {
    fn clock(&self) -> Clock {
        Clock {
            monotonic: Time(micros(clock_gettime(ClockId::Monotonic))),
            real: i64::try_from(micros(clock_gettime(ClockId::Realtime))).unwrap_or(i64::MAX),
        }
    }

    fn chance(&mut self) -> InvocationId {
        // A sequence that never repeats, from a start that nobody can guess; ids are names, not secrets.
        self.chance = self
            .chance
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f);
        InvocationId(self.chance ^ (self.chance >> 67))
    }

    fn wait(&mut self, until: Option<Time>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let left = until.map(|until| until.0.saturating_sub(self.clock().monotonic.0));
        let patience = self.watched.alarms.patience();
        let patience = patience.map(|patience| u64::try_from(patience.as_micros()).unwrap_or(0));
        let left = patience.into_iter().chain(left).min();
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left % 1_000_000 * 1000).unwrap_or_default(),
        });
        let mut events = Vec::with_capacity(BATCH);
        let taken = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        );
        match taken {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let writable = epoll::EventFlags::OUT;
        ready.extend(events.iter().filter_map(|event| {
            let flags = event.flags;
            Some(Ready {
                token: Token::from_bits(event.data.u64())?,
                readable: flags.intersects(epoll::EventFlags::all().difference(writable)),
                writable: flags.contains(writable),
            })
        }));
        if patience.is_some() && !ready.iter().any(|one| one.token == Token::Cgroups) {
            ready.push(Ready {
                token: Token::Cgroups,
                readable: true,
                writable: false,
            });
        }
        Ok(())
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, token: Token, writable: bool) -> io::Result<()> {
        let mut flags = match token {
            Token::Mounts | Token::Swaps => epoll::EventFlags::PRI | epoll::EventFlags::ERR,
            _ => epoll::EventFlags::IN,
        };
        flags.set(epoll::EventFlags::OUT, writable);
        let data = epoll::EventData::new_u64(token.to_bits());
        match epoll::add(&self.epoll, fd, data, flags) {
            Err(rustix::io::Errno::EXIST) => epoll::modify(&self.epoll, fd, data, flags)?,
            other => other?,
        }
        Ok(())
    }

    fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        // One that was never watched is not watched afterwards either.
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        init::append(self.record.as_ref(), bytes)
    }

    fn cut_record(&mut self, length: usize) -> io::Result<()> {
        init::cut(self.record.as_ref(), length)
    }

    fn replace_record(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fd = init::new_record(bytes)?;
        self.link
            .store(&[("state", fd.as_fd())])
            .map_err(io::Error::other)?;
        self.record = Some(fd);
        Ok(())
    }

    fn give_memory_back(&mut self) {
        memory::give_back();
    }

    fn set_aside(&mut self, bytes: &[u8]) -> io::Result<PathBuf> {
        init::set_aside(&self.runtime, bytes)
    }

    fn hear_init(&mut self, took: &mut Vec<FromInit>) -> io::Result<()> {
        self.hear(took)
    }

    fn keep(&mut self, name: String, fd: OwnedFd) {
        self.keep.push((name, fd));
    }

    fn release(&mut self, name: &str) {
        // What was not handed over yet is not handed over, and what was handed over before under this name goes.
        self.keep.retain(|(kept, _)| kept != name);
        self.release.push(name.to_owned());
    }

    fn acknowledge(&mut self, sequence: u64) {
        self.acknowledge = self.acknowledge.max(Some(sequence));
    }

    fn pong(&mut self) {
        // A link that is broken is found broken by the loop.
        let _ = self.link.pong();
    }

    fn adopted(&mut self) {
        let _ = self.link.adopted();
    }

    fn raise_loopback(&mut self) -> io::Result<()> {
        muster_exec::raise_loopback()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }

    fn upgrade(&mut self, program: Option<&str>, init_too: bool) -> io::Result<()> {
        self.hand_over()?;
        let upgrade = muster_handover::Upgrade {
            core: program,
            init: init_too,
        };
        self.link.upgrade(upgrade).map_err(io::Error::other)
    }

    fn shutdown(&mut self, how: ShutdownKind<'_>) -> io::Result<()> {
        self.hand_over()?;
        self.link.shutdown(how).map_err(io::Error::other)
    }

    fn feed(&mut self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        self.send_feed(message, descriptor)
    }

    fn log_stream(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        logs::stream()
    }

    fn feed_end(&self) -> Option<OwnedFd> {
        self.feed_end.try_clone().ok()
    }

    fn peek_notification(&mut self, bytes: &mut Vec<u8>) -> Option<(u32, Vec<OwnedFd>)> {
        logs::peek(&self.notify, bytes)
    }

    fn take_notification(&mut self) {
        logs::take(&self.notify);
    }

    fn notify_path(&self) -> PathBuf {
        self.runtime.join("notify")
    }

    fn spawn(&mut self, action: ActionId, launch: &Launch<'_>) -> Result<Process, SpawnError> {
        self.start(action, launch)
    }

    fn start_helper(
        &mut self,
        context: &muster_exec::ExecContext,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.start_own(context, descriptors)
    }

    fn spawned(&self, action: ActionId) -> Option<u32> {
        let entry = self.slot.entry();
        let pid = entry.pid?.as_raw_nonzero().get();
        (entry.action == action.0).then(|| u32::try_from(pid).unwrap_or_default())
    }

    fn adopt(&mut self, process: &Process) -> bool {
        self.take_over(process)
    }

    fn signal(&mut self, pid: u32, signal: u8) -> io::Result<()> {
        self.send_signal(pid, signal)
    }

    fn forget(&mut self, pid: u32) {
        self.pidfds.remove(&pid);
        self.tree_forgets(pid);
    }

    fn process(&self, pid: u32) -> Option<ProcessFacts> {
        self.facts_of(pid)
    }

    fn command_line(&self, pid: u32) -> String {
        process::command_line(pid)
    }

    fn make_cgroup(&mut self, path: &str) -> io::Result<bool> {
        self.make_group(path)
    }

    fn has_cgroup(&self, path: &str) -> bool {
        let folder = cgroups::path(path).ok();
        let folder = folder.and_then(|path| self.tree.folder(&path));
        folder.is_some_and(|folder| folder.exists())
    }

    fn offer(&self) -> Offer {
        self.tree.offer()
    }

    fn open_sockets(
        &mut self,
        place: SocketPlace<'_>,
        config: &SocketConfig,
        owner: Owner,
        kept: Vec<OwnedFd>,
    ) -> Result<Opened, NotOpened> {
        match place {
            SocketPlace {
                cgroup: None,
                network: None,
            } => open_here(config, owner, kept),
            place => self.open_elsewhere(place, config, owner, kept),
        }
    }

    fn limit(&mut self, path: &str, plan: &Plan, occasion: Occasion) -> Vec<Unapplied> {
        self.limit_group(path, plan, occasion)
    }

    fn attach_pinned(&mut self, path: &str, wanted: &[PinnedProgram]) -> Vec<PinnedError> {
        self.keep_pinned(path, wanted)
    }

    fn exemptions(&self, path: &str) -> Option<OwnedFd> {
        self.exemptions_of(path)
    }

    fn give_cgroup(&mut self, path: &str, user: u32, group: u32) -> io::Result<()> {
        self.tree
            .give_to(&cgroups::path(path)?, user, group)
            .map_err(io::Error::other)
    }

    fn give_pressure(&mut self, path: &str, user: u32, group: u32) -> io::Result<()> {
        let path = cgroups::path(path)?;
        let given = self.tree.give_pressure_to(&path, user, group);
        given.map_err(io::Error::other)
    }

    fn pressure_folder(&self, path: &str) -> Option<PathBuf> {
        self.tree.pressure_folder(&cgroups::path(path).ok()?)
    }

    fn attach(&mut self, path: &str, pids: &[u32]) -> io::Result<()> {
        self.attach_all(path, pids)
    }

    fn remove_cgroup(&mut self, path: &str) -> bool {
        cgroups::path(path).is_ok_and(|path| self.tree.remove(&path).is_ok())
    }

    fn is_populated(&self, path: &str) -> bool {
        // What cannot be looked at is no reason to believe that everybody is gone.
        cgroups::path(path).is_ok_and(|path| self.tree.is_populated(&path).unwrap_or(true))
    }

    fn kill_cgroup(&mut self, path: &str, signal: u8, spared: &[u32]) -> io::Result<bool> {
        self.signal_all(path, signal, spared)
    }

    fn watch_cgroup(&mut self, path: &str) -> io::Result<()> {
        let file = self.tree.events_file(&cgroups::path(path)?);
        self.watched.add(path, Watch::Emptiness, file)
    }

    fn unwatch_cgroup(&mut self, path: &str) {
        self.watched.remove(path, Watch::Emptiness);
    }

    fn watch_memory(&mut self, path: &str) -> io::Result<()> {
        let group = cgroups::path(path)?;
        let file = self.tree.memory_events_file(&group);
        if file.is_some() {
            return self.watched.add(path, Watch::Memory, file);
        }
        let alarm = self.tree.memory_alarm(&group).map_err(io::Error::other)?;
        let alarm = alarm.ok_or(io::ErrorKind::Unsupported)?;
        let data = epoll::EventData::new_u64(Token::Cgroups.to_bits());
        epoll::add(&self.epoll, &alarm, data, epoll::EventFlags::IN)?;
        let killed = self.tree.oom_kills(&group).unwrap_or(0);
        self.watched.alarms.add(path, alarm, killed);
        Ok(())
    }

    fn unwatch_memory(&mut self, path: &str) {
        self.watched.remove(path, Watch::Memory);
        self.watched.alarms.remove(path);
    }

    fn changed_cgroups(&mut self, emptied: &mut Vec<Box<str>>, starved: &mut Vec<Box<str>>) {
        self.watched.changed(emptied, starved);
        let killed = |path: &str| {
            let path = cgroups::path(path).ok();
            path.and_then(|path| self.tree.oom_kills(&path))
                .unwrap_or(0)
        };
        self.watched.alarms.look(killed, starved);
    }

    fn processes(&self, path: &str) -> Vec<(u32, String)> {
        self.members(path)
    }

    fn populated(&self) -> Vec<(String, Vec<u32>)> {
        self.leftovers()
    }

    fn freeze(&mut self, path: &str, frozen: bool) -> io::Result<()> {
        self.set_frozen(path, frozen)
    }

    fn thaw(&mut self, path: &str) -> io::Result<Option<Box<str>>> {
        self.thaw_one(path)
    }

    fn is_frozen(&self, path: &str) -> bool {
        cgroups::path(path).is_ok_and(|path| self.tree.is_frozen(&path).unwrap_or(false))
    }

    fn consumed(&self, path: &str, disks: bool, network: bool) -> Usage {
        self.consumed_by(path, disks, network)
    }

    fn allotted(&self, path: &str) -> Allotted {
        cgroups::path(path).map_or_else(|_| Allotted::default(), |path| self.tree.allotted(&path))
    }

    fn usage(&self, path: &str) -> Usage {
        self.usage_of(path)
    }

    fn oom_kills(&self, path: &str) -> u64 {
        let path = cgroups::path(path).ok();
        path.and_then(|path| self.tree.oom_kills(&path))
            .unwrap_or(0)
    }

    fn cgroup_tree(&self) -> (&'static str, PathBuf) {
        let mode = cgroups::mode_name(self.tree.mode());
        let root = self.tree.folder(&CgroupPath::root());
        (mode, root.unwrap_or_else(|| Path::new("").to_owned()))
    }
}
