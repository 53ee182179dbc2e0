//! What the new process does until it executes its program.
//!
//! It shares the memory of its waiting parent, so it makes system calls and nothing else: no allocation, no lock, no
//! panic, no destructor. What it writes to is made of cells: the report, the digits of its pid, moved descriptors.

#![expect(
    unsafe_code,
    reason = "every step is a system call of the new process on prepared addresses"
)]

mod exemption;
mod keyring;
mod nice;
pub(crate) mod streams;

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::context::{ExecContext, Limit};
use crate::step::Step;
use crate::terminal;

/// The kernel's size of a signal mask.
const MASK_SIZE: usize = 8;
/// The highest number of a signal.
pub(crate) const LAST_SIGNAL: c_int = 64;
const IOPRIO_WHO_PROCESS: c_long = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;

/// A standard stream, with addresses in place of texts.
#[derive(Clone, Copy)]
pub(crate) enum StreamPlan {
    Null,
    Fd(u16),
    File { path: *const c_char, flags: c_int },
    Terminal,
    Same(u8),
}

/// Everything that the new process needs.
pub(crate) struct Plan<'a> {
    pub(crate) context: &'a ExecContext,
    pub(crate) program: *const c_char,
    pub(crate) argv: *const *const c_char,
    pub(crate) environment: *const *const c_char,
    pub(crate) pid_digits: &'a [usize],
    pub(crate) arena: &'a [Cell<u8>],
    pub(crate) working_directory: *const c_char,
    pub(crate) terminal: Option<*const c_char>,
    pub(crate) streams: [StreamPlan; 3],
    pub(crate) processors: &'a [u64],
    pub(crate) moved: &'a [Cell<c_int>],
    /// The first number behind the descriptors that the process gets.
    pub(crate) first_free: usize,
}

/// A step that failed, and on which of several objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
    pub(crate) index: u32,
}

/// Where the new process says how far it came.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// [`NEVER_RAN`], [`EXECUTED`], or the exit code of the step that failed.
    state: AtomicU32,
    errno: AtomicU32,
    index: AtomicU32,
}

/// How far a new process came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was killed before it could do anything of note.
    NeverRan,
    /// It asked for its program to be executed, and that did not fail.
    Executed,
    /// A step failed.
    Failed(Failure),
}

const NEVER_RAN: u32 = 0;
const EXECUTED: u32 = 1;

impl Report {
    fn executes(&self) {
        self.state.store(EXECUTED, Ordering::SeqCst);
    }

    fn failed(&self, failure: Failure) {
        let errno = u32::try_from(failure.errno).unwrap_or(0);
        self.errno.store(errno, Ordering::SeqCst);
        self.index.store(failure.index, Ordering::SeqCst);
        let code = u32::from(failure.step.exit_code());
        self.state.store(code, Ordering::SeqCst);
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.state.load(Ordering::SeqCst) {
            NEVER_RAN => Outcome::NeverRan,
            EXECUTED => Outcome::Executed,
            code => {
                let step = u8::try_from(code).ok().and_then(Step::from_exit_code);
                Outcome::Failed(Failure {
                    step: step.unwrap_or(Step::Exec),
                    errno: i32::try_from(self.errno.load(Ordering::SeqCst)).unwrap_or(0),
                    index: self.index.load(Ordering::SeqCst),
                })
            }
        }
    }
}

/// What the new process is handed.
pub(crate) struct Birth<'a> {
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) report: &'a Report,
    /// `cgroup.procs` of the groups to join: that of its unit, if it was not born there, and those of other hierarchies.
    pub(crate) joins: &'a [c_int],
    /// `/dev/null`, open for reading and writing.
    pub(crate) null: c_int,
    /// The table of descriptors is the parent's; a copy of those below this number is wanted.
    pub(crate) shares_below: Option<u32>,
    /// Signals that the parent ignores.
    pub(crate) ignored: u64,
}

/// The first function of the new process.
///
/// # Safety
/// `birth` is the address of a [`Birth`] that stays valid until the process has executed its program or ended.
pub(crate) unsafe extern "C" fn start(birth: *mut c_void) -> ! {
    // SAFETY: the caller's promise.
    let birth = unsafe { &*birth.cast::<Birth<'_>>() };
    let failure = match set_up(birth) {
        Ok(()) => execute(birth),
        Err(failure) => failure,
    };
    birth.report.failed(failure);
    loop {
        // SAFETY: ends this process alone, without running any of the parent's exit handlers.
        unsafe { libc::syscall(libc::SYS_exit_group, c_long::from(failure.step.exit_code())) };
    }
}

/// The result of a system call, as the step's failure if it is one.
pub(crate) fn check(step: Step, result: impl Into<i64>) -> Result<i64, Failure> {
    let result = result.into();
    if result == -1 {
        // SAFETY: the address of this thread's errno is always valid; the parent, who shares it, waits and leaves it alone.
        let errno = unsafe { *libc::__errno_location() };
        return Err(Failure {
            step,
            errno,
            index: 0,
        });
    }
    Ok(result)
}

fn set_up(birth: &Birth<'_>) -> Result<(), Failure> {
    let (plan, context) = (birth.plan, birth.plan.context);
    if let Some(end) = birth.shares_below {
        // Before anything else: until then every change would be one of the parent's table.
        // SAFETY: no addresses are involved.
        let result = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                end,
                u32::MAX,
                libc::CLOSE_RANGE_UNSHARE,
            )
        };
        check(Step::Fds, result)?;
    }
    reset_signals(context, birth.ignored)?;
    if context.new_session {
        // SAFETY: no addresses are involved.
        check(Step::Setsid, unsafe { libc::setsid() })?;
    }
    for file in birth.joins {
        // SAFETY: one byte of a constant.
        check(Step::Cgroup, unsafe {
            libc::write(*file, c"0".as_ptr().cast(), 1) as i64
        })?;
    }
    move_away(plan)?;
    exemption::begin(plan)?;
    streams::connect(birth)?;
    pass(plan)?;
    adjust(plan)?;
    keyring::join(context)?;
    // Nothing is opened any more; that takes one more descriptor, of which there may be few from here on.
    exemption::end(plan)?;
    limit(context)?;
    give_terminal(plan)?;
    take_identity(context)?;
    enter_folder(plan)?;
    if context.no_new_privileges {
        // SAFETY: no addresses are involved.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        check(Step::NoNewPrivileges, result)?;
    }
    // SAFETY: no addresses are involved; what the process keeps lies below the first number.
    let result = unsafe { libc::syscall(libc::SYS_close_range, plan.first_free, u32::MAX, 0) };
    check(Step::Fds, result)?;
    Ok(())
}

fn execute(birth: &Birth<'_>) -> Failure {
    let plan = birth.plan;
    write_pid(plan);
    let none = 0u64;
    // SAFETY: the mask has the size that is said.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            std::ptr::null_mut::<u64>(),
            MASK_SIZE,
        )
    };
    if let Err(failure) = check(Step::SignalMask, result) {
        return failure;
    }
    birth.report.executes();
    // SAFETY: a text and two lists of texts that end in null, all prepared.
    let result = unsafe { libc::execve(plan.program, plan.argv, plan.environment) };
    check(Step::Exec, result).err().unwrap_or(Failure {
        step: Step::Exec,
        errno: 0,
        index: 0,
    })
}

/// What the parent ignores is nothing to the program; what it handles, the kernel has reset already.
fn reset_signals(context: &ExecContext, ignored: u64) -> Result<(), Failure> {
    for signal in 1..=LAST_SIGNAL {
        let was = ignored & (1 << (signal - 1)) != 0;
        let ignored = signal == libc::SIGPIPE && context.ignore_sigpipe;
        if was == ignored {
            continue;
        }
        // The kernel's structure: handler, flags, restorer, mask.
        let action = [
            if ignored {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            },
            0,
            0,
            0,
        ];
        // SAFETY: the structure has the kernel's size and layout on both supported machines.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                action.as_ptr(),
                std::ptr::null_mut::<usize>(),
                MASK_SIZE,
            )
        };
        check(Step::SignalMask, result)?;
    }
    Ok(())
}

/// Moves the given descriptors out of the range in which the process will find its own.
fn move_away(plan: &Plan<'_>) -> Result<(), Failure> {
    for descriptor in plan.moved {
        let number = descriptor.get();
        if usize::try_from(number).is_ok_and(|number| number < plan.first_free) {
            // SAFETY: no addresses are involved.
            let result = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, plan.first_free) };
            check(Step::Fds, result)?;
            descriptor.set(result);
        }
    }
    Ok(())
}

fn moved(plan: &Plan<'_>, index: u16) -> c_int {
    plan.moved.get(usize::from(index)).map_or(-1, Cell::get)
}

fn duplicate(from: c_int, to: c_int, step: Step) -> Result<(), Failure> {
    if from == to {
        // SAFETY: no addresses are involved.
        let result = unsafe { libc::fcntl(to, libc::F_SETFD, 0) };
        return check(step, result).map(|_| ());
    }
    // SAFETY: no addresses are involved.
    check(step, unsafe { libc::dup3(from, to, 0) }).map(|_| ())
}

fn set_blocking(file: c_int, blocking: bool, step: Step) -> Result<(), Failure> {
    // SAFETY: no addresses are involved.
    let flags = unsafe { libc::fcntl(file, libc::F_GETFL) };
    check(step, flags)?;
    let wanted = if blocking {
        flags & !libc::O_NONBLOCK
    } else {
        flags | libc::O_NONBLOCK
    };
    if wanted != flags {
        // SAFETY: no addresses are involved.
        check(step, unsafe { libc::fcntl(file, libc::F_SETFL, wanted) })?;
    }
    Ok(())
}

fn pass(plan: &Plan<'_>) -> Result<(), Failure> {
    for (number, passed) in (3..).zip(&plan.context.passed) {
        duplicate(moved(plan, passed.fd), number, Step::Fds)?;
        if let Some(nonblocking) = passed.nonblocking {
            set_blocking(number, !nonblocking, Step::Fds)?;
        }
    }
    Ok(())
}

/// How the process shares the machine with others.
fn adjust(plan: &Plan<'_>) -> Result<(), Failure> {
    let context = plan.context;
    if let Some(nice) = context.nice {
        nice::set(nice)?;
    }
    if let Some(scheduler) = context.scheduler {
        let parameter = c_int::from(scheduler.priority);
        let reset = if scheduler.reset_on_fork {
            libc::SCHED_RESET_ON_FORK
        } else {
            0
        };
        let policy = scheduler.policy | reset;
        // SAFETY: the kernel's structure is this one number.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                policy,
                &raw const parameter,
            )
        };
        check(Step::Scheduler, result)?;
    }
    if !plan.processors.is_empty() {
        let (mask, size) = (plan.processors.as_ptr(), size_of_val(plan.processors));
        // SAFETY: the mask has the size that is said.
        let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size, mask) };
        check(Step::CpuAffinity, result)?;
    }
    if let Some(priority) = context.io_priority {
        let value = (u32::from(priority.class) << IOPRIO_CLASS_SHIFT) | u32::from(priority.level);
        // SAFETY: no addresses are involved.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) };
        check(Step::IoPriority, result)?;
    }
    if let Some(slack) = context.timer_slack {
        // SAFETY: no addresses are involved.
        let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) };
        check(Step::TimerSlack, result)?;
    }
    // SAFETY: no addresses are involved, and it cannot fail.
    unsafe { libc::umask(libc::mode_t::from(context.umask)) };
    Ok(())
}

fn limit(context: &ExecContext) -> Result<(), Failure> {
    for (index, wanted) in (0u32..).zip(&context.limits) {
        let result = set_limit(wanted);
        result.map_err(|failure| Failure { index, ..failure })?;
    }
    Ok(())
}

/// Sets a limit. A manager without the right to raise hard limits gets as near as it can, as systemd does.
pub(crate) fn set_limit(wanted: &Limit) -> Result<(), Failure> {
    let set = |soft: u64, hard: u64| {
        let value = [soft, hard];
        // SAFETY: the kernel's structure is these two numbers.
        let result = unsafe {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(
                libc::SYS_prlimit64,
                0,
                wanted.resource,
                value.as_ptr(),
                none,
            )
        };
        check(Step::Limits, result).map(|_| ())
    };
    let refused = match set(wanted.soft, wanted.hard) {
        Err(failure) if failure.errno == libc::EPERM => failure,
        other => return other,
    };
    let current = current_limit(wanted.resource)?;
    let highest = current[1];
    if highest >= wanted.hard {
        return Err(refused);
    }
    set(wanted.soft.min(highest), highest)
}

/// A limit as it is, soft and hard.
pub(crate) fn current_limit(resource: u32) -> Result<[u64; 2], Failure> {
    let mut current = [0u64; 2];
    // SAFETY: the kernel's structure is these two numbers.
    let result = unsafe {
        let none = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_prlimit64, 0, resource, none, current.as_mut_ptr())
    };
    check(Step::Limits, result)?;
    Ok(current)
}

/// Whoever reads from a terminal as somebody else owns it for that time.
fn give_terminal(plan: &Plan<'_>) -> Result<(), Failure> {
    match (&plan.context.identity, plan.streams[0]) {
        (Some(identity), StreamPlan::Terminal) => terminal::give(0, identity.uid, Step::Stdin),
        _ => Ok(()),
    }
}

/// The C library's functions of the same names would tell all threads of the parent to change theirs too.
fn take_identity(context: &ExecContext) -> Result<(), Failure> {
    let Some(identity) = &context.identity else {
        return Ok(());
    };
    let (count, groups) = (identity.groups.len(), identity.groups.as_ptr());
    // SAFETY: the list has the length that is said.
    check(Step::Group, unsafe {
        libc::syscall(libc::SYS_setgroups, count, groups)
    })?;
    let (uid, gid) = (identity.uid, identity.gid);
    // SAFETY: no addresses are involved.
    check(Step::Group, unsafe {
        libc::syscall(libc::SYS_setresgid, gid, gid, gid)
    })?;
    // SAFETY: no addresses are involved.
    check(Step::User, unsafe {
        libc::syscall(libc::SYS_setresuid, uid, uid, uid)
    })?;
    Ok(())
}

/// Only now, with the rights of the user: a folder of his on a network file system may be closed to root.
fn enter_folder(plan: &Plan<'_>) -> Result<(), Failure> {
    // SAFETY: a prepared text.
    let result = check(Step::Chdir, unsafe { libc::chdir(plan.working_directory) });
    let folder = plan.context.working_directory.as_ref();
    if result.is_err() && folder.is_some_and(|folder| folder.optional) {
        // SAFETY: a constant text.
        check(Step::Chdir, unsafe { libc::chdir(c"/".as_ptr()) })?;
        return Ok(());
    }
    result.map(|_| ())
}

/// Writes this process's pid where variables are to hold it.
fn write_pid(plan: &Plan<'_>) {
    if plan.pid_digits.is_empty() {
        return;
    }
    // SAFETY: no addresses are involved. Not the C library's, which may remember the parent's.
    let mut pid = unsafe { libc::syscall(libc::SYS_getpid) };
    let mut digits = [0u8; 20];
    let mut count = 0;
    while let Some(digit) = digits.get_mut(count) {
        *digit = b'0' + u8::try_from(pid % 10).unwrap_or(0);
        count += 1;
        pid /= 10;
        if pid == 0 {
            break;
        }
    }
    for at in plan.pid_digits {
        let room = plan.arena.get(*at..).unwrap_or(&[]);
        let written = digits.iter().take(count).rev().chain(&[0]);
        for (cell, digit) in room.iter().zip(written) {
            cell.set(*digit);
        }
    }
}
