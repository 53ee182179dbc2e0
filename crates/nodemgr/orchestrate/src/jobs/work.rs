//! A step is done on a machine: its actions, one after the other.

mod back;
mod login;
mod progress;

use std::path::PathBuf;
use std::sync::Arc;

use muster_executor::{
    Chunk, Command, Direction, Executor, ExecutorError, Exit, FailureClass, Progress, Report,
    Transfer as Copy,
};
use tokio::sync::watch;

use super::{JobContext, leftover, trouble, trouble_text};
use crate::entry::{JobResult, Why};
use crate::job::Slot;
use crate::log::Stream;
use crate::workflow::{Action, FileContent, Place, Transfer};

/// Writes its input beside the file, and gives it the file's name when it is whole.
const WRITE_FILE: &str = r#"
set -e
umask 077
mkdir -p -- "$(dirname -- "$1")"
cat >"$1.muster-part"
chmod -- "$2" "$1.muster-part"
mv -f -- "$1.muster-part" "$1"
"#;

pub(super) async fn work(context: &mut JobContext, step: &str, slot: &Slot) -> JobResult {
    match try_work(context, step, slot).await {
        Ok(warnings) => JobResult::Done {
            machine: None,
            warnings,
        },
        Err(why) => JobResult::Failed(why),
    }
}

async fn try_work(context: &mut JobContext, step: &str, slot: &Slot) -> Result<Vec<String>, Why> {
    let record = context.record()?;
    let executor = context.reach(slot, &record).await;
    let executor = executor.map_err(|error| trouble(&error))?;
    let workflow = Arc::clone(&context.workflow);
    let Some(step) = workflow.step(step) else {
        return Err(trouble_text(format!("there is no step {step}")));
    };
    let _at_work = context.at_work.enter(slot, step.name());
    leftover::end_steps(context, slot, step).await?;
    let mut warnings = Vec::new();
    for (nth, action) in step.actions().iter().enumerate() {
        let mut doing = Doing {
            executor: &executor,
            context: &mut *context,
            slot,
            step: step.name(),
            nth: u32::try_from(nth).unwrap_or(u32::MAX),
            warnings: &mut warnings,
        };
        doing.act(action).await?;
    }
    Ok(warnings)
}

/// One action.
struct Doing<'a> {
    executor: &'a Arc<dyn Executor>,
    context: &'a mut JobContext,
    slot: &'a Slot,
    step: &'a str,
    nth: u32,
    /// What somebody should know though it was done.
    warnings: &'a mut Vec<String>,
}

impl Doing<'_> {
    async fn act(&mut self, action: &Action) -> Result<(), Why> {
        match action {
            Action::Run(run) => {
                let Some((program, args)) = run.command.split_first() else {
                    return Err(trouble_text("there is no command".to_owned()));
                };
                let command = Command::new(program).args(args);
                let command = self.placed(command, &run.place).await?;
                self.run(command, None).await
            }
            Action::Script(script) => {
                let command = Command::new("/bin/sh").args(["-e", "-c", &script.text]);
                let command = self.placed(command, &script.place).await?;
                self.run(command, None).await
            }
            Action::File(file) => self.write_file(file).await,
            Action::Upload(transfer) => self.upload(transfer).await,
            Action::Download(transfer) if transfer.only_changes => self.bring_back(transfer).await,
            Action::Download(transfer) => self.download(transfer).await,
        }
    }

    /// A command at its place, told what it is part of.
    async fn placed(&self, mut command: Command, place: &Place) -> Result<Command, Why> {
        let machine = self.context.machine.as_ref();
        command = command
            .env(leftover::RUN, self.context.run.as_str())
            .env(leftover::GROUP, self.slot.group())
            .env(leftover::INDEX, self.slot.index().to_string())
            .env(leftover::STEP, self.step)
            .env("MUSTER_MACHINE", machine.map_or("", |id| id.as_str()));
        for (name, value) in &place.env {
            command = command.env(name, value);
        }
        if let Some(cwd) = &place.cwd {
            command = command.folder(self.there(cwd).await?);
        }
        Ok(as_user(command, place.user.as_deref()))
    }

    async fn write_file(&mut self, file: &FileContent) -> Result<(), Why> {
        let to = self.there(&file.to).await?;
        let args = ["-c", WRITE_FILE, "sh", &to, &file.mode];
        let command = Command::new("/bin/sh").args(args).input();
        let command = as_user(command, file.user.as_deref());
        let input = Some(file.content.clone().into_bytes());
        match self.run(command, input).await {
            // The shell is not what somebody wanted to run.
            Err(Why::NotStarted { text, .. }) => Err(Why::Trouble { text }),
            done => done,
        }
    }

    async fn run(&mut self, command: Command, input: Option<Vec<u8>>) -> Result<(), Why> {
        let command = command.timeout(self.context.effort.timeout.get());
        let running = self.executor.run(&command).await;
        let action = self.nth;
        let mut running = running.map_err(|error| judge_start(&error, action))?;
        let stdin = running.stdin();
        let feed = async move {
            if let (Some(stdin), Some(input)) = (stdin, input) {
                // A command that reads no more says itself why.
                let _ = stdin.write(input).await;
            }
        };
        let log = &mut self.context.log;
        let copy = async {
            while let Some(chunk) = running.next().await {
                let stream = match chunk {
                    Chunk::Stdout(_) => Stream::Stdout,
                    Chunk::Stderr(_) => Stream::Stderr,
                };
                log.write(stream, chunk.bytes()).await;
            }
            log.end().await;
            running.wait().await
        };
        let ((), exit) = tokio::join!(feed, copy);
        match exit.map_err(|error| judge(&error))? {
            Exit::Code(0) => Ok(()),
            Exit::Code(code) => Err(Why::Exit { action, code }),
            Exit::Signal(signal) => Err(Why::Signal { action, signal }),
        }
    }

    /// A path of the manager's machine, with what tells machines apart.
    fn local(&self, path: &str) -> PathBuf {
        let machine = self.context.machine.as_ref();
        let path = path
            .replace("{run}", self.context.run.as_str())
            .replace("{group}", self.slot.group())
            .replace("{index}", &self.slot.index().to_string())
            .replace("{machine}", machine.map_or("", |id| id.as_str()));
        path.into()
    }

    async fn upload(&mut self, transfer: &Transfer) -> Result<(), Why> {
        let local = self.local(&transfer.from);
        let looked = {
            let local = local.clone();
            tokio::task::spawn_blocking(move || std::fs::metadata(local)).await
        };
        let is_folder = matches!(looked, Ok(Ok(meta)) if meta.is_dir());
        let copy = Copy {
            delete: transfer.delete,
            ..Copy::upload(local, self.there(&transfer.to).await?)
        };
        match self.kept_at(&transfer.from, &transfer.to) {
            Some(kept) => self.upload_and_remember(&copy, is_folder, kept).await,
            None => self.copy(&copy, is_folder).await,
        }
    }

    async fn download(&mut self, transfer: &Transfer) -> Result<(), Why> {
        let from = self.there(&transfer.from).await?;
        let look = Command::new("test").args(["-d", &from]);
        let looked = async { self.executor.run(&look).await?.wait().await };
        let is_folder = looked.await.map_err(|error| judge(&error))?.is_success();
        let copy = Copy {
            delete: transfer.delete,
            ..Copy::download(from, self.local(&transfer.to))
        };
        self.copy(&copy, is_folder).await
    }

    async fn copy(&mut self, copy: &Copy, is_folder: bool) -> Result<(), Why> {
        let (sender, mut progress) = watch::channel(Progress::default());
        let copy = &Copy {
            progress: Some(sender),
            ..copy.clone()
        };
        let copying = async {
            match is_folder {
                true => self.executor.sync(copy).await,
                false => self.executor.copy(copy).await,
            }
        };
        tokio::pin!(copying);
        let done = loop {
            tokio::select! {
                done = &mut copying => break done,
                text = progress::next(&mut progress) => self.context.log.note(text).await,
            }
        };
        let report = done.map_err(|error| judge(&error))?;
        self.note_copy(copy, &report).await;
        Ok(())
    }

    async fn note_copy(&self, copy: &Copy, report: &Report) {
        let Report { files, bytes, .. } = report;
        let (local, remote) = (copy.local.display(), copy.remote.display());
        let ends = match copy.direction {
            Direction::Up => format!("{local} here to {remote} there"),
            Direction::Down => format!("{remote} there to {local} here"),
        };
        let plural = if *files == 1 { "" } else { "s" };
        let text = format!("copied {ends}: {files} file{plural}, {bytes} bytes");
        self.context.log.note(text).await;
    }
}

fn as_user(command: Command, user: Option<&str>) -> Command {
    match user {
        Some(user) => command.user(user),
        None => command,
    }
}

/// A command that is not there, or is none, is as good as one that said so.
fn judge_start(error: &ExecutorError, action: u32) -> Why {
    match (error.class, judge(error)) {
        (
            class @ (FailureClass::NoProgram | FailureClass::NotExecutable),
            Why::Trouble { text },
        ) => {
            let code = class.exit_code();
            Why::NotStarted { action, code, text }
        }
        (_, why) => why,
    }
}

fn judge(error: &ExecutorError) -> Why {
    match error.class {
        FailureClass::TimedOut => Why::TimedOut,
        _ => trouble(error),
    }
}
