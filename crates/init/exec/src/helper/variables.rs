//! The environment of the process, and what of its arguments depends on that.
//!
//! The manager lists what it knows. Files that it would have had to wait for, the account that name services know and a session
//! add to that; only then variables are taken away again, and replaced in arguments.

use std::ffi::CString;

use super::execute::zero_byte;
use super::names::Account;
use super::outcome::SetupError;
use crate::accounts::{is_home, is_shell};
use crate::job::Job;
use crate::step::Step;
use crate::variables::{Variables, arguments, load, unset};

/// What the manager lists, with what is in the files that it has left to this process.
pub(super) fn known(job: &Job) -> Result<Vec<Box<str>>, SetupError> {
    let files = &job.sandbox.environment_files;
    if files.is_empty() {
        return Ok(job.environment.clone());
    }
    let found = load(files).map_err(|unread| SetupError {
        step: Step::Exec,
        detail: format!("cannot read the environment file {}", unread.path).into(),
        source: unread.error,
    })?;
    let mut variables = by_name(&job.environment);
    for (name, value) in found {
        if !is_told(job, &name) {
            variables.insert(name.into(), value.into());
        }
    }
    Ok(listed(&variables))
}

/// Whether a variable says what only the one who starts the process knows.
fn is_told(job: &Job, name: &str) -> bool {
    let has_pid = |name: &str| job.pid_variables.iter().any(|known| &**known == name);
    has_pid(name) || has_pid("LISTEN_PID") && matches!(name, "LISTEN_FDS" | "LISTEN_FDNAMES")
}

/// The variables that tell a program who it runs as, where the environment does not.
pub(super) fn add_login(environment: &mut Vec<Box<str>>, account: &Account) {
    let name = account.name.to_string_lossy();
    let (home, shell) = (&*account.home, &*account.shell);
    let variables = [
        ("HOME", home, is_home(home)),
        ("LOGNAME", &*name, !name.is_empty()),
        ("USER", &*name, !name.is_empty()),
        ("SHELL", shell, is_shell(shell)),
    ];
    for (key, value, is_one) in variables {
        let prefix = format!("{key}=");
        let is_set = environment
            .iter()
            .any(|variable| variable.starts_with(&prefix));
        if !is_set && is_one {
            environment.push(format!("{prefix}{value}").into());
        }
    }
}

/// Arguments and environment as the kernel takes them. All variables are known by now, the process's number too.
pub(super) fn settle(
    job: &Job,
    environment: Vec<Box<str>>,
) -> Result<(Vec<CString>, Vec<CString>), SetupError> {
    let pid = rustix::process::getpid().as_raw_nonzero().to_string();
    let (argv, environment) = settled(job, environment, &pid);
    let texts = |texts: Vec<Box<str>>| {
        let texts = texts.into_iter().map(String::from);
        let texts = texts.map(|text| CString::new(text).map_err(|_| zero_byte(&job.program)));
        texts.collect::<Result<Vec<_>, _>>()
    };
    Ok((texts(argv)?, texts(environment)?))
}

fn settled(job: &Job, mut environment: Vec<Box<str>>, pid: &str) -> (Vec<Box<str>>, Vec<Box<str>>) {
    let sandbox = &job.sandbox;
    let mut pids = job.pid_variables.clone();
    if !sandbox.unset_environment.is_empty() {
        let mut variables = by_name(&environment);
        let entries = sandbox.unset_environment.iter().map(|entry| &**entry);
        unset(&mut variables, &mut pids, entries);
        environment = listed(&variables);
    }
    environment.extend(pids.iter().map(|name| format!("{name}={pid}").into()));
    let argv = if sandbox.expands_arguments {
        let given = job.argv.iter().map(|argument| &**argument);
        arguments(given, &by_name(&environment))
    } else {
        job.argv.clone()
    };
    (argv, environment)
}

fn by_name(environment: &[Box<str>]) -> Variables {
    let pairs = environment.iter().filter_map(|text| text.split_once('='));
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn listed(variables: &Variables) -> Vec<Box<str>> {
    let listed = variables.iter();
    listed
        .map(|(name, value)| format!("{name}={value}").into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ExecContext;
    use crate::sandbox::Sandbox;
    use crate::variables::EnvironmentFile;

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<Box<str>> {
        texts.map(Into::into).into()
    }

    fn job(sandbox: Sandbox) -> Job {
        Job::of(&ExecContext {
            argv: texts(["x", "${HOME}", "$WORDS", "${P}", "$$A"]),
            environment: texts(["HOME=/h", "WORDS=a b"]),
            pid_variables: texts(["P"]),
            sandbox: Some(Box::new(sandbox)),
            ..ExecContext::default()
        })
    }

    #[test]
    fn arguments_and_what_is_taken_away_follow_from_all_variables() {
        let job = job(Sandbox {
            expands_arguments: true,
            unset_environment: texts(["SESSION", "WORDS=other"]),
            ..Sandbox::default()
        });
        let all = texts(["HOME=/far", "SESSION=7", "WORDS=a b"]);
        let (argv, environment) = settled(&job, all, "11");
        assert_eq!(argv, texts(["x", "/far", "a", "b", "11", "$A"]));
        assert_eq!(environment, texts(["HOME=/far", "WORDS=a b", "P=11"]));
    }

    #[test]
    fn what_the_manager_has_settled_stays_as_it_is() {
        let job = job(Sandbox::default());
        let all = texts(["B=1", "A=2", "B=3"]);
        let (argv, environment) = settled(&job, all, "11");
        assert_eq!(argv, job.argv);
        assert_eq!(environment, texts(["B=1", "A=2", "B=3", "P=11"]));
    }

    #[test]
    fn files_win_but_do_not_say_what_the_process_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "HOME=/file\nP=1\nNEW=n\n").expect("a file");
        let file = |path: &str| Sandbox {
            environment_files: vec![EnvironmentFile {
                path: path.into(),
                optional: false,
            }],
            ..Sandbox::default()
        };
        let found = known(&job(file(path.to_str().expect("text")))).expect("it is there");
        assert_eq!(found, texts(["HOME=/file", "NEW=n", "WORDS=a b"]));
        let failed = known(&job(file("/nonexistent"))).expect_err("it is not there");
        assert_eq!(failed.step, Step::Exec);
        assert!(failed.detail.contains("/nonexistent"), "{}", failed.detail);
    }
}
