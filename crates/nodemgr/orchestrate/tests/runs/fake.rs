//! Machines that do what commands say they did, and write it down in a file.
//!
//! A command is `do WORD...`: `ok`, `exit CODE`, `say TEXT`, `complain TEXT`, `hang`, `kill` (ended by a signal), and
//! `flaky N` (fails until it was done N times), and `lose` (nobody hears of its end). What a machine was told is a line
//! `MACHINE WORDS` in its file, or `MACHINE USER: WORDS` of a command for somebody else, flushed before the command ends. Everything
//! else (scripts, files) succeeds, and is written down by the name of its program. No machine knows a user `stranger`, and none lets
//! anybody become `closed`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use muster_executor::files::Files;
use muster_executor::{
    Answer, Attached, Capabilities, Chunk, Command, Executor, ExecutorError, Exit, FailureClass,
    Operation, Running, TcpLike, Terminal, running,
};
use muster_machines::{MachineOrder, Record, testing};
use muster_orchestrate::{ChooseError, Chooser, Chosen, Reach, ReachError, Wish};
use muster_provider::{MachineId, MachineSpec, ProviderId};

/// What was done, in a file that outlives whoever did it.
#[derive(Debug, Clone)]
pub(crate) struct Deeds {
    path: PathBuf,
}

impl Deeds {
    pub(crate) fn new(path: &Path) -> Self {
        let path = path.to_owned();
        Self { path }
    }

    fn write(&self, machine: &MachineId, words: &str) {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&self.path);
        let mut file = file.expect("the file of deeds");
        writeln!(file, "{machine} {words}").expect("it is written");
    }

    /// Every line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// How often something was done, on any machine.
    pub(crate) fn count(&self, words: &str) -> usize {
        let lines = self.lines();
        let done = lines.iter().filter_map(|line| line.split_once(' '));
        done.filter(|(_, done)| *done == words).count()
    }
}

/// Gives fake executors. A machine answers after so many probes.
#[derive(Debug)]
pub(crate) struct FakeReach {
    deeds: Deeds,
    silent: u32,
    probes: Mutex<BTreeMap<MachineId, Arc<AtomicU32>>>,
}

impl FakeReach {
    pub(crate) fn new(deeds: Deeds, silent: u32) -> Self {
        Self {
            deeds,
            silent,
            probes: Mutex::default(),
        }
    }
}

impl Reach for FakeReach {
    fn reach<'a>(
        &'a self,
        machine: &'a Record,
    ) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>> {
        let mut probes = self.probes.lock().expect("no panic in here");
        let probes = probes.entry(machine.id.clone()).or_default();
        let executor: Arc<dyn Executor> = Arc::new(FakeExecutor {
            machine: machine.id.clone(),
            deeds: self.deeds.clone(),
            silent: self.silent,
            probes: Arc::clone(probes),
        });
        Box::pin(std::future::ready(Ok(executor)))
    }
}

#[derive(Debug)]
struct FakeExecutor {
    machine: MachineId,
    deeds: Deeds,
    silent: u32,
    probes: Arc<AtomicU32>,
}

impl FakeExecutor {
    fn error(class: FailureClass) -> ExecutorError {
        ExecutorError::new(Operation::Run, "a command", class, "it is a fake")
    }

    fn start(&self, command: &Command) -> Running {
        let (running, driver) = running("a command".to_owned(), command.input);
        let words: Vec<String> = command
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let words = match command.program.to_str() {
            Some("do") => words.join(" "),
            Some("id") => format!("id {}", words.join(" ")),
            other => other.unwrap_or_default().to_owned(),
        };
        let whose = command.user.as_ref();
        let whose = whose.map_or_else(String::new, |user| format!("{user}: "));
        let (deeds, machine) = (self.deeds.clone(), self.machine.clone());
        let timeout = command.timeout;
        tokio::spawn(async move {
            let hang = words.starts_with("hang");
            deeds.write(&machine, &format!("{whose}{words}"));
            if hang {
                let late = async {
                    match timeout {
                        Some(timeout) => tokio::time::sleep(timeout).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = driver.unwanted.cancelled() => {
                        deeds.write(&machine, "killed");
                        return;
                    }
                    () = late => {
                        drop(driver.output);
                        let late = Err(Self::error(FailureClass::TimedOut));
                        let _ = driver.exit.send(late);
                        return;
                    }
                }
            }
            let (word, rest) = words.split_once(' ').unwrap_or((&words, ""));
            let chunk = match word {
                "say" => Some(Chunk::Stdout(rest.to_owned().into())),
                "complain" => Some(Chunk::Stderr(rest.to_owned().into())),
                _ => None,
            };
            if let Some(chunk) = chunk {
                let _ = driver.output.send(chunk).await;
            }
            let exit = match word {
                "exit" => Exit::Code(rest.parse().expect("a code")),
                "kill" => Exit::Signal("KILL".to_owned()),
                "lose" => {
                    drop(driver.output);
                    let lost = Err(Self::error(FailureClass::Interrupted));
                    let _ = driver.exit.send(lost);
                    return;
                }
                "id" => Exit::Code(i32::from(rest.ends_with(" stranger"))),
                "flaky" => {
                    let enough: usize = rest.parse().expect("a number");
                    Exit::Code(i32::from(deeds.count(&words) < enough))
                }
                _ => Exit::Code(0),
            };
            drop(driver.output);
            let _ = driver.exit.send(Ok(exit));
        });
        running
    }
}

impl Executor for FakeExecutor {
    fn access(&self) -> Capabilities {
        Capabilities::default()
    }

    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
        let first = command.args.first().and_then(|it| it.to_str());
        let running = match first {
            _ if matches!(command.user.as_deref(), Some("stranger" | "closed")) => {
                Err(Self::error(FailureClass::NotStarted))
            }
            Some("missing") => Err(Self::error(FailureClass::NoProgram)),
            Some("plain") => Err(Self::error(FailureClass::NotExecutable)),
            _ => Ok(self.start(command)),
        };
        Box::pin(std::future::ready(running))
    }

    fn attach<'a>(&'a self, _: Option<&'a Command>, _: &'a Terminal) -> Answer<'a, Attached> {
        ExecutorError::unsupported(Operation::Attach, "a fake", "it is a fake")
    }

    fn files<'a>(&'a self, _: &'a Path) -> Answer<'a, Arc<dyn Files>> {
        ExecutorError::unsupported(Operation::List, "a fake", "it is a fake")
    }

    fn connect<'a>(&'a self, _: &'a str, _: u16) -> Answer<'a, Box<dyn TcpLike>> {
        ExecutorError::unsupported(Operation::Forward, "a fake", "it is a fake")
    }

    fn probe(&self) -> Answer<'_, ()> {
        let tried = self.probes.fetch_add(1, Ordering::Relaxed);
        let ready = match tried < self.silent {
            true => Err(Self::error(FailureClass::Unreachable)),
            false => Ok(()),
        };
        Box::pin(std::future::ready(ready))
    }
}

/// Orders whatever is wanted from the simulated cloud.
#[derive(Debug)]
pub(crate) struct SimChooser;

/// An order for a machine of the simulated cloud.
pub(crate) fn sim_order(template: &str) -> MachineOrder {
    MachineOrder {
        template: template.to_owned(),
        ..testing::order(ProviderId::Sim, MachineSpec::default(), None)
    }
}

impl Chooser for SimChooser {
    fn choose<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Chosen, ChooseError>> {
        let chosen = match wish.template.as_str() {
            "unknown" => Err(ChooseError {
                template: wish.template.clone(),
                source: "there is none".into(),
            }),
            // It names the machine that is free.
            "free" => Ok(Chosen::Existing(
                MachineId::new(&wish.wants.set["id"]).expect("an id"),
            )),
            name => Ok(Chosen::New(Box::new(sim_order(name)))),
        };
        Box::pin(std::future::ready(chosen))
    }
}
