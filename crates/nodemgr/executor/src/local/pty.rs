//! Terminals of this machine.
#![expect(
    unsafe_code,
    reason = "a process takes a terminal as its own between fork and exec"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::command::{Command, Size, Terminal};
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::running::{Attached, Driver, attached};
use crate::script::Script;

use super::process::{Process, begun};

pub(super) async fn attach(
    command: Option<&Command>,
    terminal: &Terminal,
) -> Result<Attached, ExecutorError> {
    let shell = login_shell();
    let command = command.unwrap_or(&shell);
    let command = &command.clone().env("TERM", &terminal.kind);
    let class = FailureClass::NotStarted;
    let failed =
        |source: io::Error| ExecutorError::new(Operation::Attach, command.object(), class, source);
    let script = Script::new(command)?;
    let (master, slave) = open(terminal.size).map_err(failed)?;
    let [program, args @ ..] = script.words().map(std::ffi::OsString::from_vec);
    let mut starter = tokio::process::Command::new(program);
    starter
        .args(args)
        .stdin(slave.try_clone().map_err(failed)?)
        .stdout(slave.try_clone().map_err(failed)?)
        .stderr(Stdio::from(slave))
        .kill_on_drop(true);
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated or locked.
    unsafe {
        starter.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    let child = starter.spawn().map_err(failed)?;
    // The starter holds the terminal's other end open.
    drop(starter);
    let process = Process::new(Operation::Attach, command, child);
    let (attached, driver) = attached(command.object(), terminal.size);
    let mut reader = master.clone();
    let see_to = async move |process: Process, tell| {
        let heading = begun(&mut reader, script.heading());
        if let Some((process, rest)) = process.begin(heading, tell).await {
            driver.begin_with(rest);
            drive(process, master, driver).await;
        }
    };
    process.start(see_to).await?;
    Ok(attached)
}

fn login_shell() -> Command {
    let shell = std::env::var_os("SHELL").filter(|it| it.as_bytes().starts_with(b"/"));
    Command::new(shell.unwrap_or_else(|| "/bin/sh".into())).arg("-l")
}

async fn drive(process: Process, master: Master, driver: Driver) {
    let mut size = driver.size.clone();
    let resized = master.clone();
    let resize = async move {
        while size.changed().await.is_ok() {
            let wanted = *size.borrow_and_update();
            // A terminal that is closed has no size.
            let _ = tcsetwinsize(resized.0.get_ref().as_fd(), winsize(wanted));
        }
        std::future::pending::<()>().await;
    };
    let (stdin, stdout) = (Some(master.clone()), master);
    tokio::select! {
        () = process.drive(stdin, stdout, None::<Master>, driver) => {}
        () = resize => {}
    }
}

fn winsize(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn open(size: Size) -> io::Result<(Master, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let no_terminal = i32::try_from(OFlags::NOCTTY.bits()).map_err(io::Error::other)?;
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(no_terminal)
        .open(path)?;
    tcsetwinsize(&master, winsize(size))?;
    rustix::io::ioctl_fionbio(&master, true)?;
    // SAFETY: the descriptor is open and owned by the `File`, which the `AsyncFd` keeps and nobody replaces.
    let master = unsafe { AsyncFd::register(File::from(master)) }?;
    Ok((Master(Arc::new(master)), slave.into()))
}

/// This side of a terminal.
#[derive(Clone)]
struct Master(Arc<AsyncFd<File>>);

impl AsyncRead for Master {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let into = buf.initialize_unfilled();
            let read = guard.try_io(|fd| rustix::io::read(fd.get_ref(), into).map_err(Into::into));
            if let Ok(read) = read {
                let length = read?;
                buf.advance(length);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Master {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            let written =
                guard.try_io(|fd| rustix::io::write(fd.get_ref(), bytes).map_err(Into::into));
            if let Ok(written) = written {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
