//! A core that does as it is told, for tests of `muster-init`.
//!
//! `fake-core FOLDER` reports on its output what init hands over and says, one line each, and takes commands as
//! datagrams on the socket `FOLDER/control`. If `FOLDER/manual` exists, it adopts only when told to. If
//! `FOLDER/script` exists, its lines are obeyed first.
//! Without an argument the folder is `/fake`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use muster_handover::{CoreLink, FromInit, ShutdownKind, Upgrade};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, getpid, kill_process};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Core {
    link: Option<CoreLink>,
    kept: BTreeMap<String, OwnedFd>,
    acknowledges: bool,
    answers: bool,
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let folder = Path::new(folder.map_or("/fake", String::as_str));

    let (link, begun) = CoreLink::take_from_env()?;
    let exits: Vec<String> = begun
        .exits
        .iter()
        .map(|exit| format!("{}:{}", exit.seq, exit.pid))
        .collect();
    println!(
        "begun pid={} cause={:?} crashes={} safe={} supervised={} kept={} exits=[{}] arguments={arguments:?}",
        getpid().as_raw_nonzero(),
        begun.cause,
        begun.crashes,
        begun.safe_mode,
        begun.supervised,
        begun.kept.len(),
        exits.join(","),
    );
    let mut core = Core {
        link: Some(link),
        kept: begun.kept,
        acknowledges: true,
        answers: true,
    };

    let path = folder.join("control");
    // Left behind by the core before.
    let _ = std::fs::remove_file(&path);
    let control = UnixDatagram::bind(&path)?;
    if !folder.join("manual").exists() {
        if let Some(last) = begun.exits.last() {
            core.link()?.ack(last.seq)?;
        }
        core.link()?.adopted()?;
        println!("adopted");
    }
    println!("ready");
    for command in std::fs::read_to_string(folder.join("script"))
        .unwrap_or_default()
        .lines()
    {
        core.obey(command)?;
    }
    loop {
        core.wait(&control)?;
        core.receive()?;
        control.set_nonblocking(true)?;
        let mut command = [0; 4096];
        if let Ok(length) = control.recv(&mut command) {
            let command = std::str::from_utf8(&command[..length])?.to_owned();
            if let Some(code) = core.obey(&command)? {
                return Ok(code);
            }
        }
    }
}

impl Core {
    fn link(&mut self) -> Outcome<&mut CoreLink> {
        self.link
            .as_mut()
            .ok_or_else(|| "the link is closed".into())
    }

    fn wait(&self, control: &UnixDatagram) -> io::Result<()> {
        let mut sources = vec![PollFd::new(control, PollFlags::IN)];
        sources.extend(
            self.link
                .as_ref()
                .map(|link| PollFd::new(link, PollFlags::IN)),
        );
        poll(&mut sources, None)?;
        Ok(())
    }

    fn receive(&mut self) -> Outcome<()> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let mut received = Vec::new();
        link.receive(&mut |message| received.push(message))?;
        for message in received {
            match message {
                FromInit::Exit(exit) => {
                    println!("exit {} {} {}", exit.seq, exit.pid, exit.outcome);
                    if self.acknowledges {
                        link.ack(exit.seq)?;
                    }
                }
                FromInit::Ping if self.answers => link.pong()?,
                FromInit::Ping => println!("ping"),
                FromInit::Signal(signal) => println!("signal {}", signal.number),
                FromInit::Refused(count) => println!("refused {count}"),
            }
        }
        Ok(())
    }

    /// Does what a command says; an exit code if that is to exit.
    fn obey(&mut self, command: &str) -> Outcome<Option<ExitCode>> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "adopt" => {
                self.link()?.adopted()?;
                println!("adopted");
            }
            "acknowledge" => self.acknowledges = rest == "on",
            "ack" => self.link()?.ack(rest.parse()?)?,
            "answer" => self.answers = rest == "on",
            "store" => self.store(rest)?,
            "keep" => {
                let file = File::open(rest)?;
                self.link()?.store(&[(rest, file.as_fd())])?;
            }
            "drop" => self.link()?.drop_prefix(rest)?,
            "check" => println!("checked {}", self.check()?),
            "spawn" => println!("spawned {}", spawn(rest)?),
            "run" => run(rest)?,
            "kill" => kill_process(getpid(), signal(rest)?)?,
            "hang" => loop {
                std::thread::park();
            },
            "close" => self.link = None,
            "exit" => return Ok(Some(ExitCode::from(rest.parse::<u8>()?))),
            "upgrade" => {
                let (init, path) = rest.split_once(' ').ok_or("upgrade WHAT PATH")?;
                let upgrade = Upgrade {
                    core: (path != "same").then_some(path),
                    init: init == "both",
                };
                self.link()?.upgrade(upgrade)?;
                return Ok(Some(ExitCode::SUCCESS));
            }
            "shutdown" => self.link()?.shutdown(shutdown_kind(rest)?)?,
            other => return Err(format!("unknown command {other:?}").into()),
        }
        println!("done {command}");
        io::stdout().flush()?;
        Ok(None)
    }

    /// `store COUNT PREFIX`: files that contain their own names.
    fn store(&mut self, rest: &str) -> Outcome<()> {
        let (count, prefix) = rest.split_once(' ').ok_or("store COUNT PREFIX")?;
        // In parts, since this process must hold what it has not sent yet.
        let numbers: Vec<usize> = (0..count.parse()?).collect();
        for part in numbers.chunks(1000) {
            let files: Vec<(String, OwnedFd)> = part
                .iter()
                .map(|number| named_file(format!("{prefix}{number}")))
                .collect::<io::Result<_>>()?;
            let named: Vec<(&str, BorrowedFd<'_>)> = files
                .iter()
                .map(|(name, file)| (name.as_str(), file.as_fd()))
                .collect();
            self.link()?.store(&named)?;
        }
        Ok(())
    }

    /// How many of the kept files contain their own names.
    fn check(&self) -> io::Result<usize> {
        let mut right = 0;
        for (name, file) in &self.kept {
            let mut file = File::from(file.try_clone()?);
            file.rewind()?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            right += usize::from(text == *name);
        }
        Ok(right)
    }
}

/// Runs a shell command to its end.
fn run(command: &str) -> Outcome<()> {
    let status = Command::new("/bin/sh").arg("-c").arg(command).status()?;
    println!("{command:?} {status}");
    Ok(())
}

fn named_file(name: String) -> io::Result<(String, OwnedFd)> {
    let mut file = File::from(memfd_create("kept", MemfdFlags::CLOEXEC)?);
    file.write_all(name.as_bytes())?;
    Ok((name, file.into()))
}

fn signal(number: &str) -> Outcome<Signal> {
    let number: i32 = number.parse()?;
    Signal::from_named_raw(number).ok_or_else(|| format!("no signal {number}").into())
}

fn shutdown_kind(text: &str) -> Outcome<ShutdownKind<'_>> {
    Ok(match text.split_once(' ').unwrap_or((text, "")) {
        ("poweroff", _) => ShutdownKind::PowerOff,
        ("reboot", argument) => ShutdownKind::Reboot { argument },
        ("exit", code) => ShutdownKind::Exit {
            code: code.parse()?,
        },
        ("soft-reboot", _) => ShutdownKind::SoftReboot,
        _ => return Err(format!("unknown end {text:?}").into()),
    })
}

/// Starts a shell command as a child of init, as core does it with services.
#[expect(unsafe_code, reason = "only a system call can make a sibling")]
fn spawn(command: &str) -> io::Result<i64> {
    let flags = i64::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork of a process with one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let error = Command::new("/bin/sh").arg("-c").arg(command).exec();
            eprintln!("cannot run {command:?}: {error}");
            // SAFETY: it ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(127) }
        }
        pid => Ok(pid),
    }
}
