//! What is to run, and how it ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A command to run in a machine.
///
/// Its `Debug` form names variables but not their values: those may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// The program, found on the machine's search path unless it holds a slash.
    pub program: OsString,
    /// Its arguments, passed as they are: no shell looks at them.
    pub args: Vec<OsString>,
    /// Variables that are set for it, beside those that the machine sets.
    pub env: BTreeMap<OsString, OsString>,
    /// The folder that it starts in; where the machine puts it, if none.
    pub folder: Option<PathBuf>,
    /// Whom it runs as; whom the executor logs in as, if nobody.
    pub user: Option<String>,
    /// How long it may take. After that it is killed, with every process of its group.
    pub timeout: Option<Duration>,
    /// Whether it is given input. If not, it reads the end at once.
    pub input: bool,
}

impl Command {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            folder: None,
            user: None,
            timeout: None,
            input: false,
        }
    }

    /// A script for the machine's POSIX shell.
    pub fn shell(script: impl Into<OsString>) -> Self {
        Self::new("sh").arg("-c").arg(script)
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// In a folder.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// As somebody else.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Not longer than this.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// With input, through [`Running::stdin`](crate::Running::stdin).
    #[must_use]
    pub fn input(mut self) -> Self {
        self.input = true;
        self
    }

    /// How errors name it: the program.
    pub(crate) fn object(&self) -> String {
        format!("{:?}", self.program.as_os_str())
    }

    /// The first thing in it that no machine can be given, if there is one.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let nul = |text: &OsStr| text.as_encoded_bytes().contains(&0);
        let bad_name = |name: &OsStr| {
            let bytes = name.as_encoded_bytes();
            bytes.is_empty() || bytes.contains(&b'=')
        };
        let user_ok = |user: &String| {
            let ok = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !user.is_empty() && !user.starts_with('-') && user.chars().all(ok)
        };
        if self.program.is_empty() {
            Some("its program has no name")
        } else if nul(&self.program) || self.args.iter().any(|arg| nul(arg)) {
            Some("its program or an argument holds a NUL byte")
        } else if self.env.iter().any(|(name, value)| nul(name) || nul(value)) {
            Some("a variable holds a NUL byte")
        } else if self.env.keys().any(|name| bad_name(name)) {
            Some("a variable's name is empty or holds an equals sign")
        } else if self.folder.as_ref().is_some_and(|it| nul(it.as_os_str())) {
            Some("its folder holds a NUL byte")
        } else if !self.user.iter().all(user_ok) {
            Some("its user's name is empty or holds characters that no user's name has")
        } else {
            None
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.keys().collect();
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("folder", &self.folder)
            .field("user", &self.user)
            .field("timeout", &self.timeout)
            .field("input", &self.input)
            .finish()
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal, named without its prefix: `KILL`.
    Signal(String),
}

impl Exit {
    /// Whether it ended with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Signal(name) => write!(f, "signal {name}"),
        }
    }
}

/// What a terminal is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// Its kind, for `TERM`.
    pub kind: String,
    /// How large it is.
    pub size: Size,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How many columns.
    pub columns: u16,
    /// How many rows.
    pub rows: u16,
}
