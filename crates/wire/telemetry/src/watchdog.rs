//! Watchdog pings that stop when the daemon's own main loop does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Notifier;

/// How often the service manager wants to hear from us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogPeriod(Duration);

impl WatchdogPeriod {
    /// What the service manager asks of this process, if anything.
    pub fn from_environment() -> Option<Self> {
        let text = |name| std::env::var(name).ok();
        Self::parse(
            text("WATCHDOG_USEC"),
            text("WATCHDOG_PID"),
            std::process::id(),
        )
    }

    fn parse(usec: Option<String>, pid: Option<String>, own_pid: u32) -> Option<Self> {
        // The variable is inherited: only the process it names is watched.
        if pid.is_some_and(|pid| pid.parse() != Ok(own_pid)) {
            return None;
        }
        let usec: u64 = usec?.parse().ok()?;
        (usec > 0).then_some(Self(Duration::from_micros(usec)))
    }

    /// How often the main loop has to touch its [`Heartbeat`]: four times in a period.
    pub fn touch_every(self) -> Duration {
        self.0 / 4
    }

    /// How often a ping is sent, and how old the heartbeat may be for it: half a period, so that one
    /// late ping costs nothing.
    fn ping_every(self) -> Duration {
        self.0 / 2
    }
}

/// What the main loop touches to say that it still turns. Clones are the same heartbeat.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    begun: Instant,
    /// Milliseconds from `begun` to the last touch.
    touched: Arc<AtomicU64>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            touched: Arc::default(),
        }
    }
}

impl Heartbeat {
    /// A heartbeat that was touched just now.
    pub fn new() -> Self {
        Self::default()
    }

    /// The main loop still turns.
    pub fn touch(&self) {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.touched.store(elapsed, Ordering::Relaxed);
    }

    /// How long ago the last touch was.
    pub fn age(&self) -> Duration {
        let touched = Duration::from_millis(self.touched.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(touched)
    }
}

/// Pings the service manager while `heartbeat` is fresh, until `stop` is cancelled. When the main
/// loop hangs, the pings stop and the service manager restarts the daemon; if it turns again in time,
/// they go on.
pub async fn run_watchdog(
    notifier: Notifier,
    period: WatchdogPeriod,
    heartbeat: Heartbeat,
    stop: CancellationToken,
) {
    let mut ticks = interval(period.ping_every());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut alive = true;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let fresh = heartbeat.age() <= period.ping_every();
        if fresh {
            notifier.watchdog();
        } else if alive {
            tracing::error!(age = ?heartbeat.age(), "the main loop hangs, no watchdog pings are sent");
        }
        alive = fresh;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn only_the_process_that_is_meant_is_watched() {
        let parse = |usec: Option<&str>, pid: Option<&str>| {
            WatchdogPeriod::parse(usec.map(Into::into), pid.map(Into::into), 7)
        };
        let two_seconds = Some(WatchdogPeriod(Duration::from_secs(2)));
        assert_eq!(parse(Some("2000000"), Some("7")), two_seconds);
        assert_eq!(parse(Some("2000000"), None), two_seconds);
        assert_eq!(parse(Some("2000000"), Some("8")), None);
        assert_eq!(parse(Some("2000000"), Some("x")), None);
        assert_eq!(parse(Some("0"), Some("7")), None);
        assert_eq!(parse(Some("soon"), Some("7")), None);
        assert_eq!(parse(None, Some("7")), None);
    }

    fn drain(socket: &UnixDatagram) -> usize {
        std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn pings_follow_the_heartbeat() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let period = WatchdogPeriod(Duration::from_secs(4));
        let (heartbeat, stop) = (Heartbeat::new(), CancellationToken::new());
        let notifier = Notifier::to(Some(path.into()));
        let watchdog = run_watchdog(notifier, period, heartbeat.clone(), stop.clone());
        let watchdog = tokio::spawn(watchdog);
        // Pings come at 0 s, 2 s, 4 s ...; touches half a second beside them, the last at 10.5 s.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..10 {
            tokio::time::sleep(period.touch_every()).await;
            heartbeat.touch();
        }
        assert_eq!(drain(&socket), 6);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(
            drain(&socket),
            1,
            "at 12 s the heartbeat was fresh, at 14 s not"
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(drain(&socket), 0, "a stopped heartbeat stops the pings");
        heartbeat.touch();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(drain(&socket), 1, "a heart that beats again is heard");
        stop.cancel();
        watchdog.await.unwrap();
    }
}
