//! The accept loop: takes connections, runs their handshakes side by side, hands over the good ones.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_stream::Stream;
use tracing::{error, warn};

use crate::peer::TlsIo;
use crate::server::ServerTls;

/// Ready connections that wait for the server to take them. When they are this many, their handshake
/// tasks wait, then accepting does, and the kernel's queue holds the rest.
const READY: usize = 32;
/// First and longest pause after an accept that failed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How often lines that were left out are counted in the log.
const REPORT: Duration = Duration::from_secs(5);

/// A stream of connections whose handshake is done. Dropping it closes the listener and gives up the
/// handshakes under way; connections already taken go on.
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<TlsIo>,
    task: JoinHandle<()>,
    address: io::Result<SocketAddr>,
}

impl Incoming {
    pub(crate) fn spawn(listener: TcpListener, tls: ServerTls) -> Self {
        let (hand_over, ready) = mpsc::channel(READY);
        let address = listener.local_addr();
        Self {
            ready,
            task: tokio::spawn(accept_loop(listener, tls, hand_over)),
            address,
        }
    }

    /// The address that is listened on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(error.kind().into()),
        }
    }

    /// The next connection, for use without a stream combinator.
    pub async fn accept(&mut self) -> Option<TlsIo> {
        self.ready.recv().await
    }
}

impl Stream for Incoming {
    type Item = io::Result<TlsIo>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx).map(|next| next.map(Ok))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_loop(listener: TcpListener, tls: ServerTls, hand_over: mpsc::Sender<TlsIo>) {
    let options = tls.options();
    let mut handshakes = JoinSet::new();
    let mut pauses = Pauses::default();
    let mut report = interval_at(Instant::now() + REPORT, REPORT);
    report.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept(), if handshakes.len() < options.handshakes.max(1) => {
                match accepted {
                    Ok((tcp, address)) => {
                        pauses = Pauses::default();
                        let deadline = patience(
                            options.handshake_deadline,
                            handshakes.len(),
                            options.handshakes,
                        );
                        let (tls, hand_over) = (tls.clone(), hand_over.clone());
                        handshakes.spawn(async move {
                            if let Some(io) = tls.handshake(tcp, address, deadline).await {
                                // Nobody takes it any more when the server is shutting down.
                                let _ = hand_over.send(io).await;
                            }
                        });
                    }
                    Err(failed) if is_of_one_connection(&failed) => {}
                    Err(failed) => {
                        let pause = pauses.next();
                        if pauses.count.is_power_of_two() {
                            warn!(
                                error = &failed as &dyn StdError,
                                failures = pauses.count,
                                "cannot accept connections, trying again"
                            );
                        }
                        sleep(pause).await;
                    }
                }
            }
            Some(done) = handshakes.join_next() => {
                if let Err(failed) = done {
                    error!(error = &failed as &dyn StdError, "a TLS handshake task broke down");
                }
            }
            // Only while there is something to report: an idle listener wakes nobody.
            _ = report.tick(), if tls.has_suppressed() => tls.report_suppressed(),
        }
    }
}

/// How long a newcomer may take, given how many handshakes are under way.
fn patience(deadline: Duration, under_way: usize, places: usize) -> Duration {
    if under_way > places / 2 {
        deadline / 4
    } else {
        deadline
    }
}

/// Errors of a connection that was gone before it was taken (see accept(2)); the next may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Pauses that double up to a limit: out of descriptors or memory, the next accept fails as well.
#[derive(Debug, Default)]
struct Pauses {
    count: u64,
    last: Duration,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        self.count += 1;
        self.last = (self.last * 2).clamp(PAUSE.0, PAUSE.1);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next(), Duration::from_millis(10));
        assert_eq!(pauses.next(), Duration::from_millis(20));
        for _ in 0..20 {
            pauses.next();
        }
        assert_eq!(pauses.next(), Duration::from_secs(1));
    }

    #[test]
    fn newcomers_get_less_time_when_places_are_scarce() {
        let deadline = Duration::from_secs(8);
        assert_eq!(patience(deadline, 0, 4), deadline);
        assert_eq!(patience(deadline, 2, 4), deadline);
        assert_eq!(patience(deadline, 3, 4), Duration::from_secs(2));
    }
}
