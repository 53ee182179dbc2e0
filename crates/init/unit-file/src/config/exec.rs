//! How processes are set up: who, where, with which environment and streams.

use super::sandbox::{Credentials, Images, Sandbox, SecurityLabels};
use super::scheduling::Scheduling;
use super::streams::{ExecInput, ExecOutput, StdinData, WorkingDirectory};
use super::{Rare, rare};
use crate::timespan::TimeSpan;
use crate::value::environment::{Environment, EnvironmentFiles, LogFields};
use crate::value::number::Mode;
use crate::value::path::{AbsolutePath, DirectoryNames};
use crate::value::rlimit::ResourceLimit;
use crate::value::words::{Account, Accounts, VariableNames};
use crate::value::{ValueError, boolean_word, scalar_setting, word_enum};

word_enum! {
    /// Which kind of directory of a service.
    DirectoryKind, "directory",
    Runtime = "RuntimeDirectory", State = "StateDirectory", Cache = "CacheDirectory", Logs = "LogsDirectory",
    Configuration = "ConfigurationDirectory",
}

word_enum! {
    /// Whether runtime directories outlive the service.
    DirectoryPreserve, "preservation" + boolean_word,
    No = "no", Yes = "yes", Restart = "restart",
}

/// Directories of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Their names below the kind's root; `name:link` adds a link.
    pub names: DirectoryNames,
    /// Their mode.
    pub mode: Mode,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            names: DirectoryNames::default(),
            mode: Mode(0o755),
        }
    }
}

/// Directories that are made for a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directories {
    /// Below `/run`.
    pub runtime: Directory,
    /// Below `/var/lib`.
    pub state: Directory,
    /// Below `/var/cache`.
    pub cache: Directory,
    /// Below `/var/log`.
    pub logs: Directory,
    /// Below `/etc`.
    pub configuration: Directory,
    /// Whether runtime directories outlive the service.
    pub runtime_preserve: DirectoryPreserve,
    /// How long cleaning them may take.
    pub timeout_clean: Option<TimeSpan>,
}

word_enum! {
    /// Who logs, in syslog's terms.
    SyslogFacility, "facility",
    Daemon = "daemon", Kern = "kern", User = "user", Mail = "mail", Auth = "auth", Syslog = "syslog",
    Lpr = "lpr", News = "news", Uucp = "uucp", Cron = "cron", Authpriv = "authpriv", Ftp = "ftp",
    Local0 = "local0", Local1 = "local1", Local2 = "local2", Local3 = "local3", Local4 = "local4",
    Local5 = "local5", Local6 = "local6", Local7 = "local7",
}

impl SyslogFacility {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Kern => 0,
            Self::User => 1,
            Self::Mail => 2,
            Self::Daemon => 3,
            Self::Auth => 4,
            Self::Syslog => 5,
            Self::Lpr => 6,
            Self::News => 7,
            Self::Uucp => 8,
            Self::Cron => 9,
            Self::Authpriv => 10,
            Self::Ftp => 11,
            Self::Local0 => 16,
            Self::Local1 => 17,
            Self::Local2 => 18,
            Self::Local3 => 19,
            Self::Local4 => 20,
            Self::Local5 => 21,
            Self::Local6 => 22,
            Self::Local7 => 23,
        }
    }
}

/// How urgent a message is, from 0 (emergency) to 7 (debug).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(pub u8);

impl Default for LogLevel {
    fn default() -> Self {
        Self(6)
    }
}

scalar_setting!(LogLevel, "log level", |text: &str| {
    let names = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    let named = (0u8..)
        .zip(names)
        .find(|(_, name)| *name == text)
        .map(|(n, _)| n);
    let number = || text.parse::<u8>().ok().filter(|level| *level <= 7);
    named
        .or_else(number)
        .map(LogLevel)
        .ok_or_else(|| ValueError::invalid(text, "a log level such as info"))
});

/// Level of messages that name none.
pub type SyslogLevel = LogLevel;

/// How output is logged.
#[derive(Clone, Debug, PartialEq)]
pub struct Logging {
    /// The tag; `None` is the name of the program.
    pub identifier: Option<Box<str>>,
    /// Who logs.
    pub facility: SyslogFacility,
    /// The level of lines that name none.
    pub level: SyslogLevel,
    /// Lines may begin with `<N>`.
    pub level_prefix: bool,
    /// Less urgent messages are dropped.
    pub level_max: Option<LogLevel>,
    /// Time over which messages are counted.
    pub rate_limit_interval: TimeSpan,
    /// Messages in that time.
    pub rate_limit_burst: u32,
    /// Added to every message.
    pub extra_fields: LogFields,
    /// Its own log.
    pub namespace: Option<Box<str>>,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            identifier: None,
            facility: SyslogFacility::Daemon,
            level: LogLevel::default(),
            level_prefix: true,
            level_max: None,
            rate_limit_interval: TimeSpan::ZERO,
            rate_limit_burst: 0,
            extra_fields: LogFields::default(),
            namespace: None,
        }
    }
}

/// The terminal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terminal {
    /// Which; `None` is the console.
    pub path: Option<AbsolutePath>,
    /// Reset before and after.
    pub reset: bool,
    /// Hang up before and after.
    pub vhangup: bool,
    /// Clear before and after.
    pub vt_disallocate: bool,
    /// Height.
    pub rows: Option<u32>,
    /// Width.
    pub columns: Option<u32>,
    /// What `StandardInput=data` reads.
    pub stdin_data: StdinData,
}

word_enum! {
    /// What kind of login record is written.
    UtmpMode, "utmp mode",
    Init = "init", Login = "login", User = "user",
}

word_enum! {
    /// What the kernel says the machine is.
    Personality, "personality",
    X86 = "x86", X86_64 = "x86-64", Ppc = "ppc", PpcLe = "ppc-le", Ppc64 = "ppc64", Ppc64Le = "ppc64-le",
    S390 = "s390", S390x = "s390x", Arm64 = "arm64", Arm = "arm",
}

rare!(Directories, Logging, Terminal, ExecContext);

/// How processes are set up.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecContext {
    /// The user; `None` is root.
    pub user: Option<Account>,
    /// The group; `None` is the user's.
    pub group: Option<Account>,
    /// Further groups.
    pub supplementary_groups: Accounts,
    /// Where it starts.
    pub working_directory: Option<WorkingDirectory>,
    /// Variables.
    pub environment: Environment,
    /// Files with variables.
    pub environment_files: EnvironmentFiles,
    /// Variables of the manager that are passed on.
    pub pass_environment: VariableNames,
    /// Variables that are removed at the end.
    pub unset_environment: VariableNames,
    /// Where programs without a path are looked for.
    pub search_path: crate::value::path::PathList,
    /// Where it reads from.
    pub stdin: ExecInput,
    /// Where it writes to; `None` is the manager's default, or the input if that is not null.
    pub stdout: Option<ExecOutput>,
    /// Where errors go; `None` is the manager's default.
    pub stderr: Option<ExecOutput>,
    /// File mode mask.
    pub umask: Mode,
    /// SIGPIPE is ignored.
    pub ignore_sigpipe: bool,
    /// A user that exists while the service runs.
    pub dynamic_user: bool,
    /// Whether `$HOME`, `$USER` and the like are set; `None` does so where a user is named.
    pub set_login_environment: Option<bool>,
    /// Shared memory and queues of the user are removed at the end.
    pub remove_ipc: bool,
    /// Resource limits of processes.
    pub limits: Vec<ResourceLimit>,
    /// Directories that are made for it.
    pub directories: Rare<Directories>,
    /// How output is logged.
    pub logging: Rare<Logging>,
    /// How processes share the machine.
    pub scheduling: Rare<Scheduling>,
    /// The terminal.
    pub terminal: Rare<Terminal>,
    /// What it cannot see and do.
    pub sandbox: Rare<Sandbox>,
    /// Its root file system.
    pub images: Rare<Images>,
    /// Its secrets.
    pub credentials: Rare<Credentials>,
    /// Labels of security modules, PAM, login records.
    pub labels: Rare<SecurityLabels>,
}

impl ExecContext {
    /// Lets later variables replace earlier ones and gives spare memory back.
    pub(super) fn shrink(&mut self) {
        self.environment.merge();
        self.environment.0.shrink();
        self.environment_files.0.shrink_to_fit();
        self.supplementary_groups.0.shrink();
        self.limits.shrink_to_fit();
        self.directories.compact();
        self.logging.compact();
        self.scheduling.compact();
        self.terminal.compact();
        self.sandbox.compact();
        self.images.compact();
        self.credentials.compact();
        self.labels.compact();
    }
}

impl Default for ExecContext {
    fn default() -> Self {
        Self {
            user: None,
            group: None,
            supplementary_groups: Accounts::default(),
            working_directory: None,
            environment: Environment::default(),
            environment_files: EnvironmentFiles::default(),
            pass_environment: VariableNames::default(),
            unset_environment: VariableNames::default(),
            search_path: crate::value::path::PathList::default(),
            stdin: ExecInput::Null,
            stdout: None,
            stderr: None,
            umask: Mode(0o022),
            ignore_sigpipe: true,
            dynamic_user: false,
            set_login_environment: None,
            remove_ipc: false,
            limits: Vec::new(),
            directories: Rare::default(),
            logging: Rare::default(),
            scheduling: Rare::default(),
            terminal: Rare::default(),
            sandbox: Rare::default(),
            images: Rare::default(),
            credentials: Rare::default(),
            labels: Rare::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn log_levels_have_names_and_numbers() {
        assert_eq!(read::<LogLevel>(&["err"]), LogLevel(3));
        assert_eq!(read::<LogLevel>(&["7"]), LogLevel(7));
        assert_eq!(assign(&mut LogLevel(6), &["8", "loud"]).len(), 2);
    }
}
