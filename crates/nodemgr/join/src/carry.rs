//! Doing it.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_executor::{Command, Executor, ExecutorError, FailureClass, Transfer};

use crate::elf;
use crate::facts::{Facts, FactsError, Root};
use crate::kept::Kept;
use crate::plan::{INIT, Plan, Refusal, plan};
use crate::stage::{Stage, stage};
use crate::unit::UnitFile;

/// A virtual machine without hardware to help it takes more than a minute to read its units again.
const COMMAND_TIME: Duration = Duration::from_secs(300);
const SAID: usize = 4096;

/// So many files are named in one command: how long one may be is limited.
const AT_ONCE: usize = 200;

/// Makes the folder that files are first brought to, for nobody but its user. What an earlier try left there is used; whatever else
/// has its name, as a link to elsewhere or a folder of somebody else, goes or is an error.
const PREPARE: &str = r#"set -eu
umask 077
if [ -L "$1" ] || [ ! -d "$1" ] || [ ! -O "$1" ]; then
    rm -rf "$1"
    mkdir "$1"
fi
chmod 700 "$1"
"#;

/// What is brought goes where it belongs, by what root's shell does: these files, below this root. A file that is the same is left
/// alone, and one that runs is replaced, not written into.
const PLACE: &str = r#"set -eu
cd "$1"
root=$2
shift 2
for file do
    there=$root/$file
    mkdir -p "${there%/*}"
    if cmp -s "$file" "$there"; then continue; fi
    cp -p "$file" "$there.muster-new"
    chown 0:0 "$there.muster-new"
    mv -f "$there.muster-new" "$there"
done
"#;

/// Why a machine did not become a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Nothing is known about it.
    #[error(transparent)]
    Facts(FactsError),
    /// It cannot join.
    #[error(transparent)]
    Refused(Refusal),
    /// A file here cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be asked to do something.
    #[error("cannot {what}")]
    Executor {
        /// What.
        what: &'static str,
        /// Why.
        source: ExecutorError,
    },
    /// What was brought is there, and is not executed.
    #[error(
        "the machine executes nothing in {}, where Muster's files are first brought to ({said}); it may be mounted `noexec`",
        folder.display()
    )]
    NoExec {
        /// Where.
        folder: PathBuf,
        /// What was said.
        said: String,
    },
    /// It did something, and failed.
    #[error("cannot {what}: {said}")]
    Command {
        /// What.
        what: &'static str,
        /// What it said.
        said: String,
    },
}

pub(crate) fn file_error(path: &Path) -> impl FnOnce(io::Error) -> JoinError {
    let path = path.to_owned();
    move |source| JoinError::File { path, source }
}

/// Puts Muster on a machine and starts its identity manager, which calls the Unit's. The plan is for [`begin_work`].
///
/// # Errors
/// With what cannot be done. What was brought stays; another try goes on with it.
pub async fn install(
    executor: &dyn Executor,
    unit: &UnitFile,
    node: &str,
    programs: &Path,
) -> Result<Plan, JoinError> {
    let facts = Facts::ask(executor).await.map_err(JoinError::Facts)?;
    let init = programs.join("muster-init");
    let architecture = elf::architecture(&init).map_err(file_error(&init))?;
    let plan = plan(&facts, unit, node, programs, architecture).map_err(JoinError::Refused)?;
    let asked = as_root(plan.root, &Kept::question(&plan));
    let kept = Kept::ask(executor, &asked.timeout(COMMAND_TIME)).await;
    let stage = stage(&plan, &kept)?;
    if !stage.files().is_empty() {
        bring(executor, &plan, &stage).await?;
    }
    let folders: Vec<String> = plan
        .folders
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    let words: Vec<&str> = ["mkdir", "-p"]
        .into_iter()
        .chain(folders.iter().map(String::as_str))
        .collect();
    run(
        executor,
        "make the node's folders",
        &as_root(plan.root, &words),
    )
    .await?;
    let start = as_root(plan.root, &["sh", "-c", &plan.start]);
    run(executor, "start the node", &start).await?;
    // Also what an earlier try left that failed after all had been brought.
    let clean = Command::new("rm").arg("-rf").arg(&plan.stage);
    run(executor, "clear away what was brought", &clean).await?;
    Ok(plan)
}

/// Brings what was staged to the machine and puts it in its places.
async fn bring(executor: &dyn Executor, plan: &Plan, stage: &Stage) -> Result<(), JoinError> {
    let prepare = Command::new("sh").args(["-c", PREPARE, "muster-join"]);
    let what = "make a folder for Muster's files in the home of the machine's user";
    run(executor, what, &prepare.arg(&plan.stage)).await?;
    let transfer = Transfer {
        delete: true,
        // An earlier try may have brought other programs of the same size and time.
        checksum: true,
        ..Transfer::upload(stage.path(), &plan.stage)
    };
    let copied = executor.copy(&transfer).await;
    copied.map_err(|source| JoinError::Executor {
        what: "bring Muster's files to the machine",
        source,
    })?;
    if stage.has_init() {
        let program = plan.stage.join(INIT.trim_start_matches('/'));
        try_program(executor, &plan.stage, &program).await?;
    }
    let there = plan.stage.display().to_string();
    for files in stage.files().chunks(AT_ONCE) {
        let words = ["sh", "-c", PLACE, "muster-join", &there, ""];
        let files = files.iter().map(String::as_str);
        let words: Vec<&str> = words.into_iter().chain(files).collect();
        let place = as_root(plan.root, &words);
        run(executor, "put Muster's files in their places", &place).await?;
    }
    Ok(())
}

/// Whether programs run there at all, before anything is changed.
async fn try_program(
    executor: &dyn Executor,
    folder: &Path,
    program: &Path,
) -> Result<(), JoinError> {
    let what = "run Muster's programs on the machine";
    let tried = Command::new(program).arg("--version");
    match run(executor, what, &tried).await {
        Err(JoinError::Executor { source, .. }) if source.class == FailureClass::NotExecutable => {
            Err(JoinError::NoExec {
                folder: folder.to_owned(),
                said: source.source.to_string(),
            })
        }
        done => done,
    }
}

/// Has a provisioned node take up its work.
///
/// # Errors
/// When the machine cannot be asked.
pub async fn begin_work(executor: &dyn Executor, plan: &Plan) -> Result<(), JoinError> {
    let command = as_root(plan.root, &["sh", "-c", &plan.work]);
    run(executor, "start the node's Service Manager", &command).await
}

/// Starts the node of a machine that was itself started or rebooted, unless it runs, or the machine's systemd does that.
///
/// # Errors
/// When the machine cannot be asked, or refuses.
pub async fn restart(executor: &dyn Executor) -> Result<(), JoinError> {
    let facts = Facts::ask(executor).await.map_err(JoinError::Facts)?;
    let Some(script) = crate::plan::restart(&facts) else {
        return Ok(());
    };
    let root = facts.root.ok_or(JoinError::Refused(Refusal::NotRoot))?;
    let start = as_root(root, &["sh", "-c", &script]);
    run(executor, "start the node again", &start).await
}

fn as_root(root: Root, words: &[&str]) -> Command {
    let command = match root {
        Root::Own => Command::new(words[0]),
        Root::Sudo => Command::new("sudo").args(["-n", "--", words[0]]),
    };
    command.args(words[1..].iter().copied())
}

async fn run(
    executor: &dyn Executor,
    what: &'static str,
    command: &Command,
) -> Result<(), JoinError> {
    let failed = |source| JoinError::Executor { what, source };
    let command = command.clone().timeout(COMMAND_TIME);
    let running = executor.run(&command).await.map_err(failed)?;
    let output = running.output(SAID).await.map_err(failed)?;
    if output.exit.is_success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => format!("it ended with {}", output.exit),
        said => said.to_owned(),
    };
    Err(JoinError::Command { what, said })
}
