//! A context with everything built that the new process will need.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::fmt;

use rustix::fd::{AsRawFd, BorrowedFd};

use crate::child::{Plan, StreamPlan};
use crate::context::{ExecContext, FileAccess, Identity, Stream};
use crate::environment::variables;
use crate::step::Step;

/// Room for the decimal digits of any pid and the zero behind them.
const PID_ROOM: usize = 12;
/// The highest processor number that a mask has room for, as in the C library.
const MAX_PROCESSORS: u16 = 8192;
/// The first descriptor that is passed beyond the standard streams.
const FIRST_PASSED: usize = 3;

/// A context cannot be turned into a process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The kernel's texts end at a zero byte.
    #[error("{what} holds a zero byte")]
    ZeroByte {
        /// Which text.
        what: &'static str,
    },
    /// The program is not an absolute path.
    #[error("the program {program:?} is not an absolute path")]
    RelativeProgram {
        /// The program.
        program: Box<str>,
    },
    /// A descriptor is named that is not in the list.
    #[error("descriptor {index} is not among the {count} that were given")]
    NoSuchFd {
        /// Its index.
        index: u16,
        /// How many there are.
        count: usize,
    },
    /// A stream refers to itself or a later one, or to a terminal that the context does not have.
    #[error("standard stream {stream} refers to nothing that is there before it")]
    BadStream {
        /// Its number.
        stream: u8,
    },
    /// A number that means "leave it as it is" to the kernel: the process would keep the caller's rights.
    #[error("{number} is not the number of a user or group")]
    BadIdentity {
        /// The number.
        number: u32,
    },
    /// A processor that no mask has room for.
    #[error("there is no processor {number}")]
    BadProcessor {
        /// Its number.
        number: u16,
    },
}

impl PrepareError {
    /// The step that this would have failed.
    #[must_use]
    pub fn step(&self) -> Step {
        match self {
            Self::ZeroByte { .. } | Self::RelativeProgram { .. } => Step::Exec,
            Self::NoSuchFd { .. } => Step::Fds,
            Self::BadStream { stream: 0 } => Step::Stdin,
            Self::BadStream { stream: 1 } => Step::Stdout,
            Self::BadStream { .. } => Step::Stderr,
            Self::BadIdentity { .. } => Step::User,
            Self::BadProcessor { .. } => Step::CpuAffinity,
        }
    }
}

/// A context ready to be run, any number of times. It borrows the descriptors that the process gets.
pub struct Prepared<'a> {
    pub(crate) context: &'a ExecContext,
    fds: Vec<BorrowedFd<'a>>,
    /// Every text, each with a zero behind it.
    arena: Vec<u8>,
    program: usize,
    working_directory: usize,
    terminal: Option<usize>,
    argv: Vec<usize>,
    environment: Vec<usize>,
    /// Where a pid's digits go.
    pid_digits: Vec<usize>,
    stream_files: [Option<usize>; 3],
    processors: Vec<u64>,
    /// Addresses of the arguments and of the environment, filled in for each run.
    addresses: Vec<*const c_char>,
    /// The descriptors of `fds`, moved out of the way by the new process.
    moved: Vec<c_int>,
}

impl<'a> Prepared<'a> {
    /// Builds every text and table of a context.
    ///
    /// # Errors
    /// The context contradicts itself or the descriptors.
    pub fn new(context: &'a ExecContext, fds: &[BorrowedFd<'a>]) -> Result<Self, PrepareError> {
        if !context.program.starts_with('/') {
            return Err(PrepareError::RelativeProgram {
                program: context.program.clone(),
            });
        }
        check_identity(context)?;
        let mut arena = Arena::default();
        let program = arena.add("the program's path", &context.program)?;
        let folder = context.working_directory.as_ref();
        let folder = folder.map_or("/", |folder| &folder.path);
        let working_directory = arena.add("the working directory", folder)?;
        let argv = context.argv.iter();
        let argv = argv.map(|argument| arena.add("an argument", argument));
        let argv = argv.collect::<Result<_, _>>()?;
        let (environment, pid_digits) = environment(context, &mut arena)?;
        let mut stream_files = [None; 3];
        for (number, stream) in streams(context) {
            check_stream(context, number, stream, fds.len())?;
            if let Stream::File { path, .. } = stream {
                let at = arena.add("the path of a stream", path)?;
                stream_files[usize::from(number)] = Some(at);
            }
        }
        for fd in context.passed.iter().map(|passed| passed.fd) {
            check_fd(fd, fds.len())?;
        }
        if let Some(fd) = context.exemptions {
            check_fd(fd, fds.len())?;
        }
        let terminal = context.terminal.as_ref();
        let terminal = terminal.map(|terminal| arena.add("the terminal's path", &terminal.path));
        let mut prepared = Self {
            context,
            fds: fds.to_vec(),
            program,
            working_directory,
            terminal: terminal.transpose()?,
            argv,
            environment,
            pid_digits,
            stream_files,
            processors: mask(&context.processors)?,
            addresses: Vec::new(),
            moved: Vec::with_capacity(fds.len()),
            arena: arena.0,
        };
        let tables = prepared.argv.len() + prepared.environment.len() + 2;
        prepared.addresses.reserve_exact(tables);
        Ok(prepared)
    }

    /// The descriptors that the process gets.
    pub(crate) fn descriptors(&self) -> &[BorrowedFd<'a>] {
        &self.fds
    }

    /// What the new process needs, as addresses into this value. Allocates nothing. `numbers` are those by which the new
    /// process knows its descriptors, if they are not their own.
    pub(crate) fn plan(&mut self, numbers: Option<&[c_int]>) -> Plan<'_> {
        let arena = Cell::from_mut(&mut self.arena[..]).as_slice_of_cells();
        let address = |at: usize| arena[at..].as_ptr().cast::<c_char>();
        self.addresses.clear();
        self.addresses
            .extend(self.argv.iter().map(|at| address(*at)));
        self.addresses.push(std::ptr::null());
        let environment = self.addresses.len();
        let variables = self.environment.iter().map(|at| address(*at));
        self.addresses.extend(variables);
        self.addresses.push(std::ptr::null());
        self.moved.clear();
        match numbers {
            Some(numbers) => self.moved.extend(numbers.iter().take(self.fds.len())),
            None => self.moved.extend(self.fds.iter().map(AsRawFd::as_raw_fd)),
        }
        let context = self.context;
        let [stdin, stdout, stderr] = [&context.stdin, &context.stdout, &context.stderr];
        let stream = |number: usize, stream: &Stream| match stream {
            Stream::Null => StreamPlan::Null,
            Stream::Fd(index) => StreamPlan::Fd(*index),
            Stream::Terminal => StreamPlan::Terminal,
            Stream::Same(other) => StreamPlan::Same(*other),
            Stream::File { access, .. } => StreamPlan::File {
                path: address(self.stream_files[number].unwrap_or(self.program)),
                flags: open_flags(*access),
            },
        };
        Plan {
            context,
            program: address(self.program),
            argv: self.addresses.as_ptr(),
            environment: self.addresses[environment..].as_ptr(),
            pid_digits: &self.pid_digits,
            arena,
            working_directory: address(self.working_directory),
            terminal: self.terminal.map(address),
            streams: [stream(0, stdin), stream(1, stdout), stream(2, stderr)],
            processors: &self.processors,
            moved: Cell::from_mut(&mut self.moved[..]).as_slice_of_cells(),
            first_free: FIRST_PASSED + context.passed.len(),
        }
    }
}

impl fmt::Debug for Prepared<'_> {
    /// The environment may hold secrets, so only the program is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("program", &self.context.program)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Arena(Vec<u8>);

impl Arena {
    fn add(&mut self, what: &'static str, text: &str) -> Result<usize, PrepareError> {
        if text.as_bytes().contains(&0) {
            return Err(PrepareError::ZeroByte { what });
        }
        let at = self.0.len();
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        Ok(at)
    }

    /// A variable whose value is filled in later; gives its place and that of the value.
    fn add_pid(&mut self, name: &str) -> Result<(usize, usize), PrepareError> {
        let at = self.add("a variable", &format!("{name}="))?;
        let digits = self.0.len() - 1;
        self.0.resize(digits + PID_ROOM, 0);
        Ok((at, digits))
    }
}

/// The variables, and where the pid's digits go.
fn environment(
    context: &ExecContext,
    arena: &mut Arena,
) -> Result<(Vec<usize>, Vec<usize>), PrepareError> {
    let variables = variables(context);
    let mut places = Vec::with_capacity(variables.known.len() + variables.pids.len());
    let mut digits = Vec::with_capacity(variables.pids.len());
    for variable in &variables.known {
        places.push(arena.add("a variable", variable)?);
    }
    for name in variables.pids {
        let (at, value) = arena.add_pid(name)?;
        places.push(at);
        digits.push(value);
    }
    Ok((places, digits))
}

fn streams(context: &ExecContext) -> impl Iterator<Item = (u8, &Stream)> {
    (0u8..).zip([&context.stdin, &context.stdout, &context.stderr])
}

fn check_stream(
    context: &ExecContext,
    number: u8,
    stream: &Stream,
    fds: usize,
) -> Result<(), PrepareError> {
    match stream {
        Stream::Fd(index) => check_fd(*index, fds),
        Stream::Same(other) if *other >= number => Err(PrepareError::BadStream { stream: number }),
        Stream::Terminal if context.terminal.is_none() => {
            Err(PrepareError::BadStream { stream: number })
        }
        _ => Ok(()),
    }
}

fn check_identity(context: &ExecContext) -> Result<(), PrepareError> {
    let identity = context.identity.as_ref();
    match identity.and_then(Identity::meaningless) {
        Some(number) => Err(PrepareError::BadIdentity { number }),
        None => Ok(()),
    }
}

fn check_fd(index: u16, count: usize) -> Result<(), PrepareError> {
    if usize::from(index) < count {
        Ok(())
    } else {
        Err(PrepareError::NoSuchFd { index, count })
    }
}

fn mask(processors: &[u16]) -> Result<Vec<u64>, PrepareError> {
    let mut mask = Vec::new();
    for number in processors {
        if *number >= MAX_PROCESSORS {
            return Err(PrepareError::BadProcessor { number: *number });
        }
        let word = usize::from(number / 64);
        if mask.len() <= word {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1u64 << (number % 64);
    }
    Ok(mask)
}

pub(crate) fn open_flags(access: FileAccess) -> c_int {
    let made = libc::O_CREAT;
    match access {
        FileAccess::Read => libc::O_RDONLY,
        FileAccess::ReadWrite => libc::O_RDWR | made,
        FileAccess::Write => libc::O_WRONLY | made,
        FileAccess::Append => libc::O_WRONLY | made | libc::O_APPEND,
        FileAccess::Truncate => libc::O_WRONLY | made | libc::O_TRUNC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::PassedFd;

    fn refused(change: impl FnOnce(&mut ExecContext)) -> PrepareError {
        let mut context = ExecContext {
            program: "/bin/true".into(),
            ..ExecContext::default()
        };
        change(&mut context);
        Prepared::new(&context, &[]).expect_err("it contradicts itself")
    }

    #[test]
    fn contradictions_are_refused_before_anything_runs() {
        let identity = |uid, gid| {
            Some(Identity {
                uid,
                gid,
                groups: Vec::new(),
            })
        };
        let steps = [
            refused(|context| context.program = "true".into()).step(),
            refused(|context| context.program = "/bin/tr\0ue".into()).step(),
            refused(|context| context.environment = vec!["A=\0".into()]).step(),
            refused(|context| context.stdin = Stream::Same(0)).step(),
            refused(|context| context.stdout = Stream::Same(1)).step(),
            refused(|context| context.stderr = Stream::Terminal).step(),
            refused(|context| context.stdin = Stream::Fd(0)).step(),
            refused(|context| {
                context.passed = vec![PassedFd {
                    fd: 0,
                    name: "x".into(),
                    nonblocking: None,
                }];
            })
            .step(),
            refused(|context| context.identity = identity(u32::MAX, 0)).step(),
            refused(|context| context.identity = identity(0, u32::MAX)).step(),
            refused(|context| context.processors = vec![60_000]).step(),
        ];
        let codes = steps.map(Step::exit_code);
        assert_eq!(
            codes,
            [203, 203, 203, 208, 209, 222, 202, 202, 217, 217, 215]
        );
    }

    #[test]
    fn the_environment_is_never_printed() {
        let context = ExecContext {
            program: "/bin/true".into(),
            environment: vec!["PASSWORD=secret".into()],
            ..ExecContext::default()
        };
        let prepared = Prepared::new(&context, &[]).expect("it can be run");
        assert!(!format!("{prepared:?}").contains("secret"));
        assert!(!format!("{context:?}").contains("secret"));
    }
}
