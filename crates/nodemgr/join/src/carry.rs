//! Doing it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_executor::{Command, Executor, ExecutorError, Transfer};

use crate::elf;
use crate::facts::{Facts, FactsError, Root};
use crate::kept::Kept;
use crate::plan::{Plan, Refusal, plan};
use crate::unit::UnitFile;

/// Where everything is first brought to, in a folder that nobody can have made before: the user that logs in may not write
/// elsewhere.
const STAGES: &str = "/tmp";
/// The program that is tried first.
const INIT: &str = "/opt/muster/bin/muster-init";
/// A virtual machine without hardware to help it takes more than a minute to read its units again.
const COMMAND_TIME: Duration = Duration::from_secs(300);
const SAID: usize = 4096;

/// What is brought goes where it belongs, by what root's shell does. A file that is the same is left alone, and one that runs
/// is replaced, not written into.
const PLACE: &str = r#"set -eu
cd "$1"
find . -type d | while read -r folder; do mkdir -p "/$folder"; done
find . -type f | while read -r file; do
    if cmp -s "$file" "/$file"; then continue; fi
    cp -p "$file" "/$file.muster-new"
    chown 0:0 "/$file.muster-new"
    mv -f "/$file.muster-new" "/$file"
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
    /// It did something, and failed.
    #[error("cannot {what}: {said}")]
    Command {
        /// What.
        what: &'static str,
        /// What it said.
        said: String,
    },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> JoinError {
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
    let there = match stage.is_empty {
        true => None,
        false => Some(bring(executor, &plan, &stage).await?),
    };
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
    if let Some(there) = there {
        let clean = Command::new("rm").args(["-rf", &there]);
        run(executor, "clear away what was brought", &clean).await?;
    }
    Ok(plan)
}

/// Brings what was staged to the machine and puts it in its places. Answers where it was brought to.
async fn bring(executor: &dyn Executor, plan: &Plan, stage: &Stage) -> Result<String, JoinError> {
    let name = stage.folder.path().file_name().unwrap_or_default();
    let there = format!("{STAGES}/muster-join-{}", name.to_string_lossy());
    let transfer = Transfer::upload(stage.folder.path(), &there);
    let bring = "bring Muster's files to the machine";
    executor
        .copy(&transfer)
        .await
        .map_err(|source| JoinError::Executor {
            what: bring,
            source,
        })?;
    if stage.has_init {
        let tried = Command::new(format!("{there}{INIT}")).arg("--version");
        run(executor, "run Muster's programs on the machine", &tried).await?;
    }
    let place = as_root(plan.root, &["sh", "-c", PLACE, "muster-join", &there]);
    run(executor, "put Muster's files in their places", &place).await?;
    Ok(there)
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

/// What the machine lacks, as it shall stand below its root.
struct Stage {
    folder: tempfile::TempDir,
    /// Whether the machine has everything.
    is_empty: bool,
    /// Whether the program that shows whether programs run there is among it.
    has_init: bool,
}

fn stage(plan: &Plan, kept: &Kept) -> Result<Stage, JoinError> {
    let folder = tempfile::tempdir().map_err(file_error(&std::env::temp_dir()))?;
    let below = |path: &Path| folder.path().join(path.strip_prefix("/").unwrap_or(path));
    let make_folder = |path: &Path| match path.parent() {
        Some(folder) => fs::create_dir_all(folder).map_err(file_error(folder)),
        None => Ok(()),
    };
    let (mut is_empty, mut has_init) = (true, false);
    for file in &plan.copied {
        if kept
            .has_file(&file.to, &file.from)
            .map_err(file_error(&file.from))?
        {
            continue;
        }
        let to = below(&file.to);
        make_folder(&to)?;
        fs::copy(&file.from, &to).map_err(file_error(&file.from))?;
        let mode = if file.is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(file_error(&to))?;
        is_empty = false;
        has_init |= file.to == Path::new(INIT);
    }
    for (path, text) in &plan.written {
        if kept.has_text(path, text) {
            continue;
        }
        let to = below(path);
        make_folder(&to)?;
        fs::write(&to, text).map_err(file_error(&to))?;
        is_empty = false;
    }
    Ok(Stage {
        folder,
        is_empty,
        has_init,
    })
}
