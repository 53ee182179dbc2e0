//! What ends this program early: Ctrl-C, or somebody else. Whatever it has begun elsewhere ends with it.

use std::io;
use std::time::Duration;

use muster_executor::Exit as CommandExit;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// For how long something that was stopped while it began is waited for: if it begins all the same, it is to be ended.
const LATE: Duration = Duration::from_secs(2);

/// The bit of SIGHUP in a list of signals.
const HANGUP: u64 = 1;

/// The signals by which programs are asked to end. From when this is made on, none of them ends this program by itself.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    /// None for whoever was started to outlive his terminal, as by `nohup`.
    hangup: Option<Signal>,
}

/// Something was stopped before it had begun.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stopped<T> {
    /// By what, as if it had ended the command.
    pub(super) stop: CommandExit,
    /// What began in the last moment.
    pub(super) late: Option<T>,
}

impl Stops {
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let hangup = (ignored & HANGUP == 0).then(|| signal(SignalKind::hangup()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: hangup.transpose()?,
        })
    }

    /// The next one, as if it had ended the command.
    pub(super) async fn next(&mut self) -> CommandExit {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let name = tokio::select! {
            _ = self.interrupt.recv() => "INT",
            _ = self.terminate.recv() => "TERM",
            _ = hangup => "HUP",
        };
        CommandExit::Signal(name.to_owned())
    }

    /// Waits until something has begun that has to be ended if this program is.
    pub(super) async fn begin<T>(
        &mut self,
        starting: impl Future<Output = T>,
    ) -> Result<T, Stopped<T>> {
        begin(starting, async || self.next().await).await
    }

    /// Waits for something of which nothing is left when it is not waited for any more.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, CommandExit> {
        tokio::select! {
            done = work => Ok(done),
            stop = self.next() => Err(stop),
        }
    }

    /// Ends something after a stop, however long that takes; another one leaves it to itself.
    pub(super) async fn end(&mut self, ending: impl Future<Output = ()>) {
        tokio::select! {
            () = ending => {}
            _ = self.next() => {}
        }
    }
}

async fn begin<T>(
    starting: impl Future<Output = T>,
    mut next: impl AsyncFnMut() -> CommandExit,
) -> Result<T, Stopped<T>> {
    tokio::pin!(starting);
    let stop = tokio::select! {
        begun = &mut starting => return Ok(begun),
        stop = next() => stop,
    };
    let late = tokio::select! {
        late = timeout(LATE, starting) => late.ok(),
        _ = next() => None,
    };
    Err(Stopped { stop, late })
}

/// The signals that a process ignores, as the kernel lists them.
fn ignored(status: &str) -> u64 {
    let list = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    list.and_then(|list| u64::from_str_radix(list.trim(), 16).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(name: &str) -> CommandExit {
        CommandExit::Signal(name.to_owned())
    }

    #[tokio::test]
    async fn what_begins_is_not_waited_for_any_longer_after_a_stop_and_another() {
        let begun = begin(std::future::ready(7), std::future::pending).await;
        assert_eq!(begun, Ok(7));
        // It never begins, and nobody wants to wait.
        let mut stops = ["TERM", "INT"].into_iter();
        let stopped: Result<(), _> = begin(std::future::pending(), async || {
            stop(stops.next().expect("two are enough"))
        })
        .await;
        let never = Stopped {
            stop: stop("TERM"),
            late: None,
        };
        assert_eq!(stopped, Err(never));
    }

    #[tokio::test]
    async fn what_begins_after_a_stop_all_the_same_is_given_to_whoever_ends_it() {
        let (begin_it, begun) = tokio::sync::oneshot::channel();
        let mut begin_it = Some(begin_it);
        let stopped = begin(begun, async || match begin_it.take() {
            Some(begin_it) => {
                begin_it.send(7).expect("somebody waits");
                stop("HUP")
            }
            None => std::future::pending().await,
        });
        let late = match stopped.await {
            // Which of both is seen first is open.
            Ok(begun) => begun,
            Err(Stopped { stop: by, late }) => {
                assert_eq!(by, stop("HUP"));
                late.expect("it began")
            }
        };
        assert_eq!(late, Ok(7));
    }

    #[test]
    fn whoever_was_started_to_outlive_a_terminal_is_found_in_the_kernels_list() {
        let status = "Name:\tmuster\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status) & HANGUP, HANGUP);
        assert_eq!(ignored("SigIgn:\t0000000000001000\n") & HANGUP, 0);
        assert_eq!(ignored(""), 0);
    }
}
