//! A machine that is only a value: processes, cgroups, what `muster-init` keeps; and a manager that dies when told to.
//!
//! Every call of [`Platform`] counts twice, before and after its effect. At the count that a test names, the manager dies:
//! the call unwinds, and nothing of the manager is left but what the world has.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use muster_cgroup::{Allotted, Controllers, Mode, Occasion, Offer, Plan, Subsystems, Unapplied};
use muster_core::platform::{Launch, Platform, ProcessFacts, Ready, Token, Usage};
use muster_engine::ids::{ActionId, Clock, InvocationId, Time};
use muster_engine::protocol::{Process, SpawnError};
use muster_exec::ExecContext;
use muster_handover::{Exit, FromInit, Outcome, ShutdownKind, Signal};

const SIGKILL: u8 = 9;

/// The manager died here.
#[derive(Debug)]
pub(crate) struct Death;

/// A process of the world.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) cgroup: String,
    pub(crate) program: String,
    /// It was asked to end, and takes its time.
    is_leaving: bool,
}

/// What there is beside the manager.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) record: Option<Vec<u8>>,
    slot: (u64, u32),
    pub(crate) kept: BTreeMap<String, ()>,
    pub(crate) running: BTreeMap<u32, Proc>,
    /// Cgroups, and whether they were given their limits.
    groups: BTreeMap<String, bool>,
    /// Processes that were started in a group that had not been given its limits.
    pub(crate) unlimited: Vec<String>,
    /// The group that the manager was given itself got the defaults of everything that nobody asked for.
    pub(crate) outer_limits_lifted: bool,
    /// The kernel says nothing about cgroups that become empty.
    pub(crate) is_silent: bool,
    /// Cgroups whose emptiness it reports.
    watched: BTreeSet<String>,
    /// A setting whose programs the kernel refuses.
    pub(crate) refuses: Option<&'static str>,
    /// Every process that ever was started, by its program.
    pub(crate) started: Vec<String>,
    /// Processes that were ended for lack of memory, by cgroup; of others nobody counts them.
    oom_kills: BTreeMap<String, u64>,
    /// Cgroups that were given limits anew.
    pub(crate) renewed: Vec<String>,
    /// Reaped and not acknowledged.
    pub(crate) exits: Vec<Exit>,
    /// Of those, how many this manager was told.
    told: usize,
    last_pid: u32,
    last_exit: u64,
    pub(crate) now: u64,
    chance: u128,
    calls: u64,
    pub(crate) dies_at: Option<u64>,
    /// The manager dies again and again, each time after this many calls more than the last time.
    pub(crate) dies_every: Option<u64>,
    deaths: u64,
    pub(crate) adopted: bool,
    /// The manager dies in the middle of writing, too: half an entry is left behind.
    pub(crate) tears: bool,
    /// Once nothing happens any more, the manager is asked to end.
    pub(crate) then_ends: bool,
    asked: bool,
    /// The manager has handed the machine over to be ended.
    pub(crate) ended: bool,
    /// How it is to be ended.
    pub(crate) ending: String,
}

impl World {
    fn call(&mut self) {
        self.calls += 1;
        if self.dies_at == Some(self.calls) {
            self.dies_at = None;
            std::panic::panic_any(Death);
        }
        if let Some(every) = self.dies_every
            && self.calls >= every + self.deaths * 11
        {
            self.calls = 0;
            self.deaths += 1;
            std::panic::panic_any(Death);
        }
    }

    /// What a death leaves of the record.
    pub(crate) fn dead(&mut self) {
        if let (true, Some(record)) = (self.tears, &mut self.record) {
            record.extend_from_slice(&[200, 0, 0, 0, 1, 2, 3, 4, b'{']);
        }
    }

    /// How many calls were made: as many moments there are to die at.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// A new manager is told everything that the last one did not acknowledge.
    pub(crate) fn begin(&mut self) -> Vec<Exit> {
        self.told = self.exits.len();
        self.asked = false;
        self.adopted = false;
        self.watched.clear();
        self.exits.clone()
    }

    /// A cgroup that an earlier run has left behind, in which memory ran out.
    pub(crate) fn left_behind(&mut self, path: &str, oom_kills: u64) {
        self.groups.insert(path.to_owned(), true);
        self.oom_kills.insert(path.to_owned(), oom_kills);
    }

    fn is_populated(&self, path: &str) -> bool {
        self.running.values().any(|one| one.cgroup == path)
    }

    fn emptied(&self) -> Vec<Box<str>> {
        let watched = self.watched.iter();
        let emptied = watched.filter(|path| !self.is_populated(path));
        emptied.map(|path| path.as_str().into()).collect()
    }

    fn run(&mut self, cgroup: &str, program: &str) -> u32 {
        self.last_pid += 1;
        self.running.insert(
            self.last_pid,
            Proc {
                cgroup: cgroup.to_owned(),
                program: program.to_owned(),
                is_leaving: false,
            },
        );
        self.last_pid
    }

    fn end(&mut self, pid: u32, raw: i32) {
        if self.running.remove(&pid).is_some() {
            self.last_exit += 1;
            self.exits.push(Exit {
                seq: self.last_exit,
                pid: i32::try_from(pid).expect("small"),
                outcome: Outcome { raw },
            });
        }
    }

    /// Whoever is to end by itself ends, one at a time.
    fn pass(&mut self) -> bool {
        let done = self.running.iter().find_map(|(pid, process)| {
            // As the kernel tells how a process ended.
            let status = match &*process.program {
                "/bin/true" => 0,
                "/bin/false" => 1 << 8,
                _ if process.is_leaving => 0,
                _ => return None,
            };
            Some((*pid, status))
        });
        if let Some((pid, status)) = done {
            self.end(pid, status);
        }
        done.is_some()
    }
}

/// The manager's view of a [`World`].
#[derive(Clone, Debug)]
pub(crate) struct Sim(pub(crate) Rc<RefCell<World>>);

impl Sim {
    fn with<T>(&self, effect: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.0.borrow_mut();
        world.call();
        let result = effect(&mut world);
        world.call();
        result
    }
}

fn nothing() -> OwnedFd {
    std::fs::File::open("/dev/null").expect("/dev/null").into()
}

impl Platform for Sim {
    fn clock(&self) -> Clock {
        let now = self.0.borrow().now;
        Clock {
            monotonic: Time(now),
            real: i64::try_from(now).expect("small"),
        }
    }

    fn chance(&mut self) -> InvocationId {
        let mut world = self.0.borrow_mut();
        world.chance += 0x9e37_79b9_7f4a_7c15;
        InvocationId(world.chance)
    }

    fn wait(&mut self, until: Option<Time>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.with(|world| {
            world.now += 10;
            let told = world.told < world.exits.len() || world.pass();
            if told {
                ready.push(Ready {
                    token: Token::Init,
                    readable: true,
                    writable: false,
                });
                return Ok(());
            }
            if !world.emptied().is_empty() {
                ready.push(Ready {
                    token: Token::Cgroups,
                    readable: true,
                    writable: false,
                });
                return Ok(());
            }
            match until {
                // Snapshots at leisure are no event; a deadline within the patience of a test is.
                Some(at) if at.0 < 1_000_000_000 => {
                    world.now = world.now.max(at.0);
                    Ok(())
                }
                _ if world.then_ends => {
                    world.asked = true;
                    ready.push(Ready {
                        token: Token::Init,
                        readable: true,
                        writable: false,
                    });
                    Ok(())
                }
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }

    fn watch(&mut self, _: BorrowedFd<'_>, _: Token, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn unwatch(&mut self, _: BorrowedFd<'_>) {}

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|world| {
            let record = world.record.as_mut();
            // One that was not there, or that a test broke, takes nothing.
            record
                .ok_or(io::ErrorKind::NotFound)?
                .extend_from_slice(bytes);
            Ok(())
        })
    }

    fn cut_record(&mut self, length: usize) -> io::Result<()> {
        self.with(|world| {
            let record = world.record.as_mut();
            record.ok_or(io::ErrorKind::NotFound)?.truncate(length);
            Ok(())
        })
    }

    fn replace_record(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|world| {
            world.record = Some(bytes.to_vec());
            Ok(())
        })
    }

    fn give_memory_back(&mut self) {}

    fn set_aside(&mut self, _: &[u8]) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/aside"))
    }

    fn hear_init(&mut self, took: &mut Vec<FromInit>) -> io::Result<()> {
        self.with(|world| {
            let new = world.exits[world.told..].iter().copied();
            took.extend(new.map(FromInit::Exit));
            world.told = world.exits.len();
            if std::mem::take(&mut world.asked) {
                took.push(FromInit::Signal(Signal {
                    number: 15,
                    sender: 1,
                }));
            }
            Ok(())
        })
    }

    fn keep(&mut self, name: String, _: OwnedFd) {
        self.with(|world| world.kept.insert(name, ()));
    }

    fn release(&mut self, name: &str) {
        self.with(|world| world.kept.remove(name));
    }

    fn acknowledge(&mut self, sequence: u64) {
        self.with(|world| {
            let before = world.exits.len();
            world.exits.retain(|exit| exit.seq > sequence);
            world.told -= before - world.exits.len();
        });
    }

    fn pong(&mut self) {}

    fn adopted(&mut self) {
        self.with(|world| world.adopted = true);
    }

    fn raise_loopback(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(|_| Ok(()))
    }

    fn upgrade(&mut self, _: Option<&str>, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn shutdown(&mut self, how: ShutdownKind<'_>) -> io::Result<()> {
        self.with(|world| {
            world.ended = true;
            world.ending = match how {
                ShutdownKind::Exit { code } => format!("exit {code}"),
                ShutdownKind::Reboot { argument } => format!("reboot {argument}"),
                other => format!("{other:?}"),
            };
            Ok(())
        })
    }

    fn feed(&mut self, _: &[u8], _: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        self.with(|_| Ok(true))
    }

    fn log_stream(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        Ok((nothing(), nothing()))
    }

    fn feed_end(&self) -> Option<OwnedFd> {
        None
    }

    fn peek_notification(&mut self, _: &mut Vec<u8>) -> Option<(u32, Vec<OwnedFd>)> {
        None
    }

    fn take_notification(&mut self) {}

    fn notify_path(&self) -> PathBuf {
        PathBuf::from("/notify")
    }

    fn spawn(&mut self, action: ActionId, launch: &Launch<'_>) -> Result<Process, SpawnError> {
        let (cgroup, invocation) = (launch.cgroup, launch.invocation);
        let program = launch.context.program.to_string();
        self.with(|world| {
            let pid = world.run(cgroup, &program);
            // A process of its own is with it, and both are a child of the first process one day.
            if program == "/bin/family" {
                world.run(cgroup, "/bin/child");
            }
            world.slot = (action.0, pid);
            world.started.push(format!("{cgroup} {program}"));
            if world.groups.get(cgroup) != Some(&true) {
                world.unlimited.push(format!("{cgroup} {program}"));
            }
            Ok(Process {
                pid,
                pidfd_inode: u64::from(pid),
                cgroup: cgroup.into(),
                invocation,
            })
        })
    }

    fn start_helper(&mut self, _: &ExecContext, _: &[BorrowedFd<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn spawned(&self, action: ActionId) -> Option<u32> {
        let world = self.0.borrow();
        (world.slot.0 == action.0).then_some(world.slot.1)
    }

    fn adopt(&mut self, process: &Process) -> bool {
        self.with(|world| world.running.contains_key(&process.pid))
    }

    fn signal(&mut self, pid: u32, signal: u8) -> io::Result<()> {
        self.with(|world| {
            world.end(pid, signal.into());
            Ok(())
        })
    }

    fn forget(&mut self, _: u32) {}

    fn process(&self, pid: u32) -> Option<ProcessFacts> {
        let world = self.0.borrow();
        let process = world.running.get(&pid)?;
        Some(ProcessFacts {
            cgroup: Some(process.cgroup.as_str().into()),
            parent: std::os::unix::process::parent_id(),
            pidfd_inode: u64::from(pid),
            start: u64::from(pid),
        })
    }

    fn command_line(&self, _: u32) -> String {
        String::new()
    }

    fn make_cgroup(&mut self, path: &str) -> io::Result<bool> {
        self.with(|world| {
            // The one above all others was there before the manager.
            let is_new = !path.is_empty() && !world.groups.contains_key(path);
            world.groups.entry(path.to_owned()).or_insert(false);
            Ok(is_new)
        })
    }

    fn attach(&mut self, _: &str, _: &[u32]) -> io::Result<()> {
        Ok(())
    }

    fn remove_cgroup(&mut self, path: &str) -> bool {
        let populated = self.is_populated(path);
        self.with(|world| {
            if !populated {
                world.groups.remove(path);
            }
            !populated
        })
    }

    fn is_populated(&self, path: &str) -> bool {
        self.0.borrow().is_populated(path)
    }

    fn kill_cgroup(&mut self, path: &str, signal: u8, _: &[u32]) -> io::Result<bool> {
        self.with(|world| {
            let members: Vec<u32> = world
                .running
                .iter()
                .filter(|(_, one)| one.cgroup == path)
                .map(|(pid, _)| *pid)
                .collect();
            for pid in &members {
                match world.running.get_mut(pid) {
                    Some(child) if child.program == "/bin/child" && signal != SIGKILL => {
                        child.is_leaving = true;
                    }
                    _ => world.end(*pid, signal.into()),
                }
            }
            Ok(!members.is_empty())
        })
    }

    fn watch_cgroup(&mut self, path: &str) -> io::Result<()> {
        self.with(|world| {
            if world.is_silent {
                return Err(io::ErrorKind::Unsupported.into());
            }
            world.watched.insert(path.to_owned());
            Ok(())
        })
    }

    fn unwatch_cgroup(&mut self, path: &str) {
        self.0.borrow_mut().watched.remove(path);
    }

    fn watch_memory(&mut self, path: &str) -> io::Result<()> {
        match self.0.borrow().oom_kills.contains_key(path) {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn unwatch_memory(&mut self, _: &str) {}

    fn changed_cgroups(&mut self, emptied: &mut Vec<Box<str>>, _: &mut Vec<Box<str>>) {
        self.with(|world| emptied.extend(world.emptied()));
    }

    fn has_cgroup(&self, path: &str) -> bool {
        self.0.borrow().groups.contains_key(path)
    }

    fn offer(&self) -> Offer {
        Offer {
            mode: Mode::Hybrid,
            controllers: Controllers::NONE,
            legacy: Subsystems::NONE,
        }
    }

    fn limit(&mut self, path: &str, plan: &Plan, occasion: Occasion) -> Vec<Unapplied> {
        self.with(|world| {
            world.outer_limits_lifted |= path.is_empty() && occasion == Occasion::Change;
            if occasion == Occasion::Change {
                world.renewed.push(path.to_owned());
            }
            if let Some(is_limited) = world.groups.get_mut(path) {
                *is_limited = true;
            }
            let programs = plan
                .programs
                .iter()
                .flat_map(|program| program.settings.clone());
            let refused = programs.filter(|setting| world.refuses == Some(setting));
            let refused = refused.map(|setting| Unapplied {
                setting,
                reason: "the kernel refuses it".to_owned(),
            });
            refused.collect()
        })
    }

    fn give_cgroup(&mut self, _: &str, _: u32, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn pressure_folder(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn processes(&self, _: &str) -> Vec<(u32, String)> {
        Vec::new()
    }

    fn populated(&self) -> Vec<(String, Vec<u32>)> {
        let world = self.0.borrow();
        let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (pid, one) in &world.running {
            found.entry(one.cgroup.clone()).or_default().push(*pid);
        }
        found.into_iter().collect()
    }

    fn freeze(&mut self, _: &str, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn thaw(&mut self, _: &str) -> io::Result<Option<Box<str>>> {
        Ok(None)
    }

    fn is_frozen(&self, _: &str) -> bool {
        false
    }

    fn consumed(&self, _: &str, _: bool, _: bool) -> Usage {
        Usage::default()
    }

    fn allotted(&self, _: &str) -> Allotted {
        Allotted::default()
    }

    fn usage(&self, _: &str) -> Usage {
        Usage::default()
    }

    fn oom_kills(&self, path: &str) -> u64 {
        let world = self.0.borrow();
        world.oom_kills.get(path).copied().unwrap_or_default()
    }

    fn cgroup_tree(&self) -> (&'static str, PathBuf) {
        ("none", PathBuf::new())
    }
}
