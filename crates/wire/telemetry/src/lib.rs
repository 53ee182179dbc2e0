//! What every daemon starts with: logs, metrics, signals and the service manager.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::time::Duration;
//!
//! use muster_telemetry::{LogOptions, Notifier, Shutdown, TaskSet};
//!
//! fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
//!     let _log = muster_telemetry::init(&LogOptions::default())?;
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     let shutdown = Shutdown::install()?;
//!     Ok(runtime.block_on(async {
//!         let notifier = Notifier::from_environment();
//!         let mut tasks = TaskSet::new(&shutdown);
//!         let stop = shutdown.token();
//!         tasks.spawn("main loop", async move {
//!             stop.cancelled().await;
//!             Ok::<(), std::io::Error>(())
//!         });
//!         notifier.ready();
//!         tasks.run_until_shutdown(&notifier, Duration::from_secs(10)).await.exit_code()
//!     }))
//! }
//! ```
//!
//! # Parts
//! - [`init`]: `tracing` to standard error, as text or JSON lines. Lines go through a bounded queue to
//!   a thread that writes them: a stalled pipe or disk never blocks the daemon. What does not fit is
//!   dropped, counted ([`lost_lines`]) and reported in the log once it moves again. Dropping the
//!   [`LogGuard`] writes what is queued, within a bound. A panic is logged before the process ends.
//! - [`ErrorChain`]: an error with all its causes on one line, for log fields.
//! - [`Shutdown`]: the first SIGTERM or SIGINT cancels a token; the second ends the process at once
//!   with exit code 128 + signal; SIGHUP asks for a reload.
//! - [`TaskSet`]: named tasks that end within a grace period after the shutdown began, or are named in
//!   the log. A task that fails before begins the shutdown.
//! - [`Notifier`], [`Heartbeat`] and [`run_watchdog`]: sd_notify over path and abstract sockets, and
//!   watchdog pings only while the daemon's own main loop is alive.
//! - [`MetricsServer`]: `GET /metrics` in OpenMetrics text on loopback or a unix socket; off unless
//!   an address is configured.
//!
//! # Tasks and threads
//! | who | input | output |
//! |---|---|---|
//! | thread `log` | bounded queue of lines | standard error |
//! | thread `signals`, with a runtime of its own so that a hung daemon still hears the second signal | signals | [`Shutdown::token`], [`Shutdown::reloads`] |
//! | the future of [`run_watchdog`] | [`Heartbeat`] | `WATCHDOG=1` datagrams |
//! | the future of [`MetricsServer::serve`] and one task per connection | TCP or unix connections | the registry as text |
//!
//! # Invariants
//! - Nothing here waits without a bound for another process: not the log, not the service manager's
//!   socket, not a scraper.
//! - The process ends early in exactly one place, after the second signal.
//!
//! # Not here
//! Log files, rotation and shipping (muster-logd's work), traces over the network, and metrics of
//! other parts: they register theirs in the daemon's registry.

mod error_chain;
mod log;
mod metrics;
mod notify;
mod shutdown;
mod tasks;
mod watchdog;

pub use error_chain::ErrorChain;
pub use log::{InitLogError, LogFormat, LogGuard, LogOptions, flush_log, init, lost_lines};
pub use metrics::{
    LogMetrics, MetricsAddress, MetricsServer, ParseMetricsAddressError, ServeMetricsError,
};
pub use notify::{Notifier, NotifyError};
pub use shutdown::{InstallShutdownError, Reloads, Shutdown};
pub use tasks::{RunOutcome, TaskSet};
pub use watchdog::{Heartbeat, WatchdogPeriod, run_watchdog};

// They appear in this crate's interface, and every daemon must use the same versions.
pub use prometheus_client;
pub use tokio_util::sync::CancellationToken;
