//! The daemon that the tests start: what it does is chosen by `MUSTER_PROBE`.

use std::process::{ExitCode, Termination as _};
use std::sync::Arc;
use std::time::Duration;

use muster_telemetry::prometheus_client::metrics::counter::Counter;
use muster_telemetry::prometheus_client::registry::Registry;
use muster_telemetry::{
    CancellationToken, Heartbeat, LogFormat, LogMetrics, LogOptions, MetricsAddress, MetricsServer,
    Notifier, Shutdown, TaskSet, WatchdogPeriod, run_watchdog,
};

const GRACE: Duration = Duration::from_millis(300);

/// Not a test of its own: without `MUSTER_PROBE` it returns at once.
#[test]
fn probe() {
    let Ok(mode) = std::env::var("MUSTER_PROBE") else {
        return;
    };
    let code = run(&mode);
    // The test harness must not turn the daemon's exit code into its own.
    #[expect(clippy::exit, reason = "this is the probe's main function")]
    std::process::exit(i32::from(code != ExitCode::SUCCESS.report()));
}

fn run(mode: &str) -> ExitCode {
    let format = if mode == "json" {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    let options = LogOptions {
        format,
        queue_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let _log = match muster_telemetry::init(&options) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(78);
        }
    };
    assert!(
        muster_telemetry::init(&options).is_err(),
        "logging begins only once"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let shutdown = Shutdown::install().expect("signal handlers");
    runtime.block_on(daemon(mode, &shutdown))
}

async fn daemon(mode: &str, shutdown: &Shutdown) -> ExitCode {
    let notifier = Notifier::from_environment();
    let mut tasks = TaskSet::new(shutdown);
    let stop = shutdown.token();
    let heartbeat = Heartbeat::new();
    if let Some(period) = WatchdogPeriod::from_environment() {
        let watchdog = run_watchdog(notifier.clone(), period, heartbeat.clone(), stop.clone());
        tasks.spawn("watchdog", async {
            watchdog.await;
            Ok::<(), std::io::Error>(())
        });
    }
    let own_notifier = notifier.clone();
    match mode {
        "stubborn" => tasks.spawn(
            "stubborn task",
            std::future::pending::<std::io::Result<()>>(),
        ),
        "failing" => {
            tasks.spawn("failing task", async {
                Err(std::io::Error::other("out of luck"))
            });
            tasks.spawn("good task", until(stop.clone()));
        }
        "panicking" => tasks.spawn("panicking task", async {
            panic!("at the disco");
            #[expect(unreachable_code, reason = "it gives the task its type")]
            Ok::<(), std::io::Error>(())
        }),
        "hung" => tasks.spawn("hung task", async {
            tracing::info!("hanging");
            std::thread::sleep(Duration::from_secs(3600));
            Ok::<(), std::io::Error>(())
        }),
        "flood" => tasks.spawn("flood", async move {
            for number in 0..20_000 {
                tracing::info!(number, "{}", "x".repeat(100));
            }
            own_notifier.status(&format!("lost {}", muster_telemetry::lost_lines()));
            until(stop).await
        }),
        "metrics" => {
            let mut registry = Registry::default();
            let scrapes: Counter = Counter::default();
            scrapes.inc_by(7);
            registry.register("probe_events", "Events of the probe", scrapes);
            registry.register_collector(Box::new(LogMetrics::default()));
            let address: MetricsAddress = std::env::var("PROBE_ADDRESS")
                .expect("the test gives an address")
                .parse()
                .expect("it is an address");
            let server = MetricsServer::bind(&address, Arc::new(registry)).await;
            let server = server.expect("the address is free");
            tracing::info!(address = %server.address(), "serving");
            tasks.spawn("metrics", async {
                server.serve(stop).await;
                Ok::<(), std::io::Error>(())
            });
        }
        _ => {
            let mut reloads = shutdown.reloads();
            tasks.spawn("main loop", async move {
                // Half the watchdog's period in the tests; the beat stops when asked to.
                let mut beat = tokio::time::interval(Duration::from_millis(20));
                let mut beating = true;
                loop {
                    tokio::select! {
                        () = stop.cancelled() => return Ok::<(), std::io::Error>(()),
                        _ = beat.tick(), if beating => heartbeat.touch(),
                        () = reloads.next() => {
                            own_notifier.reloading();
                            beating = false;
                            own_notifier.ready();
                        }
                    }
                }
            });
        }
    }
    notifier.status("starting\ndone");
    notifier.ready();
    tracing::info!(answer = 42, "ready");
    tasks.run_until_shutdown(&notifier, GRACE).await.exit_code()
}

async fn until(stop: CancellationToken) -> std::io::Result<()> {
    stop.cancelled().await;
    Ok(())
}
