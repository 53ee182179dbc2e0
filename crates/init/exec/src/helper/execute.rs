//! The last steps. Limits of memory may hold from here on, and a filter of system calls: everything is ready before.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::Write;

use muster_seccomp::{Arch, Policy, Program, compile};
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{chdir, umask};
use rustix::thread::CapabilitySet;

use super::calls::{self, Table};
use super::directives;
use super::exemption::Exemption;
use super::limits;
use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::context::{Limit, WorkingDirectory};
use crate::job::Job;
use crate::step::Step;

/// Room for the digits of an error number.
const DIGITS: usize = 16;

/// The filter of a policy; nothing where it keeps nothing from the process.
pub(super) fn filter(policy: &Policy, reporter: &Reporter) -> Result<Option<Program>, SetupError> {
    if *policy == Policy::default() {
        return Ok(None);
    }
    let names = directives::of_policy(policy);
    let Some(arch) = Arch::native() else {
        let detail = "there are no filters of system calls for this kind of processor";
        let error = SetupError::new(Step::Seccomp, Errno::OPNOTSUPP, detail);
        let lenient = Leniency::IfUnavailable;
        return reporter
            .lenient(&names, lenient, Err(error))
            .map(Option::flatten);
    };
    let compiled = compile(policy, arch).map_err(|error| SetupError {
        step: Step::Seccomp,
        // The error number alone would not tell.
        detail: format!("cannot compile the filter of system calls: {error}").into(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
    });
    let compiled = reporter.lenient(&names, Leniency::IfAsked, compiled)?;
    Ok(compiled.and_then(|compiled| compiled.program))
}

/// The folder, with the rights of the user: one of his on a network file system may be closed to root.
pub(super) fn enter_folder(
    wanted: Option<&WorkingDirectory>,
    home: Option<&str>,
) -> Result<(), SetupError> {
    let path = match wanted.map(|wanted| &*wanted.path) {
        Some("~") => home.unwrap_or("/"),
        Some(path) => path,
        None => "/",
    };
    let mut entered = chdir(path);
    if entered.is_err() && wanted.is_some_and(|wanted| wanted.optional) {
        entered = chdir("/");
    }
    entered.during(Step::Chdir, || {
        format!("cannot enter the working directory {path}")
    })
}

/// Executing a program never gives it more rights, if that is wanted or a filter needs it.
pub(super) fn renounce(job: &Job, filter: Option<&Program>) -> Result<(), SetupError> {
    let needs = || {
        let own = rustix::thread::capabilities(None);
        !own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
    };
    if job.no_new_privileges || filter.is_some() && needs() {
        rustix::thread::set_no_new_privs(true).during(Step::NoNewPrivileges, || {
            "cannot renounce new privileges".to_owned()
        })?;
    }
    Ok(())
}

/// Where a program is of which only the name is known: what is found is what the process sees, in its own root.
pub(super) fn find_program(job: &Job) -> Result<Option<Box<str>>, SetupError> {
    let (name, folders) = (&job.program, &job.sandbox.program_folders);
    if name.contains('/') || folders.is_empty() {
        return Ok(None);
    }
    let is_program = |path: &String| {
        let is_file = std::fs::metadata(path).is_ok_and(|stat| stat.is_file());
        is_file && rustix::fs::access(path.as_str(), Access::EXEC_OK).is_ok()
    };
    let mut paths = folders.iter().map(|folder| format!("{folder}/{name}"));
    let found = paths.find(is_program).map(Into::into);
    found.map(Some).ok_or_else(|| {
        let detail = format!("cannot find the program {name} in any folder for programs");
        SetupError::new(Step::Exec, Errno::NOENT, detail)
    })
}

/// All that is left to do.
pub(super) struct Last<'a> {
    pub(super) job: &'a Job,
    pub(super) limits: &'a [Limit],
    /// Its absolute path.
    pub(super) program: &'a str,
    pub(super) argv: Vec<CString>,
    pub(super) environment: Vec<CString>,
    pub(super) filter: Option<Program>,
    pub(super) exemption: Exemption,
    /// The first descriptor that the program does not get.
    pub(super) first_closed: i32,
}

impl Last<'_> {
    /// Executes the program.
    pub(super) fn execute(&self, reporter: &Reporter) -> Result<Infallible, SetupError> {
        let (job, program) = (self.job, self.program);
        let text = |text: &str| CString::new(text).map_err(|_| zero_byte(program));
        if !program.starts_with('/') {
            let detail = format!("the program {program:?} is not an absolute path");
            return Err(SetupError::new(Step::Exec, Errno::INVAL, detail));
        }
        let program = text(program)?;
        let argv = Table::new(self.argv.iter().map(CString::as_c_str));
        let environment = Table::new(self.environment.iter().map(CString::as_c_str));
        let filtered = directives::of_policy(&job.sandbox.system_calls);
        let mut last_words = LastWords::new(self.program);
        umask(rustix::fs::Mode::from_raw_mode(u32::from(job.umask)));
        calls::close_at_execution(self.first_closed)
            .during(Step::Fds, || "cannot close descriptors".to_owned())?;
        if !job.ignore_sigpipe {
            calls::heed_broken_pipes().during(Step::SignalMask, || {
                "cannot have broken pipes signalled".to_owned()
            })?;
        }
        // That takes a descriptor more, of which the program may be allowed few.
        self.exemption.end()?;
        limits::set(self.limits)?;
        if let Some(filter) = &self.filter {
            let installed = calls::install_filter(filter).during(Step::Seccomp, || {
                "cannot install the filter of system calls".to_owned()
            });
            reporter.lenient(&filtered, Leniency::IfAsked, installed)?;
        }
        let errno = calls::execute(&program, &argv, &environment);
        reporter.write(last_words.with(errno));
        calls::end(Step::Exec.exit_code())
    }
}

pub(super) fn zero_byte(program: &str) -> SetupError {
    let detail = format!("an argument or variable of {program} holds a zero byte");
    SetupError::new(Step::Exec, Errno::INVAL, detail)
}

/// The line that says that the program cannot be executed. It is written where no memory may be had any more.
struct LastWords {
    line: Vec<u8>,
    end: Vec<u8>,
}

impl LastWords {
    fn new(program: &str) -> Self {
        let detail = format!("cannot execute {program}");
        let detail = super::outcome::shortened(&detail);
        let detail = serde_json::to_string(detail).unwrap_or_else(|_| "\"\"".to_owned());
        let mut line = Vec::with_capacity(detail.len() + 64 + DIGITS);
        let step = Step::Exec.exit_code();
        line.extend_from_slice(format!("{{\"failed\":{{\"step\":{step},\"errno\":").as_bytes());
        let end = format!(",\"detail\":{detail}}}}}\n").into_bytes();
        Self { line, end }
    }

    /// Allocates nothing: there is room for all of it.
    fn with(&mut self, errno: Errno) -> &[u8] {
        let _ = write!(self.line, "{}", errno.raw_os_error());
        self.line.extend_from_slice(&self.end);
        &self.line
    }
}

#[cfg(test)]
mod tests;
