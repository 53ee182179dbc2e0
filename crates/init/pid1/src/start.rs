//! From the command line to a running init.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{getpid, set_child_subreaper};

use crate::boot;
use crate::exits::{ExitLog, MOST_EXITS};
use crate::init::{Fixed, Holdings, Init, Role};
use crate::kept::{Kept, MOST_KEPT};
use crate::launch::{Launcher, c_string};
use crate::machine::kernel_command_line;
use crate::options::{LogTarget, Options, RESUME};
use crate::policy::Policy;
use crate::programs::Programs;
use crate::replace::{own, resume};
use crate::report::{self, Level, chain, say};
use crate::signals::{PendingSignals, SignalReader};
use crate::state::State;

/// Where core is if it is not beside init.
const INSTALLED_CORE: &str = "/usr/lib/muster/muster-core";

/// Of the open files that are allowed, so many are init's own: if all were kept for core, no other core could be
/// started.
const FILES_OF_INIT: usize = 64;

/// Why init cannot run at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is not PID 1, and not to be a supervisor either.
    #[error("not PID 1; use --supervise to run beside another init")]
    NotTheFirst,
    /// Arguments that are not known.
    #[error("unknown argument {argument:?}; --help lists what there is")]
    UnknownArgument {
        /// The first of them.
        argument: OsString,
    },
    /// Orphans would not become its children.
    #[error("cannot become the reaper of orphans")]
    Subreaper(#[source] io::Error),
    /// The signals cannot be blocked or read.
    #[error("cannot take signals")]
    Signals(#[source] io::Error),
    /// Nothing can be waited for.
    #[error("cannot wait for events")]
    Events(#[source] io::Error),
}

/// Runs init; returns the exit code.
pub fn start(mut options: Options) -> Result<u8, StartError> {
    // First of all: descriptors of the former init must not be mistaken for new ones.
    let resumed = options.resume.map(resume);
    let role = take_role(&mut options)?;
    match options.log_target {
        LogTarget::Kmsg => report::use_kernel_log(),
        LogTarget::Auto if role == Role::Machine => report::use_kernel_log(),
        LogTarget::Auto | LogTarget::Stderr => {}
    }
    let room = boot::raise_file_limit()
        .saturating_sub(FILES_OF_INIT)
        .min(MOST_KEPT);

    let may_give_up = role == Role::Supervisor;
    let (policy, holdings, programs) = match resumed {
        Some((state, fault)) => {
            if let Some(fault) = fault {
                say(Level::Error, format_args!("{}", chain(&fault)));
            }
            let has_known_good = state.good_core.is_some();
            let policy = Policy::resumed(options.timing, may_give_up, has_known_good);
            let (holdings, programs) = take_over(state, &options, room);
            (policy, holdings, programs)
        }
        None => (
            Policy::new(options.timing, may_give_up, options.safe_mode),
            Holdings {
                kept: Kept::with_room_for(room),
                exits: ExitLog::new(MOST_EXITS, 1),
                signals: PendingSignals::default(),
                refused: 0,
            },
            Programs::new(core_path(&options), None, None),
        ),
    };
    let signals = SignalReader::open().map_err(StartError::Signals)?;
    let fixed = Fixed {
        role,
        own_program: c_string(own_program().as_os_str().as_bytes()),
        own_arguments: own_arguments(),
        launcher: Launcher::new(&options.core_arguments, std::env::vars_os()),
        shutdown_timeout: options.shutdown_timeout,
    };
    let init = Init::new(fixed, policy, holdings, programs, signals).map_err(StartError::Events)?;
    Ok(init.run())
}

/// Becomes what it is to be, and prepares the machine if that is its duty.
fn take_role(options: &mut Options) -> Result<Role, StartError> {
    let is_first = getpid().as_raw_nonzero().get() == 1;
    // For PID 1 they are words of the kernel's command line that mean nothing to the kernel.
    let is_mistake = options.supervise || !is_first;
    if let Some(argument) = options.unknown.first().filter(|_| is_mistake) {
        return Err(StartError::UnknownArgument {
            argument: argument.clone(),
        });
    }
    if options.supervise {
        let own = getpid();
        set_child_subreaper(Some(own)).map_err(|error| StartError::Subreaper(error.into()))?;
        return Ok(Role::Supervisor);
    }
    if !is_first {
        return Err(StartError::NotTheFirst);
    }
    boot::mount_proc();
    let role = if boot::is_in_container() {
        Role::Container
    } else {
        Role::Machine
    };
    boot::mount_api();
    if role == Role::Machine {
        boot::share_mounts();
        boot::open_console();
        boot::take_ctrl_alt_del();
        let line = kernel_command_line();
        for word in options.apply_kernel_words(&line) {
            say(
                Level::Warning,
                format_args!("the kernel's command line has a useless {word}"),
            );
        }
    }
    Ok(role)
}

/// Makes the state of the former init this one's own.
fn take_over(state: State, options: &Options, room: usize) -> (Holdings, Programs) {
    let mut kept = Kept::with_room_for(room);
    let mut refused = state.refused;
    for (name, descriptor) in &state.kept {
        let stored = own(*descriptor).is_some_and(|owned| kept.store(name, owned).is_ok());
        if !stored {
            refused = refused.saturating_add(1);
            say(Level::Error, format_args!("{name} was lost"));
        }
    }
    let mut exits = ExitLog::new(MOST_EXITS, state.first_exit.max(1));
    for (pid, outcome) in &state.exits {
        if !exits.is_full() {
            exits.push(*pid, *outcome);
        }
    }
    let path = state.core_path.unwrap_or_else(|| core_path(options));
    let good = state.good_core.and_then(own);
    let holdings = Holdings {
        kept,
        exits,
        signals: PendingSignals::from_bits(state.signals),
        refused,
    };
    (holdings, Programs::new(path, state.wanted_path, good))
}

fn core_path(options: &Options) -> CString {
    let beside = || own_program().with_file_name("muster-core");
    let path = match &options.core {
        Some(path) => path.clone(),
        None if is_executable(&beside()) => beside(),
        None => INSTALLED_CORE.into(),
    };
    c_string(path.as_os_str().as_bytes())
}

fn is_executable(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

/// The path of this program; another file may be there when it is executed again, and that is wanted.
fn own_program() -> PathBuf {
    std::fs::read_link("/proc/self/exe").unwrap_or_default()
}

fn own_arguments() -> Vec<OsString> {
    let option = format!("{RESUME}=");
    std::env::args_os()
        .skip(1)
        .filter(|argument| !argument.as_bytes().starts_with(option.as_bytes()))
        .collect()
}
