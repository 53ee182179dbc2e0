//! The one event loop: signals and the link to core come in, the policy decides, this carries it out.

use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use muster_handover::{
    Begin, Inbox, InitLink, Names, Outcome, PROTOCOL_VERSION, Progress, Received, ShutdownKind,
    ToInit,
};
use rustix::event::{Timespec, epoll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid};

use crate::conversation::{Conversation, Topics};
use crate::ending::{Scope, end_processes};
use crate::exits::ExitLog;
use crate::kept::Kept;
use crate::launch::Launcher;
use crate::machine::{MachineEnd, end_machine, leave_disks};
use crate::policy::{Action, Event, Policy, Start};
use crate::programs::Programs;
use crate::replace::replace;
use crate::report::{Level, chain, say};
use crate::signals::{PendingSignals, SignalReader};
use crate::state::State;

const SIGNALS: u64 = 0;
const LINK: u64 = 1;

/// Messages that are read before something else is looked at.
const MESSAGES_PER_TURN: usize = 256;

/// What this init is responsible for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// PID 1 of a machine.
    Machine,
    /// PID 1 of a PID namespace.
    Container,
    /// A subreaper beside another init.
    Supervisor,
}

/// What init holds for its cores.
#[derive(Debug)]
pub struct Holdings {
    /// Descriptors by name.
    pub kept: Kept,
    /// Exits that are not acknowledged.
    pub exits: ExitLog,
    /// Signals that core was not told.
    pub signals: PendingSignals,
    /// Descriptors that could not be kept and core was not told.
    pub refused: u32,
}

/// What does not change while init runs.
#[derive(Debug)]
pub struct Fixed {
    /// What it is responsible for.
    pub role: Role,
    /// Its own program, and what it was started with.
    pub own_program: CString,
    /// Its own arguments, without the state of a former init.
    pub own_arguments: Vec<OsString>,
    /// How core is started.
    pub launcher: Launcher,
    /// Time for what is left at the shutdown.
    pub shutdown_timeout: Duration,
}

/// The init.
#[derive(Debug)]
pub struct Init {
    fixed: Fixed,
    policy: Policy,
    holdings: Holdings,
    programs: Programs,
    core: Option<Core>,
    end: Option<End>,
    inbox: Box<Inbox>,
    signals: SignalReader,
    epoll: OwnedFd,
    began: Instant,
}

/// The present core.
#[derive(Debug)]
struct Core {
    pid: Pid,
    link: InitLink,
    conversation: Conversation,
    /// It has not closed its end.
    is_open: bool,
    /// Waiting until the link takes more.
    is_full: bool,
}

/// What it all comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Machine(MachineEnd),
    Exit(u8),
    Anew,
}

/// Something that came over the link.
enum Heard {
    Nothing,
    /// Dealt with.
    Done,
    Event(Event),
}

impl Init {
    /// Everything is prepared; [`Init::run`] begins.
    pub fn new(
        fixed: Fixed,
        policy: Policy,
        holdings: Holdings,
        programs: Programs,
        signals: SignalReader,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(SIGNALS);
        epoll::add(&epoll, &signals, data, epoll::EventFlags::IN)?;
        Ok(Self {
            fixed,
            policy,
            holdings,
            programs,
            core: None,
            end: None,
            inbox: Box::default(),
            signals,
            epoll,
            began: Instant::now(),
        })
    }

    /// Runs until it is to exit, and returns the exit code. PID 1 of a machine never returns.
    pub fn run(mut self) -> u8 {
        loop {
            self.decide(Event::Tick);
            self.speak();
            if let Some(end) = self.end.take()
                && let Some(code) = self.finish(end)
            {
                return code;
            }
            self.wait();
            self.take_signals();
            self.listen(MESSAGES_PER_TURN);
            self.reap();
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let deadline = self.policy.deadline();
        let timeout = deadline.map(|at| at.saturating_sub(self.now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 2];
        // What it was is asked of each source; and an interrupted wait is one without events.
        let _ = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
    }

    fn take_signals(&mut self) {
        let pending = &mut self.holdings.signals;
        self.signals.read(&mut |signal| {
            // Which children have ended is asked anyway.
            if i32::try_from(signal.number) != Ok(libc::SIGCHLD) {
                pending.add(signal);
            }
        });
        // Without a core there is nobody else to ask.
        let is_told_to_end = pending.contains(libc::SIGTERM) || pending.contains(libc::SIGINT);
        if self.fixed.role == Role::Supervisor && self.policy.is_waiting() && is_told_to_end {
            self.end = Some(End::Exit(0));
        }
    }

    /// Applies an event and does what follows from it.
    fn decide(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let action = self.policy.apply(self.now(), event);
            next = action.and_then(|action| self.act(action));
        }
    }

    /// Does what the policy wants; what has come of it, if that is known at once.
    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Start(start) => return Some(self.start(start)),
            Action::Ping => {
                if let Some(core) = &mut self.core {
                    core.conversation.want_ping();
                }
            }
            Action::Abort => {
                say(Level::Error, format_args!("core does not answer"));
                self.signal_core(Signal::ABORT);
            }
            Action::Kill => self.signal_core(Signal::KILL),
            Action::RememberProgram => self.programs.remember(),
            Action::ExecuteInit => self.execute_anew(),
            Action::GiveUp => {
                say(
                    Level::Error,
                    format_args!("no core can be started; name it by --core"),
                );
                self.end = Some(End::Exit(1));
            }
        }
        None
    }

    fn start(&mut self, start: Start) -> Event {
        match self.try_start(start) {
            Ok(known_good) => Event::Started { known_good },
            Err(error) => {
                say(Level::Error, format_args!("cannot start core: {error}"));
                Event::StartFailed
            }
        }
    }

    fn try_start(&mut self, start: Start) -> io::Result<bool> {
        let (link, other) = InitLink::pair()?;
        let data = epoll::EventData::new_u64(LINK);
        epoll::add(&self.epoll, &link, data, epoll::EventFlags::IN)?;
        let chosen = self.programs.choose(start.program);
        let launcher = &self.fixed.launcher;
        let pid = launcher.start(&chosen, start.safe_mode, std::os::fd::AsFd::as_fd(&other))?;
        let known_good = chosen.known_good;
        self.holdings.exits.begin_anew();
        self.core = Some(Core {
            pid,
            link,
            conversation: Conversation::begin(Begin {
                init_version: PROTOCOL_VERSION,
                cause: start.cause,
                crashes: start.crashes,
                safe_mode: start.safe_mode,
                supervised: self.fixed.role == Role::Supervisor,
            }),
            is_open: true,
            is_full: false,
        });
        if start.safe_mode {
            say(Level::Warning, format_args!("core is started in safe mode"));
        }
        Ok(known_good)
    }

    fn signal_core(&self, signal: Signal) {
        if let Some(core) = &self.core {
            // It is not reaped yet, so the number is its own.
            let _ = kill_process(core.pid, signal);
        }
    }

    /// Tells core what it has to know.
    fn speak(&mut self) {
        let Some(core) = &mut self.core else { return };
        if !core.is_open {
            return;
        }
        let topics = Topics {
            kept: &self.holdings.kept,
            exits: &mut self.holdings.exits,
            signals: &mut self.holdings.signals,
            refused: &mut self.holdings.refused,
            is_adopted: self.policy.may_reap(),
        };
        let is_full = match core.conversation.go_on(&core.link, topics) {
            Ok(progress) => progress == Progress::Later,
            // It has closed its end, or is about to end; receiving tells which.
            Err(_) => false,
        };
        if is_full != core.is_full {
            core.is_full = is_full;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_full);
            let data = epoll::EventData::new_u64(LINK);
            let _ = epoll::modify(&self.epoll, &core.link, data, flags);
        }
    }

    /// Hears what core has to say, at most so many messages.
    fn listen(&mut self, most: usize) {
        for _ in 0..most {
            match self.hear() {
                Heard::Nothing => return,
                Heard::Done => {}
                Heard::Event(event) => self.decide(event),
            }
        }
    }

    fn hear(&mut self) -> Heard {
        let Some(core) = &mut self.core else {
            return Heard::Nothing;
        };
        if !core.is_open {
            return Heard::Nothing;
        }
        let (message, descriptors) = match core.link.receive(&mut self.inbox) {
            Ok(Received::Message(message, descriptors)) => (message, descriptors),
            Ok(Received::Nothing) => return Heard::Nothing,
            Ok(Received::Unknown) => return Heard::Done,
            Ok(Received::Malformed(error)) => {
                say(Level::Error, format_args!("core: {error}"));
                return Heard::Done;
            }
            Ok(Received::Closed) | Err(_) => {
                core.is_open = false;
                // It would be readable for ever.
                let _ = epoll::delete(&self.epoll, &core.link);
                return Heard::Event(Event::LinkClosed);
            }
        };
        let holdings = &mut self.holdings;
        match message {
            ToInit::Hello { .. } => Heard::Event(Event::Hello),
            ToInit::Store(names) => {
                holdings.store(names, descriptors);
                Heard::Done
            }
            ToInit::Drop(selector) => {
                holdings.kept.drop(selector);
                Heard::Done
            }
            ToInit::Adopted => {
                // All there is to do from now on is to wait.
                muster_handover::give_code_back();
                Heard::Event(Event::Adopted)
            }
            ToInit::Ack { seq } => {
                holdings.exits.acknowledge(seq);
                Heard::Done
            }
            ToInit::Pong => Heard::Event(Event::Pong),
            ToInit::Upgrade(upgrade) => {
                self.programs.want(upgrade.core);
                Heard::Event(Event::UpgradeAsked { init: upgrade.init })
            }
            ToInit::Shutdown(kind) => {
                self.end = Some(End::from(kind));
                Heard::Event(Event::EndAsked)
            }
        }
    }

    /// Takes note of the processes that have ended.
    fn reap(&mut self) {
        while let Some((pid, status)) = self.ended_process() {
            let outcome = Outcome {
                raw: status.as_raw(),
            };
            if self.core.as_ref().is_some_and(|core| core.pid == pid) {
                return self.core_ended(outcome);
            }
            let pid = pid.as_raw_nonzero().get();
            self.holdings.exits.push(pid, outcome);
        }
    }

    /// The next process to reap: any if that is allowed now, else only core.
    fn ended_process(&self) -> Option<(Pid, rustix::process::WaitStatus)> {
        let core = self.core.as_ref()?;
        let waited = if self.policy.may_reap() && !self.holdings.exits.is_full() {
            wait(WaitOptions::NOHANG)
        } else {
            waitpid(Some(core.pid), WaitOptions::NOHANG)
        };
        waited.ok().flatten()
    }

    fn core_ended(&mut self, outcome: Outcome) {
        // What it said before its end counts. It is gone, so that is not much more than a socket holds.
        self.listen(usize::MAX);
        if let Some(core) = self.core.take() {
            let _ = epoll::delete(&self.epoll, &core.link);
            let pid = core.pid.as_raw_nonzero();
            if self.end.is_none() {
                say(Level::Notice, format_args!("core (pid {pid}) {outcome}"));
            }
        }
        self.decide(Event::Exited(outcome));
    }

    /// Executes init's own program, if it can take over.
    fn execute_anew(&self) {
        let holdings = &self.holdings;
        let raw = |descriptor| std::os::fd::AsRawFd::as_raw_fd(&descriptor);
        let kept = holdings.kept.iter_from(0);
        let exits = holdings.exits.numbered();
        let state = State {
            kept: kept
                .map(|(name, descriptor)| (name.to_owned(), raw(descriptor)))
                .collect(),
            first_exit: holdings.exits.first(),
            exits: exits.map(|exit| (exit.pid, exit.outcome)).collect(),
            core_path: Some(self.programs.path().to_owned()),
            wanted_path: self.programs.wanted().map(ToOwned::to_owned),
            good_core: self.programs.good().map(raw),
            signals: holdings.signals.bits(),
            refused: holdings.refused,
        };
        let error = replace(&self.fixed.own_program, &self.fixed.own_arguments, &state);
        say(
            Level::Error,
            format_args!("this init stays: {}", chain(&error)),
        );
    }

    /// Ends everything; the exit code, unless it begins anew.
    fn finish(&mut self, end: End) -> Option<u8> {
        let scope = match self.fixed.role {
            Role::Machine | Role::Container => Scope::Everything,
            Role::Supervisor => Scope::Descendants,
        };
        end_processes(scope, &self.signals, self.fixed.shutdown_timeout);
        self.core = None;
        // What is kept may be on a file system that is to be unmounted.
        self.holdings.kept.clear();
        self.holdings.exits.clear();
        match (self.fixed.role, end) {
            (_, End::Anew) => {
                self.decide(Event::BeginAnew);
                None
            }
            (Role::Supervisor | Role::Container, End::Exit(code)) => Some(code),
            (Role::Supervisor, End::Machine(_)) => Some(0),
            (Role::Container, End::Machine(end)) => {
                end_machine(&end);
                Some(0)
            }
            (Role::Machine, End::Exit(_)) => self.end_for_ever(&MachineEnd::PowerOff),
            (Role::Machine, End::Machine(end)) => self.end_for_ever(&end),
        }
    }

    /// The end of a machine: PID 1 must not exit, even if the kernel does not do as it is told.
    fn end_for_ever(&mut self, end: &MachineEnd) -> ! {
        self.programs.let_go();
        leave_disks();
        end_machine(end);
        loop {
            std::thread::park();
        }
    }
}

impl Holdings {
    fn store(&mut self, names: Names<'_>, mut descriptors: impl Iterator<Item = OwnedFd>) {
        for name in names {
            // Fewer descriptors than names: the limit of open files is reached.
            let stored = descriptors
                .next()
                .is_some_and(|descriptor| self.kept.store(name, descriptor).is_ok());
            if !stored {
                self.refused = self.refused.saturating_add(1);
                say(Level::Error, format_args!("no room to keep {name}"));
            }
        }
    }
}

impl From<ShutdownKind<'_>> for End {
    fn from(kind: ShutdownKind<'_>) -> Self {
        match kind {
            ShutdownKind::PowerOff => Self::Machine(MachineEnd::PowerOff),
            ShutdownKind::Reboot { argument } => {
                Self::Machine(MachineEnd::Reboot(argument.to_owned()))
            }
            ShutdownKind::Halt => Self::Machine(MachineEnd::Halt),
            ShutdownKind::Kexec => Self::Machine(MachineEnd::Kexec),
            ShutdownKind::Exit { code } => Self::Exit(code),
            ShutdownKind::SoftReboot => Self::Anew,
        }
    }
}
