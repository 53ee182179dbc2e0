//! Signals: the first asks to end, the second ends, SIGHUP asks to reload.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long the second signal waits for the log.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Why signals cannot be handled.
#[derive(Debug, thiserror::Error)]
pub enum InstallShutdownError {
    /// The signals' thread could not be started.
    #[error("cannot start the signal thread")]
    Thread(#[source] io::Error),
    /// A handler could not be installed.
    #[error("cannot install the signal handlers")]
    Handlers(#[source] io::Error),
    /// The signals' thread ended before it was ready.
    #[error("the signal thread ended early")]
    Lost,
}

/// The process's wish to end. Clones are the same wish.
#[derive(Debug, Clone)]
pub struct Shutdown {
    token: CancellationToken,
    reloads: watch::Receiver<u64>,
}

/// Requests to read the configuration again; several at once count as one.
#[derive(Debug)]
pub struct Reloads(watch::Receiver<u64>);

impl Reloads {
    /// Waits for the next SIGHUP. Safe to cancel.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Without the signals' thread there are no more requests.
            std::future::pending().await
        }
    }
}

impl Shutdown {
    /// Handles SIGTERM, SIGINT and SIGHUP from now on, in a thread with a runtime of its own: the
    /// second signal must work when everything else hangs.
    ///
    /// # Errors
    /// The thread or the handlers cannot be had.
    pub fn install() -> Result<Self, InstallShutdownError> {
        let token = CancellationToken::new();
        let (reload, reloads) = watch::channel(0);
        let (ready, installed) = sync_channel(1);
        let wish = token.clone();
        let life = move || {
            let handled = runtime::Builder::new_current_thread().enable_io().build();
            let handled = handled.and_then(|runtime| {
                let handlers = runtime.block_on(async { Handlers::install() })?;
                Ok((runtime, handlers))
            });
            match handled {
                Ok((runtime, handlers)) => {
                    // A caller that is gone has nobody to tell.
                    let _told = ready.send(Ok(()));
                    runtime.block_on(handlers.run(&wish, &reload));
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(life).map_err(InstallShutdownError::Thread)?;
        let installed = installed.recv().map_err(|_| InstallShutdownError::Lost)?;
        installed.map_err(InstallShutdownError::Handlers)?;
        Ok(Self { token, reloads })
    }

    /// Cancelled when the process shall end.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Begins the shutdown as the first signal would.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Requests to reload, from now on.
    pub fn reloads(&self) -> Reloads {
        let mut reloads = self.reloads.clone();
        reloads.mark_unchanged();
        Reloads(reloads)
    }
}

struct Handlers {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Handlers {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn run(mut self, wish: &CancellationToken, reload: &watch::Sender<u64>) {
        let mut signalled = false;
        loop {
            let kind = tokio::select! {
                Some(()) = self.terminate.recv() => SignalKind::terminate(),
                Some(()) = self.interrupt.recv() => SignalKind::interrupt(),
                Some(()) = self.hang_up.recv() => {
                    tracing::info!("asked to reload by SIGHUP");
                    reload.send_modify(|count| *count += 1);
                    continue;
                }
                else => return,
            };
            let signal = kind.as_raw_value();
            if signalled {
                end_now(signal);
            }
            signalled = true;
            tracing::info!(signal, "asked to end; a second signal ends at once");
            wish.cancel();
        }
    }
}

/// The one place where the process ends without waiting for its tasks.
#[expect(clippy::exit, reason = "the second signal means: now, whatever hangs")]
fn end_now(signal: i32) -> ! {
    tracing::warn!(signal, "a second signal: ending at once");
    crate::flush_log(LAST_WORDS);
    std::process::exit(128 + signal)
}
