//! `tracing` to standard error, without ever waiting for it.

mod queue;

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use queue::{LineMaker, Queue};

/// The environment variable that wins over the configured filter.
const FILTER_VARIABLE: &str = "MUSTER_LOG";
/// How long the end of the process waits for the log.
const FLUSH_AT_EXIT: Duration = Duration::from_secs(1);

/// The one queue of this process, for those who end it.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    /// For people: one line of text, in colours on a terminal.
    #[default]
    Text,
    /// For programs: one JSON object per line.
    Json,
}

/// How to log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// How lines look.
    pub format: LogFormat,
    /// What is logged, such as `info` or `warn,muster_sm=debug`. The environment variable
    /// `MUSTER_LOG` wins over it.
    pub filter: String,
    /// Bytes of lines that wait to be written at most; what does not fit is counted and dropped.
    pub queue_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            filter: "info".to_owned(),
            queue_bytes: 1 << 20,
        }
    }
}

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub enum InitLogError {
    /// The filter is none.
    #[error(
        "`{filter}` (from {origin}) is not a log filter (write e.g. info or warn,muster_sm=debug)"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// Where it was written.
        origin: &'static str,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The environment variable is not text.
    #[error("the environment variable MUSTER_LOG is not UTF-8 text")]
    FilterVariable,
    /// The thread that writes could not be started.
    #[error("cannot start the log thread")]
    Thread(#[source] io::Error),
    /// This process logs already.
    #[error("logging was begun twice")]
    Twice,
}

/// Writes what is queued when it is dropped; `main` keeps it to the end.
#[derive(Debug)]
#[must_use = "dropping it at once ends nothing, but then nobody waits for the log at the end"]
pub struct LogGuard(());

impl Drop for LogGuard {
    fn drop(&mut self) {
        flush_log(FLUSH_AT_EXIT);
    }
}

/// Begins logging for this process.
///
/// # Errors
/// A filter that is none, no thread to be had, or a second call.
pub fn init(options: &LogOptions) -> Result<LogGuard, InitLogError> {
    let filter = filter(options, std::env::var_os(FILTER_VARIABLE))?;
    if QUEUE.get().is_some() {
        return Err(InitLogError::Twice);
    }
    let in_journal = stderr_is_journal();
    let (format, timed) = (options.format, !in_journal);
    let announce = move |lost| lost_line(format, timed, lost);
    let queue =
        Queue::start(options.queue_bytes, announce, io::stderr()).map_err(InitLogError::Thread)?;
    let lines = LineMaker::new(Arc::clone(&queue), in_journal);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match options.format {
        LogFormat::Json => {
            let layer = fmt::layer()
                .json()
                .flatten_event(true)
                .with_span_list(false);
            Box::new(layer.with_writer(lines).with_filter(filter))
        }
        LogFormat::Text => {
            let layer = fmt::layer()
                .with_ansi(io::stderr().is_terminal())
                .with_writer(lines);
            if timed {
                Box::new(layer.with_filter(filter))
            } else {
                Box::new(layer.without_time().with_filter(filter))
            }
        }
    };
    tracing_subscriber::registry()
        .with(layer)
        .try_init()
        .map_err(|_| InitLogError::Twice)?;
    QUEUE.set(queue).map_err(|_| InitLogError::Twice)?;
    log_panics();
    Ok(LogGuard(()))
}

fn filter(
    options: &LogOptions,
    variable: Option<std::ffi::OsString>,
) -> Result<EnvFilter, InitLogError> {
    let (filter, origin) = match variable.filter(|value| !value.is_empty()) {
        Some(value) => (
            value
                .into_string()
                .map_err(|_| InitLogError::FilterVariable)?,
            FILTER_VARIABLE,
        ),
        None => (options.filter.clone(), "the configuration"),
    };
    let parsed = EnvFilter::builder().with_regex(false).parse(&filter);
    parsed.map_err(|source| InitLogError::Filter {
        filter,
        origin,
        source,
    })
}

/// Whether standard error is the journal stream that `JOURNAL_STREAM` names: the journal has its own
/// time for each line, and takes a priority before it. A daemon's child inherits the variable but maybe not the stream.
fn stderr_is_journal() -> bool {
    let Some(named) = std::env::var("JOURNAL_STREAM").ok() else {
        return false;
    };
    let Ok(stat) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// The line that says how many were lost, in the look of the others.
fn lost_line(format: LogFormat, timed: bool, lost: u64) -> String {
    let mut time = String::new();
    // Text for a person lacks its time then, which is no reason to lose the line.
    let _timed = SystemTime.format_time(&mut Writer::new(&mut time));
    match format {
        LogFormat::Json => format!(
            "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"message\":\"log lines were lost\",\"lost\":{lost},\"target\":\"muster_telemetry\"}}\n"
        ),
        LogFormat::Text => {
            let time = if timed { time + " " } else { "<4>".to_owned() };
            format!("{time} WARN muster_telemetry: log lines were lost lost={lost}\n")
        }
    }
}

/// A release build aborts on panic, which would lose what is queued.
fn log_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, message, "panicked");
        flush_log(FLUSH_AT_EXIT);
        previous(panic);
    }));
}

/// Waits until everything queued is written, but not longer than `within`.
/// Says whether it was written.
pub fn flush_log(within: Duration) -> bool {
    QUEUE.get().is_none_or(|queue| queue.flush(within))
}

/// Lines dropped so far because standard error did not take them in time.
pub fn lost_lines() -> u64 {
    QUEUE.get().map_or(0, |queue| queue.lost())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_over_the_configured_filter() {
        let options = LogOptions {
            filter: "warn".to_owned(),
            ..LogOptions::default()
        };
        assert_eq!(filter(&options, None).unwrap().to_string(), "warn");
        assert_eq!(
            filter(&options, Some("".into())).unwrap().to_string(),
            "warn"
        );
        assert_eq!(
            filter(&options, Some("debug".into())).unwrap().to_string(),
            "debug"
        );
    }

    #[test]
    fn lost_lines_are_told_in_the_look_of_the_others() {
        let json: serde_json::Value =
            serde_json::from_str(&lost_line(LogFormat::Json, true, 3)).unwrap();
        assert_eq!(json["lost"], 3);
        assert!(
            json["timestamp"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z')),
            "{json}"
        );
        let in_journal = lost_line(LogFormat::Text, false, 3);
        assert_eq!(
            in_journal,
            "<4> WARN muster_telemetry: log lines were lost lost=3\n"
        );
        assert!(lost_line(LogFormat::Text, true, 3).starts_with("20"));
    }

    #[test]
    fn a_filter_that_is_none_is_named_with_its_origin() {
        let options = LogOptions {
            filter: "info,=x=".to_owned(),
            ..LogOptions::default()
        };
        let error = filter(&options, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`info,=x=` (from the configuration) is not a log filter (write e.g. info or warn,muster_sm=debug)"
        );
        let error = filter(&options, Some("a=b=c".into())).unwrap_err();
        assert!(error.to_string().contains("(from MUSTER_LOG)"), "{error}");
    }
}
