//! How processes are set up: who, where, with which environment and streams.

use super::sandbox::{Credentials, Images, Sandbox, SecurityLabels};
use super::{Rare, rare};
use crate::timespan::TimeSpan;
use crate::value::cpuset::{CpuAffinity, CpuSet};
use crate::value::environment::{Environment, EnvironmentFiles, LogFields};
use crate::value::number::{Mode, Nanoseconds, parse_integer};
use crate::value::path::{AbsolutePath, DirectoryNames, check_path};
use crate::value::rlimit::ResourceLimit;
use crate::value::words::{Account, Accounts, VariableNames};
use crate::value::{
    AssignError, Setting, ValueContext, ValueError, boolean_word, scalar_setting, word_enum,
};

/// Where a process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkingDirectory {
    /// `None` is the home of the user (`~`).
    pub path: Option<Box<str>>,
    /// `-`: it may be missing.
    pub optional: bool,
}

impl Setting for Option<WorkingDirectory> {
    const KIND: &'static str = "absolute path or ~";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = None;
            return Ok(());
        }
        let (optional, rest) = text
            .strip_prefix('-')
            .map_or((false, text), |rest| (true, rest));
        let failed = |error| {
            if optional {
                AssignError::Ignored(error)
            } else {
                AssignError::Fatal(error)
            }
        };
        let path = if rest == "~" {
            None
        } else {
            let path = context.expand(rest).map_err(failed)?;
            Some(check_path(&path, true).map_err(failed)?.into())
        };
        *self = Some(WorkingDirectory { path, optional });
        Ok(())
    }
}

/// Where a process reads from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExecInput {
    /// Nothing.
    #[default]
    Null,
    /// The terminal.
    Tty,
    /// The terminal, taken by force.
    TtyForce,
    /// The terminal, or fail.
    TtyFail,
    /// The connection of a socket unit.
    Socket,
    /// A descriptor of a socket unit, by name.
    Fd(Option<Box<str>>),
    /// What the unit's file says.
    Data,
    /// A file.
    File(Box<str>),
}

impl Setting for ExecInput {
    const KIND: &'static str = "input";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        *self = match text {
            "null" => Self::Null,
            "tty" => Self::Tty,
            "tty-force" => Self::TtyForce,
            "tty-fail" => Self::TtyFail,
            "socket" => Self::Socket,
            "fd" => Self::Fd(None),
            "data" => Self::Data,
            _ => {
                if let Some(name) = text.strip_prefix("fd:") {
                    Self::Fd(Some(context.expand(name)?.into()))
                } else if let Some(path) = text.strip_prefix("file:") {
                    Self::File(check_path(&context.expand(path)?, true)?.into())
                } else {
                    return Err(ValueError::invalid(
                        text,
                        "an input such as null, socket, file:PATH",
                    )
                    .into());
                }
            }
        };
        Ok(())
    }
}

/// Where a process writes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExecOutput {
    /// Where the previous stream goes.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// The terminal.
    Tty,
    /// The log.
    Journal,
    /// The log and the console.
    JournalConsole,
    /// The kernel's log.
    Kmsg,
    /// The kernel's log and the console.
    KmsgConsole,
    /// The connection of a socket unit.
    Socket,
    /// A descriptor of a socket unit, by name.
    Fd(Option<Box<str>>),
    /// A file, from its beginning.
    File(Box<str>),
    /// A file, at its end.
    Append(Box<str>),
    /// A file, emptied first.
    Truncate(Box<str>),
}

impl Setting for ExecOutput {
    const KIND: &'static str = "output";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let path = |path: &str, context: &ValueContext<'_>| -> Result<Box<str>, ValueError> {
            Ok(check_path(&context.expand(path)?, true)?.into())
        };
        *self = match text {
            "inherit" => Self::Inherit,
            "null" => Self::Null,
            "tty" => Self::Tty,
            "journal" => Self::Journal,
            "journal+console" => Self::JournalConsole,
            "kmsg" => Self::Kmsg,
            "kmsg+console" => Self::KmsgConsole,
            "socket" => Self::Socket,
            "fd" => Self::Fd(None),
            "syslog" => {
                context.warn(ValueError::Obsolete {
                    what: "output to syslog (journal is used)",
                });
                Self::Journal
            }
            "syslog+console" => {
                context.warn(ValueError::Obsolete {
                    what: "output to syslog+console (journal+console is used)",
                });
                Self::JournalConsole
            }
            _ => {
                if let Some(name) = text.strip_prefix("fd:") {
                    Self::Fd(Some(context.expand(name)?.into()))
                } else if let Some(file) = text.strip_prefix("file:") {
                    Self::File(path(file, context)?)
                } else if let Some(file) = text.strip_prefix("append:") {
                    Self::Append(path(file, context)?)
                } else if let Some(file) = text.strip_prefix("truncate:") {
                    Self::Truncate(path(file, context)?)
                } else {
                    return Err(ValueError::invalid(
                        text,
                        "an output such as journal, null, append:PATH",
                    )
                    .into());
                }
            }
        };
        Ok(())
    }
}

/// What `StandardInput=data` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StdinData(pub Vec<u8>);

impl StdinData {
    /// At most so much; systemd has the same limit.
    pub const MAX: usize = 64 << 20;

    /// Takes `StandardInputText=`: a line with C escapes and specifiers.
    ///
    /// # Errors
    /// An escape is broken, or there is too much.
    pub fn add_text(
        &mut self,
        text: &str,
        context: &mut ValueContext<'_>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let quoted = format!("\"{}\"", text.replace('"', "\\\""));
        let word = crate::value::words::escaped_words(&quoted, context)?.concat();
        let line = context.expand(&word)?;
        self.append(line.as_bytes())?;
        self.append(b"\n")
    }

    /// Takes `StandardInputData=`: Base64.
    ///
    /// # Errors
    /// It is not Base64, or there is too much.
    pub fn add_base64(&mut self, text: &str) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let bytes = decode_base64(text).ok_or_else(|| ValueError::invalid(text, "Base64"))?;
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), AssignError> {
        if self.0.len() + bytes.len() > Self::MAX {
            return Err(ValueError::OutOfRange {
                text: "".into(),
                range: "at most 64 MiB",
            }
            .into());
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0u32, 0u32, 0u32);
    for byte in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                count += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        count += 1;
        if count % 4 != 1 {
            let shift = 6 - 2 * ((count + 3) % 4);
            out.push(u8::try_from((bits >> shift) & 0xff).ok()?);
        }
    }
    (count % 4 == 0 && padding <= 2).then_some(out)
}

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

word_enum! {
    /// Scheduling policy.
    SchedulingPolicy, "scheduling policy",
    Other = "other", Fifo = "fifo", RoundRobin = "rr", Batch = "batch", Idle = "idle",
}

word_enum! {
    /// Input/output scheduling class.
    IoClass, "I/O class" + io_class_word,
    None = "none", Realtime = "realtime", BestEffort = "best-effort", Idle = "idle",
}

fn io_class_word(text: &str) -> &str {
    match text {
        "0" => "none",
        "1" => "realtime",
        "2" => "best-effort",
        "3" => "idle",
        other => other,
    }
}

word_enum! {
    /// Where memory comes from on machines with several nodes.
    NumaPolicy, "NUMA policy",
    Default = "default", Preferred = "preferred", Bind = "bind", Interleave = "interleave", Local = "local",
}

/// A number within bounds.
macro_rules! bounded {
    ($(#[$meta:meta])* $name:ident, $type:ty, $low:literal, $high:literal, $range:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $type);

        scalar_setting!($name, $range, |text: &str| {
            let number = parse_integer(text)?;
            <$type>::try_from(number)
                .ok()
                .filter(|number| ($low..=$high).contains(number))
                .map($name)
                .ok_or_else(|| ValueError::range(text, $range))
        });
    };
}

bounded!(/// Nice level.
    Nice, i8, -20, 19, "-20 to 19");
bounded!(/// How readily the kernel ends the process for lack of memory.
    OomScoreAdjust, i16, -1000, 1000, "-1000 to 1000");
bounded!(/// Priority within an I/O class.
    IoPriority, u8, 0, 7, "0 to 7");
bounded!(/// Priority within a real-time policy.
    RealtimePriority, u8, 0, 99, "0 to 99");

/// Which memory goes into a core dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoredumpFilter(pub u64);

scalar_setting!(CoredumpFilter, "kinds of memory", |text: &str| {
    const NAMES: [&str; 9] = [
        "private-anonymous",
        "shared-anonymous",
        "private-file-backed",
        "shared-file-backed",
        "elf-headers",
        "private-huge",
        "shared-huge",
        "private-dax",
        "shared-dax",
    ];
    let mut bits = 0u64;
    for word in text.split_whitespace() {
        bits |= match word {
            "all" => u64::MAX,
            "default" => 0x33,
            _ => match NAMES.iter().position(|name| *name == word) {
                Some(bit) => 1 << bit,
                None => {
                    let digits = word.strip_prefix("0x").unwrap_or(word);
                    u64::from_str_radix(digits, 16).map_err(|_| {
                        ValueError::invalid(word, "a kind of memory or a hexadecimal mask")
                    })?
                }
            },
        };
    }
    Ok::<_, ValueError>(CoredumpFilter(bits))
});

/// How processes share the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduling {
    /// Nice level.
    pub nice: Option<Nice>,
    /// How readily the kernel ends it for lack of memory.
    pub oom_score_adjust: Option<OomScoreAdjust>,
    /// Which memory goes into a core dump.
    pub coredump_filter: Option<CoredumpFilter>,
    /// I/O class.
    pub io_class: Option<IoClass>,
    /// Priority within it.
    pub io_priority: Option<IoPriority>,
    /// Policy.
    pub policy: Option<SchedulingPolicy>,
    /// Priority within it.
    pub priority: Option<RealtimePriority>,
    /// Children get the normal policy.
    pub reset_on_fork: bool,
    /// Processors.
    pub affinity: CpuAffinity,
    /// Memory nodes.
    pub numa_policy: Option<NumaPolicy>,
    /// Which of them.
    pub numa_mask: CpuSet,
    /// How late timers may be.
    pub timer_slack: Option<Nanoseconds>,
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

rare!(Directories, Logging, Scheduling, Terminal, ExecContext);

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
    use proptest::prelude::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9v YmFy", b"foobar"),
        ] {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg", "Zg=", "=Zg=", "Z!==", "Zg==Zg=="] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }

    #[test]
    fn streams_have_many_forms() {
        assert_eq!(
            read::<ExecInput>(&["file:/a//b"]),
            ExecInput::File("/a/b".into())
        );
        assert_eq!(
            read::<Option<ExecOutput>>(&["append:/x/%i"]),
            Some(ExecOutput::Append("/x/c".into()))
        );
        assert_eq!(
            read::<ExecOutput>(&["fd:a"]),
            ExecOutput::Fd(Some("a".into()))
        );
        let mut output = ExecOutput::Null;
        assert_eq!(assign(&mut output, &["syslog"]).len(), 1);
        assert_eq!(output, ExecOutput::Journal);
        assert_eq!(assign(&mut output, &["nowhere", "file:x"]).len(), 2);
    }

    #[test]
    fn working_directories_may_be_optional_or_home() {
        let mut directory = None;
        assert!(assign(&mut directory, &["-~"]).is_empty());
        assert_eq!(
            directory,
            Some(WorkingDirectory {
                path: None,
                optional: true
            })
        );
        assert!(assign(&mut directory, &["a/b"])[0].starts_with("fatal"));
        assert!(!assign(&mut directory, &["-a/b"])[0].starts_with("fatal"));
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(read::<Option<Nice>>(&["-20"]), Some(Nice(-20)));
        assert_eq!(assign(&mut Nice(0), &["20", "x"]).len(), 2);
        assert_eq!(
            read::<Option<CoredumpFilter>>(&["0x33"]),
            Some(CoredumpFilter(0x33))
        );
        assert_eq!(
            read::<Option<CoredumpFilter>>(&["default private-huge"]),
            Some(CoredumpFilter(0x33))
        );
        assert_eq!(read::<LogLevel>(&["err"]), LogLevel(3));
    }

    proptest! {
        #[test]
        fn base64_takes_any_text(text in "[A-Za-z0-9+/= !]{0,30}") {
            let _ = decode_base64(&text);
        }
    }
}
